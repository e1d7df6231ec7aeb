"""The board: the roundtable's picture in I420. Only what changed is drawn again; what is given out stays as it is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from avatars.colour import parts_of, split_planes
from streamer.graphics.badge import Badge
from streamer.graphics.lettering import Lettering
from streamer.graphics.overlay import Overlay, Rgb, lay, lower_third, to_yuv
from streamer.graphics.planes import stretched
from streamer.media import U8
from streamer.roundtable.arrangement import Place

LEAST_PX = 16
KEPT_TILES = 64
"""Finished tiles of anchor frames kept."""
FRAME_PX = 4
"""Thickness of the frame around who speaks."""
CAPTION_FROM_LEFT, CAPTION_FROM_BELOW = 0.0, 0.07


@dataclass(frozen=True, slots=True)
class Sitter:
    """How a seat looks: its words, and where the face is in its picture."""

    name: str = ""
    role: str = ""
    accent: Rgb = (215, 38, 61)
    face: tuple[float, float] = (0.5, 0.45)
    """Middle of the face, shares of width and height."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the whole looks."""

    size_px: tuple[int, int] = (1280, 720)
    background: Rgb = (16, 20, 28)
    captions: bool = True
    badge: str | None = None
    """Words in the upper right corner, such as "AI"."""
    lettering: Lettering = field(default_factory=Lettering)


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """What a seat's tile shows now. `source` is kept, so that its memory is not given to another picture."""

    place: Place
    source: U8
    lit: bool


class Board:
    """Draws tiles of seats; `planes` after `draw` is the picture, shared and read-only."""

    def __init__(self, look: Look, sitters: dict[str, Sitter]) -> None:
        width, height = look.size_px
        self._look = look
        self._sitters = sitters
        self._planes: U8 = np.empty((height * 3 // 2, width), np.uint8)
        self._parts = split_planes(self._planes)
        self._drawn: dict[str, _Drawn] = {}
        self._kept: OrderedDict[tuple[str, int, Place], tuple[U8, tuple[U8, U8, U8]]] = OrderedDict()
        self._given: U8 | None = None
        self._badge = Badge(look.badge, look.lettering) if look.badge else None
        self.tiles_drawn = 0

    def draw(
        self,
        places: dict[str, Place],
        pictures: dict[str, U8],
        lit: str | None = None,
        resting: Collection[str] = (),
    ) -> U8:
        """(H * 3 // 2, W) u8 I420, read-only. `pictures`: planes of each seat; `lit`: who gets the frame;
        `resting`: seats that show an anchor frame, which comes again.
        """
        moved = self._given is None or {s: d.place for s, d in self._drawn.items()} != places
        if moved:
            self._clear()
        changed = moved
        for seat, place in places.items():
            source = pictures.get(seat)
            if source is None:
                continue
            before = self._drawn.get(seat)
            same = before is not None and _address(before.source) == _address(source) and before.lit == (seat == lit)
            if same:
                continue
            self._tile(seat, place, self._scaled(seat, place, source, keep=seat in resting), lit=seat == lit)
            self._drawn[seat] = _Drawn(place, source, seat == lit)
            changed = True
        if self._given is None or changed:
            given = self._planes.copy()
            if self._badge is not None:
                self._badge.lay(split_planes(given))
            given.flags.writeable = False
            self._given = given
        return self._given

    def _clear(self) -> None:
        self._drawn.clear()
        for plane, value in zip(self._parts, to_yuv(self._look.background), strict=True):
            plane[:] = value

    def _tile(self, seat: str, place: Place, tile: tuple[U8, U8, U8] | None, *, lit: bool) -> None:
        x1, y1, x2, y2 = place.rect
        if tile is None:
            return
        self.tiles_drawn += 1
        for plane, part, area in zip(self._parts, tile, parts_of(place.rect), strict=True):
            plane[area] = part
        caption = self._caption(seat, (x2 - x1, y2 - y1))
        if caption is not None:
            self._lay_inside(caption, (x1, y1, x2, y2))
        if lit:
            self._frame((x1, y1, x2, y2), self._sitters[seat].accent)

    def _scaled(self, seat: str, place: Place, source: U8, *, keep: bool) -> tuple[U8, U8, U8] | None:
        """The seat's picture, cut around the face to the shape of its tile; None where the tile is too small."""
        key = (seat, _address(source), place)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[1]
        x1, y1, x2, y2 = place.rect
        if min(x2 - x1, y2 - y1) < LEAST_PX:
            return None
        whole = split_planes(source)
        rect = cut((whole[0].shape[1], whole[0].shape[0]), (x2 - x1, y2 - y1), self._sitters[seat].face)
        y, u, v = (
            stretched(
                part[rect[1] // step : rect[3] // step, rect[0] // step : rect[2] // step],
                ((x2 - x1) // step, (y2 - y1) // step),
            )
            for part, step in zip(whole, (1, 2, 2), strict=True)
        )
        if keep:
            self._kept[key] = (source, (y, u, v))  # with its source: another picture must not get the same memory
            if len(self._kept) > KEPT_TILES:
                self._kept.popitem(last=False)
        return y, u, v

    def _caption(self, seat: str, tile_px: tuple[int, int]) -> Overlay | None:
        sitter = self._sitters[seat]
        if not self._look.captions:
            return None
        return lower_third(sitter.name, sitter.role, tile_px, sitter.accent, self._look.lettering)

    def _lay_inside(self, overlay: Overlay, rect: tuple[int, int, int, int]) -> None:
        x1, y1, x2, y2 = rect
        inside = [plane[area] for plane, area in zip(self._parts, parts_of(rect), strict=True)]
        left = int((x2 - x1) * CAPTION_FROM_LEFT) // 2 * 2
        top = (y2 - y1 - overlay.size_px[1] - int((y2 - y1) * CAPTION_FROM_BELOW)) // 2 * 2
        if top > 0:
            lay(overlay, (inside[0], inside[1], inside[2]), left, top)

    def _frame(self, rect: tuple[int, int, int, int], colour: Rgb) -> None:
        areas = parts_of(rect)
        for plane, area, step, value in zip(self._parts, areas, (1, 2, 2), to_yuv(colour), strict=True):
            inside, thick = plane[area], FRAME_PX // step
            inside[:thick], inside[-thick:] = value, value
            inside[:, :thick], inside[:, -thick:] = value, value


def cut(source_px: tuple[int, int], tile_px: tuple[int, int], face: tuple[float, float]) -> tuple[int, int, int, int]:
    """The largest part of a picture that has a tile's shape, the face in its middle as far as it goes; edges even."""
    width, height = source_px
    scale = min(width / tile_px[0], height / tile_px[1])
    cut_width = min(width, max(2, int(tile_px[0] * scale) // 2 * 2))
    cut_height = min(height, max(2, int(tile_px[1] * scale) // 2 * 2))
    x = int(np.clip(face[0] * width - cut_width / 2, 0, width - cut_width)) // 2 * 2
    y = int(np.clip(face[1] * height - cut_height / 2, 0, height - cut_height)) // 2 * 2
    return x, y, x + cut_width, y + cut_height


def _address(planes: U8) -> int:
    address: int = planes.__array_interface__["data"][0]
    return address
