"""Sample-rate arithmetic of ingest: an exact three-to-one decimator and a resampler that can lean by parts per million.

Pure and stateful over chunks; whole and chunked input give the same samples.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_DECIMATION = 3
_DECIMATOR_TAPS = 48
"""Linear phase: the 16 kHz sound lags the 48 kHz sound by 23.5 samples, half a millisecond."""
_LEAN_TAPS = 32
_LEAN_PHASES = 2048


def _windowed_sinc(taps: int, cutoff: float, centres: F64) -> F32:
    """Kaiser-windowed low-passes, one a centre: (centres, taps). `cutoff` is a fraction of the sampling rate."""
    n = np.arange(taps, dtype=np.float64) - centres[:, None]
    window = np.i0(8.0 * np.sqrt(np.clip(1.0 - (n / (taps / 2)) ** 2, 0.0, 1.0))) / np.i0(8.0)
    kernels = 2 * cutoff * np.sinc(2 * cutoff * n) * window
    kernels /= kernels.sum(axis=1, keepdims=True)
    return kernels.astype(np.float32)


@cache
def _lean_bank() -> F32:
    """(phases + 1, taps): row p interpolates p / phases of a sample past tap 15. Made once, at the first drift."""
    bank = _windowed_sinc(_LEAN_TAPS, 0.48, _LEAN_TAPS / 2 - 1 + np.arange(_LEAN_PHASES + 1) / _LEAN_PHASES)
    bank.setflags(write=False)
    return bank


class Decimator:
    """48 kHz to 16 kHz for analysis. Chunks must be multiples of three samples long."""

    def __init__(self) -> None:
        self._kernel = _windowed_sinc(_DECIMATOR_TAPS, 7_200 / 48_000, np.array([(_DECIMATOR_TAPS - 1) / 2]))[0]
        self._tail = np.zeros(_DECIMATOR_TAPS - 1, np.float32)

    def push(self, samples: F32) -> F32:
        """(3n,) f32 at 48 kHz to (n,) f32 at 16 kHz."""
        joined = np.concatenate((self._tail, samples))
        self._tail = joined[-(_DECIMATOR_TAPS - 1) :]
        low: F32 = np.convolve(joined, self._kernel, "valid")[::_DECIMATION].astype(np.float32)
        return low


class LeaningResampler:
    """48 kHz to 48 kHz whose rate can lean a little, to follow a source with another crystal.

    While it has never leaned, samples pass through untouched and without delay. From the first lean on it
    interpolates with a 32-tap windowed sinc and lags by 16 samples, a third of a millisecond.
    """

    def __init__(self) -> None:
        self._history: F32 = np.zeros(0, np.float32)
        self._position = 0.0
        self._active = False

    def push(self, samples: F32, ratio: float) -> F32:
        """Samples in, about `len(samples) * ratio` samples out; ratio > 1 gives more samples than came in."""
        if not self._active and ratio == 1.0:
            self._history = np.concatenate((self._history, samples))[-_LEAN_TAPS:]
            return samples
        if not self._active:
            self._active = True
            # The last sixteen passed samples are already out; continue right after them.
            padding = np.zeros(max(0, _LEAN_TAPS - len(self._history)), np.float32)
            self._history = np.concatenate((padding, self._history))
            self._position = float(_LEAN_TAPS)
        buffer = np.concatenate((self._history, samples))
        step = 1.0 / ratio
        limit = len(buffer) - _LEAN_TAPS / 2
        count = max(0, int(np.ceil((limit - self._position) / step)))
        at = self._position + step * np.arange(count)
        whole = np.floor(at).astype(np.int64)
        kernel = _lean_bank()[np.rint((at - whole) * _LEAN_PHASES).astype(np.int64)]
        taps = np.lib.stride_tricks.sliding_window_view(buffer, _LEAN_TAPS)[whole - (_LEAN_TAPS // 2 - 1)]
        out: F32 = np.einsum("nt,nt->n", taps, kernel)
        self._position += step * count
        keep = max(0, int(self._position) - _LEAN_TAPS)
        self._history = buffer[keep:]
        self._position -= keep
        return out
