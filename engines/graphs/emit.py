"""Writes named nodes and constants that stand in for one node of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper


class Emitter:
    """Collects nodes under a prefix; every node and tensor is named for its role."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        self._roles: dict[str, int] = {}

    def op(self, kind: str, role: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; returns the output's name."""
        name = self._named(role)
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, role: str, value: npt.ArrayLike, dtype: str) -> str:
        """Add a constant, once for equal ones; returns its name."""
        array = np.asarray(value, dtype)
        key = (dtype, array.tobytes(), array.shape)
        if key not in self._constants:
            self._constants[key] = self._named(role)
            self.initialisers.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def number(self, value: float) -> str:
        """A float32 scalar."""
        return self.constant("number", value, "float32")

    def reshape(self, role: str, x: str, *shape: int) -> str:
        """-1 stands for what is left, at most once."""
        return self.op("Reshape", role, x, self.constant("shape", shape, "int64"))

    def slice(self, role: str, x: str, axes: tuple[int, ...], starts: tuple[int, ...], ends: tuple[int, ...]) -> str:
        """x with these axes cut to [start, end)."""
        bounds = (self.constant("bounds", part, "int64") for part in (starts, ends, axes))
        return self.op("Slice", role, x, *bounds)

    def rename(self, old: str, new: str) -> None:
        """Give the tensor `old` the name that the graph expects."""
        for node in self.nodes:
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]

    def _named(self, role: str) -> str:
        count = self._roles.get(role, 0)
        self._roles[role] = count + 1
        return f"{self.prefix}/{role}" if count == 0 else f"{self.prefix}/{role}_{count}"
