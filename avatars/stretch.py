"""Lays a square RGB patch over part of a face box, as luma and chroma: sub-pixel accurate, at the price of a resize.

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
from avatars.colour import HalfPlanes, shrink

U8 = npt.NDArray[np.uint8]
Float = npt.NDArray[np.floating[Any]]
FloatBox = tuple[float, float, float, float]
Move = npt.NDArray[np.float64]
"""(2, 3): from places to places, pixels with their edges at whole numbers."""

_BEYOND_PX = 16
"""How far beyond the patch, in its pixels, an end may lie; the patch's edge goes on there."""
_ENLARGED = 1.05
"""Patch pixels a frame pixel takes, at most, for chroma to be sampled straight from the patch: within two levels."""


class Care(NamedTuple):
    """How exactly a plane is placed, in patch pixels."""

    tolerated_px: float
    """Misplacement that nobody can see."""
    worth_px: float
    """The misplacement that is worth one row or column more to resize."""


LUMA = Care(0.08, 0.001)
"""At the ends, where masks have faded: less than two levels on the steepest edge that a lip in the middle has."""
CHROMA = Care(0.2, 0.03)
"""Colours have softer edges: a tenth of a chroma pixel is a level at most."""


class Span(NamedTuple):
    """One axis: frame pixels [start, end) show patch pixels [first, last)."""

    start: int
    end: int
    first: int
    last: int


class Stretch(NamedTuple):
    """How a patch becomes one plane of a rectangle."""

    halvings: int
    """Times the patch is halved first, so that resizing skips no pixel."""
    looked_at: tuple[slice, slice]
    """Rows and columns of the halved patch."""
    beyond: tuple[int, int, int, int]
    """Rows above and below, columns left and right, in which the patch's edge goes on."""
    size: tuple[int, int]
    """Width and height that this becomes."""
    shown: tuple[slice, slice]
    """The rectangle in it."""
    inverse: Float | None
    """(2, 3), from rectangle to patch pixels, where no whole pixels meet: warp instead."""


def plan_stretch(face_box: FloatBox, rect: Box, patch_px: int, *, may_halve: bool = True, care: Care = LUMA) -> Stretch:
    """face_box: where the whole patch lies, frame pixels; rect: the part wanted."""
    left, top, right, bottom = face_box
    halvings = _halvings(face_box, patch_px) if may_halve else 0
    size = patch_px >> halvings
    across = _span((rect[0], rect[2]), (left, right), size, care)
    down = _span((rect[1], rect[3]), (top, bottom), size, care)
    if across is None or down is None:
        return _warped(halvings, size, rect, box_move(face_box, (size, size), None))
    x, y = rect[0] - across.start, rect[1] - down.start
    width, height = rect[2] - rect[0], rect[3] - rect[1]
    return Stretch(
        halvings,
        (slice(max(0, down.first), min(size, down.last)), slice(max(0, across.first), min(size, across.last))),
        (max(0, -down.first), max(0, down.last - size), max(0, -across.first), max(0, across.last - size)),
        (across.end - across.start, down.end - down.start),
        (slice(y, y + height), slice(x, x + width)),
        None,
    )


def _warped(halvings: int, size: int, rect: Box, place: Move) -> Stretch:
    """All of a halved patch, which lies by `place`, warped over a rectangle."""
    width, height = rect[2] - rect[0], rect[3] - rect[1]
    whole, shown = slice(0, size), (slice(0, height), slice(0, width))
    return Stretch(halvings, (whole, whole), (0, 0, 0, 0), (width, height), shown, reading(place, rect))


def _halvings(face_box: FloatBox, patch_px: int) -> int:
    left, top, right, bottom = face_box
    halvings = 0
    while (patch_px >> halvings) % 2 == 0 and min(right - left, bottom - top) * 2 <= patch_px >> halvings:
        halvings += 1
    return halvings


def scaled(move: Move, scale: npt.NDArray[np.float64]) -> Move:
    """The same move in pictures `scale` (2,) times as wide and high."""
    linear = move[:, :2] * scale[:, None] / scale
    return np.concatenate([linear, (move[:, 2] * scale)[:, None]], 1)


def box_move(box: FloatBox, size_px: tuple[int, int], move: Move | None) -> Move:
    """Where a picture of (width, height) lies that fills a box which then moves."""
    place = np.array([[(box[2] - box[0]) / size_px[0], 0.0, box[0]], [0.0, (box[3] - box[1]) / size_px[1], box[1]]])
    if move is not None:
        place = np.concatenate([move[:, :2] @ place[:, :2], move[:, :2] @ place[:, 2:] + move[:, 2:]], 1)
    return place


def reading(place: Move, rect: Box) -> Move:
    """The pixel of a picture that each pixel of a rectangle shows, where the picture lies by `place`."""
    inverse = np.linalg.inv(place[:, :2])
    first = inverse @ (np.array([rect[0] + 0.5, rect[1] + 0.5]) - place[:, 2]) - 0.5
    return np.concatenate([inverse, first[:, None]], 1)


class PatchPlan(NamedTuple):
    """How a patch becomes the planes of one even rectangle."""

    luma: Stretch
    chroma: Stretch | None
    """Where the patch is enlarged so far that sampling chroma straight from it skips nothing. None: resize all three
    colours as luma is, and take the mean of 2x2 pixels."""


def plan_planes(face_box: FloatBox, rect: Box, patch_px: int) -> PatchPlan:
    """face_box: where the whole patch lies, frame pixels; rect: the part wanted, its edges even."""
    left, top, right, bottom = face_box
    luma = plan_stretch(face_box, rect, patch_px)
    if patch_px > min(right - left, bottom - top) * _ENLARGED:
        return PatchPlan(luma, None)
    half_box = (left / 2, top / 2, right / 2, bottom / 2)
    half_rect = (rect[0] // 2, rect[1] // 2, rect[2] // 2, rect[3] // 2)
    chroma = plan_stretch(half_box, half_rect, patch_px, may_halve=False, care=CHROMA)
    return PatchPlan(luma, chroma)


def plan_moved(face_box: FloatBox, rect: Box, patch_px: int, move: Move) -> PatchPlan:
    """The same for a face box that moves and turns a little: always warped."""
    halvings = _halvings(face_box, patch_px)
    size = patch_px >> halvings
    return PatchPlan(_warped(halvings, size, rect, box_move(face_box, (size, size), move)), None)


class Workspace:
    """Memory for one plan, that frame after frame is worked in: fresh arrays would cost a fifth more.

    For one thread at a time.
    """

    def __init__(self, plan: PatchPlan) -> None:
        height, width = (rows.stop - rows.start for rows in plan.luma.shown)
        half = height // 2, width // 2
        rows, columns = plan.luma.looked_at
        self._plan = plan
        self._first = Resizing(plan.luma, (3,) if plan.chroma is None else ())
        self._small = np.empty((*half, 3), np.uint8)
        self._second = None if plan.chroma is None else Resizing(plan.chroma, (3,))
        grey = (height, width) if plan.chroma is None else (rows.stop - rows.start, columns.stop - columns.start)
        self._grey = np.empty(grey, np.uint8)
        self._coloured = np.empty((*half, 3), np.uint8)
        self._chroma = np.empty((2, *half), np.uint8)
        self._cb, self._cr = self._chroma

    def planes(self, pixels: U8) -> HalfPlanes:
        """What a (p, p, 3) u8 RGB patch shows over the plan's rectangle, in full range; good until the next call.

        Beyond the patch its edge goes on.
        """
        luma, chroma = self._plan
        if chroma is None or self._second is None:
            large = self._first.run(looked_at(pixels, luma))
            grey = self._grey
            cv2.cvtColor(large, cv2.COLOR_RGB2GRAY, dst=grey)
            height, width = self._small.shape[:2]
            small = self._small
            cv2.resize(large, (width, height), dst=small, interpolation=cv2.INTER_AREA)
        else:
            cv2.cvtColor(looked_at(pixels, luma), cv2.COLOR_RGB2GRAY, dst=self._grey)
            grey = self._first.run(self._grey)
            small = self._second.run(looked_at(pixels, chroma))
        cv2.cvtColor(small, cv2.COLOR_RGB2YCrCb, dst=self._coloured)
        cv2.extractChannel(self._coloured, 2, self._cb)
        cv2.extractChannel(self._coloured, 1, self._cr)
        return HalfPlanes(grey, self._chroma)


class Resizing:
    """Of what is looked at, colours or grey, to the rectangle; always into the same memory."""

    def __init__(self, plan: Stretch, channels: tuple[int, ...]) -> None:
        rows, columns = plan.looked_at
        above, below, left, right = plan.beyond
        extended = rows.stop - rows.start + above + below, columns.stop - columns.start + left + right
        self._plan = plan
        self._extended = np.empty((*extended, *channels), np.uint8) if any(plan.beyond) else None
        self._resized = np.empty((plan.size[1], plan.size[0], *channels), np.uint8)
        self._shown = self._resized[plan.shown]

    def run(self, part: U8) -> U8:
        plan = self._plan
        if plan.inverse is not None:
            flags, border = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, cv2.BORDER_REPLICATE
            cv2.warpAffine(part, plan.inverse, plan.size, dst=self._resized, flags=flags, borderMode=border)
            return self._shown
        if self._extended is not None:
            cv2.copyMakeBorder(part, *plan.beyond, cv2.BORDER_REPLICATE, dst=self._extended)
            part = self._extended
        resize_linear(part, plan.size, self._resized)
        return self._shown


def looked_at(pixels: U8, plan: Stretch) -> U8:
    """Of a (p, p, 3) patch."""
    for _ in range(plan.halvings):
        pixels = shrink(pixels, (pixels.shape[1] // 2, pixels.shape[0] // 2))
    return pixels[plan.looked_at]


def resize_linear(pixels: U8, size_px: tuple[int, int], into: U8 | None = None) -> U8:
    """(h, w) or (h, w, 3) to (width, height), bilinear.

    Where OpenCV has Intel's library (x86) that resizes, in half the time and rounding without bias. OpenCV asks leave
    because a byte may then differ by one from its own. The switch is this thread's.
    """
    cv2.ipp.setUseIPP_NotExact(True)
    try:
        return np.asarray(cv2.resize(pixels, size_px, dst=into, interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
    finally:
        cv2.ipp.setUseIPP_NotExact(False)


def _span(wanted: tuple[int, int], box: tuple[float, float], patch_px: int, care: Care) -> Span | None:
    """The best pair of ends, outwards and not far beyond the patch, that fall on whole pixels of it."""
    low, high = wanted
    scale = patch_px / (box[1] - box[0])
    room = math.ceil(_BEYOND_PX / scale)
    before = np.arange(low, min(low, math.floor(box[0])) - room - 1, -1)
    after = np.arange(high, max(high, math.ceil(box[1])) + room + 1)
    start = _best(before, (before - box[0]) * scale, patch_px, care)
    end = _best(after, (after - box[0]) * scale, patch_px, care)
    return None if start is None or end is None or start[1] >= end[1] else Span(start[0], end[0], start[1], end[1])


def _best(edges: npt.NDArray[np.int64], at: Float, patch_px: int, care: Care) -> tuple[int, int] | None:
    """The frame pixel among `edges`, nearest first, that falls best on a patch pixel; and that pixel.

    at: where on the patch the edges fall.
    """
    whole = np.rint(at)
    reached = (whole >= -_BEYOND_PX) & (whole <= patch_px + _BEYOND_PX)
    error = np.where(reached, np.abs(at - whole), np.inf)
    cost = np.where(error <= care.tolerated_px, error + care.worth_px * np.arange(len(edges)), np.inf)
    best = int(np.argmin(cost))
    return (int(edges[best]), int(whole[best])) if np.isfinite(cost[best]) else None
