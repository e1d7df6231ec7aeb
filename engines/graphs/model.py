"""An ONNX graph with the facts one needs about it: shapes and types of all tensors, constants, who made what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper, shape_inference

from engines.graphs.errors import GraphUnreadable, GraphUnwritable

Shape = tuple[int | None, ...]
"""None: an axis whose size the graph leaves open."""
_MAX_PROTO_BYTES = 2_000_000_000
INVALID = (OSError, ValueError, DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError)
"""What onnx raises at files and graphs that are not right."""


class Graph:
    """A model and its indices. The model may be changed by whoever owns it; then make a new Graph."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
        self._initialisers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.producers = {name: node for node in model.graph.node for name in node.output if name}
        self._types = _types(model)

    @property
    def nodes(self) -> list[Any]:
        """All nodes, in the order in which they run."""
        return list(self.model.graph.node)

    def inner_nodes(self) -> Iterator[Any]:
        """Nodes of branches, loop bodies and local functions: nobody here looks into them."""
        yield from self.inner_functions()
        waiting = [a for node in (*self.nodes, *self.inner_functions()) for a in node.attribute]
        while waiting:
            attribute = waiting.pop()
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from inner.node
                waiting += [a for node in inner.node for a in node.attribute]

    def inner_functions(self) -> Iterator[Any]:
        """Nodes of local functions."""
        for function in self.model.functions:
            yield from function.node

    def inputs(self) -> list[str]:
        """Names of the graph's inputs without those that are only named initialisers."""
        return [value.name for value in self.model.graph.input if value.name not in self._initialisers]

    def outputs(self) -> list[str]:
        """Names of the graph's outputs."""
        return [value.name for value in self.model.graph.output]

    def shape(self, name: str) -> Shape | None:
        """Shape of a tensor; None where nothing is known, not even the rank."""
        if name in self._initialisers:
            return tuple(self._initialisers[name].dims)
        found = self._types.get(name)
        return found[0] if found else None

    def dtype(self, name: str) -> str | None:
        """ "float32" and the like; None where unknown."""
        if name in self._initialisers:
            return _dtype(self._initialisers[name].data_type)
        found = self._types.get(name)
        return found[1] if found else None

    def rank(self, name: str) -> int | None:
        """Number of axes; None where unknown."""
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def constant(self, name: str) -> npt.NDArray[Any] | None:
        """The value of an initialiser or Constant node; None for anything computed."""
        if name in self._initialisers:
            return np.asarray(numpy_helper.to_array(self._initialisers[name]))
        node = self.producers.get(name)
        if node is not None and node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    return np.asarray(numpy_helper.to_array(attribute.t))
                return np.asarray(helper.get_attribute_value(attribute))
        return None

    def histogram(self) -> Counter[str]:
        """How many nodes of each kind."""
        return Counter(node.op_type for node in self.model.graph.node)


def attributes(node: Any) -> dict[str, Any]:
    """A node's attributes as plain values."""
    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        found[attribute.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found


def label(node: Any) -> str:
    """A name to speak of a node by."""
    return str(node.name or (node.output[0] if node.output else node.op_type))


def read(path: Path) -> Graph:
    """Load a graph with its weights. Raises GraphUnreadable."""
    try:
        model = onnx.load(str(path))
        if not model.graph.node:
            raise GraphUnreadable(str(path), "it has no nodes")
        _check_opset(model, path)
        graph = Graph(model)
        _check_words(graph, path)
        return graph
    except INVALID as error:
        raise GraphUnreadable(str(path), str(error) or "it is not a protobuf of a model") from error


def _check_opset(model: Any, path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if not 1 <= version <= newest:
        raise GraphUnreadable(str(path), f"its opset is {version}; known here are 1 to {newest}")


def _check_words(graph: Graph, path: Path) -> None:
    """All names are text; one of other bytes would fail wherever it is first used. Raises GraphUnreadable."""
    for node in (*graph.nodes, *graph.inner_nodes()):
        for word in (node.op_type, node.domain, node.name, *node.input, *node.output):
            if not isinstance(word, str):  # protobuf gives bytes where they are no text
                raise GraphUnreadable(str(path), f"a name in it is not text: {word!r}")


def write(graph: Graph, path: Path) -> None:
    """Save a graph, whole or not at all; weights go to a file beside it where one file could not hold them.

    Raises GraphUnwritable.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if graph.model.ByteSize() > _MAX_PROTO_BYTES:
            onnx.save(graph.model, str(path), save_as_external_data=True, location=path.name + ".data")
            return
        part.write_bytes(graph.model.SerializeToString())
        part.replace(path)
    except OSError as error:
        raise GraphUnwritable(str(path), error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def values(model: Any) -> Iterator[Any]:
    """Every tensor that the graph declares a type for."""
    yield from model.graph.input
    yield from model.graph.value_info
    yield from model.graph.output


def _types(model: Any) -> dict[str, tuple[Shape, str | None]]:
    if model.ByteSize() < _MAX_PROTO_BYTES:
        model = shape_inference.infer_shapes(model, data_prop=True)
    found = {}
    for value in values(model):
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            shape = tuple(int(d.dim_value) if d.HasField("dim_value") else None for d in tensor.shape.dim)
            found[value.name] = (shape, _dtype(tensor.elem_type))
    return found


def _dtype(code: int) -> str | None:
    try:
        return str(helper.tensor_dtype_to_np_dtype(code).name)
    except KeyError:
        return None
