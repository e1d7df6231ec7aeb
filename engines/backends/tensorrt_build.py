"""An ONNX graph to a TensorRT plan: one optimisation profile a batch bucket, shapes from the stage's contract."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.backends.tensorrt_api import TensorRt
from engines.contract import TensorContract
from engines.errors import EngineContract, EngineUnavailable
from engines.stage import StageContract

logger = logging.getLogger(__name__)

Shape = tuple[int, ...]
_DTYPES = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "UINT8": "uint8", "INT64": "int64"}


@dataclass(frozen=True, slots=True)
class Profile:
    """The shapes of all inputs for one bucket; smallest, usual and largest are the same."""

    bucket: int
    shapes: Mapping[str, Shape] = field(default_factory=dict)


def profiles(contract: StageContract, buckets: Sequence[int]) -> tuple[Profile, ...]:
    """One a bucket. Raises EngineContract where an input has another open axis than the batch."""
    made = []
    for bucket in buckets:
        shapes = {}
        for tensor in contract.inputs:
            if any(isinstance(size, str) for size in tensor.shape[1:]) or not isinstance(tensor.shape[0], str):
                raise EngineContract(
                    f"{contract.stage}.{tensor.name}", "an open batch axis and no other", str(tensor.shape)
                )
            shapes[tensor.name] = (bucket, *(int(size) for size in tensor.shape[1:]))
        made.append(Profile(bucket, shapes))
    return tuple(made)


def build(api: TensorRt, onnx: Path, contract: StageContract, wanted: Sequence[Profile]) -> bytes:
    """The serialised plan. Raises EngineContract (graph or profile against the contract), EngineUnavailable."""
    trt = api.module
    listener = _listener(trt)
    builder = trt.Builder(listener)
    network = builder.create_network(api.network_flags())
    parser = trt.OnnxParser(network, listener)
    if not parser.parse_from_file(str(onnx)):
        faults = "; ".join(str(parser.get_error(i).desc()) for i in range(parser.num_errors))
        raise EngineContract(onnx.name, f"a graph that {api.backend} {api.version} reads", faults or listener.last())
    _keep_outputs(network, contract)
    inputs = {network.get_input(i).name: network.get_input(i) for i in range(network.num_inputs)}
    outputs = {network.get_output(i).name: network.get_output(i) for i in range(network.num_outputs)}
    check_tensors(
        contract.stage, contract.inputs, {n: (tuple(t.shape), dtype_name(t.dtype)) for n, t in inputs.items()}
    )
    check_tensors(
        contract.stage, contract.outputs, {n: (tuple(t.shape), dtype_name(t.dtype)) for n, t in outputs.items()}
    )
    config = builder.create_builder_config()
    fixed = getattr(trt.BuilderFlag, "REQUIRE_USER_ALLOCATION", None)
    if fixed is not None:  # TensorRT-RTX: nothing is allocated while it runs, which a CUDA graph could not record
        config.set_flag(fixed)
    for profile in wanted:
        _check_profile(contract, profile)
        made = builder.create_optimization_profile()
        for name, shape in profile.shapes.items():
            made.set_shape(name, shape, shape, shape)
        config.add_optimization_profile(made)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        remedy = "Export the graph again and see the log for what it says."
        raise EngineUnavailable(api.backend, f"it builds no plan of {onnx.name}: {listener.last()}", remedy)
    return bytes(plan)


def check_tensors(stage: str, contracts: Sequence[TensorContract], found: Mapping[str, tuple[Shape, str]]) -> None:
    """Names, ranks, fixed sizes and types of a network's or plan's tensors; -1 is open. Raises EngineContract."""
    for name in sorted(found.keys() - {c.name for c in contracts}):
        raise EngineContract(f"{stage}.{name}", f"one of {', '.join(c.name for c in contracts)}", "an unknown name")
    for contract in contracts:
        expected = f"({', '.join(map(str, contract.shape))}) {contract.dtype} [{contract.axes}]"
        if contract.name not in found:
            raise EngineContract(f"{stage}.{contract.name}", expected, "nothing")
        shape, dtype = found[contract.name]
        allowed = ("float32", "float16", "bfloat16") if contract.dtype == "float32" else (contract.dtype,)
        sizes = zip(contract.shape, shape, strict=False)
        misfit = any(isinstance(want, int) and want != size for want, size in sizes)
        if len(shape) != len(contract.shape) or misfit or dtype not in allowed:
            raise EngineContract(f"{stage}.{contract.name}", expected, f"{shape} {dtype}")


def _check_profile(contract: StageContract, profile: Profile) -> None:
    for tensor in contract.inputs:
        shape = profile.shapes.get(tensor.name)
        wanted = (profile.bucket, *tensor.shape[1:])
        if shape != wanted:
            name = f"{contract.stage}.{tensor.name}"
            raise EngineContract(
                name, f"{wanted} in the profile of bucket {profile.bucket} [{tensor.axes}]", str(shape)
            )


def _keep_outputs(network: Any, contract: StageContract) -> None:
    """Outputs that are only there for comparison with a reference are not computed live."""
    wanted = {c.name for c in contract.outputs}
    for tensor in [network.get_output(i) for i in range(network.num_outputs)]:
        if tensor.name not in wanted:
            network.unmark_output(tensor)


def dtype_name(value: Any) -> str:
    """TensorRT's type by our name for it, or by its own."""
    name = str(value).rsplit(".", 1)[-1]
    return _DTYPES.get(name, name.lower())


def _listener(trt: Any) -> Any:
    """TensorRT's own logger class wants to be inherited from; what it says goes to ours, the last error is kept."""
    severity = trt.Logger.Severity if hasattr(trt.Logger, "Severity") else trt.ILogger.Severity
    quiet = {severity.VERBOSE, severity.INFO}

    class Listener(trt.ILogger):
        def __init__(self) -> None:
            super().__init__()
            self._last = "it says nothing"

        def log(self, level: Any, message: str) -> None:
            if level in quiet:
                return
            if level != severity.WARNING:
                self._last = message.strip().split("\n", 1)[0]
            logger.info("tensorrt_says", extra={"level": str(level), "words": message})

        def last(self) -> str:
            return self._last

    return Listener()
