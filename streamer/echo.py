"""How our own sound comes back through a visitor's microphone: learned while we speak, by power in bands. Pure.

A room is a handful of delays and decays; for power they are non-negative weights on what was played in the last second,
the same for all bands, times a gain a band. The weights are fitted to relative errors, and what is far above the echo
expected is cut off, so that a visitor's voice on top, which no weights explain, hardly moves them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

CHUNK_SAMPLES_16K = 320
_EDGES_HZ = (200, 300, 400, 510, 630, 770, 920, 1080, 1270, 1480, 1720, 2000, 2320, 2700, 3150, 3700, 4400, 5300)
BANDS = len(_EDGES_HZ) - 1
_WINDOW_SAMPLES = 512
TAPS = 45
"""900 ms: the way there and back, and the room."""
_FORGET = 0.998
_SWEEP_CHUNKS = 3
_LEVERAGE = 50.0
_TRUST_HEARD = 0.1
"""Errors count relative to the echo expected plus so much of what was heard: a voice is ten of them at most."""
_KNOWN_CHUNKS = 60
"""Until then the expected echo means little, and errors count relative to what was heard alone."""
_MOST_LOUDER = 6.0
"""Once the way is known, so many times the echo expected count as echo at most: the rest is a visitor's."""
_QUIET = 3e-8
"""Power of a band at which there is nothing to hear, full scale = 1."""
_MOST_GAIN = 30.0
_SCORED_BANDS = BANDS // 2 + 1
_LEAST_LOG, _MOST_LOG = -1.0, 4.0
_INAUDIBLE = 1e-9
_SCORES = 100
_FIRST_SCORES = 30
"""Fewer do not say how well the way of the echo is known."""
_PERCENTILE = 0.9
_DOUBT_ABOVE = 0.5
_LEAST_DOUBT = 1.2
_DOUBT_RISE = -0.3


class Bands:
    """20 ms chunks at 16 kHz to power in bands."""

    def __init__(self) -> None:
        hz = np.fft.rfftfreq(_WINDOW_SAMPLES, 1 / 16_000)
        inside = np.stack([(hz >= low) & (hz < high) for low, high in pairwise(_EDGES_HZ)])
        self._bank = inside.astype(np.float64) / (_WINDOW_SAMPLES * 96)
        self._shape = np.hanning(_WINDOW_SAMPLES).astype(np.float32)
        self._tail = np.zeros(_WINDOW_SAMPLES - CHUNK_SAMPLES_16K, np.float32)

    def push(self, samples16: F32) -> F64:
        """(320,) f32 to (BANDS,) power."""
        joined = np.concatenate((self._tail, samples16))
        self._tail = joined[CHUNK_SAMPLES_16K:]
        power: F64 = self._bank @ np.abs(np.fft.rfft(joined * self._shape)) ** 2
        return power


class EchoPath:
    """Predicts the echo in the microphone from what was played, and learns from every chunk."""

    def __init__(self) -> None:
        self._weights = np.zeros(TAPS)
        self._gains = np.ones(BANDS)
        self._joint = np.eye(TAPS) * 1e-2
        self._cross = np.zeros(TAPS)
        self._gain_over = np.full(BANDS, 1e-6)
        self._gain_under = np.full(BANDS, 1e-6)
        self.learned_chunks = 0

    def predict(self, played: F64) -> F64:
        """(TAPS, BANDS) power played, newest first, to (BANDS,) power of the echo now."""
        power: F64 = self._gains * (self._weights @ played)
        return power

    def learn(self, played: F64, heard: F64, noise: F64) -> bool:
        """The microphone had (BANDS,) power `heard` when `played` was as given; `noise` of it was there anyway.

        False where nothing audible was played, and so nothing learned.
        """
        audible = (played * self._gains).sum(axis=0) > 300 * _QUIET
        if not audible.any():
            return False
        known = min(1.0, self.learned_chunks / _KNOWN_CHUNKS)
        expected = self.predict(played)
        if known == 1.0:
            heard = np.minimum(heard, noise + _MOST_LOUDER * (expected + noise + _QUIET))
        scale = known * expected + (1.0 - (1.0 - _TRUST_HEARD) * known) * heard + noise + _QUIET
        heard = np.maximum(0.0, heard - noise)
        rows = (played * self._gains / scale)[:, audible]
        weight = 1.0 / np.maximum(1.0, rows.max(axis=0) / _LEVERAGE)
        rows *= weight
        self._joint = _FORGET * self._joint + rows @ rows.T
        self._cross = _FORGET * self._cross + rows @ (weight * (heard / scale)[audible])
        self.learned_chunks += 1
        if self.learned_chunks % _SWEEP_CHUNKS == 0:
            self._sweep()
        self._weigh_bands(played, heard, audible / scale**2)
        return True

    def _sweep(self) -> None:
        """One round of coordinate descent on the non-negative least squares."""
        weights, joint, cross = self._weights, self._joint, self._cross
        for tap in range(TAPS):
            weights[tap] = max(0.0, weights[tap] + (cross[tap] - joint[tap] @ weights) / joint[tap, tap])
        np.minimum(weights, _MOST_GAIN, out=weights)

    def _weigh_bands(self, played: F64, heard: F64, trust: F64) -> None:
        flat = self._weights @ played
        self._gain_over = _FORGET * self._gain_over + trust * flat * heard
        self._gain_under = _FORGET * self._gain_under + trust * flat * flat
        gains = np.clip((self._gain_over + 1e-6) / (self._gain_under + 1e-6), 0.05, 20.0)
        self._gains = gains / np.exp(np.log(gains).mean())


class EchoDoubt:
    """How far above the expected echo a sound must be to be somebody else's: as far as lately it was not, and some."""

    def __init__(self) -> None:
        self._scores = np.zeros(_SCORES)
        self._count = 0
        self.limit = np.inf
        """Excess from which on somebody is near; infinite while too little is known."""

    def note(self, excess: float) -> None:
        """The excess of another chunk with our own sound in it.

        What is kept is cut off above the limit: a visitor raises it little, a change of the room that stays soon.
        """
        self._scores[self._count % _SCORES] = min(excess, self.limit + _DOUBT_RISE)
        self._count += 1
        if self._count >= _FIRST_SCORES:
            scores = np.sort(self._scores[: self._count])
            self.limit = max(_LEAST_DOUBT, float(scores[int(_PERCENTILE * (len(scores) - 1))]) + _DOUBT_ABOVE)


def excess_of(heard: F64, expected: F64) -> float:
    """(BANDS,) power heard and expected to how much more was heard: mean log ratio of the half that has most of it."""
    ratios = np.log((heard + _INAUDIBLE) / (expected + _INAUDIBLE))
    return float(np.sort(np.clip(ratios, _LEAST_LOG, _MOST_LOG))[-_SCORED_BANDS:].mean())
