"""Sound that must leave the mouth shut, made for the held-out table only: built otherwise than what training hears."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engines.contract import ANALYSIS_HZ

F32 = npt.NDArray[np.float32]
Draw = np.random.Generator

DISTURBANCES = ("music", "keyboard", "breath", "babble", "hiss")


def disturbance(kind: str, seconds: float, crowd: Sequence[F32], seed: int) -> F32:
    """(n,) f32 at 16 kHz of RMS 1: one of `DISTURBANCES`. `crowd` are the voices babble is mixed from."""
    draw = np.random.default_rng(seed)
    count = round(seconds * ANALYSIS_HZ)
    if kind == "music":
        sound = _band(count, draw)
    elif kind == "keyboard":
        sound = _typing(count, draw)
    elif kind == "breath":
        sound = _breathing(count, draw)
    elif kind == "babble":
        sound = _crowd(count, crowd, draw)
    else:
        sound = draw.standard_normal(count)
    level: F32 = (sound / np.sqrt(np.mean(sound**2) + 1e-12)).astype(np.float32)
    return level


def _resonance(sound: npt.NDArray[np.float64], peaks_hz: Sequence[float], width_hz: float) -> npt.NDArray[np.float64]:
    """Sound through bell-shaped resonances, in the frequency domain."""
    hz = np.fft.rfftfreq(len(sound), 1.0 / ANALYSIS_HZ)
    gain = sum(1.0 / (1.0 + ((hz - peak) / width_hz) ** 2) for peak in peaks_hz)
    return np.fft.irfft(np.fft.rfft(sound) * gain, len(sound))


def _pluck(hz: float, count: int, draw: Draw) -> npt.NDArray[np.float64]:
    """A plucked string: one burst of noise going round a damped loop."""
    period = max(2, round(ANALYSIS_HZ / hz))
    loop = draw.uniform(-1.0, 1.0, period)
    rounds = []
    for _ in range(count // period + 1):
        rounds.append(loop)
        loop = 0.996 * 0.5 * (loop + np.roll(loop, 1))
    return np.concatenate(rounds)[:count]


def _band(count: int, draw: Draw) -> npt.NDArray[np.float64]:
    """A pad of saw teeth, a plucked tune over it, and drums."""
    time_s = np.arange(count) / ANALYSIS_HZ
    out = np.zeros(count + 2 * ANALYSIS_HZ)
    bar = 2 * ANALYSIS_HZ
    roots_hz = 110.0 * 2.0 ** (np.array([0, 5, 7, 3]) / 12.0)
    for i, start in enumerate(range(0, count, bar)):
        for interval in (0, 4, 7, 12):
            hz = roots_hz[i % 4] * 2.0 ** (interval / 12.0) * draw.uniform(0.997, 1.003)
            saw = 2.0 * ((time_s[:bar] * hz) % 1.0) - 1.0
            out[start : start + len(saw)] += _resonance(saw, (400.0, 900.0), 600.0) * 0.35
        for step in range(8):
            note_hz = 220.0 * 2.0 ** (draw.choice([0, 2, 4, 7, 9, 12, 14]) / 12.0)
            at = start + step * bar // 8
            out[at : at + 12_000] += _pluck(note_hz, 12_000, draw) * np.linspace(1, 0, 12_000)
        for step in range(4):
            at = start + step * bar // 4
            kick_s = np.arange(3200) / ANALYSIS_HZ
            out[at : at + 3200] += 1.5 * np.sin(2 * np.pi * 55.0 * kick_s) * np.exp(-kick_s * 25)
            hat = draw.standard_normal(800) * np.exp(-np.arange(800) / 120.0)
            out[at + bar // 8 : at + bar // 8 + 800] += hat
    return out[:count]


def _typing(count: int, draw: Draw) -> npt.NDArray[np.float64]:
    """Key presses: a thud and a click each, of a few kinds of key, with pauses between words."""
    out = 0.002 * draw.standard_normal(count)
    at = 2000
    while at < count - 2000:
        length = 900
        decay = np.exp(-np.arange(length) / draw.uniform(40, 160))
        strike = _resonance(draw.standard_normal(length), (draw.uniform(150, 400), draw.uniform(1800, 4200)), 500.0)
        out[at : at + length] += strike * decay * draw.uniform(0.4, 1.0)
        at += int(draw.exponential(0.12) * ANALYSIS_HZ) + 900 + (6000 if draw.random() < 0.15 else 0)
    return out


def _breathing(count: int, draw: Draw) -> npt.NDArray[np.float64]:
    """In and out through nose and mouth: noise with the slack resonances of an open throat, 15 times a minute."""
    cycle_s = np.arange(count) / ANALYSIS_HZ / 4.0 % 1.0
    inward = np.clip(np.sin(np.pi * cycle_s / 0.4), 0.0, None) * (cycle_s < 0.4)
    outward = np.clip(np.sin(np.pi * (cycle_s - 0.5) / 0.35), 0.0, None) * ((cycle_s > 0.5) & (cycle_s < 0.85))
    nose = _resonance(draw.standard_normal(count), (900.0, 1700.0, 3600.0), 700.0)
    mouth = _resonance(draw.standard_normal(count), (600.0, 1300.0, 2500.0), 500.0)
    return inward * nose + 0.7 * outward * mouth + 1e-3 * draw.standard_normal(count)


def _crowd(count: int, crowd: Sequence[F32], draw: Draw) -> npt.NDArray[np.float64]:
    """Eight talkers at once, none nearer than the others."""
    out = np.zeros(count)
    for i in range(8):
        voice = crowd[i % len(crowd)].astype(np.float64)
        start = int(draw.integers(0, len(voice)))
        out += np.resize(np.roll(voice, -start), count) / np.sqrt(np.mean(voice**2) + 1e-12)
    return out
