"""A packet at the size that is streamed: cached I420 anchor frames, and face patches laid into copies of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box, bounding_box, intersect, lerp_u8, mask_to_u8
from avatars.colour import Planes, rgb_to_i420, rgb_to_planes, shrink, shrink_i420, split_planes
from avatars.landing import Landing, even_outwards, even_size, find_landing
from avatars.packet import AvatarPacket

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

ANCHOR_CACHE_BYTES = 192 << 20
"""Finished anchor frames kept per canvas; a clip that needs more converts them again as they come round."""


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


@dataclass(frozen=True, slots=True, eq=False)
class _Spot:
    """Where the patch of one frame shows on the canvas."""

    rect: Box
    """Canvas pixels, edges even."""
    luma_mask: U8
    """(h, w)"""
    chroma_mask: U8
    """(h // 2, w // 2)"""
    face_box: tuple[float, float, float, float]
    """The packet's face box in canvas pixels."""


class Canvas:
    """Read-only I420 frames of one packet, and blending into copies of them. Threads and sessions may share it."""

    def __init__(self, packet: AvatarPacket, max_side_px: int) -> None:
        """Fit the packet inside `max_side_px`: never enlarged, sides even (an odd last row or column is cut)."""
        self._packet = packet
        width, height = packet.size_px
        shrink = min(1.0, max_side_px / max(width, height))
        self._shrinks = shrink < 1.0
        self.size_px = even_size(max(2, round(width * shrink)), max(2, round(height * shrink)))
        """(width, height), both even."""
        even_width, even_height = even_size(width, height)
        self._scale = (self.size_px[0] / even_width, self.size_px[1] / even_height)
        self._order = _distinct(packet)
        self._lock = threading.Lock()
        self._anchors: OrderedDict[int, U8] = OrderedDict()
        self._anchor_limit = max(1, ANCHOR_CACHE_BYTES // (self.size_px[0] * self.size_px[1] * 3 // 2))
        self._spots: dict[int, _Spot | None] = {}

    @property
    def cycle_frames(self) -> int:
        return self._packet.cycle_frames

    def anchor(self, index: int) -> U8:
        """The anchor frame of a grid index: (H * 3 // 2, W) u8 I420, read-only, shared."""
        key = self._order[index % len(self._order)]
        ready = self._packet.anchors
        if ready is not None and not self._shrinks:
            whole: U8 = ready.planes[key]
            return whole
        with self._lock:
            planes = self._anchors.get(key)
            if planes is not None:
                self._anchors.move_to_end(key)
                return planes
        planes = self._convert(key)
        with self._lock:
            self._anchors[key] = planes
            while len(self._anchors) > self._anchor_limit:
                self._anchors.popitem(last=False)
        return planes

    def blend(self, index: int, pixels: U8, overlays: Iterable[Overlay] = ()) -> U8:
        """A new read-only frame: the anchor with the patch in its face box. No byte outside the packet's crop changes.

        pixels (p, p, 3) u8 RGB: the face box stretched to a square; overlays lie over the patch.
        """
        anchor = self.anchor(index)
        spot = self._spot(index)
        if spot is None:
            return anchor
        planes = anchor.copy()
        target = split_planes(planes)
        _lay(target, _place(pixels, spot), spot.rect, spot.luma_mask, spot.chroma_mask)
        for overlay in overlays:
            self._lay_overlay(target, overlay, spot, pixels.shape[0])
        planes.flags.writeable = False
        return planes

    def mix(self, a: U8, b: U8, weight: float, index: int) -> U8:
        """A new read-only frame: `a` with `weight` (0..1) of `b`, inside the mouth's rectangle only; elsewhere `a`."""
        planes = a.copy()
        spot = self._spot(index)
        if spot is not None:
            for target, other, part in zip(split_planes(planes), split_planes(b), _parts(spot.rect), strict=True):
                target[part] = cv2.addWeighted(target[part], 1.0 - weight, other[part], weight, 0.0)
        planes.flags.writeable = False
        return planes

    def _convert(self, key: int) -> U8:
        ready = self._packet.anchors
        if ready is not None:
            planes = shrink_i420(ready.planes[key], self.size_px)
        else:
            width, height = even_size(*self._packet.size_px)
            rgb: U8 = np.asarray(cv2.merge(list(self._packet.frames[key])), dtype=np.uint8)[:height, :width]
            planes = rgb_to_i420(shrink(rgb, self.size_px) if self._shrinks else rgb)
        planes.flags.writeable = False
        return planes

    def _spot(self, index: int) -> _Spot | None:
        key = self._order[index % len(self._order)]
        if key not in self._spots:
            self._spots[key] = self._find_spot(key)
        return self._spots[key]

    def _find_spot(self, key: int) -> _Spot | None:
        """The landing of a frame, its mask shrunk as the anchor is shrunk."""
        packet = self._packet
        box = packet.coords[key]
        if packet.anchors is None:
            landing = find_landing(packet.masks[key], packet.mask_coords[key], box, packet.size_px)
        else:
            x1, y1, x2, y2 = packet.anchors.rects[key].tolist()
            landing = Landing((x1, y1, x2, y2), packet.anchors.luma_masks[key]) if x1 < x2 else None
        if landing is None:
            return None
        rect, luma = landing
        if self._shrinks:
            width, height = even_size(*packet.size_px)
            whole = np.zeros((height, width), dtype=np.uint8)
            whole[rect[1] : rect[3], rect[0] : rect[2]] = luma
            whole = shrink(whole, self.size_px)
            shows = bounding_box(whole)
            if shows is None:
                return None
            rect = even_outwards(shows)
            luma = np.ascontiguousarray(whole[rect[1] : rect[3], rect[0] : rect[2]])
        sx, sy = self._scale
        return _Spot(rect, luma, _half(luma), (box[0] * sx, box[1] * sy, box[2] * sx, box[3] * sy))

    def _lay_overlay(self, target: Planes, overlay: Overlay, spot: _Spot, patch_px: int) -> None:
        bx1, by1, bx2, by2 = spot.face_box
        sx, sy = (bx2 - bx1) / patch_px, (by2 - by1) / patch_px
        ox1, oy1, ox2, oy2 = overlay.rect
        box = (bx1 + ox1 * sx, by1 + oy1 * sy, bx1 + ox2 * sx, by1 + oy2 * sy)
        outer = (int(np.floor(box[0])), int(np.floor(box[1])), int(np.ceil(box[2])), int(np.ceil(box[3])))
        inside = intersect(even_outwards(outer), (0, 0, *self.size_px))
        if inside is None:
            return
        luma = _stretch(mask_to_u8(overlay.mask), box, inside, cv2.BORDER_CONSTANT)
        _lay(target, _stretch(overlay.pixels, box, inside, cv2.BORDER_REPLICATE), inside, luma, _half(luma))


def _distinct(packet: AvatarPacket) -> list[int]:
    """Which distinct frame each cycle frame is."""
    if packet.anchors is not None:
        return [int(key) for key in packet.anchors.order]
    return [0] if packet.frames.strides[0] == 0 else list(range(packet.cycle_frames))


def _half(mask: U8) -> U8:
    return shrink(mask, (mask.shape[1] // 2, mask.shape[0] // 2))


def _place(pixels: U8, spot: _Spot) -> U8:
    """The part of the patch that shows: (h, w, 3) u8 RGB over the spot's rectangle."""
    bx1, by1, bx2, by2 = spot.face_box
    x1, y1, x2, y2 = spot.rect
    width, height = round(bx2 - bx1), round(by2 - by1)
    left, top = x1 - round(bx1), y1 - round(by1)
    whole_pixels = (float(round(bx1)), float(round(by1)), float(round(bx2)), float(round(by2))) == spot.face_box
    if whole_pixels and left >= 0 and top >= 0 and x2 - x1 + left <= width and y2 - y1 + top <= height:
        # At full size the very resize of the reference blend.
        stretched = np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
        return np.ascontiguousarray(stretched[top : top + y2 - y1, left : left + x2 - x1])
    return _stretch(pixels, spot.face_box, spot.rect, cv2.BORDER_REPLICATE)


def _stretch(pixels: U8, box: tuple[float, float, float, float], rect: Box, border: int) -> U8:
    """Resample pixels, which fill `box`, over the whole pixels of `rect`: a still mouth stays where it is."""
    fx, fy = pixels.shape[1] / (box[2] - box[0]), pixels.shape[0] / (box[3] - box[1])
    inverse: F64 = np.array(
        [[fx, 0.0, (rect[0] + 0.5 - box[0]) * fx - 0.5], [0.0, fy, (rect[1] + 0.5 - box[1]) * fy - 0.5]]
    )
    size = (rect[2] - rect[0], rect[3] - rect[1])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(pixels, inverse, size, flags=flags, borderMode=border), dtype=np.uint8)


def _lay(target: Planes, rgb: U8, rect: Box, luma_mask: U8, chroma_mask: U8) -> None:
    """Blend an RGB picture into planes over an even rectangle."""
    masks = (luma_mask, chroma_mask, chroma_mask)
    for plane, part, front, mask in zip(target, _parts(rect), rgb_to_planes(rgb), masks, strict=True):
        plane[part] = lerp_u8(front, plane[part], mask)


def _parts(rect: Box) -> tuple[tuple[slice, slice], ...]:
    """An even rectangle in each of the three planes."""
    x1, y1, x2, y2 = rect
    half = (slice(y1 // 2, y2 // 2), slice(x1 // 2, x2 // 2))
    return (slice(y1, y2), slice(x1, x2)), half, half
