"""How well a decoded mouth follows what was said: correlation, lag, and whether it is shut in silence. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.media import FPS

F64 = npt.NDArray[np.float64]

LAGS_S = np.arange(-0.200, 0.2001, 0.005)
MIDDLE_S = 0.5 / FPS
"""A picture is on show for a frame; its middle is when it is compared."""


@dataclass(frozen=True, slots=True)
class LipSync:
    """What was found."""

    r: float
    """Pearson correlation of lip gap and openness at the best lag."""
    lag_s: float
    """How much later than its sound the mouth moves; negative: earlier."""


def lip_sync(shown_s: F64, gaps: F64, openness: Callable[[F64], F64]) -> LipSync:
    """(n,) times at which pictures appear, counted from the first sample of the sound, their lip gaps, and the truth:
    `openness` of such times, 0..1."""
    middles_s = shown_s + MIDDLE_S
    matches = np.array([_pearson(gaps, openness(middles_s - lag)) for lag in LAGS_S])
    best = int(matches.argmax())
    return LipSync(float(matches[best]), float(LAGS_S[best]))


def _pearson(a: F64, b: F64) -> float:
    x, y = a - a.mean(), b - b.mean()
    power = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / power if power > 1e-12 else 0.0


def find_in(sound: npt.NDArray[np.int16], wanted: npt.NDArray[np.int16]) -> tuple[int, float]:
    """Where (m,) `wanted` begins in (n >= m,) `sound` if it begins where it matches best, and how well: 1 is a copy."""
    heard, clip = sound.astype(np.float64), wanted.astype(np.float64)
    size = 1 << (len(heard) + len(clip)).bit_length()
    spectrum = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(clip, size))
    match = np.fft.irfft(spectrum, size)[: len(heard) - len(clip) + 1]
    at = int(np.abs(match).argmax())
    piece = heard[at : at + len(clip)]
    power = float(np.sqrt((piece @ piece) * (clip @ clip)))
    return at, float(match[at]) / power if power > 0 else 0.0
