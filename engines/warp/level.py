"""Loudness: brings a window of quiet speech to a level the network was trained at. Stateless; silence stays silence."""

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


def levelled(samples: F32) -> F32:
    """(n,) f32 at 16 kHz, raised where its loudest moment is quiet; the samples themselves where it is not."""
    blocks = samples[: len(samples) // BLOCK_SAMPLES * BLOCK_SAMPLES].reshape(-1, BLOCK_SAMPLES)
    power = float(np.square(blocks).mean(1).max(initial=0.0))
    loudest_dbfs = 10.0 * float(np.log10(power + 1e-12))
    heard = float(np.clip((loudest_dbfs - SILENCE_DBFS) / (SPEECH_DBFS - SILENCE_DBFS), 0.0, 1.0))
    gain_db = heard * float(np.clip(USUAL_DBFS - loudest_dbfs, 0.0, MOST_DB))
    if gain_db == 0.0:
        return samples
    raised: F32 = np.clip(samples * np.float32(10.0 ** (gain_db / 20.0)), -1.0, 1.0)
    return raised
