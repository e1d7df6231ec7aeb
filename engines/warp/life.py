"""The small irregularities that keep a mouth from looking mechanical: slow, seeded, a function of the frame alone."""

from __future__ import annotations

import hashlib
import math

from engines.contract import FPS

_SWAY_HZ = (0.37, 0.83)
_TILT_HZ = (0.23, 0.61)


class Life:
    """Sway of the jaw and tilt of the mouth for each frame of one avatar."""

    def __init__(self, avatar_id: str) -> None:
        digest = hashlib.sha256(avatar_id.encode()).digest()
        self._phases = [byte / 256 * math.tau for byte in digest[:4]]
        self._lean = (digest[4] / 255 - 0.5) * 0.8
        """Nobody's mouth is quite even."""

    def at(self, index: int) -> tuple[float, float]:
        """(sway, tilt), each about -1..1."""
        seconds = index / FPS
        a, b, c, d = self._phases
        sway = 0.6 * math.sin(math.tau * _SWAY_HZ[0] * seconds + a) + 0.4 * math.sin(
            math.tau * _SWAY_HZ[1] * seconds + b
        )
        tilt = 0.4 * math.sin(math.tau * _TILT_HZ[0] * seconds + c) + 0.2 * math.sin(
            math.tau * _TILT_HZ[1] * seconds + d
        )
        return sway, tilt + self._lean
