"""A 5-D GridSample node as facts, and the arithmetic of sampling coordinates that all its rewrites share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engines.graphs.emit import Emitter
from engines.graphs.errors import GraphRefused
from engines.graphs.model import Graph, attributes, label

PADDINGS = ("zeros", "border", "reflection")
_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest"}
_EXACT_FLOAT_INTEGERS = 2**24


@dataclass(frozen=True, slots=True)
class Sampler:
    """One GridSample over volumes: x (N, C, D, H, W), grid (N, Do, Ho, Wo, 3) of x, y, z in -1..1."""

    name: str
    x: str
    grid: str
    output: str
    batch: int | None
    """None: open."""
    channels: int
    source: tuple[int, int, int]
    """D, H, W of the volume."""
    target: tuple[int, int, int]
    """Do, Ho, Wo of the output."""
    mode: str
    """"linear" or "nearest"."""
    padding: str
    align_corners: bool

    @property
    def batch_or_rest(self) -> int:
        """The batch for a Reshape."""
        return -1 if self.batch is None else self.batch

    def sampling_4d(self) -> dict[str, Any]:
        """Attributes of a 4-D GridSample over height and width that does the same there, for opset 16 to 19."""
        mode = {"linear": "bilinear", "nearest": "nearest"}[self.mode]
        return {"mode": mode, "padding_mode": self.padding, "align_corners": int(self.align_corners)}


def read_sampler(graph: Graph, node: Any) -> Sampler:
    """The facts of a node. Raises GraphRefused where they are not all in the graph."""
    name = label(node)
    found = attributes(node)
    mode = _MODES.get(found.get("mode", "linear"))
    padding = found.get("padding_mode", "zeros")
    if mode is None:
        raise GraphRefused(name, f"mode {found.get('mode')!r} is not defined for volumes")
    if padding not in PADDINGS:
        raise GraphRefused(name, f"padding {padding!r} is none of {', '.join(PADDINGS)}")
    x, grid = graph.shape(node.input[0]), graph.shape(node.input[1])
    if x is None or grid is None or len(x) != 5 or len(grid) != 5:
        raise GraphRefused(name, f"its shapes are not in the graph (volume {x}, grid {grid})")
    open_axes = [s for s in (*x[1:], *grid[1:]) if s is None]
    if open_axes:
        raise GraphRefused(name, f"axes other than the batch are open (volume {x}, grid {grid})")
    if x[0] != grid[0]:
        raise GraphRefused(name, f"volume and grid have different batches ({x[0]} and {grid[0]})")
    if graph.dtype(node.input[0]) != "float32" or graph.dtype(node.input[1]) != "float32":
        raise GraphRefused(name, f"only float32 is rewritten, not {graph.dtype(node.input[0])}")
    if min(s for s in (*x, *grid) if s is not None) < 1 or grid[4] != 3:
        raise GraphRefused(name, f"there is nothing to sample, or no x, y and z (volume {x}, grid {grid})")
    sizes = [int(s) for s in (*x[1:], *grid[1:4]) if s is not None]
    return Sampler(
        name, node.input[0], node.input[1], node.output[0], x[0], sizes[0],
        (sizes[1], sizes[2], sizes[3]), (sizes[4], sizes[5], sizes[6]), mode, padding,
        bool(found.get("align_corners", 0)),
    )  # fmt: skip


def pixel_coordinate(emit: Emitter, role: str, normalised: str, size: int, *, align_corners: bool) -> str:
    """-1..1 to voxels, in the order of operations that torch uses: another order costs 1e-5."""
    shifted = emit.op("Add", f"{role}_from_zero", normalised, emit.number(1.0))
    if align_corners:
        return emit.op("Mul", f"{role}_voxel", shifted, emit.number((size - 1) / 2))
    scaled = emit.op("Mul", f"{role}_scaled", shifted, emit.number(size))
    edge = emit.op("Sub", f"{role}_less_one", scaled, emit.number(1.0))
    return emit.op("Mul", f"{role}_voxel", edge, emit.number(0.5))


def padded_coordinate(emit: Emitter, role: str, voxel: str, size: int, sampler: Sampler) -> str:
    """The coordinate that border and reflection padding sample instead; zeros padding leaves it as it is."""
    if sampler.padding == "zeros":
        return voxel
    if sampler.padding == "reflection":
        voxel = _reflected(emit, role, voxel, size, align_corners=sampler.align_corners)
    return emit.op("Clip", f"{role}_inside", voxel, emit.number(0.0), emit.number(size - 1))


def _reflected(emit: Emitter, role: str, voxel: str, size: int, *, align_corners: bool) -> str:
    """Fold the line at both ends: a triangle wave between the mirrors."""
    low = 0.0 if align_corners else -0.5
    span = size - 1 if align_corners else size
    if span == 0:
        return emit.op("Mul", f"{role}_single", voxel, emit.number(0.0))
    away = emit.op("Abs", f"{role}_from_mirror", emit.op("Sub", f"{role}_less_mirror", voxel, emit.number(low)))
    turns = emit.op("Floor", f"{role}_turns", emit.op("Div", f"{role}_in_turns", away, emit.number(2 * span)))
    rest = emit.op("Sub", f"{role}_rest", away, emit.op("Mul", f"{role}_full_turns", turns, emit.number(2 * span)))
    centred = emit.op("Abs", f"{role}_from_middle", emit.op("Sub", f"{role}_less_span", rest, emit.number(span)))
    folded = emit.op("Sub", f"{role}_folded", emit.number(span), centred)
    return emit.op("Add", f"{role}_reflected", folded, emit.number(low))


def tent_weights(emit: Emitter, role: str, voxel: str, slices: str) -> str:
    """max(0, 1 - |z - j|) for every slice j: linear interpolation whose zero padding falls out by itself."""
    distance = emit.op("Abs", f"{role}_distance", emit.op("Sub", f"{role}_offset", voxel, slices))
    return emit.op("Relu", f"{role}_weight", emit.op("Sub", f"{role}_tent", emit.number(1.0), distance))


def exact_as_float(count: int) -> bool:
    """Whether indices up to this count are exact in float32."""
    return count < _EXACT_FLOAT_INTEGERS
