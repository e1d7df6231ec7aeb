"""Lays a square RGB patch over part of a face box: sub-pixel accurate, mostly at the price of a plain resize.

OpenCV resizes whole rectangles only, and its affine warp is slower. So both ends of each axis are moved outwards to
where a whole pixel of the frame falls on one of the patch; where there is no such place, the warp is taken.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box
from avatars.colour import Planes, rgb_to_full_range, shrink
from avatars.enlarge import Enlarger

U8 = npt.NDArray[np.uint8]
FloatBox = tuple[float, float, float, float]

_TOLERATED_PX = 0.05
"""Misplacement in patch pixels that nobody can see: two levels on the steepest edge a lip has."""
_BEYOND_PX = 16
"""How far beyond the patch, in its pixels, an end may lie; the patch's edge goes on there."""
_ENLARGED = 0.75
"""Patch pixels a frame pixel takes, at most, for chroma to be sampled straight from the patch: within two levels."""
_COST_OF_A_PIXEL = 0.0005
"""The misplacement that is worth one row or column more to resize."""


class Span(NamedTuple):
    """One axis: frame pixels [start, end) show patch pixels [first, last)."""

    start: int
    end: int
    first: int
    last: int


class Stretch(NamedTuple):
    """How a patch becomes one plane of a rectangle."""

    rect: Box
    halvings: int
    """Times the patch is halved first, so that resizing skips no pixel."""
    across: Span | None
    """None, as `down`: no whole pixels meet, warp instead."""
    down: Span | None
    inverse: tuple[tuple[float, float, float], tuple[float, float, float]]
    """From rectangle to patch pixels, for the warp."""


def plan_stretch(face_box: FloatBox, rect: Box, patch_px: int, *, may_halve: bool = True) -> Stretch:
    """face_box: where the whole patch lies, frame pixels; rect: the part wanted."""
    left, top, right, bottom = face_box
    halvings = 0
    while may_halve and (patch_px >> halvings) % 2 == 0 and min(right - left, bottom - top) * 2 <= patch_px >> halvings:
        halvings += 1
    size = patch_px >> halvings
    across = _span(rect[0], rect[2], (left, right), size)
    down = _span(rect[1], rect[3], (top, bottom), size)
    fx, fy = size / (right - left), size / (bottom - top)
    inverse = (
        (fx, 0.0, (rect[0] + 0.5 - left) * fx - 0.5),
        (0.0, fy, (rect[1] + 0.5 - top) * fy - 0.5),
    )
    return Stretch(rect, halvings, across if down else None, down if across else None, inverse)


class PatchPlan(NamedTuple):
    """How a patch becomes the planes of one even rectangle."""

    stretch: Stretch
    """In frame pixels; with an enlarger in those of chroma, twice as large, so that both planes meet theirs."""
    enlarger: Enlarger | None
    """Where the patch is enlarged so far that sampling chroma straight from it skips nothing. Makes limited range."""


def plan_planes(face_box: FloatBox, rect: Box, patch_px: int) -> PatchPlan:
    """face_box: where the whole patch lies, frame pixels; rect: the part wanted, its edges even."""
    left, top, right, bottom = face_box
    taken = patch_px / min(right - left, bottom - top)
    if taken <= _ENLARGED:
        half_box = (left / 2, top / 2, right / 2, bottom / 2)
        half_rect = (rect[0] // 2, rect[1] // 2, rect[2] // 2, rect[3] // 2)
        halved = plan_stretch(half_box, half_rect, patch_px, may_halve=False)
        if halved.across and halved.down:
            return PatchPlan(halved, _enlarger(halved.across, halved.down))
    return PatchPlan(plan_stretch(face_box, rect, patch_px), None)


def stretch_planes(pixels: U8, plan: PatchPlan) -> Planes:
    """What a (p, p, 3) u8 RGB patch shows over the plan's rectangle; beyond the patch its edge goes on.

    In full range without an enlarger, in limited range with one.
    """
    part, stretch = _part(pixels, plan.stretch), plan.stretch
    if plan.enlarger is None:
        return rgb_to_full_range(_resize(part, stretch))
    y, u, v = plan.enlarger.planes(part)
    return Planes(_shown(y, stretch, 2), _shown(u, stretch), _shown(v, stretch))


def _enlarger(across: Span, down: Span) -> Enlarger:
    size = (across.last - across.first, down.last - down.first)
    return Enlarger(size, ((across.end - across.start) * 2, (down.end - down.start) * 2))


def _part(pixels: U8, plan: Stretch) -> U8:
    """What of the patch the plan looks at, halved as it says; beyond the patch its edge goes on."""
    for _ in range(plan.halvings):
        pixels = shrink(pixels, (pixels.shape[1] // 2, pixels.shape[0] // 2))
    across, down, size = plan.across, plan.down, len(pixels)
    if across is None or down is None:
        return pixels
    part = pixels[max(0, down.first) : min(size, down.last), max(0, across.first) : min(size, across.last)]
    beyond = (max(0, -down.first), max(0, down.last - size), max(0, -across.first), max(0, across.last - size))
    return np.asarray(cv2.copyMakeBorder(part, *beyond, cv2.BORDER_REPLICATE)) if any(beyond) else part


def _resize(part: npt.NDArray[Any], plan: Stretch) -> U8:
    x1, y1, x2, y2 = plan.rect
    across, down = plan.across, plan.down
    if across is None or down is None:
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        inverse = np.array(plan.inverse, dtype=np.float64)
        size = (x2 - x1, y2 - y1)
        warped = cv2.warpAffine(part, inverse, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(warped, dtype=np.uint8)
    size = (across.end - across.start, down.end - down.start)
    return _shown(np.asarray(cv2.resize(part, size, interpolation=cv2.INTER_LINEAR), dtype=np.uint8), plan)


def _shown(plane: U8, plan: Stretch, scale: int = 1) -> U8:
    """The rectangle's part of what the spans, or `scale` times as many pixels, were resized to."""
    x1, y1, x2, y2 = plan.rect
    left, top = (plan.across.start, plan.down.start) if plan.across and plan.down else (x1, y1)
    return plane[(y1 - top) * scale : (y2 - top) * scale, (x1 - left) * scale : (x2 - left) * scale]


def _span(low: int, high: int, box: tuple[float, float], patch_px: int) -> Span | None:
    """The best pair of ends, outwards and not far beyond the patch, that fall on whole pixels of it."""
    scale = patch_px / (box[1] - box[0])
    room = math.ceil(_BEYOND_PX / scale)
    start = _best(np.arange(low, min(low, math.floor(box[0])) - room - 1, -1), box[0], scale, patch_px)
    end = _best(np.arange(high, max(high, math.ceil(box[1])) + room + 1), box[0], scale, patch_px)
    return None if start is None or end is None or start[1] >= end[1] else Span(start[0], end[0], start[1], end[1])


def _best(edges: npt.NDArray[np.int64], origin: float, scale: float, patch_px: int) -> tuple[int, int] | None:
    """The frame pixel among `edges`, nearest first, that falls best on a patch pixel; and that pixel."""
    at = (edges - origin) * scale
    whole = np.rint(at)
    reached = (whole >= -_BEYOND_PX) & (whole <= patch_px + _BEYOND_PX)
    error = np.where(reached, np.abs(at - whole), 1.0)
    best = int(np.argmin(error + _COST_OF_A_PIXEL * np.arange(len(edges))))
    return None if error[best] > _TOLERATED_PX else (int(edges[best]), int(whole[best]))
