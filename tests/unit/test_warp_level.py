"""Quiet speech opens the mouth as far as loud speech; silence and noise stay shut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from engines.contract import ANALYSIS_HZ, FRAME_SAMPLES_16K
from engines.warp.level import levelled
from engines.warp.speech import MouthNet

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"
SECONDS = 4


@pytest.fixture(scope="module")
def net():
    return MouthNet.load()


@pytest.fixture(scope="module")
def speech():
    samples, rate_hz = soundfile.read(DATA / "librivox_austen_0890.flac", dtype="float32")
    assert rate_hz == ANALYSIS_HZ
    samples = samples[: SECONDS * ANALYSIS_HZ]
    return samples / np.abs(samples).max()


def mouths(net, samples):
    """(frames, 6) as the engine hears it."""
    padded = np.concatenate([np.zeros(net.context_samples, np.float32), samples])
    starts = range(0, len(padded) - net.window_samples, FRAME_SAMPLES_16K)
    return net.shapes(np.stack([levelled(padded[s : s + net.window_samples]) for s in starts]))


@pytest.mark.parametrize("peak_dbfs", [-20, -30, -40])
def test_quiet_speech_moves_the_mouth_like_loud_speech(net, speech, peak_dbfs):
    loud = mouths(net, speech * np.float32(0.5))
    quiet = mouths(net, speech * np.float32(10 ** (peak_dbfs / 20)))
    assert np.corrcoef(loud[:, 0], quiet[:, 0])[0, 1] > 0.97
    assert quiet[:, 0].mean() > 0.9 * loud[:, 0].mean()


def test_loud_speech_is_taken_as_it_is(speech):
    window = speech[: 12 * FRAME_SAMPLES_16K] * np.float32(0.5)
    assert levelled(window) is window


@pytest.mark.parametrize("rms_dbfs", [-90, -66, -58, -48])
def test_faint_noise_is_not_made_into_speech(net, rms_dbfs):
    noise = np.random.default_rng(5).normal(size=2 * ANALYSIS_HZ).astype(np.float32) * np.float32(10 ** (rms_dbfs / 20))
    assert (mouths(net, noise)[:, 0] > 0.1).mean() < 0.1


def test_silence_stays_silence_and_nothing_clips():
    assert not levelled(np.zeros(6400, np.float32)).any()
    click = np.zeros(6400, np.float32)
    click[3000] = 0.9
    assert np.abs(levelled(click)).max() <= 1.0
