"""Three ways to write trilinear sampling of a volume without a 5-D GridSample; each computes the same function."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from engines.graphs.emit import Emitter
from engines.graphs.errors import GraphRefused
from engines.graphs.sampler import Sampler, exact_as_float, padded_coordinate, pixel_coordinate, tent_weights

_F32_BYTES = 4
_FAR_SLICES = 1.0


class Form(StrEnum):
    """How a 5-D GridSample is rewritten."""

    SHARED_XY = "shared-xy"
    """Depth folded into channels, one 4-D sample, then a matrix product over depth. Needs a separable grid."""
    SLICES = "slices"
    """Depth slices as a batch, one 4-D sample of all of them, then a weighted sum over depth."""
    GATHER = "gather"
    """Eight corners gathered from the padded volume and summed; no GridSample at all."""


def intermediate_bytes(sampler: Sampler, form: Form) -> int:
    """The largest tensor that a form makes, for a batch of one where the batch is open."""
    batch, (depth, height, width) = sampler.batch or 1, sampler.source
    out_depth, out_height, out_width = sampler.target
    plane = out_height * out_width
    values = {
        Form.SHARED_XY: sampler.channels * max(depth, out_depth) * plane,
        Form.SLICES: sampler.channels * depth * out_depth * plane,
        Form.GATHER: max(8 * sampler.channels * out_depth * plane, sampler.channels * depth * height * width),
    }[form]
    return _F32_BYTES * batch * values


def emit_form(emit: Emitter, sampler: Sampler, form: Form) -> str:
    """Write a sampler in this form; returns the name of its result. Raises GraphRefused where the form cannot."""
    if sampler.mode == "nearest" and form is not Form.GATHER:
        raise GraphRefused(sampler.name, f"mode nearest has no {form} form; use gather")
    writers = {Form.SHARED_XY: _shared_xy, Form.SLICES: _all_slices, Form.GATHER: _gather}
    return writers[form](emit, sampler)


def _shared_xy(emit: Emitter, s: Sampler) -> str:
    depth, height, width = s.source
    out_depth, out_height, out_width = s.target
    batch = s.batch_or_rest
    folded = emit.reshape("depth_in_channels", s.x, batch, s.channels * depth, height, width)
    plane = emit.slice("xy_of_first_depth", s.grid, (1, 4), (0, 0), (1, 2))
    plane = emit.reshape("xy_plane", plane, batch, out_height, out_width, 2)
    sampled = emit.op("GridSample", "sample_planes", folded, plane, **s.sampling_4d())
    sampled = emit.reshape("depth_by_plane", sampled, batch, s.channels, depth, out_height * out_width)
    line = emit.slice("z_line", s.grid, (2, 3, 4), (0, 0, 2), (1, 1, 3))
    line = emit.reshape("z_per_depth", line, batch, 1, out_depth, 1)
    slices = emit.constant("slice_numbers", np.arange(depth).reshape(1, 1, 1, depth), "float32")
    weights = tent_weights(emit, "z", _depth_voxel(emit, line, s), slices)
    mixed = emit.op("MatMul", "mix_depths", weights, sampled)
    return emit.reshape("volume", mixed, batch, s.channels, out_depth, out_height, out_width)


def _all_slices(emit: Emitter, s: Sampler) -> str:
    depth, height, width = s.source
    out_depth, out_height, out_width = s.target
    batch, rows = s.batch_or_rest, out_depth * out_height
    # Depth goes beside the batch BEFORE the two are folded: folding first would mix channels and slices.
    slices = emit.op("Transpose", "depth_beside_batch", s.x, perm=[0, 2, 1, 3, 4])
    slices = emit.reshape("depth_as_batch", slices, -1, s.channels, height, width)
    plane = emit.slice("xy", s.grid, (4,), (0,), (2,))
    plane = emit.reshape("xy_rows", plane, batch, 1, rows, out_width, 2)
    plane = emit.op("Expand", "xy_for_each_slice", plane, emit.constant("shape", (1, depth, 1, 1, 1), "int64"))
    plane = emit.reshape("xy_as_batch", plane, -1, rows, out_width, 2)
    sampled = emit.op("GridSample", "sample_slices", slices, plane, **s.sampling_4d())
    sampled = emit.reshape("slices_by_depth", sampled, batch, depth, s.channels, rows, out_width)
    z = emit.reshape("z_rows", emit.slice("z", s.grid, (4,), (2,), (3,)), batch, 1, 1, rows, out_width)
    numbers = emit.constant("slice_numbers", np.arange(depth).reshape(1, depth, 1, 1, 1), "float32")
    weights = tent_weights(emit, "z", _depth_voxel(emit, z, s), numbers)
    weighted = emit.op("Mul", "weighted_slices", sampled, weights)
    summed = emit.op("ReduceSum", "sum_slices", weighted, emit.constant("axes", (1,), "int64"), keepdims=0)
    return emit.reshape("volume", summed, batch, s.channels, out_depth, out_height, out_width)


def _gather(emit: Emitter, s: Sampler) -> str:
    if s.batch is None:
        raise GraphRefused(s.name, "the gather form needs a fixed batch")
    padded = tuple(size + 2 for size in s.source)
    cells, points = int(np.prod(padded)), int(np.prod(s.target))
    if not exact_as_float(s.batch * cells):
        raise GraphRefused(s.name, f"{s.batch * cells} cells: indices would not be exact in float32")
    frame = emit.constant("one_zero_cell_around", (0, 0, 1, 1, 1, 0, 0, 1, 1, 1), "int64")
    volume = emit.op("Pad", "padded_volume", s.x, frame, mode="constant")
    corners = 1 if s.mode == "nearest" else 8
    axes = [_corner_axis(emit, s, i) for i in range(3)]  # z, y, x
    index, weight = _combined(emit, s, axes, padded)
    if s.batch == 1:
        cells_2d = emit.reshape("cells_of_channel", volume, s.channels, cells)
        found = emit.op("Gather", "corners", cells_2d, emit.reshape("index_list", index, -1), axis=1)
        found = emit.reshape("corners_of_channel", found, s.channels, corners, points)
        if weight is not None:
            found = emit.op("Mul", "weighted_corners", found, emit.reshape("weight_list", weight, 1, corners, points))
        total = emit.op("ReduceSum", "sum_corners", found, emit.constant("axes", (1,), "int64"), keepdims=0)
    else:
        rows = emit.op("Transpose", "channels_last", volume, perm=[0, 2, 3, 4, 1])
        rows = emit.reshape("cell_rows", rows, s.batch * cells, s.channels)
        starts = np.arange(s.batch).reshape(s.batch, 1, 1) * cells
        index = emit.op("Add", "index_in_batch", index, emit.constant("batch_starts", starts, "int32"))
        found = emit.op("Gather", "corners", rows, emit.reshape("index_list", index, -1), axis=0)
        found = emit.reshape("corners_of_batch", found, s.batch, corners, points, s.channels)
        if weight is not None:
            column = emit.reshape("weight_column", weight, s.batch, corners, points, 1)
            found = emit.op("Mul", "weighted_corners", found, column)
        total = emit.op("ReduceSum", "sum_corners", found, emit.constant("axes", (1,), "int64"), keepdims=0)
        total = emit.op("Transpose", "channels_first", total, perm=[0, 2, 1])
    return emit.reshape("volume", total, s.batch, s.channels, *s.target)


def _corner_axis(emit: Emitter, s: Sampler, axis: int) -> tuple[list[str], list[str]]:
    """Cells (float, in the padded volume) and weights of the corners along z, y or x; (N, 1, points) each."""
    role, size, component = "zyx"[axis], s.source[axis], 2 - axis
    part = emit.slice(role, s.grid, (4,), (component,), (component + 1,))
    part = emit.reshape(f"{role}_list", part, -1, 1, int(np.prod(s.target)))
    voxel = pixel_coordinate(emit, role, part, size, align_corners=s.align_corners)
    voxel = padded_coordinate(emit, role, voxel, size, s)
    if s.mode == "nearest":
        rounded = emit.op("Round", f"{role}_nearest", voxel)
        held = emit.op("Clip", f"{role}_held", rounded, emit.number(-1.0), emit.number(size))
        return [emit.op("Add", f"{role}_cell", held, emit.number(1.0))], []
    # From -1 to size, zero cells included; farther out both neighbours are zero anyway.
    held = emit.op("Clip", f"{role}_held", voxel, emit.number(-1.0), emit.number(size))
    floor = emit.op("Floor", f"{role}_floor", held)
    floor = emit.op("Clip", f"{role}_lower", floor, emit.number(-1.0), emit.number(size - 1))
    upper = emit.op("Sub", f"{role}_fraction", held, floor)
    lower = emit.op("Sub", f"{role}_rest_weight", emit.number(1.0), upper)
    first = emit.op("Add", f"{role}_cell", floor, emit.number(1.0))
    return [first, emit.op("Add", f"{role}_next_cell", first, emit.number(1.0))], [lower, upper]


def _combined(
    emit: Emitter, s: Sampler, axes: list[tuple[list[str], list[str]]], padded: tuple[int, ...]
) -> tuple[str, str | None]:
    """Index (N, corners, points) int32 into the flat padded volume, and weight of the same shape."""
    strides = (padded[1] * padded[2], padded[2], 1)
    along = []
    for role, (cells, _), stride in zip("zyx", axes, strides, strict=True):
        scaled = cells if stride == 1 else [emit.op("Mul", f"{role}_start", c, emit.number(stride)) for c in cells]
        along.append(scaled)
    picks = [(i, j, k) for i in range(len(along[0])) for j in range(len(along[1])) for k in range(len(along[2]))]
    planes = {(i, j): emit.op("Add", "row_start", along[0][i], along[1][j]) for i, j, _ in picks}
    indices = [emit.op("Add", "corner_index", planes[i, j], along[2][k]) for i, j, k in picks]
    joined = indices[0] if len(indices) == 1 else emit.op("Concat", "corner_indices", *indices, axis=1)
    index = emit.op("Cast", "corner_indices_int", joined, to=6)
    if s.mode == "nearest":
        return index, None
    faces = {(i, j): emit.op("Mul", "face_weight", axes[0][1][i], axes[1][1][j]) for i, j, _ in picks}
    weights = [emit.op("Mul", "corner_weight", faces[i, j], axes[2][1][k]) for i, j, k in picks]
    return index, emit.op("Concat", "corner_weights", *weights, axis=1)


def _depth_voxel(emit: Emitter, normalised: str, s: Sampler) -> str:
    voxel = pixel_coordinate(emit, "z", normalised, s.source[0], align_corners=s.align_corners)
    return padded_coordinate(emit, "z", voxel, s.source[0], s)
