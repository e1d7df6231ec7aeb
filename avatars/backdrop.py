"""What a mouth is laid into: which anchor frame each grid index shows, its planes, and where its face lies there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box, bounding_box, intersect
from avatars.colour import Planes, rgb_to_i420, shrink, shrink_i420, split_planes
from avatars.idle import IdleFrames
from avatars.kept import Kept
from avatars.landing import Landing, even_outwards, even_size, find_landing, fit_size
from avatars.packet import AvatarPacket
from avatars.stretch import FloatBox, Move, scaled
from avatars.walk import Walk

U8 = npt.NDArray[np.uint8]

ANCHOR_CACHE_BYTES = 192 << 20
"""Finished anchor frames kept per canvas; a clip that needs more converts them again as they come round."""
SPOT_CACHE_BYTES = 32 << 20
"""Masks kept per canvas; of a longer clip, they are made as needed."""


class Mark(Protocol):
    """Something that lies over every frame, mouth and all, such as a badge."""

    def rect(self, size_px: tuple[int, int]) -> Box:
        """x1, y1, x2, y2 in a frame of (width, height), pixels, even."""
        ...

    def lay(self, planes: Planes) -> None:
        """Over the planes of a frame, in place, inside `rect`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """Where the patch of one frame shows on the canvas, and what of the anchor shows through it."""

    rect: Box
    """Canvas pixels, edges even."""
    luma_mask: U8
    """Over the rectangle."""
    face_box: FloatBox
    """The packet's face box in canvas pixels."""
    move: Move | None = None
    """Where the frame has the face elsewhere than the packet: (2, 3), canvas pixels, edges at whole numbers."""


class Backdrop:
    """The frames of one packet at one size, read-only. A portrait with idle frames walks through them."""

    def __init__(self, packet: AvatarPacket, max_side_px: int, mark: Mark | None = None) -> None:
        self.size_px = fit_size(packet.size_px, max_side_px)
        """(width, height), both even."""
        self._packet = packet
        self._mark = mark
        self._order = _distinct(packet)
        self._idle = _usable(packet, self._order, self.size_px)
        self._walk: Walk | None = None
        self._ready: tuple[U8, ...] | None = None if packet.anchors is None else tuple(packet.anchors.planes)
        if self._idle is not None:
            self._walk = Walk(packet.avatar_id, len(self._idle.planes), self._idle.rest)
            self._ready = self._idle.planes
        stored = even_size(*packet.size_px) if self._idle is None else self._idle.size_px
        self._shrinks = self.size_px != stored
        self._anchors: Kept[U8] = Kept(ANCHOR_CACHE_BYTES, lambda anchor: anchor.nbytes)
        self._spots: Kept[Spot | None] = Kept(SPOT_CACHE_BYTES, lambda spot: spot.luma_mask.nbytes if spot else 1)

    @property
    def keys(self) -> frozenset[int]:
        """All that `key` gives."""
        return frozenset(self._order) if self._idle is None else frozenset(range(len(self._idle.planes)))

    def key(self, index: int) -> int:
        """Which of its distinct frames a grid index shows."""
        return self._order[index % len(self._order)] if self._walk is None else self._walk.at(index)

    def plain(self, key: int) -> U8:
        """(H * 3 // 2, W) u8 I420 of a distinct frame, read-only, shared."""
        if self._ready is not None and not self._shrinks and self._mark is None:
            return self._ready[key]
        return self._anchors.get(key, lambda: self._convert(key))

    def spot(self, key: int) -> Spot | None:
        """Where a patch shows in a distinct frame; None where none does."""
        return self._spots.get(key, lambda: self._find_spot(key))

    def beside_mark(self, mask: U8, rect: Box) -> U8:
        """A mask of `rect` that lets nothing show where the mark lies."""
        taken = None if self._mark is None else intersect(rect, self._mark.rect(self.size_px))
        if taken is None:
            return mask
        mask = mask.copy()
        mask[taken[1] - rect[1] : taken[3] - rect[1], taken[0] - rect[0] : taken[2] - rect[0]] = 0
        return mask

    def _convert(self, key: int) -> U8:
        if self._ready is not None:
            planes = shrink_i420(self._ready[key], self.size_px) if self._shrinks else self._ready[key].copy()
        else:
            width, height = even_size(*self._packet.size_px)
            rgb: U8 = np.asarray(cv2.merge(list(self._packet.frames[key])), dtype=np.uint8)[:height, :width]
            planes = rgb_to_i420(shrink(rgb, self.size_px) if self._shrinks else rgb)
        if self._mark is not None:
            self._mark.lay(split_planes(planes))
        return published(planes)

    def _find_spot(self, key: int) -> Spot | None:
        """The landing of a frame, its mask shrunk as the anchor is shrunk."""
        own = key if self._idle is None else self._order[0]
        whole = even_size(*self._packet.size_px)
        landing = _landing(self._packet, own)
        if landing is not None and self.size_px != whole:
            landing = _shrunk(landing, whole, self.size_px)
        if landing is None:
            return None
        sx, sy = self.size_px[0] / whole[0], self.size_px[1] / whole[1]
        x1, y1, x2, y2 = self._packet.coords[own]
        face_box = (x1 * sx, y1 * sy, x2 * sx, y2 * sy)
        move = None
        if self._idle is not None:
            move = scaled(self._idle.moves[key].astype(np.float64), np.divide(self.size_px, self._idle.size_px))
            landing = _moved(landing, move, self.size_px)
        return Spot(landing.rect, self.beside_mark(landing.luma_mask, landing.rect), face_box, move)


def published(planes: U8) -> U8:
    """The read-only view that callers get; the memory itself stays writable for its next use."""
    view = planes.view()
    view.flags.writeable = False
    return view


def _usable(packet: AvatarPacket, order: list[int], size_px: tuple[int, int]) -> IdleFrames | None:
    """The idle frames of a portrait, where they are large enough."""
    idle = packet.idle
    large_enough = idle is not None and idle.size_px[0] >= size_px[0] and idle.size_px[1] >= size_px[1]
    return idle if large_enough and len(set(order)) == 1 else None


def _moved(landing: Landing, move: Move, size_px: tuple[int, int]) -> Landing:
    """A landing that follows the face by whole chroma pixels: its mask is too soft for less to be seen."""
    x1, y1, x2, y2 = landing.rect
    middle = np.array([(x1 + x2) / 2, (y1 + y2) / 2])
    dx, dy = (2 * np.rint((move[:, :2] @ middle + move[:, 2] - middle) / 2).astype(int)).tolist()
    rect = intersect((x1 + dx, y1 + dy, x2 + dx, y2 + dy), (0, 0, *size_px))
    if rect is None:
        return landing
    left, top, right, bottom = rect
    return Landing(rect, landing.luma_mask[top - dy - y1 : bottom - dy - y1, left - dx - x1 : right - dx - x1])


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
