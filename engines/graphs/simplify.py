"""Computes what is constant, merges equal constants, drops what nobody reads; the rest of a graph stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from engines.graphs.model import Graph, attributes

_MAX_CONSTANT_BYTES = 16 * 2**20
"""A constant larger than this costs more in the file than its nodes do at run time."""
_NOT_CONSTANT = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}


def simplify(graph: Graph) -> Graph:
    """A copy that computes the same with fewer nodes. Node names and the names of tensors that stay are kept."""
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    _fold(model, graph)
    _merge_constants(model)
    _drop_unread(model)
    return Graph(model)


def _fold(model: Any, graph: Graph) -> None:
    """Run nodes all of whose inputs are constants and store what they make."""
    known: dict[str, npt.NDArray[Any]] = {}
    outputs = set(graph.outputs())
    kept = []
    for node in model.graph.node:
        value = _value(node, graph, known, model.opset_import) if not outputs & set(node.output) else None
        if value is None:
            kept.append(node)
            continue
        known[node.output[0]] = value
    read = {name for node in kept for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in known.items() if name in read
    )
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _value(node: Any, graph: Graph, known: dict[str, npt.NDArray[Any]], opsets: Any) -> npt.NDArray[Any] | None:
    """What a constant node makes, or None where it is not constant or too large."""
    if len(node.output) != 1 or node.op_type in _NOT_CONSTANT or node.domain not in ("", "ai.onnx"):
        return None
    if any(isinstance(v, onnx.GraphProto) for v in attributes(node).values()):
        return None
    inputs: dict[str, npt.NDArray[Any]] = {}
    for name in filter(None, node.input):
        value = known[name] if name in known else graph.constant(name)
        if value is None:
            return None
        inputs[name] = value
    shape = graph.shape(node.output[0])
    if shape is None or None in shape or 4 * int(np.prod([s or 0 for s in shape])) > _MAX_CONSTANT_BYTES:
        return None
    made = onnx.helper.make_graph([node], "constant", [onnx.ValueInfoProto(name=n) for n in inputs], [])
    made.output.append(onnx.ValueInfoProto(name=node.output[0]))
    single = onnx.helper.make_model(made, opset_imports=list(opsets))
    found = ReferenceEvaluator(single).run(None, inputs)[0]
    return np.asarray(found)


def _merge_constants(model: Any) -> None:
    """One initialiser for equal small ones: exporters repeat shapes and axes hundreds of times."""
    first: dict[tuple[Any, ...], str] = {}
    merged: dict[str, str] = {}
    outputs = {value.name for value in model.graph.output}
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > 4096 or tensor.name in outputs:
            continue
        array = numpy_helper.to_array(tensor)
        key = (tensor.data_type, array.shape, array.tobytes())
        if first.setdefault(key, tensor.name) != tensor.name:
            merged[tensor.name] = first[key]
    for node in model.graph.node:
        node.input[:] = [merged.get(name, name) for name in node.input]


def _drop_unread(model: Any) -> None:
    """Remove nodes whose outputs lead nowhere, then constants that nobody reads."""
    needed = {value.name for value in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input) | _captured(node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(kept))
    stored = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(stored)
    declared = {name for node in kept for name in node.output}
    values = [value for value in model.graph.value_info if value.name in declared]
    del model.graph.value_info[:]
    model.graph.value_info.extend(values)


def _captured(node: Any) -> set[str]:
    """Outer tensors that a node's inner graphs may read."""
    found: set[str] = set()
    for value in attributes(node).values():
        for inner in value if isinstance(value, list | tuple) else (value,):
            if isinstance(inner, onnx.GraphProto):
                found |= {name for n in inner.node for name in set(n.input) | _captured(n)}
    return found
