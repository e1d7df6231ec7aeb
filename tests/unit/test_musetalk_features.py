"""MuseTalk's sound features come the same however the sound is cut, with the look-ahead that is declared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.musetalk.windows import (
    FRAME_STEP,
    LAYERS,
    LOOKAHEAD_SAMPLES,
    STEP_SAMPLES,
    WIDTH,
    WINDOW_SAMPLES,
    FeatureStream,
    frame_count,
    frame_tokens,
    step_count,
)

pytestmark = pytest.mark.unit


def loudness(windows):
    """A stand-in encoder whose states say which sound they are of: the sum of each 20 ms step."""
    steps = windows.reshape(len(windows), -1, STEP_SAMPLES).sum(axis=2)
    states = np.repeat(steps[:, :, None, None], LAYERS, axis=2).repeat(WIDTH, axis=3).astype(np.float32)
    return np.stack([frame_tokens(one, FRAME_STEP) for one in states])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=12), st.integers(0, 5))
def test_however_the_sound_is_cut_the_frames_are_the_same(sizes, seed):
    sound = np.random.default_rng(seed).normal(size=sum(sizes)).astype(np.float32)
    whole, cut = FeatureStream(loudness), FeatureStream(loudness)
    at_once = np.concatenate([whole.push(sound), whole.finish()])
    pieces, first = [], 0
    for size in sizes:
        pieces.append(cut.push(sound[first : first + size]))
        first += size
    assert np.array_equal(np.concatenate([*pieces, cut.finish()]), at_once)
    assert len(at_once) == frame_count(len(sound))


def test_a_frame_waits_for_eighty_milliseconds_of_sound_behind_it():
    stream = FeatureStream(loudness)
    assert LOOKAHEAD_SAMPLES == 1280
    assert len(stream.push(np.zeros(640 + LOOKAHEAD_SAMPLES - 1, np.float32))) == 0
    assert len(stream.push(np.zeros(1, np.float32))) == 1


def test_an_impulse_is_in_the_middle_of_its_own_frames_tokens():
    sound = np.zeros(40 * 640, np.float32)
    sound[20 * 640 + 10] = 1.0
    stream = FeatureStream(loudness)
    tokens = np.concatenate([stream.push(sound), stream.finish()])
    heard = tokens[:, :, 0].reshape(len(tokens), 10, LAYERS)[:, :, 0]
    assert np.flatnonzero(heard[20]).tolist() == [4]
    assert [int(i) for i in np.flatnonzero(heard.any(axis=1))] == [18, 19, 20, 21, 22]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000_000))
def test_frames_and_steps_are_counted_in_whole_numbers(samples):
    assert frame_count(samples) == samples // 640
    assert step_count(samples) == samples // 320


def test_one_window_is_a_whole_number_of_steps():
    assert WINDOW_SAMPLES % STEP_SAMPLES == 0
