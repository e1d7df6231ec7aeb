"""One distinct anchor frame made ready to speak: its layers, fields, lip contours and mouth interior."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from engines.errors import EngineOutput
from engines.warp.crops import Crops
from engines.warp.fields import CELL_PX, Area, Fields, nodes, sample, smoothstep, thin_plate
from engines.warp.interior import Interior, make_interior
from engines.warp.layers import Layers, split_layers
from engines.warp.lips import Lips, measure
from engines.warp.mesh import (
    CHIN,
    LIP_COLUMNS,
    LIP_CORNER_LEFT,
    LIP_CORNER_RIGHT,
    LIPS,
    LOWER_INNER,
    LOWER_RINGS,
    UPPER_INNER,
    UPPER_RINGS,
)
from engines.warp.motion import JAW_DROP, MOVES, moves, weights
from engines.warp.moulds import Moulds
from engines.warp.pose import FacePose, fit_pose, patch_points
from engines.warp.shape import MouthShape

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_CLOSE, _OPEN, _ROUND = (MOVES.index(name) for name in ("close", "open", "round"))
_SMOOTHING = 1e-5
_CONTOUR_POINTS = 31
_SKIN_POINTS = 96
"""Of the mesh outside the lips, enough to bend smoothly and few enough to solve quickly."""


@dataclass(frozen=True, slots=True, eq=False)
class Contours:
    """Inner lips in patch pixels: where they are in the portrait and how each move shifts them."""

    upper: F32
    """(n, 2) from the left corner to the right one, rounder than the mesh's eleven points."""
    lower: F32
    upper_moves: F32
    """(moves, n, 2)"""
    lower_moves: F32
    corners: F32
    """(2, 2): outer corners of the mouth at rest, left and right."""

    def at(self, weights: F32) -> tuple[F32, F32]:
        """Upper and lower contour, (n, 2) each, under these weights."""
        upper: F32 = self.upper + np.tensordot(weights, self.upper_moves, 1)
        lower: F32 = self.lower + np.tensordot(weights, self.lower_moves, 1)
        return upper, lower


@dataclass(frozen=True, slots=True, eq=False)
class Rig:
    """Renders mouth shapes for one anchor frame. Read-only; threads may share it."""

    layers: Layers
    upper: Fields
    lower: Fields
    contours: Contours
    interior: Interior
    lips: Lips
    pose: FacePose

    def render(self, shape: MouthShape, sway: float = 0.0, tilt: float = 0.0) -> U8:
        """(N, N, 3) u8 RGB. Raises EngineOutput where the shape is not finite."""
        w = weights(shape, sway, tilt)
        upper_line, lower_line = self.contours.at(w)
        if not (np.isfinite(upper_line).all() and np.isfinite(lower_line).all()):
            raise EngineOutput("warp", "the mouth shape is not finite")
        down = (self.pose.to_patch[:, 1] / np.linalg.norm(self.pose.to_patch[:, 1])).astype(np.float32)
        gap = (lower_line - upper_line) @ down
        crossed = np.minimum(gap, 0.0)[:, None] * down * np.float32(0.5)
        upper_line, lower_line = upper_line + crossed, lower_line - crossed
        seam: F32 = ((upper_line + lower_line) / 2).astype(np.float32, copy=False)
        out = self.layers.anchor.copy()
        upper_from, lower_from = self.upper.source(w), self.lower.source(w)
        self._lay_layers(out, seam, upper_from, lower_from)
        self._lay_line(out, seam, np.maximum(gap, 0.0), upper_from, lower_from)
        if float(gap.max()) > 0.5:
            contour = np.concatenate([upper_line, lower_line[::-1]])
            self.interior.paint(out, contour, float(w[_OPEN]) * JAW_DROP, shape.tongue, float(w[_ROUND]))
        return out

    def _lay_layers(self, out: U8, seam: F32, upper_from: F32, lower_from: F32) -> None:
        """Upper layer above the seam, lower layer below it."""
        area = self.upper.area
        across = self.pose.to_patch[:, 0] / np.linalg.norm(self.pose.to_patch[:, 0])
        down = self.pose.to_patch[:, 1] / np.linalg.norm(self.pose.to_patch[:, 1])
        far = 2.0 * out.shape[0]
        outline = np.concatenate(
            [[seam[0] - across * far], seam, [seam[-1] + across * far, seam[-1] + (across + down) * far],
             [seam[0] + (down - across) * far]]
        )  # fmt: skip
        below = np.zeros((area.y2 - area.y1, area.x2 - area.x1), np.uint8)
        points = np.rint((outline - (area.x1, area.y1)) * 16).astype(np.int32)
        cv2.fillPoly(below, [points], (255,), cv2.LINE_AA, 4)
        rows = np.flatnonzero((below.min(1) == 0) & (below.max(1) > 0))
        first, last = (int(rows[0]) - 2, int(rows[-1]) + 3) if rows.size else (0, below.shape[0])
        first, last = max(0, first), min(below.shape[0], last)
        view = out[area.rows, area.columns]
        view[:last] = sample(self.layers.upper, upper_from[:last])
        lower = sample(self.layers.lower, lower_from[first:])
        share = cv2.GaussianBlur(below[first:last], (0, 0), 0.7).astype(np.float32) * np.float32(1 / 255)
        view[first:last] = cv2.blendLinear(lower[: last - first], view[first:last].copy(), share, 1 - share)
        view[last:] = lower[last - first :]

    def _lay_line(self, out: U8, seam: F32, gap: F32, upper_from: F32, lower_from: F32) -> None:
        """Where the lips touch, the line between them: the portrait's own, or one drawn where its mouth was open."""
        area = self.upper.area
        reach = self.layers.line_px
        ends = self.contours.corners
        pad = reach * 1.5 + 4
        low = np.floor(np.minimum(seam.min(0), ends.min(0)) - pad).astype(int)
        high = np.ceil(np.maximum(seam.max(0), ends.max(0)) + pad).astype(int)
        low, high = np.maximum(low, (area.x1, area.y1)), np.minimum(high, (area.x2, area.y2))
        if np.any(high <= low):
            return
        alpha = np.zeros((high[1] - low[1], high[0] - low[0]), np.uint8)
        touch = np.clip(1.25 - gap / (0.035 * self.pose.unit_px), 0, 1)
        if self.lips.shut:  # a little past the corners, where the layers still differ from the portrait
            seam = np.concatenate([2 * seam[:1] - seam[2:3], seam, 2 * seam[-1:] - seam[-3:-2]])
            touch = np.concatenate([touch[:1], touch, touch[-1:]])
        points = np.rint((seam - low) * 16).astype(np.int32)
        if self.lips.shut:
            thickness, blur = max(3, round(2 * reach)), reach * 0.25
        else:
            thickness, blur = max(1, round(0.014 * self.pose.unit_px)), 0.012 * self.pose.unit_px
        for i in range(len(seam) - 1):
            strength = float(touch[i] + touch[i + 1]) / 2
            if strength > 0.02:
                cv2.line(alpha, points[i], points[i + 1], (255 * strength,), thickness, cv2.LINE_AA, 4)
        if not alpha.any():
            return
        soft = cv2.GaussianBlur(alpha, (0, 0), blur).astype(np.float32) * np.float32(1 / 255)
        view = out[low[1] : high[1], low[0] : high[0]]
        if self.lips.shut:
            part = (slice(low[1] - area.y1, high[1] - area.y1), slice(low[0] - area.x1, high[0] - area.x1))
            line = sample(self.layers.anchor, (upper_from[part] + lower_from[part]) * np.float32(0.5))
            view[...] = cv2.blendLinear(line, view.copy(), soft, 1 - soft)
        else:
            dark = 1 - soft[..., None] * np.array([0.50, 0.62, 0.62], np.float32)
            view[...] = view * dark


def build_rig(anchor: U8, shows: F32, points: F32, box: tuple[int, int, int, int], parts: Moulds | Crops) -> Rig:
    """Make a frame ready.

    anchor (N, N, 3) u8: its face box; shows (N, N) f32 0..1: the packet's mask over it; points (468, 2) frame pixels.
    """
    size = anchor.shape[0]
    pose = fit_pose(points, box, size)
    mesh_patch = patch_points(points, box, size)
    lips = measure(pose.face(mesh_patch), anchor, pose)
    window = motion_window(shows, pose, size)
    area = moving_area(window)
    chin = pose.patch(lips.source[CHIN])
    room = _room_below(window, chin, pose)
    face_moves = moves(lips, room)
    upper, lower = _fields(pose, lips, face_moves, window, area)
    contours = _contours(pose, lips, upper, lower)
    interior = make_interior(anchor, mesh_patch, lips, pose, parts)
    return Rig(split_layers(anchor, lips, pose), upper, lower, contours, interior, lips, pose)


def _contours(pose: FacePose, lips: Lips, upper: Fields, lower: Fields) -> Contours:
    upper_line, lower_line = pose.patch(lips.source[UPPER_INNER]), pose.patch(lips.source[LOWER_INNER])
    upper_moves, lower_moves = upper.at(upper_line), lower.at(lower_line)
    # the grid shuts a mouth to within a pixel or two: let the contours meet where the lips all but do
    down = pose.to_patch[:, 1] / np.linalg.norm(pose.to_patch[:, 1])
    left_open = (lower_line + lower_moves[_CLOSE] - upper_line - upper_moves[_CLOSE]) @ down
    left_open[np.abs(left_open) > 0.05 * pose.unit_px] = 0.0
    meet = (left_open[:, None] * down / 2).astype(np.float32)
    upper_moves[_CLOSE] += meet
    lower_moves[_CLOSE] -= meet
    corners = pose.patch(lips.rest[[LIP_CORNER_LEFT, LIP_CORNER_RIGHT]])
    rounder = _rounder()
    return Contours(
        (rounder @ upper_line).astype(np.float32),
        (rounder @ lower_line).astype(np.float32),
        (rounder @ upper_moves).astype(np.float32),
        (rounder @ lower_moves).astype(np.float32),
        corners.astype(np.float32),
    )


def motion_window(shows: F32, pose: FacePose, size: int) -> F32:
    """(N, N) f32 0..1: how much each pixel may move: not where the mask fades, at the border or above the nose."""
    y, x = np.mgrid[0:size, 0:size].astype(np.float64)
    face_y = pose.face(np.stack([x, y], -1))[..., 1]
    border = np.minimum(np.minimum(x, size - 1 - x), np.minimum(y, size - 1 - y)) / (0.06 * size)
    window = smoothstep(border) * smoothstep((face_y + 0.80) / 0.40) * smoothstep((shows - 0.25) / 0.65)
    narrow: F32 = window.astype(np.float32)
    return narrow


def moving_area(window: F32) -> Area:
    """The grid-aligned rectangle outside which the window is zero."""
    rows, columns = np.flatnonzero(window.max(1) > 0), np.flatnonzero(window.max(0) > 0)
    size = window.shape[0]
    if not rows.size:
        return Area(0, 0, CELL_PX, CELL_PX)
    edges = [int(edge) // CELL_PX * CELL_PX for edge in (columns[0], rows[0])]
    ends = [min(size, (int(edge) // CELL_PX + 1) * CELL_PX) for edge in (columns[-1], rows[-1])]
    return Area(edges[0], edges[1], ends[0], ends[1])


def _room_below(window: F32, chin: F64, pose: FacePose) -> float:
    """Units from the chin down to where nothing may move."""
    down = pose.to_patch[:, 1]
    steps = np.arange(0.0, 1.0, 0.01)
    at = np.rint(chin + steps[:, None] * down).astype(int).clip(0, window.shape[0] - 1)
    still = np.flatnonzero(window[at[:, 1], at[:, 0]] < 0.1)
    return float(steps[still[0]]) if still.size else 1.0


def _fields(pose: FacePose, lips: Lips, face_moves: F64, window: F32, area: Area) -> tuple[Fields, Fields]:
    """The two layers' fields; beyond the corners of the mouth both are the same, so that the seam cannot tear."""
    places = nodes(area)
    shape = places.shape[:2]
    face = pose.face(places)
    at = np.rint(places).astype(int)
    allowed = window[at[..., 1], at[..., 0]].reshape(-1, 1)
    rest, source = lips.rest, lips.source
    skin = np.ones(len(source), bool)
    skin[LIPS] = False
    along = lips.along(rest[:, 0])
    skin &= np.isin(
        np.arange(len(source)), spread_out(source, np.flatnonzero(skin & (rest[:, 1] > -1.2)), _SKIN_POINTS)
    )
    near = skin & (np.abs(along) < 0.85) & (np.abs(rest[:, 1]) < 0.36)
    frame = _frame_points(pose, window.shape[0])
    vectors = pose.patch_vectors(face_moves)
    read = []
    for rings, facing in ((UPPER_RINGS, 1.0), (LOWER_RINGS, -1.0)):
        kept = skin & ~(near & (rest[:, 1] * facing > 0))
        index = np.concatenate([np.flatnonzero(kept), np.unique(rings)])
        points = np.concatenate([pose.patch(source[index]), frame])
        values = np.concatenate([vectors[:, index], np.zeros((len(MOVES), len(frame), 2))], 1)
        flat = values.transpose(1, 0, 2).reshape(len(points), -1)
        field = thin_plate(points, flat, places.reshape(-1, 2), _SMOOTHING)
        read.append((field * allowed).reshape(*shape, len(MOVES), 2).transpose(2, 0, 1, 3))
    x = (face[..., 0] - lips.middle) / np.where(face[..., 0] < lips.middle, lips.half_left, lips.half_right)
    apart = smoothstep((1.35 - np.abs(x)) / 0.3)[None, ..., None].astype(np.float32)
    mean = (read[0] + read[1]) / 2
    upper, lower = Fields.of(area, *(mean + (field - mean) * apart for field in read))
    return upper, lower


def spread_out(places: F64, among: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """At most `count` of the points `among`, the lowest first, each as far as can be from those before it."""
    if not len(among):
        return among
    at = places[among]
    chosen = [int(at[:, 1].argmax())]
    away = np.full(len(among), np.inf)
    while len(chosen) < min(count, len(among)):
        away = np.minimum(away, ((at - at[chosen[-1]]) ** 2).sum(1))
        chosen.append(int(away.argmax()))
    return among[chosen]


def _frame_points(pose: FacePose, size: int) -> F64:
    """Points around the patch that stay where they are."""
    edge = np.linspace(0, size - 1, 9)
    low, high = np.zeros(9), np.full(9, size - 1.0)
    return np.concatenate(
        [np.stack([edge, low], 1), np.stack([edge, high], 1),
         np.stack([low, edge], 1)[1:-1], np.stack([high, edge], 1)[1:-1]]
    )  # fmt: skip


def _rounder() -> F64:
    """(_CONTOUR_POINTS, LIP_COLUMNS): makes a finer and rounder line through the same ends out of a lip's points."""
    knots = np.linspace(0, 1, LIP_COLUMNS)
    fine = np.linspace(0, 1, _CONTOUR_POINTS)
    matrix = np.stack([np.interp(fine, knots, row) for row in np.eye(LIP_COLUMNS)], 1)
    for _ in range(2):
        matrix[1:-1] = matrix[:-2] * 0.25 + matrix[1:-1] * 0.5 + matrix[2:] * 0.25
    return matrix
