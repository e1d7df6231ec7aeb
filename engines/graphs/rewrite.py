"""Replaces every 5-D GridSample of a graph by nodes that a browser's GPU runs; refuses what it cannot prove."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from engines.graphs.emit import Emitter
from engines.graphs.errors import GraphRefused
from engines.graphs.forms import Form, emit_form, intermediate_bytes
from engines.graphs.model import INVALID, Graph, label
from engines.graphs.opset import move
from engines.graphs.sampler import Sampler, read_sampler
from engines.graphs.simplify import simplify
from engines.graphs.variation import variation

TARGET_OPSET = 18
"""The newest opset whose 4-D GridSample WebGPU runs."""
MAX_INTERMEDIATE_BYTES = 128 * 2**20
"""A WebGPU storage buffer binds this much unless a device grants more."""
_DEPTH, _HEIGHT, _WIDTH = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Choice:
    """What was done with one node, and why it is right."""

    node: str
    form: Form
    reason: str
    nodes_added: int
    intermediate_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """The new graph and an account of it."""

    graph: Graph
    nodes_before: int
    choices: tuple[Choice, ...]

    def lines(self) -> Iterator[str]:
        """The account as text."""
        yield f"{self.nodes_before} nodes → {len(self.graph.nodes)} nodes, opset {self.graph.opset}"
        for choice in self.choices:
            size = choice.intermediate_bytes / 2**20
            yield f"  {choice.node}: {choice.form}, {choice.nodes_added} nodes, {size:.1f} MiB: {choice.reason}"


def rewrite(
    graph: Graph,
    form: Form | None = None,
    opset: int = TARGET_OPSET,
    max_intermediate_bytes: int = MAX_INTERMEDIATE_BYTES,
) -> Rewritten:
    """A simplified copy without 5-D GridSample. `form` None picks the cheapest that is provably the same.

    Raises GraphRefused where a node cannot be rewritten, or not in the form that was asked for.
    """
    if not 16 <= opset < 20:
        raise GraphRefused(f"opset {opset}", "4-D GridSample for WebGPU exists in opset 16 to 19")
    hidden = next((node for node in graph.inner_nodes() if node.op_type == "GridSample"), None)
    if hidden is not None:
        raise GraphRefused(label(hidden), "it is inside a branch, a loop or a function")
    _check(graph.model, "it is not valid ONNX", full=False)
    try:
        return _rewritten(simplify(graph), form, opset, max_intermediate_bytes)
    except INVALID as error:
        raise GraphRefused("the graph", f"it is not valid ONNX: {error}") from error


def _rewritten(simple: Graph, form: Form | None, opset: int, max_intermediate_bytes: int) -> Rewritten:
    before = len(simple.nodes)
    moved = Graph(move(simple.model, opset))
    model = onnx.ModelProto()
    model.CopyFrom(moved.model)
    nodes, constants, choices = [], [], []
    for node in model.graph.node:
        if node.op_type != "GridSample" or moved.rank(node.input[0]) == 4:
            nodes.append(node)
            continue
        sampler = read_sampler(moved, node)
        chosen, reason = _choose(moved, sampler, form, max_intermediate_bytes)
        emit = Emitter(label(node))
        emit.rename(emit_form(emit, sampler, chosen), sampler.output)
        nodes += emit.nodes
        constants += emit.initialisers
        choices.append(Choice(sampler.name, chosen, reason, len(emit.nodes), intermediate_bytes(sampler, chosen)))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
    _check(model, "what comes out is not valid ONNX", full=True)
    return Rewritten(Graph(model), before, tuple(choices))


def separable(graph: Graph, grid: str) -> str | None:
    """Why a grid is separable (x and y alike at all depths, z alike all over a plane), or None if that is unproven."""
    found = variation(graph, grid)
    if found is None or len(found.components) != 3:
        return None
    if _DEPTH in found.axes_of(0) | found.axes_of(1):
        return None
    if {_HEIGHT, _WIDTH} & found.axes_of(2):
        return None
    source = "the data" if graph.constant(grid) is not None else "the graph"
    return f"proven from {source}: x and y do not vary along depth, z not along height and width"


def _choose(graph: Graph, s: Sampler, form: Form | None, max_bytes: int) -> tuple[Form, str]:
    proof = separable(graph, s.grid)
    if form is Form.SHARED_XY and proof is None:
        raise GraphRefused(s.name, "its grid is not provably the same at all depths; use slices or gather")
    if form is not None:
        return form, proof if form is Form.SHARED_XY and proof else "asked for"
    if s.mode == "nearest":
        return Form.GATHER, "mode nearest"
    if proof is not None:
        return Form.SHARED_XY, proof
    if s.batch is None or intermediate_bytes(s, Form.SLICES) <= max_bytes:
        return Form.SLICES, "grid free along depth"
    if intermediate_bytes(s, Form.GATHER) <= max_bytes:
        return Form.GATHER, "grid free along depth, and all slices at once would be too large"
    need = min(intermediate_bytes(s, f) for f in (Form.SLICES, Form.GATHER))
    raise GraphRefused(s.name, f"every form needs a tensor of at least {need} bytes; the limit is {max_bytes}")


def _check(model: Any, fault: str, *, full: bool) -> None:
    """The graph is valid ONNX, with `full` shapes included. Raises GraphRefused."""
    if model.ByteSize() < 2_000_000_000:
        try:
            onnx.checker.check_model(model, full_check=full)
        except INVALID as error:
            raise GraphRefused("the graph", f"{fault}: {error}") from error
