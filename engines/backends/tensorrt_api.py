"""The part of TensorRT's Python interface that is used, of `tensorrt_rtx` or of `tensorrt` 10.12 and later.

Both have the same names. Importing needs no GPU; tensorrt_rtx also builds plans without one.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Protocol

from engines.errors import EngineUnavailable

RTX, CLASSIC = "tensorrt-rtx", "tensorrt"
_MODULES = {RTX: "tensorrt_rtx", CLASSIC: "tensorrt"}
_REMEDIES = {
    RTX: "Install it: pip install 'liveanchor[gpu]'.",
    CLASSIC: "Install it, NVIDIA's own index in reach: pip install 'liveanchor[tensorrt]'.",
}
_OLDEST = (10, 12)
USED_NAMES = {
    "Logger": ("Severity",),
    "Builder": (
        "create_network", "create_builder_config", "create_optimization_profile", "build_serialized_network",
    ),
    "INetworkDefinition": ("num_inputs", "get_input", "num_outputs", "get_output", "mark_output", "unmark_output"),
    "IBuilderConfig": ("add_optimization_profile", "set_flag"),
    "IOptimizationProfile": ("set_shape",),
    "OnnxParser": ("parse_from_file", "num_errors", "get_error"),
    "Runtime": ("deserialize_cuda_engine",),
    "ICudaEngine": (
        "num_io_tensors", "get_tensor_name", "get_tensor_mode", "get_tensor_dtype", "get_tensor_shape",
        "get_tensor_profile_shape", "num_optimization_profiles", "create_execution_context",
    ),
    "ExecutionContextAllocationStrategy": ("ON_PROFILE_CHANGE",),
    "IExecutionContext": (
        "set_input_shape", "set_tensor_address", "set_optimization_profile_async", "execute_async_v3",
    ),
}  # fmt: skip
"""Classes and what of them is called; a test holds the installed package to it."""


class Module(Protocol):
    """What both packages have at their top."""

    __version__: str
    Logger: Any
    Builder: Any
    OnnxParser: Any
    Runtime: Any
    TensorIOMode: Any
    NetworkDefinitionCreationFlag: Any
    BuilderFlag: Any
    ExecutionContextAllocationStrategy: Any


@dataclass(frozen=True, slots=True, eq=False)
class TensorRt:
    """One of the two packages."""

    backend: str
    module: Module

    @property
    def version(self) -> str:
        return self.module.__version__

    def network_flags(self) -> int:
        """Types are those of the graph: written out where a release still asks, the only way in later ones."""
        flag = getattr(self.module.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        return 0 if flag is None or self.backend == RTX else 1 << int(flag)


def find(backend: str) -> TensorRt:
    """The package of a backend's name. Raises EngineUnavailable saying what is missing."""
    name = _MODULES.get(backend)
    if name is None:
        raise EngineUnavailable(backend, "there is no backend of this name", f"Choose one of: {', '.join(_MODULES)}.")
    try:
        module: Any = importlib.import_module(name)
    except ImportError as error:
        raise EngineUnavailable(backend, f"{name} cannot be imported ({error})", _REMEDIES[backend]) from error
    if backend == CLASSIC and _numbers(module.__version__) < _OLDEST:
        raise EngineUnavailable(backend, f"version {module.__version__} is too old", _REMEDIES[backend])
    return TensorRt(backend, module)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
