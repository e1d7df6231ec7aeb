"""The roundtable's sound: gains without clicks, a soft limiter, and each one's mix without their own voice. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from streamer.media import F32, FRAME_SAMPLES, S16

CEILING = 0.89
"""Peaks are held below this, -1 dBFS."""
KNEE = 0.8
"""Below this a sample passes the last, soft stage untouched."""
RELEASE_FRAMES = 8
"""The limiter lets go over so many frames, 320 ms."""


class Limiter:
    """Turns a frame down whose peak is too high, and up again slowly; what a sudden peak leaves is bent, not cut."""

    def __init__(self) -> None:
        self._gain = 1.0

    def push(self, sound: F32) -> S16:
        """(n,) f32, full scale 1, to s16."""
        peak = float(np.abs(sound).max(initial=0.0))
        goal = min(1.0, CEILING / peak) if peak > 0 else 1.0
        goal = min(goal, self._gain + 1.0 / RELEASE_FRAMES)
        ramp = np.full(len(sound), goal, np.float32)
        fall = min(len(sound), FRAME_SAMPLES // 8)
        ramp[:fall] = np.linspace(self._gain, goal, fall, dtype=np.float32)
        self._gain = goal
        pcm48: S16 = np.rint(soften(sound * ramp) * 32767.0).astype(np.int16)
        return pcm48


def soften(sound: F32) -> F32:
    """Samples beyond the knee bend towards full scale and never reach it."""
    size = np.abs(sound)
    if float(size.max(initial=0.0)) <= KNEE:
        return sound
    bent = KNEE + (1.0 - KNEE) * np.tanh((size - KNEE) / (1.0 - KNEE))
    return np.where(size > KNEE, np.copysign(bent, sound), sound).astype(np.float32)


class Mixer:
    """Seats' sounds of a frame in; the whole mix and the mixes without one seat out."""

    def __init__(self, gains_db: Mapping[str, float]) -> None:
        self._weights = {seat: 0.0 for seat in gains_db}
        self._limiters: dict[str | None, Limiter] = {}
        self.gains_db = dict(gains_db)
        """Of each seat; may be changed between two frames."""
        self.levels: dict[str, float] = dict.fromkeys(gains_db, 0.0)
        """RMS of each seat's sound in the last frame, after its gain, full scale 1; heard or not."""

    def mix(
        self, sounds: Mapping[str, S16], audible: Collection[str], without: Collection[str] = ()
    ) -> tuple[S16, dict[str, S16]]:
        """One frame: (1920,) s16 of each seat; who may be heard; for which seats a mix without them is wanted.

        Returns the whole and those mixes, (1920,) s16 each. A seat's weight moves within a frame, not at its edge.
        """
        heard = {seat: self._weighed(seat, sounds.get(seat), audible=seat in audible) for seat in self.gains_db}
        total = np.zeros(FRAME_SAMPLES, np.float32)
        for sound in heard.values():
            if sound is not None:
                total += sound
        whole = self._limit(None, total)
        mixes = {}
        for seat in without:
            own = heard.get(seat)
            mixes[seat] = self._limit(seat, self._all_but(heard, seat)) if own is not None else self._limit(seat, total)
        for gone in [seat for seat in self._limiters if seat is not None and seat not in without]:
            del self._limiters[gone]
        return whole, mixes

    def _weighed(self, seat: str, pcm48: S16 | None, *, audible: bool) -> F32 | None:
        gain = 10.0 ** (self.gains_db[seat] / 20.0)
        before = self._weights[seat]
        self._weights[seat] = after = gain if audible else 0.0
        if pcm48 is None:
            self.levels[seat] = 0.0
            return None
        sound: F32 = pcm48.astype(np.float32) / 32768.0
        self.levels[seat] = gain * float(np.sqrt(np.mean(np.square(sound))))
        if before == after:
            return sound * np.float32(after) if after else None
        return sound * np.linspace(before, after, len(sound), dtype=np.float32)

    @staticmethod
    def _all_but(heard: Mapping[str, F32 | None], seat: str) -> F32:
        """Summed anew: taking one's own voice out of the sum again would leave its rounding."""
        total = np.zeros(FRAME_SAMPLES, np.float32)
        for other, sound in heard.items():
            if sound is not None and other != seat:
                total += sound
        return total

    def _limit(self, key: str | None, sound: F32) -> S16:
        return self._limiters.setdefault(key, Limiter()).push(sound)
