"""Which idle frame each frame of the session's grid shows: to and fro without a period, seeded, at random access."""

from __future__ import annotations

import functools
import hashlib
import math

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]

BLOCK_FRAMES = 1000
"""40 s are drawn at once; each block begins where the last one ended, at rest."""
_LEAST_STEPS = 8
"""Between two turns, unless an end is nearer."""
_SLOWNESS = (1.05, 1.8)
"""Frames a step takes where it is quickest; below one, a frame would be left out."""
_PAUSE_FRAMES = (0, 14)
_FILLED = 0.75
"""Of a block before it makes for its end; the rest is room to get there."""


class Walk:
    """A seeded ping-pong walk over frames 0..count - 1: never more than one step from one grid index to the next."""

    def __init__(self, avatar_id: str, count: int, start: int) -> None:
        """start: where it stands at index 0. count: at most 50."""
        self._named = (avatar_id, count, start)

    def at(self, index: int) -> int:
        """The frame of a grid index, the same whenever it is asked for."""
        number, place = divmod(index, BLOCK_FRAMES)
        return int(_block(*self._named, number)[place])


@functools.lru_cache(maxsize=256)
def _block(avatar_id: str, count: int, start: int, number: int) -> U8:
    """(BLOCK_FRAMES,) u8: the steps from one boundary to the next."""
    rng = _rng(avatar_id, number, "legs")
    place, goal = _boundary(avatar_id, count, start, number), _boundary(avatar_id, count, start, number + 1)
    legs: list[tuple[int, int, float]] = []  # from, to, frames
    taken, upwards = 0.0, bool(rng.random() < 0.5)
    while taken < _FILLED * BLOCK_FRAMES:
        end = count - 1 if upwards else 0
        room = abs(end - place)
        if room:
            steps = int(rng.integers(min(_LEAST_STEPS, room), room + 1))
            turn = place + (steps if upwards else -steps)
            legs.append((place, turn, _least_frames(steps) * rng.uniform(*_SLOWNESS)))
            legs.append((turn, turn, float(rng.integers(*_PAUSE_FRAMES))))
            taken += legs[-2][2] + legs[-1][2]
            place = turn
        upwards = not upwards
    legs.append((place, goal, _least_frames(abs(goal - place))))
    return _walked(legs)


def _walked(legs: list[tuple[int, int, float]]) -> U8:
    """All legs, spread over a block; each starts and stops softly."""
    ends = np.cumsum([0.0, *(leg[2] for leg in legs)])
    ends *= BLOCK_FRAMES / ends[-1]
    at = np.arange(BLOCK_FRAMES)
    which = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(legs) - 1)
    begin, end = np.array([leg[0] for leg in legs])[which], np.array([leg[1] for leg in legs])[which]
    share = (at - ends[which]) / np.maximum(ends[which + 1] - ends[which], 1e-9)
    eased: F64 = begin + (end - begin) * (0.5 - 0.5 * np.cos(np.pi * share))
    steps: U8 = np.floor(eased + 0.5).astype(np.uint8)
    steps.flags.writeable = False
    return steps


def _least_frames(steps: int) -> float:
    """A leg that eases in and out is quickest in its middle, pi / 2 times its mean."""
    return max(2.0, math.pi / 2 * steps)


def _boundary(avatar_id: str, count: int, start: int, number: int) -> int:
    return start if number == 0 else int(_rng(avatar_id, number, "boundary").integers(count))


def _rng(avatar_id: str, number: int, purpose: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{purpose} {number} {avatar_id}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
