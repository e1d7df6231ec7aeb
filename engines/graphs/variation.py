"""Along which axes a computed tensor can vary at all: a proof from the graph, constants measured from their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.graphs.model import Graph, Shape, attributes

_MAX_COMPONENTS = 8
_UNARY = {"Identity", "Cast", "Neg", "Abs", "Exp", "Relu", "Sigmoid", "Tanh", "Sqrt", "Floor", "Round", "Clip", "Erf"}
_BINARY = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Where"}


@dataclass(frozen=True, slots=True)
class Variation:
    """For each index of the last axis, the other axes along which values there may differ.

    One entry only: the last axis is not told apart, and is itself among the axes where it may vary.
    """

    shape: tuple[int, ...]
    components: tuple[frozenset[int], ...]

    def axes_of(self, component: int) -> frozenset[int]:
        """Axes along which the values at this index of the last axis may differ."""
        return self.components[component if len(self.components) > 1 else 0]

    def merged(self) -> frozenset[int]:
        """Axes along which anything may differ."""
        found = frozenset[int]().union(*self.components)
        return found | {len(self.shape) - 1} if len(self.components) > 1 else found


def variation(graph: Graph, name: str) -> Variation | None:
    """What is provable about a tensor; None where even its shape is open. Never claims less than the truth."""
    return _Prover(graph).of(name)


class _Prover:
    """Walks back from a tensor, each one once. What it does not know it takes to vary along every axis."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[str, Variation | None] = {}
        self._rules: dict[str, Callable[[Any, tuple[int, ...]], Variation | None]] = {
            "Concat": self._concat,
            "Expand": self._stretched,
            "Tile": self._stretched,
            "Reshape": self._reshaped,
            "Unsqueeze": self._reshaped,
            "Squeeze": self._reshaped,
            "Transpose": self._transposed,
        }
        self._rules |= dict.fromkeys(_UNARY, self._elementwise) | dict.fromkeys(_BINARY, self._elementwise)

    def of(self, name: str) -> Variation | None:
        pending = [name]
        while pending:  # depth first without recursion: graphs are deeper than Python's stack
            current = pending[-1]
            waiting = [] if current in self._known else self._waiting(current)
            if waiting:
                pending += waiting
                continue
            if current not in self._known:
                self._known[current] = self._derive(current)
            pending.pop()
        return self._known[name]

    def _waiting(self, name: str) -> list[str]:
        node = self._graph.producers.get(name)
        if node is None or node.op_type not in self._rules or self._graph.constant(name) is not None:
            return []
        return [i for i in self._data_inputs(node) if i not in self._known]

    @staticmethod
    def _data_inputs(node: Any) -> list[str]:
        count = len(node.input) if node.op_type in _BINARY or node.op_type == "Concat" else 1
        return [name for name in node.input[:count] if name]

    def _derive(self, name: str) -> Variation | None:
        constant = self._graph.constant(name)
        if constant is not None:
            return measured(constant)
        shape = _closed(self._graph.shape(name))
        if shape is None:
            return None
        node = self._graph.producers.get(name)
        rule = self._rules.get(node.op_type) if node is not None else None
        found = rule(node, shape) if rule is not None else None
        return found if found is not None else _anything(shape)

    def _elementwise(self, node: Any, shape: tuple[int, ...]) -> Variation | None:
        parts = [self._known[i] for i in self._data_inputs(node)]
        return _broadcast([p for p in parts if p is not None], shape) if None not in parts else None

    def _stretched(self, node: Any, shape: tuple[int, ...]) -> Variation | None:
        part = self._known[node.input[0]]
        if part is None:
            return None
        offset = len(shape) - len(part.shape)
        grown = {a + offset for a, size in enumerate(part.shape) if size not in (1, shape[a + offset])}
        if grown:  # a Tile that repeats a pattern: it varies if the pattern does
            return None
        return _broadcast([part], shape)

    def _concat(self, node: Any, shape: tuple[int, ...]) -> Variation | None:
        axis = attributes(node)["axis"] % len(shape)
        parts = [self._known[i] for i in self._data_inputs(node)]
        if None in parts:
            return None
        if axis == len(shape) - 1:
            side_by_side = [p.axes_of(i) for p in parts if p is not None for i in range(p.shape[-1])]
            return Variation(shape, tuple(side_by_side)) if 1 < len(side_by_side) <= _MAX_COMPONENTS else None
        joined = _broadcast([p for p in parts if p is not None], shape)
        return Variation(shape, tuple(c | {axis} for c in joined.components))

    def _reshaped(self, node: Any, shape: tuple[int, ...]) -> Variation | None:
        part = self._known[node.input[0]]
        return None if part is None else _regrouped(part, shape)

    def _transposed(self, node: Any, shape: tuple[int, ...]) -> Variation | None:
        part = self._known[node.input[0]]
        order = attributes(node).get("perm", list(reversed(range(len(shape)))))
        if part is None:
            return None
        place = {old: new for new, old in enumerate(order)}
        if order[-1] == len(order) - 1:
            return Variation(shape, tuple(frozenset(place[a] for a in c) for c in part.components))
        return Variation(shape, (frozenset(place[a] for a in part.merged()),))


def measured(array: npt.NDArray[Any]) -> Variation:
    """The truth about a constant."""
    shape = tuple(int(size) for size in array.shape)
    if not shape:
        return Variation(shape, (frozenset(),))
    if 1 < shape[-1] <= _MAX_COMPONENTS:
        return Variation(shape, tuple(_varying(array[..., i]) for i in range(shape[-1])))
    return Variation(shape, (_varying(array),))


def _varying(array: npt.NDArray[Any]) -> frozenset[int]:
    return frozenset(a for a in range(array.ndim) if bool(np.any(array != np.take(array, [0], a))))


def _anything(shape: tuple[int, ...]) -> Variation:
    wide = frozenset(a for a, size in enumerate(shape) if size != 1)
    if shape and 1 < shape[-1] <= _MAX_COMPONENTS:
        return Variation(shape, (wide - {len(shape) - 1},) * shape[-1])
    return Variation(shape, (wide,))


def _broadcast(parts: list[Variation], shape: tuple[int, ...]) -> Variation:
    """The union of what the parts do, each aligned at the last axis."""
    last = len(shape) - 1
    apart = len(shape) > 0 and 1 < shape[last] <= _MAX_COMPONENTS
    apart = apart and all(len(p.components) > 1 or not p.shape or p.shape[-1] == 1 for p in parts)
    found: list[frozenset[int]] = []
    for index in range(shape[last] if apart else 1):
        axes: set[int] = set()
        for part in parts:
            offset = len(shape) - len(part.shape)
            axes |= {a + offset for a in (part.axes_of(index) if apart else part.merged())}
        found.append(frozenset(axes))
    return Variation(shape, tuple(found))


def _regrouped(part: Variation, shape: tuple[int, ...]) -> Variation | None:
    """Follow axes through a reshape by groups of equal size: where a group varies, all its new axes may."""
    moves = _groups(part.shape, shape)
    if moves is None:
        return None
    apart = len(part.components) > 1
    keeps_last = any(old == [len(part.shape) - 1] and new == [len(shape) - 1] for old, new in moves)
    sources = part.components if apart and keeps_last else (part.merged(),)
    found = []
    for axes in sources:
        moved = {a for old, new in moves if axes & set(old) for a in new if shape[a] != 1}
        found.append(frozenset(moved))
    if len(found) == 1 and shape and 1 < shape[-1] <= _MAX_COMPONENTS:
        return Variation(shape, (found[0] - {len(shape) - 1},) * shape[-1])
    return Variation(shape, tuple(found))


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Smallest runs of axes on both sides with equal products, axes of size 1 left out; None if there is none."""
    left = [a for a, size in enumerate(old) if size != 1]
    right = [a for a, size in enumerate(new) if size != 1]
    moves: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = [left[i]], [right[j]]
        product_a, product_b = old[left[i]], new[right[j]]
        while product_a != product_b:
            if product_a < product_b:
                i += 1
                if i == len(left):
                    return None
                a.append(left[i])
                product_a *= old[left[i]]
            else:
                j += 1
                if j == len(right):
                    return None
                b.append(right[j])
                product_b *= new[right[j]]
        moves.append((a, b))
        i, j = i + 1, j + 1
    return moves if i == len(left) and j == len(right) else None


def _closed(shape: Shape | None) -> tuple[int, ...] | None:
    if shape is None or any(size is None for size in shape):
        return None
    return tuple(int(size) for size in shape if size is not None)
