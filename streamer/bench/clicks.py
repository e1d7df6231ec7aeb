"""Clicks that make a `flash` engine flash, found again in sound and picture: how far the two are apart. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from streamer.bench.bursts import burst_microphone
from streamer.bench.lipsync import find_in
from streamer.media import S16, SOUND_HZ

F64 = npt.NDArray[np.float64]

_VOWEL = 1800
"""First sample of the vowel in a burst: where it starts with full voice."""
_LEAST_MATCH = 0.7


def click() -> S16:
    """A vowel with a sharp start."""
    return burst_microphone(1, seed=0).burst[_VOWEL:].copy()


def click_track(starts: Iterable[int], samples: int) -> S16:
    """(samples,) s16 mono at 48 kHz: silence with a click at each start."""
    sound, one = np.zeros(samples, np.int16), click()
    for start in starts:
        sound[start : start + len(one)] = one
    return sound


def clicks_in(sound: S16, period: int) -> list[int]:
    """First samples of the clicks in a sound, by cross-correlation; they are `period` samples apart or more."""
    one = click()
    starts: list[int] = []
    for first in range(0, len(sound) - SOUND_HZ, period):
        at, match = find_in(sound[first : first + period + len(one)], one)
        if match > _LEAST_MATCH and (not starts or first + at - starts[-1] > SOUND_HZ // 2):
            starts.append(first + at)
    return starts


def flashes_in(times: F64, levels: F64, share: float = 0.5) -> F64:
    """Those of the times at which a picture turned white: past this share of its way from black."""
    black, white = np.percentile(levels, (1, 99))
    bright = levels > black + share * (white - black)
    turned: F64 = times[1:][bright[1:] & ~bright[:-1]]
    return turned


def nearest_apart(from_times: F64, to_times: F64) -> F64:
    """For each of the first: how much later the nearest of the second is."""
    apart: F64 = to_times[np.abs(to_times[None] - from_times[:, None]).argmin(axis=1)] - from_times
    return apart
