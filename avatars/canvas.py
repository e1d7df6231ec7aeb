"""A packet at the size that is streamed: cached I420 anchor frames, and face patches laid into copies of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol, runtime_checkable

import cv2
import numpy as np
import numpy.typing as npt

from avatars.backdrop import Backdrop, Mark, Spot, published
from avatars.blend import Box, intersect, lerp_u8, mask_to_u8
from avatars.colour import Planes, parts_of, rgb_to_planes, shrink, split_planes
from avatars.idle import MAX_FRAMES
from avatars.inlay import Inlay, Layer, make_inlay
from avatars.kept import Kept, KeptLately
from avatars.landing import even_outwards
from avatars.packet import AvatarPacket
from avatars.sheets import Sheets
from avatars.stretch import Move, box_move, plan_moved, plan_planes, reading

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

INLAY_CACHE_BYTES = 96 << 20
"""Tables for laying patches into frames, kept per canvas; of a longer clip, they are made as needed."""
LIVING_CACHE_FRAMES = 32
"""Anchor frames with lids or gaze laid over them, kept per canvas."""
LAID_CACHE_PIECES = 1024
"""Lids and gaze as they lie over an anchor frame, some 10 kB each."""
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


class Canvas:
    """Read-only I420 frames of one packet, and blending into copies of them. Threads and sessions may share it."""

    def __init__(
        self, packet: AvatarPacket, max_side_px: int, life: Living | None = None, mark: Mark | None = None
    ) -> None:
        """Fit the packet inside `max_side_px`: never enlarged, sides even (an odd last row or column is cut).

        `mark` is laid into the anchor frames once; patches and overlays leave its place alone.
        """
        self.cycle_frames = packet.cycle_frames
        self._life = life
        self._backdrop = Backdrop(packet, max_side_px, mark)
        self.size_px = self._backdrop.size_px
        """(width, height), both even."""
        self._inlays: Kept[Inlay] = Kept(INLAY_CACHE_BYTES, lambda inlay: inlay.nbytes)
        self._layer = Layer()
        self._living: KeptLately[tuple[U8, tuple[Overlay, ...]]] = KeptLately(LIVING_CACHE_FRAMES)
        self._laid: KeptLately[tuple[list[_Lid], tuple[Overlay, ...]]] = KeptLately(LAID_CACHE_PIECES)
        keys = self._backdrop.keys
        self._sheets = Sheets(self._backdrop.plain(min(keys))) if len(keys) == 1 else None

    def prepare(self, ahead_frames: int) -> None:
        """Make now what idle pictures of so many frames to come are made of; what is left then takes a crop each.

        A clip's frames are left to their turn.
        """
        keys = self._backdrop.keys
        for key in keys if len(keys) <= MAX_FRAMES else ():
            self._backdrop.plain(key)
            self._backdrop.spot(key)
        if self._life is not None:
            for index in range(ahead_frames):
                self._life.overlays(index)

    def anchor(self, index: int) -> U8:
        """The anchor frame of a grid index, its eyes alive: (H * 3 // 2, W) u8 I420, read-only, shared."""
        key = self._backdrop.key(index)
        overlays = () if self._life is None else self._life.overlays(index)
        spot = self._backdrop.spot(key) if overlays else None
        if self._life is None or spot is None:
            return self._backdrop.plain(key)
        named = (key, *(id(overlay) for overlay in overlays))  # kept beside the frame, so that no other takes its name
        lids = partial(self._lids, key, overlays, spot, self._life.patch_px)
        return self._living.get(named, lambda: (self._enlivened(key, lids()), overlays))[0]

    def blend(self, index: int, pixels: U8, overlays: Iterable[Overlay] = ()) -> U8:
        """A new read-only frame: the anchor with the patch in its face box. No byte outside the packet's crop changes.

        pixels (p, p, 3) u8 RGB: the face box stretched to a square; overlays lie over the patch.
        """
        key = self._backdrop.key(index)
        spot = self._backdrop.spot(key)
        if spot is None:
            return self._backdrop.plain(key)
        lids = self._lids(key, tuple(overlays), spot, pixels.shape[0])
        marks = tuple(lid[0] for lid in lids)
        planes = self._backdrop.plain(key).copy() if self._sheets is None else self._sheets.take(marks)
        self._layer.lay(pixels, planes, self._inlay(key, spot, pixels.shape[0]))
        if lids:
            _lay(split_planes(planes), lids)
        return published(planes)

    def mix(self, a: U8, b: U8, weight: float, index: int) -> U8:
        """A new read-only frame: `a` with `weight` (0..1) of `b`, inside the mouth's rectangle only; elsewhere `a`."""
        planes = a.copy()
        spot = self._backdrop.spot(self._backdrop.key(index))
        if spot is not None:
            for target, other, part in zip(split_planes(planes), split_planes(b), parts_of(spot.rect), strict=True):
                target[part] = cv2.addWeighted(target[part], 1.0 - weight, other[part], weight, 0.0)
        return published(planes)

    def _inlay(self, key: int, spot: Spot, patch_px: int) -> Inlay:
        return self._inlays.get((key, patch_px), lambda: self._make_inlay(key, spot, patch_px))

    def _make_inlay(self, key: int, spot: Spot, patch_px: int) -> Inlay:
        plan = (
            plan_planes(spot.face_box, spot.rect, patch_px)
            if spot.move is None
            else plan_moved(spot.face_box, spot.rect, patch_px, spot.move)
        )
        return make_inlay(self._backdrop.plain(key), spot.rect, spot.luma_mask, plan)

    def _enlivened(self, key: int, lids: list[_Lid]) -> U8:
        planes = self._backdrop.plain(key).copy()
        _lay(split_planes(planes), lids)
        return published(planes)

    def _lids(self, key: int, overlays: tuple[Overlay, ...], spot: Spot, patch_px: int) -> list[_Lid]:
        """Those of the overlays that lie on the canvas; made once for the same ones."""
        if not overlays:
            return []

        def lay() -> tuple[list[_Lid], tuple[Overlay, ...]]:
            found = (self._lid(overlay, spot, patch_px) for overlay in overlays)
            return [lid for lid in found if lid is not None], overlays

        return self._laid.get((key, patch_px, *(id(overlay) for overlay in overlays)), lay)[0]

    def _lid(self, overlay: Overlay, spot: Spot, patch_px: int) -> _Lid | None:
        """Rectangle, planes and masks of an overlay on the canvas."""
        bx1, by1, bx2, by2 = spot.face_box
        sx, sy = (bx2 - bx1) / patch_px, (by2 - by1) / patch_px
        x1, y1, x2, y2 = overlay.rect
        place = box_move((bx1 + x1 * sx, by1 + y1 * sy, bx1 + x2 * sx, by1 + y2 * sy), (x2 - x1, y2 - y1), spot.move)
        corners = np.array([(0, 0), (x2 - x1, 0), (0, y2 - y1), (x2 - x1, y2 - y1)]) @ place[:, :2].T + place[:, 2]
        low, high = np.floor(corners.min(0)).astype(int).tolist(), np.ceil(corners.max(0)).astype(int).tolist()
        rect = intersect(even_outwards((low[0], low[1], high[0], high[1])), (0, 0, *self.size_px))
        if rect is None:
            return None
        luma = self._backdrop.beside_mark(_warp(mask_to_u8(overlay.mask), place, rect, cv2.BORDER_CONSTANT), rect)
        chroma = shrink(luma, (luma.shape[1] // 2, luma.shape[0] // 2))
        pixels = _warp(overlay.pixels, place, rect, cv2.BORDER_REPLICATE)
        return rect, rgb_to_planes(pixels), Planes(luma, chroma, chroma)


def _lay(target: Planes, lids: Iterable[_Lid]) -> None:
    """Overlays over planes, in place."""
    for rect, lid, masks in lids:
        for plane, part, source, mask in zip(target, parts_of(rect), lid, masks, strict=True):
            plane[part] = lerp_u8(source, plane[part], mask)


def _warp(pixels: U8, place: Move, rect: Box, border: int) -> U8:
    """Pixels that lie on the canvas by `place`, resampled over the whole pixels of `rect`."""
    size = (rect[2] - rect[0], rect[3] - rect[1])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    warped = cv2.warpAffine(pixels, reading(place, rect), size, flags=flags, borderMode=border)
    return np.asarray(warped, dtype=np.uint8)
