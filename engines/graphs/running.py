"""Runs graphs on the CPU with ONNX Runtime, one thread, and shows inner tensors on request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from engines.backends.runtime import binding, onnxruntime
from engines.graphs.errors import GraphsDiffer, GraphUnreadable
from engines.graphs.model import Graph

Arrays = dict[str, npt.NDArray[Any]]
_LEVELS = {
    True: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    False: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_LOG_NOTHING = 4
"""What goes wrong is raised."""
_MOST_VALUES = 1 << 28
_RUNTIME_ERRORS = (
    binding.Fail, binding.InvalidArgument, binding.InvalidGraph, binding.InvalidProtobuf, binding.NotImplemented,
    binding.RuntimeException, RuntimeError, ValueError,
)  # fmt: skip
"""The runtime's errors have no common root of their own."""


class Runner:
    """A graph ready to run. `shown` are inner tensors to give back beside the outputs."""

    def __init__(self, graph: Graph, shown: Sequence[str] = (), *, optimised: bool = True) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = _LEVELS[optimised]
        options.log_severity_level = _LOG_NOTHING
        model = _with_outputs(graph, shown)
        try:
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except _RUNTIME_ERRORS as error:
            raise GraphUnreadable("graph", str(error)) from error
        self.outputs = [output.name for output in self._session.get_outputs()]

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """All outputs by name. Raises GraphsDiffer where the inputs do not fit."""
        try:
            found = self._session.run(self.outputs, dict(inputs))
        except _RUNTIME_ERRORS as error:
            raise GraphsDiffer("inputs", str(error)) from error
        return {name: np.asarray(value) for name, value in zip(self.outputs, found, strict=True)}


def drawn_inputs(graph: Graph, seed: int, count: int, spread: float = 1.0) -> list[Arrays]:
    """`count` sets of inputs drawn from a seed: floats uniform in ±spread, integers 0; open axes get the size 1."""
    generator = np.random.default_rng(seed)
    sets: list[Arrays] = []
    for _ in range(count):
        drawn: Arrays = {}
        for name in graph.inputs():
            shape, dtype = graph.shape(name), graph.dtype(name)
            if shape is None or dtype is None:
                raise GraphsDiffer(name, "its shape or type is not in the graph; give inputs in a file")
            sizes = [1 if size is None else size for size in shape]
            if min(sizes, default=1) < 0 or math.prod(sizes) > _MOST_VALUES:
                raise GraphsDiffer(name, f"no input of the shape {tuple(sizes)} can be drawn")
            values = generator.uniform(-spread, spread, sizes) if dtype.startswith("float") else np.zeros(sizes)
            drawn[name] = values.astype(dtype)
        sets.append(drawn)
    return sets


def same_interface(a: Graph, b: Graph) -> None:
    """Both graphs take and give tensors of the same names, shapes and types. Raises GraphsDiffer."""
    for kind, left, right in (("input", a.inputs(), b.inputs()), ("output", a.outputs(), b.outputs())):
        for name in _either(left, right):
            if name not in left or name not in right:
                raise GraphsDiffer(name, f"only one of the graphs has this {kind}")
            if (a.shape(name), a.dtype(name)) != (b.shape(name), b.dtype(name)):
                found = f"{a.shape(name)} {a.dtype(name)} and {b.shape(name)} {b.dtype(name)}"
                raise GraphsDiffer(name, f"the {kind} differs: {found}")


def _either(left: Iterable[str], right: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*left, *right)))


def _with_outputs(graph: Graph, shown: Sequence[str]) -> Any:
    hidden = [name for name in shown if name not in graph.outputs()]
    if not hidden:
        return graph.model
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    for name in hidden:
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype(name) or "float32"))
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, graph.shape(name)))
    return model
