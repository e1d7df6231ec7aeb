"""Log-mel pictures of sound as Whisper takes them: 80 bands of 16 kHz, every 10 ms. Knows no network."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from engines.contract import ANALYSIS_HZ

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

BANDS = 80
WINDOW_SAMPLES = 400
HOP_SAMPLES = 160
SILENT_TAIL_SAMPLES = 5 * HOP_SAMPLES
"""With so much silence behind it the last frame of a sound hears nothing else."""
FLOOR = 1e-10
RANGE_DECADES = 8.0
"""Decades below the loudest moment that are kept."""
_LINEAR_TO_HZ, _LINEAR_STEP_HZ = 1000.0, 200.0 / 3.0
_LOG_STEP = np.log(6.4) / 27.0


def log_mel(samples: F32, total_samples: int | None = None) -> F32:
    """(n,) f32 in -1..1 to (80, total // 160) f32; sound is cut or followed by silence to `total_samples`.

    Values are relative to the loudest moment of what was given.
    """
    total = len(samples) if total_samples is None else total_samples
    kept = min(total, len(samples))
    sound = np.zeros(min(total, kept + SILENT_TAIL_SAMPLES), np.float64)
    sound[:kept] = samples[:kept]
    padded = np.pad(sound, WINDOW_SAMPLES // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES]
    frames = frames[: len(sound) // HOP_SAMPLES]
    power = np.abs(np.fft.rfft(frames * hann(), axis=1)) ** 2
    found = np.log10(np.maximum(power @ filters(), FLOOR))
    loudest = float(found.max(initial=np.log10(FLOOR)))
    found = (np.maximum(found, loudest - RANGE_DECADES) + 4.0) / 4.0
    # What lies further behind is silence like the last of these frames.
    whole = np.empty((BANDS, total // HOP_SAMPLES), np.float32)
    whole[:, : len(frames)] = found.T
    whole[:, len(frames) :] = (
        found[-1:].T if len(frames) else (max(np.log10(FLOOR), loudest - RANGE_DECADES) + 4.0) / 4.0
    )
    return whole


@cache
def hann() -> F64:
    """(400,): one period."""
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES), dtype=np.float64)


@cache
def filters() -> F64:
    """(201, 80): triangles over Slaney's mel scale, each of the same area."""
    edges_hz = _mel_to_hz(np.linspace(0.0, _hz_to_mel(ANALYSIS_HZ / 2), BANDS + 2))
    bins_hz = np.linspace(0.0, ANALYSIS_HZ / 2, WINDOW_SAMPLES // 2 + 1)[:, None]
    low, middle, high = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    rising, falling = (bins_hz - low) / (middle - low), (high - bins_hz) / (high - middle)
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (high - low)), dtype=np.float64)


def _hz_to_mel(hz: float) -> float:
    if hz < _LINEAR_TO_HZ:
        return hz / _LINEAR_STEP_HZ
    return float(_LINEAR_TO_HZ / _LINEAR_STEP_HZ + np.log(hz / _LINEAR_TO_HZ) / _LOG_STEP)


def _mel_to_hz(mel: F64) -> F64:
    corner = _LINEAR_TO_HZ / _LINEAR_STEP_HZ
    return np.asarray(
        np.where(mel < corner, mel * _LINEAR_STEP_HZ, _LINEAR_TO_HZ * np.exp(_LOG_STEP * (mel - corner))),
        dtype=np.float64,
    )
