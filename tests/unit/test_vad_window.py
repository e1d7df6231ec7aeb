"""VAD and windows: what counts as speech, and that every frame gets exactly its own sound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from streamer.media import CHUNK_SAMPLES, AudioChunk, AudioWindow, FrameSound
from streamer.pipeline.vad import Vad, VadSettings
from streamer.pipeline.window import Windower, WindowSettings

pytestmark = pytest.mark.unit


def vowel(count, first, hz=140.0, level=0.25):
    """A buzzing, formant-shaped sound that the detector takes for speech."""
    t = (first + np.arange(count)) / 16_000
    sound = sum(np.sin(2 * np.pi * hz * k * t) * np.exp(-(((hz * k - 700) / 500) ** 2)) for k in range(1, 25))
    return (level * sound / 3).astype(np.float32)


def chunk(i, samples16):
    pcm48 = np.full(CHUNK_SAMPLES, i, np.int16)
    return AudioChunk(samples16.astype(np.float32), pcm48, i * CHUNK_SAMPLES, captured_ns=i)


def gate(pattern, settings=None):
    vad = Vad(settings)
    silent = np.zeros(320)
    return [vad.push(chunk(i, vowel(320, i * 320) if on else silent), i) for i, on in enumerate(pattern)]


def test_speech_is_noticed_and_hangs_over_for_200_ms():
    gated = gate([0] * 10 + [1] * 20 + [0] * 30)
    voiced = [i for i, g in enumerate(gated) if g.speech]
    assert voiced[0] in (11, 12)
    assert 29 + 9 <= voiced[-1] <= 29 + 14
    assert voiced == list(range(voiced[0], voiced[-1] + 1))


def test_click_shorter_than_40_ms_is_not_speech():
    assert not any(g.speech for g in gate([0] * 10 + [1] + [0] * 20, VadSettings(hangover_ms=200)))


def test_silence_and_hiss_below_the_floor_are_not_speech():
    vad = Vad()
    noise = np.random.default_rng(1).normal(0, 10 ** (-66 / 20), (100, 320))
    assert not any(vad.push(chunk(i, row), 0).speech for i, row in enumerate(noise))


def cut(gated, context=3200, lookahead=840):
    windower = Windower(WindowSettings(context, lookahead))
    return [made for i, g in enumerate(gated) for made in windower.push(g, i)]


def windows(gated, context=3200, lookahead=840):
    return [made for made in cut(gated, context, lookahead) if isinstance(made, AudioWindow)]


def test_every_frame_gets_its_own_sound_once_and_in_order():
    made = [one for one in cut(gate([0, 1] * 25)) if isinstance(one, FrameSound)]
    assert [sound.index for sound in made] == list(range(25))
    for sound in made:
        assert (sound.pcm48[:960] == 2 * sound.index).all()
        assert (sound.pcm48[960:] == 2 * sound.index + 1).all()


def test_sound_of_a_frame_does_not_wait_for_its_lookahead():
    order = [(type(one), one.index) for one in cut(gate([1] * 8))]
    assert order[:2] == [(FrameSound, 0), (FrameSound, 1)]
    assert (AudioWindow, 0) in order


def test_window_holds_context_frame_and_lookahead_around_the_frame():
    ramp = np.arange(320 * 60, dtype=np.float32) / 1e5
    vad = Vad()
    made = windows([vad.push(chunk(i, ramp[i * 320 : (i + 1) * 320]), i) for i in range(60)])
    for w in made[6:]:
        start = w.index * 640 - 3200
        assert len(w.samples16) == 3200 + 640 + 840
        assert np.array_equal(w.samples16, ramp[start : start + len(w.samples16)])


def test_mouth_may_start_before_the_detector_fires():
    gated = gate([0] * 20 + [1] * 20)
    first_speech = next(i for i, g in enumerate(gated) if g.speech)
    first_voiced = next(w.index for w in windows(gated) if w.voiced)
    assert first_voiced * 2 <= first_speech - 2


def test_window_waits_for_the_lookahead_and_no_longer():
    made = []
    windower = Windower(WindowSettings(3200, 840))
    for i, g in enumerate(gate([1] * 20)):
        made += [i for one in windower.push(g, i) if isinstance(one, AudioWindow)]
    assert made[0] == 4  # two chunks of frame 0 and three of look-ahead (840 samples)
    assert all(b - a == 2 for a, b in pairwise(made))
