"""Loudness: brings a window of quiet speech to a level the network was trained at. Silence stays silence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

BLOCK_SAMPLES = 320
"""Loudness is that of the loudest 20 ms."""
USUAL_DBFS = -24.0
"""Speech whose loudest moment reaches this (RMS) is left as it is."""
MOST_DB = 24.0
SILENCE_DBFS, SPEECH_DBFS = -68.0, -58.0
"""A window that stays below the first is not raised at all; above the second, as far as it needs."""


def loudest_dbfs(samples: F32) -> float:
    """RMS of the loudest block."""
    blocks = samples[: len(samples) // BLOCK_SAMPLES * BLOCK_SAMPLES].reshape(-1, BLOCK_SAMPLES)
    power = float(np.square(blocks).mean(1).max(initial=0.0))
    return 10.0 * float(np.log10(power + 1e-12))


def gain_db(loudest: float) -> float:
    """How far to raise sound whose loudest block has this level, dBFS; 0 where it is loud, and where it is silent."""
    heard = float(np.clip((loudest - SILENCE_DBFS) / (SPEECH_DBFS - SILENCE_DBFS), 0.0, 1.0))
    return heard * float(np.clip(USUAL_DBFS - loudest, 0.0, MOST_DB))


def raised(samples: F32, by_db: float) -> F32:
    """Louder, clipped at full scale; the samples themselves for 0 dB."""
    if by_db == 0.0:
        return samples
    louder: F32 = np.clip(samples * np.float32(10.0 ** (by_db / 20.0)), -1.0, 1.0)
    return louder


def levelled(samples: F32) -> F32:
    """(n,) f32 at 16 kHz, raised where its loudest moment is quiet; the samples themselves where it is not."""
    return raised(samples, gain_db(loudest_dbfs(samples)))


class SteadyGain:
    """For one stream to somebody who remembers, and must not hear the level jump: changed seldom, and only by much."""

    LEAST_CHANGE_DB = 9.0
    FORGETS_DB = 0.1
    """A frame: how quickly a loud moment is forgotten."""

    def __init__(self) -> None:
        self._loudest = SILENCE_DBFS
        self._gain_db = 0.0

    def gain_db(self, samples: F32) -> float:
        """What the newest window of the stream is to be raised by."""
        self._loudest = max(loudest_dbfs(samples), self._loudest - self.FORGETS_DB)
        wanted_db = gain_db(self._loudest)
        if self._loudest > SPEECH_DBFS and abs(wanted_db - self._gain_db) >= self.LEAST_CHANGE_DB:
            self._gain_db = wanted_db
        return self._gain_db
