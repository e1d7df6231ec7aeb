"""Makes up sound for a hole: repeats the last pitch period, fading to silence by 60 ms. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.media import S16

F32 = npt.NDArray[np.float32]

FADE_SAMPLES = 2880
HISTORY_SAMPLES = 2160
JOIN_SAMPLES = 120
_TEMPLATE_SAMPLES = 960
_DECIMATION = 4
_LEAST_LAG_SAMPLES, _MOST_LAG_SAMPLES = 120, 1000
_AUDIBLE = 16.0


class Concealer:
    """Keeps the last 45 ms of real sound; joins what it makes up to what was there before and what comes after."""

    def __init__(self) -> None:
        self._history = np.zeros(HISTORY_SAMPLES, np.float32)
        self._cycle = np.zeros(1, np.float32)
        self._step = 0.0
        self._made_samples = 0

    def conceal(self, samples: int) -> S16:
        """(samples,) s16 mono at 48 kHz in place of sound that never came."""
        if self._made_samples == 0:
            self._begin()
        return _to_s16(self._next(samples))

    def accept(self, pcm: S16) -> S16:
        """Real sound; its first 2.5 ms are blended with what was made up, if anything was. Same length."""
        sound = pcm.astype(np.float32)
        if self._made_samples:
            length = min(JOIN_SAMPLES, len(sound))
            rise = np.linspace(0.0, 1.0, length, dtype=np.float32)
            sound[:length] = sound[:length] * rise + self._next(length) * (1.0 - rise)
            self._made_samples = 0
        self._history = np.concatenate((self._history, sound))[-HISTORY_SAMPLES:]
        return _to_s16(sound)

    def silence(self, samples: int) -> S16:
        """The sender was silent on purpose."""
        self._history = np.zeros(HISTORY_SAMPLES, np.float32)
        self._made_samples = 0
        return np.zeros(samples, np.int16)

    def _begin(self) -> None:
        history = self._history
        if float(np.abs(history[-_TEMPLATE_SAMPLES:]).max()) < _AUDIBLE:
            self._cycle, self._step = np.zeros(1, np.float32), float(history[-1])
            return
        lag = _pitch_lag(history)
        cycle = history[-lag:].copy()
        # The cycle's end is bent towards what precedes its start, so that repeating it makes no click.
        length = min(JOIN_SAMPLES, lag)
        before = history[-lag - length : -lag]
        rise = np.linspace(0.0, 1.0, length, dtype=np.float32)
        cycle[-length:] = cycle[-length:] * (1.0 - rise) + before * rise
        self._cycle = cycle
        self._step = float(history[-1] - history[-lag - 1])

    def _next(self, samples: int) -> F32:
        at = self._made_samples + np.arange(samples)
        gain = np.clip(1.0 - at / FADE_SAMPLES, 0.0, 1.0).astype(np.float32)
        bridge = self._step * np.clip(1.0 - at / JOIN_SAMPLES, 0.0, 1.0).astype(np.float32)
        self._made_samples += samples
        made: F32 = (self._cycle[at % len(self._cycle)] * gain + bridge).astype(np.float32)
        return made


def _pitch_lag(history: F32) -> int:
    """The lag at which the last 20 ms look most like what came before, 48 kHz samples."""
    coarse = history.reshape(-1, _DECIMATION).mean(axis=1)
    template = coarse[-_TEMPLATE_SAMPLES // _DECIMATION :]
    first, last = _LEAST_LAG_SAMPLES // _DECIMATION, _MOST_LAG_SAMPLES // _DECIMATION
    lag = _best_lag(coarse, template, first, last) * _DECIMATION
    return _best_lag(history, history[-_TEMPLATE_SAMPLES:], lag - _DECIMATION, lag + _DECIMATION)


def _best_lag(signal: F32, template: F32, first: int, last: int) -> int:
    length = len(template)
    end = len(signal) - length
    windows = np.lib.stride_tricks.sliding_window_view(signal, length)[end - last : end - first + 1]
    energy = np.einsum("ij,ij->i", windows, windows) + 1.0
    return last - int(np.argmax(windows @ template / np.sqrt(energy)))


def _to_s16(sound: F32) -> S16:
    pcm: S16 = np.clip(np.rint(sound), -32768, 32767).astype(np.int16)
    pcm.flags.writeable = False
    return pcm
