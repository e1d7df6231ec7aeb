"""A show: a room and what happens in it, line by line; words to checked values, values to cues on the grid. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from streamer.errors import ConfigError
from streamer.media import FPS, FRAME_SAMPLES, S16
from streamer.roundtable.arrangement import Layout
from streamer.roundtable.description import RoomDescription, check_room, read_file

MOST_LINES = 500
MOST_SECONDS = 4 * 3600.0


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line: somebody speaks (`seat` with `text` or `audio`), or `pause_s`, or a change of `layout`."""

    seat: str | None = None
    text: str | None = None
    audio: str | None = None
    """A sound file, beside the show's file."""
    pause_s: float | None = None
    layout: Layout | None = None
    featured: tuple[str, ...] = ()
    """Who is in the focus of the new layout; nobody: who speaks."""


class Show(RoomDescription, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A room and its rundown."""

    rundown: tuple[Line, ...]
    gap_s: float = 0.3
    """Silence between two speakers."""


@dataclass(frozen=True, slots=True, eq=False)
class Cue:
    """What happens at a frame."""

    index: int
    line: Line
    sound: S16 | None = None
    """(n,) s16 mono 48 kHz, n a multiple of 1920."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The cues in order, and how long it all takes."""

    cues: tuple[Cue, ...]
    frames: int


def read_show(path: Path) -> Show:
    """A checked show of a TOML or JSON file. Raises ConfigError."""
    show = read_file(path, Show)
    check_room(show, str(path), local_files=True)
    if not 1 <= len(show.rundown) <= MOST_LINES:
        raise ConfigError(f"{path}: rundown", f"may have 1 to {MOST_LINES} lines, not {len(show.rundown)}")
    seats = {seat.seat for seat in show.seats}
    for number, line in enumerate(show.rundown, 1):
        _check_line(line, seats, f"{path}: line {number} of the rundown")
    if not 0.0 <= show.gap_s <= 10.0:
        raise ConfigError(f"{path}: gap_s", "must be 0 to 10")
    return show


def lay_out(show: Show, sounds: Mapping[int, S16]) -> Timeline:
    """Put the lines one behind the other. `sounds`: (n,) s16 mono 48 kHz of each line that speaks, by its number.

    Raises ConfigError where it all takes too long.
    """
    cues: list[Cue] = []
    at = 0
    for number, line in enumerate(show.rundown):
        if line.layout is not None:
            cues.append(Cue(at, line))
        elif line.pause_s is not None:
            at += round(line.pause_s * FPS)
        else:
            sound = whole_frames(sounds[number])
            cues.append(Cue(at, line, sound))
            at += len(sound) // FRAME_SAMPLES + round(show.gap_s * FPS)
        if at > MOST_SECONDS * FPS:
            raise ConfigError("rundown", f"a show may take {MOST_SECONDS / 3600:.0f} hours")
    return Timeline(tuple(cues), max(1, at))


def whole_frames(sound: S16) -> S16:
    """Padded with silence to whole frames."""
    padded = np.zeros(-(-len(sound) // FRAME_SAMPLES) * FRAME_SAMPLES, np.int16)
    padded[: len(sound)] = sound
    return padded


def _check_line(line: Line, seats: Sequence[str] | set[str], where: str) -> None:
    kinds = (line.seat is not None, line.pause_s is not None, line.layout is not None)
    if sum(kinds) != 1:
        raise ConfigError(where, "is either a seat that speaks, a pause_s or a layout")
    if line.seat is not None:
        if line.seat not in seats:
            raise ConfigError(where, f"there is no seat {line.seat[:40]!r}")
        if (line.text is None) == (line.audio is None):
            raise ConfigError(where, "a seat speaks either text or audio")
    elif line.text is not None or line.audio is not None:
        raise ConfigError(where, "says something and names no seat")
    if line.pause_s is not None and not 0.0 < line.pause_s <= 600.0:
        raise ConfigError(where, f"pause_s must be more than 0 and at most 600, not {line.pause_s}")
    if unknown := set(line.featured) - set(seats):
        raise ConfigError(where, f"there is no seat {sorted(unknown)[0][:40]!r} to feature")
