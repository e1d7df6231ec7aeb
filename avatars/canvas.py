"""A packet at the size that is streamed: cached I420 anchor frames, and face patches laid into copies of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar, runtime_checkable

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box, bounding_box, intersect, lerp_u8, mask_to_u8
from avatars.colour import (
    LIMITED_RANGE,
    Planes,
    parts_of,
    rgb_to_i420,
    rgb_to_planes,
    shrink,
    shrink_i420,
    split_planes,
)
from avatars.landing import Landing, even_outwards, even_size, find_landing
from avatars.packet import AvatarPacket
from avatars.sheets import Sheets
from avatars.stretch import FloatBox, PatchPlan, plan_planes, stretch_planes

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
F32 = npt.NDArray[np.float32]
T = TypeVar("T")

ANCHOR_CACHE_BYTES = 192 << 20
"""Finished anchor frames kept per canvas; a clip that needs more converts them again as they come round."""
SPOT_CACHE_FRAMES = 512
LIVING_CACHE_FRAMES = 32
"""Anchor frames with lids or gaze laid over them, kept per canvas."""
_Lid = tuple[Box, Planes, Planes]
"""Rectangle on the canvas, planes and masks of an overlay."""


class Overlay(Protocol):
    """A small picture over the face, such as closed lids."""

    @property
    def rect(self) -> Box:
        """x1, y1, x2, y2 in the patch, pixels."""
        ...

    @property
    def pixels(self) -> U8:
        """(h, w, 3) u8 RGB."""
        ...

    @property
    def mask(self) -> F32:
        """(h, w) f32 0..1."""
        ...


@runtime_checkable
class Living(Protocol):
    """A face that does something of its own while nobody speaks, such as blinking."""

    @property
    def patch_px(self) -> int:
        """Side of the square patch in which overlays have their places."""
        ...

    def overlays(self, index: int) -> tuple[Overlay, ...]:
        """What lies over the anchor frame of a grid index: mostly nothing. The same objects when it looks the same."""
        ...


class Mark(Protocol):
    """Something that lies over every frame, mouth and all, such as a badge."""

    def rect(self, size_px: tuple[int, int]) -> Box:
        """x1, y1, x2, y2 in a frame of (width, height), pixels, even."""
        ...

    def lay(self, planes: Planes) -> None:
        """Over the planes of a frame, in place, inside `rect`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Spot:
    """Where the patch of one frame shows on the canvas, and what of the anchor shows through it."""

    rect: Box
    """Canvas pixels, edges even."""
    luma_mask: U8
    """Over the rectangle."""
    face_box: FloatBox
    """The packet's face box in canvas pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class _Inlay:
    """How patches of one size are laid into one frame."""

    plan: PatchPlan
    weights: tuple[U16, U16, U16]
    """For Y, Cb and Cr of the patch: their masks, times what brings full range to limited range. Bytes, but as wide as
    the products, which spares every frame a conversion."""
    bases: tuple[U16, U16, U16]
    """What is added to make 256 times the blended plane: the anchor under the mask's rest, offsets and rounding."""


class Canvas:
    """Read-only I420 frames of one packet, and blending into copies of them. Threads and sessions may share it."""

    def __init__(
        self, packet: AvatarPacket, max_side_px: int, life: Living | None = None, mark: Mark | None = None
    ) -> None:
        """Fit the packet inside `max_side_px`: never enlarged, sides even (an odd last row or column is cut).

        `mark` is laid into the anchor frames once; patches and overlays leave its place alone.
        """
        self._packet = packet
        self._life = life
        self._mark = mark
        width, height = packet.size_px
        shrinking = min(1.0, max_side_px / max(width, height))
        self._shrinks = shrinking < 1.0
        self.size_px = even_size(max(2, round(width * shrinking)), max(2, round(height * shrinking)))
        """(width, height), both even."""
        self._order = _distinct(packet)
        anchor_bytes = self.size_px[0] * self.size_px[1] * 3 // 2
        self._anchors: _Kept[U8] = _Kept(max(1, ANCHOR_CACHE_BYTES // anchor_bytes))
        self._spots: _Kept[_Spot | None] = _Kept(SPOT_CACHE_FRAMES)
        self._inlays: _Kept[_Inlay] = _Kept(SPOT_CACHE_FRAMES)
        self._living: _Kept[tuple[U8, tuple[Overlay, ...]]] = _Kept(LIVING_CACHE_FRAMES)
        self._laid: _Kept[tuple[list[_Lid], tuple[Overlay, ...]]] = _Kept(LIVING_CACHE_FRAMES)
        self._sheets = Sheets(self._plain(self._order[0])) if len(set(self._order)) == 1 else None

    @property
    def cycle_frames(self) -> int:
        return self._packet.cycle_frames

    def anchor(self, index: int) -> U8:
        """The anchor frame of a grid index, its eyes alive: (H * 3 // 2, W) u8 I420, read-only, shared."""
        key = self._order[index % len(self._order)]
        overlays = () if self._life is None else self._life.overlays(index)
        spot = self._spot(index) if overlays else None
        if self._life is None or spot is None:
            return self._plain(key)
        named = (key, *(id(overlay) for overlay in overlays))  # kept beside the frame, so that no other takes its name
        lids = partial(self._lids, key, overlays, spot, self._life.patch_px)
        return self._living.get(named, lambda: (self._enlivened(key, lids()), overlays))[0]

    def _plain(self, key: int) -> U8:
        """An anchor frame as the packet has it."""
        ready = self._packet.anchors
        if ready is not None and not self._shrinks and self._mark is None:
            whole: U8 = ready.planes[key]
            return whole
        return self._anchors.get(key, lambda: self._convert(key))

    def blend(self, index: int, pixels: U8, overlays: Iterable[Overlay] = ()) -> U8:
        """A new read-only frame: the anchor with the patch in its face box. No byte outside the packet's crop changes.

        pixels (p, p, 3) u8 RGB: the face box stretched to a square; overlays lie over the patch.
        """
        key = self._order[index % len(self._order)]
        anchor = self._plain(key)
        spot = self._spot(index)
        if spot is None:
            return anchor
        lids = self._lids(key, tuple(overlays), spot, pixels.shape[0])
        planes = anchor.copy() if self._sheets is None else self._sheets.take(tuple(lid[0] for lid in lids))
        target = split_planes(planes)
        inlay = self._inlay(key, spot, pixels.shape[0])
        front = stretch_planes(pixels, inlay.plan)
        for plane, part, source, weight, base in zip(
            target, parts_of(spot.rect), front, inlay.weights, inlay.bases, strict=True
        ):
            total = np.multiply(source, weight)
            total += base
            np.right_shift(total, 8, out=plane[part], casting="unsafe")
        _lay(target, lids)
        return _published(planes)

    def mix(self, a: U8, b: U8, weight: float, index: int) -> U8:
        """A new read-only frame: `a` with `weight` (0..1) of `b`, inside the mouth's rectangle only; elsewhere `a`."""
        planes = a.copy()
        spot = self._spot(index)
        if spot is not None:
            for target, other, part in zip(split_planes(planes), split_planes(b), parts_of(spot.rect), strict=True):
                target[part] = cv2.addWeighted(target[part], 1.0 - weight, other[part], weight, 0.0)
        return _published(planes)

    def _convert(self, key: int) -> U8:
        ready = self._packet.anchors
        if ready is not None:
            planes = shrink_i420(ready.planes[key], self.size_px) if self._shrinks else ready.planes[key].copy()
        else:
            width, height = even_size(*self._packet.size_px)
            rgb: U8 = np.asarray(cv2.merge(list(self._packet.frames[key])), dtype=np.uint8)[:height, :width]
            planes = rgb_to_i420(shrink(rgb, self.size_px) if self._shrinks else rgb)
        if self._mark is not None:
            self._mark.lay(split_planes(planes))
        return _published(planes)

    def _beside_mark(self, mask: U8, rect: Box) -> U8:
        """A mask of `rect` that lets nothing show where the mark lies."""
        taken = None if self._mark is None else intersect(rect, self._mark.rect(self.size_px))
        if taken is None:
            return mask
        mask = mask.copy()
        mask[taken[1] - rect[1] : taken[3] - rect[1], taken[0] - rect[0] : taken[2] - rect[0]] = 0
        return mask

    def _spot(self, index: int) -> _Spot | None:
        key = self._order[index % len(self._order)]
        return self._spots.get(key, lambda: self._find_spot(key))

    def _inlay(self, key: int, spot: _Spot, patch_px: int) -> _Inlay:
        return self._inlays.get((key, patch_px), lambda: self._make_inlay(key, spot, patch_px))

    def _make_inlay(self, key: int, spot: _Spot, patch_px: int) -> _Inlay:
        plan = plan_planes(spot.face_box, spot.rect, patch_px)
        luma = spot.luma_mask
        chroma = shrink(luma, (luma.shape[1] // 2, luma.shape[0] // 2))
        y, u, v = (
            _weigh(mask, plane[part], *(limited_range if plan.enlarger is None else (1.0, 0.0)))
            for mask, plane, part, limited_range in zip(
                (luma, chroma, chroma),
                split_planes(self._plain(key)),
                parts_of(spot.rect),
                LIMITED_RANGE,
                strict=True,
            )
        )
        return _Inlay(plan, (y[0], u[0], v[0]), (y[1], u[1], v[1]))

    def _find_spot(self, key: int) -> _Spot | None:
        """The landing of a frame, its mask shrunk as the anchor is shrunk."""
        landing = _landing(self._packet, key)
        if landing is not None and self._shrinks:
            landing = _shrunk(landing, even_size(*self._packet.size_px), self.size_px)
        if landing is None:
            return None
        rect, luma = landing.rect, self._beside_mark(landing.luma_mask, landing.rect)
        width, height = even_size(*self._packet.size_px)
        sx, sy = self.size_px[0] / width, self.size_px[1] / height
        x1, y1, x2, y2 = self._packet.coords[key]
        return _Spot(rect, luma, (x1 * sx, y1 * sy, x2 * sx, y2 * sy))

    def _enlivened(self, key: int, lids: list[_Lid]) -> U8:
        planes = self._plain(key).copy()
        _lay(split_planes(planes), lids)
        return _published(planes)

    def _lids(self, key: int, overlays: tuple[Overlay, ...], spot: _Spot, patch_px: int) -> list[_Lid]:
        """Those of the overlays that lie on the canvas; made once for the same ones."""
        if not overlays:
            return []

        def lay() -> tuple[list[_Lid], tuple[Overlay, ...]]:
            found = (self._lid(overlay, spot, patch_px) for overlay in overlays)
            return [lid for lid in found if lid is not None], overlays

        return self._laid.get((key, patch_px, *(id(overlay) for overlay in overlays)), lay)[0]

    def _lid(self, overlay: Overlay, spot: _Spot, patch_px: int) -> _Lid | None:
        """Rectangle, planes and masks of an overlay on the canvas."""
        bx1, by1, bx2, by2 = spot.face_box
        sx, sy = (bx2 - bx1) / patch_px, (by2 - by1) / patch_px
        x1, y1, x2, y2 = overlay.rect
        box = (bx1 + x1 * sx, by1 + y1 * sy, bx1 + x2 * sx, by1 + y2 * sy)
        outer = (int(np.floor(box[0])), int(np.floor(box[1])), int(np.ceil(box[2])), int(np.ceil(box[3])))
        rect = intersect(even_outwards(outer), (0, 0, *self.size_px))
        if rect is None:
            return None
        luma = self._beside_mark(_warp(mask_to_u8(overlay.mask), box, rect, cv2.BORDER_CONSTANT), rect)
        chroma = shrink(luma, (luma.shape[1] // 2, luma.shape[0] // 2))
        pixels = _warp(overlay.pixels, box, rect, cv2.BORDER_REPLICATE)
        return rect, rgb_to_planes(pixels), Planes(luma, chroma, chroma)


def _lay(target: Planes, lids: Iterable[tuple[Box, Planes, Planes]]) -> None:
    """Overlays over planes, in place."""
    for rect, lid, masks in lids:
        for plane, part, source, mask in zip(target, parts_of(rect), lid, masks, strict=True):
            plane[part] = lerp_u8(source, plane[part], mask)


class _Kept(Generic[T]):
    """What was made lately, by frame; the oldest makes room: frames come round in turn, none oftener than another."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._items: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key in (items := self._items):
            try:
                return items[key]
            except KeyError:
                pass  # another thread has just made room
        # Two threads may make the same; that is cheaper than one waiting for the other's every frame.
        item = make()
        with self._lock:
            items[key] = item
            while len(items) > self._limit:
                del items[next(iter(items))]
        return item


def _weigh(mask: U8, anchor: U8, scale: float, offset: float) -> tuple[U16, U16]:
    """Weight and base: (x * weight + base) >> 8 is x * scale + offset over the anchor, as far as the mask says."""
    alpha = np.arange(256) * (256.0 / 255.0)
    weight = np.rint(alpha * scale)
    # Half of 256 rounds; and what rounding took from the weight is made good for a medium x.
    front = np.rint(alpha * offset + 128.0 + 128.0 * (alpha * scale - weight))
    back = np.multiply(anchor, 255 - mask, dtype=np.uint16)
    rounded = back + 128
    rounded += rounded >> 8
    back += rounded >> 8  # times 256 / 255
    back += np.asarray(cv2.LUT(mask, front.astype(np.uint16)), dtype=np.uint16)
    return np.asarray(cv2.LUT(mask, weight.astype(np.uint16)), dtype=np.uint16), back


def _distinct(packet: AvatarPacket) -> list[int]:
    """Which distinct frame each cycle frame is."""
    if packet.anchors is not None:
        return [int(key) for key in packet.anchors.order]
    return [0] if packet.frames.strides[0] == 0 else list(range(packet.cycle_frames))


def _landing(packet: AvatarPacket, key: int) -> Landing | None:
    if packet.anchors is None:
        return find_landing(packet.masks[key], packet.mask_coords[key], packet.coords[key], packet.size_px)
    x1, y1, x2, y2 = packet.anchors.rects[key].tolist()
    return Landing((x1, y1, x2, y2), packet.anchors.luma_masks[key]) if x1 < x2 else None


def _shrunk(landing: Landing, size_px: tuple[int, int], smaller_px: tuple[int, int]) -> Landing | None:
    x1, y1, x2, y2 = landing.rect
    whole = np.zeros((size_px[1], size_px[0]), dtype=np.uint8)
    whole[y1:y2, x1:x2] = landing.luma_mask
    whole = shrink(whole, smaller_px)
    shows = bounding_box(whole)
    if shows is None:
        return None
    x1, y1, x2, y2 = even_outwards(shows)
    return Landing((x1, y1, x2, y2), np.ascontiguousarray(whole[y1:y2, x1:x2]))


def _published(planes: U8) -> U8:
    """The read-only view that callers get; the memory itself stays writable for its next use."""
    view = planes.view()
    view.flags.writeable = False
    return view


def _warp(pixels: U8, box: FloatBox, rect: Box, border: int) -> U8:
    """Resample pixels, which fill `box`, over the whole pixels of `rect`."""
    fx, fy = pixels.shape[1] / (box[2] - box[0]), pixels.shape[0] / (box[3] - box[1])
    inverse = np.array([[fx, 0.0, (rect[0] + 0.5 - box[0]) * fx - 0.5], [0.0, fy, (rect[1] + 0.5 - box[1]) * fy - 0.5]])
    size = (rect[2] - rect[0], rect[3] - rect[1])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(pixels, inverse, size, flags=flags, borderMode=border), dtype=np.uint8)
