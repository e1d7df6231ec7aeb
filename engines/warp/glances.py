"""When somebody blinks and looks aside: irregular, seeded by the avatar, a function of the frame alone."""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

import numpy as np

from engines.contract import FPS

CYCLE_FRAMES = 10 * 60 * FPS
"""After ten minutes it begins anew; nobody remembers."""
BLINK = (0.55, 1.0, 1.0, 0.7, 0.4, 0.15)
"""How far the lids are shut, frame by frame: down in 60 ms, up in twice that."""
_SHORTEST_S = 1.1
_USUAL_S, _SPREAD = 3.4, 0.55
"""Median of the time between blinks, and the standard deviation of its logarithm."""
_TWICE = 0.12
"""Share of blinks that come in pairs."""
_GLANCE_S = (5.0, 16.0)
_LOOK_S = (0.35, 1.1)


class Eyes(NamedTuple):
    """What the eyes do in one frame."""

    shut: float = 0.0
    """0 as in the portrait, 1 shut."""
    gaze: float = 0.0
    """-1 left, 1 right; 0 as in the portrait."""


class EyeLife:
    """Blinks and glances of one avatar."""

    def __init__(self, avatar_id: str) -> None:
        self._frames = _lived(avatar_id)

    def at(self, index: int) -> Eyes:
        """The eyes in a frame of the session's grid."""
        return self._frames[index % CYCLE_FRAMES]


@functools.lru_cache(maxsize=64)
def _lived(avatar_id: str) -> tuple[Eyes, ...]:
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(avatar_id.encode()).digest()[8:16], "big"))
    shut, gaze = [0.0] * CYCLE_FRAMES, [0.0] * CYCLE_FRAMES
    at = int(FPS * rng.uniform(_SHORTEST_S, _USUAL_S))
    while at < CYCLE_FRAMES - 3 * len(BLINK):
        for begin in (at, at + len(BLINK) + 2)[: 1 + int(rng.random() < _TWICE)]:
            shut[begin : begin + len(BLINK)] = BLINK
        at += int(FPS * max(_SHORTEST_S, _USUAL_S * np.exp(_SPREAD * rng.normal())))
    at = int(FPS * rng.uniform(*_GLANCE_S))
    while at < CYCLE_FRAMES - 2 * FPS:
        look = int(FPS * rng.uniform(*_LOOK_S))
        side = float(rng.choice((-1.0, -0.5, 0.5, 1.0)))
        gaze[at : at + look] = [side] * look
        gaze[at] = gaze[at + look] = side / 2  # an eye jumps within a frame or two
        at += look + int(FPS * rng.uniform(*_GLANCE_S))
    return tuple(Eyes(*both) for both in zip(shut, gaze, strict=True))
