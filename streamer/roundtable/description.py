"""What a roundtable is, in words: TOML or JSON to checked values. Trusts nothing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streamer.config import check_badge
from streamer.errors import ConfigError
from streamer.graphics.lettering import Lettering
from streamer.graphics.overlay import parse_colour
from streamer.roundtable.arrangement import Layout
from streamer.roundtable.board import Look, Sitter
from streamer.roundtable.floor import FloorMode

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
MOST_SEATS = 8
ACCENTS = ("#d7263d", "#1b98e0", "#f4a259", "#2ec4b6", "#9b5de5", "#8ac926", "#ff6b9d", "#ffca3a")
SIZES_PX = (256, 1920)

T = TypeVar("T")


class SeatDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One seat: who sits there and where the voice comes from."""

    seat: str
    """Its name in the API: a-z, 0-9, '_' and '-'."""
    avatar: str
    name: str = ""
    """For the lower third."""
    role: str = ""
    source: str = "speech"
    """speech: pushed sound or text; mic: a participant's microphone; whip:NAME: what is published at /whip/NAME."""
    voice: str | None = None
    """For texts: "flite/slt", "espeak-ng/de" and so on."""
    gain_db: float = 0.0
    accent: str | None = None
    """"#rrggbb"."""


class RoomDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A room of 1 to 8 seats."""

    seats: tuple[SeatDescription, ...]
    title: str = ""
    width: int = 1280
    height: int = 720
    layout: Layout = Layout.GRID
    floor: FloorMode = FloorMode.OPEN
    background: str = "#10141c"
    captions: bool = True
    badge: str | None = None
    """Words in the upper right corner, such as "AI"."""
    font: str | None = None
    """A TTF or OTF file."""

    def look(self, badge: str | None = None) -> Look:
        """How the whole looks; `badge`: the server's, where the room has none."""
        badge = self.badge or badge
        letters = "".join(sorted(set("".join(seat.name + seat.role for seat in self.seats) + (badge or ""))))
        lettering = Lettering(self.font, letters)
        return Look((self.width, self.height), parse_colour(self.background), self.captions, badge, lettering)

    def sitter(self, number: int, face: tuple[float, float]) -> Sitter:
        """How the seat of this number looks; `face`: where its face is."""
        seat = self.seats[number]
        return Sitter(seat.name, seat.role, parse_colour(seat.accent or ACCENTS[number % len(ACCENTS)]), face)


def read_file(path: Path, kind: type[T]) -> T:
    """A struct of a TOML or JSON file. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read ({getattr(error, 'strerror', None) or error})") from error
    try:
        tree: Any = msgspec.json.decode(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
        return msgspec.convert(tree, kind)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(str(path), str(error)) from error


def check_room(room: RoomDescription, where: str, *, local_files: bool) -> RoomDescription:
    """What a type cannot say. `local_files`: fonts of this machine may be named. Raises ConfigError."""
    if not 1 <= len(room.seats) <= MOST_SEATS:
        raise ConfigError(f"{where}: seats", f"there may be 1 to {MOST_SEATS}, not {len(room.seats)}")
    names = [seat.seat for seat in room.seats]
    for seat in room.seats:
        _check_seat(seat, f"{where}: seat {seat.seat[:40]!r}")
    if len(set(names)) < len(names):
        raise ConfigError(f"{where}: seats", "two have the same name")
    for side, length in (("width", room.width), ("height", room.height)):
        if length % 2 or not SIZES_PX[0] <= length <= SIZES_PX[1]:
            raise ConfigError(f"{where}: {side}", f"must be even, {SIZES_PX[0]} to {SIZES_PX[1]}, not {length}")
    if room.font is not None and not local_files:
        raise ConfigError(f"{where}: font", "a font can be named in a file on the server only")
    if room.badge:
        check_badge(room.badge)
    _check_colour(room.background, f"{where}: background")
    Lettering(room.font).check()
    return room


def _check_seat(seat: SeatDescription, where: str) -> None:
    if not NAME.fullmatch(seat.seat):
        raise ConfigError(where, "a seat's name is a-z, 0-9, '_' and '-', at most 32")
    if seat.source not in ("speech", "mic") and not seat.source.startswith("whip:"):
        raise ConfigError(where, f"source must be speech, mic or whip:NAME, not {seat.source[:40]!r}")
    if not -60.0 <= seat.gain_db <= 20.0:
        raise ConfigError(where, f"gain_db must be -60 to 20, not {seat.gain_db}")
    if max(len(seat.name), len(seat.role)) > 80:
        raise ConfigError(where, "name and role may have 80 characters each")
    if seat.accent is not None:
        _check_colour(seat.accent, where)


def _check_colour(text: str, where: str) -> None:
    try:
        parse_colour(text)
    except ValueError as error:
        raise ConfigError(where, str(error)) from error
