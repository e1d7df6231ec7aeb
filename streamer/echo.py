"""How our own sound comes back through a visitor's microphone: learned while we speak, by power in bands. Pure.

A room is a handful of delays and decays; for power they are non-negative weights on what was played in the last second,
the same for all bands, times a gain a band. The weights are fitted to relative errors, so that a visitor's voice on top
of the echo, which no weights explain, hardly moves them.
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
_QUIET = 3e-8
"""Power of a band at which there is nothing to hear, full scale = 1."""
_MOST_GAIN = 30.0


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

    def learn(self, played: F64, heard: F64, noise: F64) -> None:
        """The microphone had (BANDS,) power `heard` when `played` was as given; `noise` of it was there anyway."""
        audible = (played * self._gains).sum(axis=0) > 300 * _QUIET
        if not audible.any():
            return
        known = min(1.0, self.learned_chunks / _KNOWN_CHUNKS)
        scale = known * self.predict(played) + (1.0 - (1.0 - _TRUST_HEARD) * known) * heard + _QUIET
        heard = np.maximum(0.0, heard - noise)
        rows = (played * self._gains / scale)[:, audible]
        rows /= np.maximum(1.0, rows.max(axis=0) / _LEVERAGE)
        self._joint = _FORGET * self._joint + rows @ rows.T
        self._cross = _FORGET * self._cross + rows @ (heard / scale)[audible]
        self.learned_chunks += 1
        if self.learned_chunks % _SWEEP_CHUNKS == 0:
            self._sweep()
        self._weigh_bands(played, heard, audible / scale**2)

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
