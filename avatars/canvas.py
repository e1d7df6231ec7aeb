"""A packet at the size that is streamed: cached I420 anchor frames, and face patches laid into copies of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box, bounding_box, intersect, lerp_u8, mask_to_u8
from avatars.colour import Planes, parts_of, rgb_to_i420, rgb_to_planes, shrink, shrink_i420, split_planes
from avatars.inlay import Inlay, Layer, make_inlay
from avatars.kept import Kept, KeptLately
from avatars.landing import Landing, even_outwards, even_size, find_landing
from avatars.packet import AvatarPacket
from avatars.sheets import Sheets
from avatars.stretch import FloatBox

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

ANCHOR_CACHE_BYTES = 192 << 20
"""Finished anchor frames kept per canvas; a clip that needs more converts them again as they come round."""
SPOT_CACHE_BYTES = 32 << 20
INLAY_CACHE_BYTES = 96 << 20
"""Masks, and the tables for laying patches into frames, kept per canvas; of a longer clip, they are made as needed."""
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
        self._anchors: Kept[U8] = Kept(ANCHOR_CACHE_BYTES, lambda anchor: anchor.nbytes)
        self._spots: Kept[_Spot | None] = Kept(SPOT_CACHE_BYTES, lambda spot: spot.luma_mask.nbytes if spot else 1)
        self._inlays: Kept[Inlay] = Kept(INLAY_CACHE_BYTES, lambda inlay: inlay.nbytes)
        self._layer = Layer()
        self._living: KeptLately[tuple[U8, tuple[Overlay, ...]]] = KeptLately(LIVING_CACHE_FRAMES)
        self._laid: KeptLately[tuple[list[_Lid], tuple[Overlay, ...]]] = KeptLately(LIVING_CACHE_FRAMES)
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
        spot = self._spot(index)
        if spot is None:
            return self._plain(key)
        lids = self._lids(key, tuple(overlays), spot, pixels.shape[0])
        planes = self._plain(key).copy() if self._sheets is None else self._sheets.take(tuple(lid[0] for lid in lids))
        self._layer.lay(pixels, planes, self._inlay(key, spot, pixels.shape[0]))
        if lids:
            _lay(split_planes(planes), lids)
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

    def _inlay(self, key: int, spot: _Spot, patch_px: int) -> Inlay:
        return self._inlays.get(
            (key, patch_px),
            lambda: make_inlay(self._plain(key), spot.rect, spot.luma_mask, spot.face_box, patch_px),
        )

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
