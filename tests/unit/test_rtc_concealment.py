"""Concealment: no clicks, no buzz that goes on, silence after 60 ms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.rtc.concealment import FADE_SAMPLES, Concealer

pytestmark = pytest.mark.unit


def voice(samples: int, first: int = 0, hz: float = 137.0) -> np.ndarray:
    """A steady vowel: a fundamental and its overtones."""
    t = (first + np.arange(samples)) / 48_000
    return (sum(4000 / k * np.sin(2 * np.pi * hz * k * t) for k in range(1, 8))).astype(np.int16)


def steepest(sound: np.ndarray) -> int:
    return int(np.abs(np.diff(sound.astype(int))).max())


@pytest.mark.parametrize("hz", [80.0, 137.0, 251.0, 390.0])
def test_lost_packet_inside_a_vowel_leaves_no_step_and_keeps_its_pitch(hz):
    concealer = Concealer()
    before = concealer.accept(voice(4800, hz=hz))
    made = concealer.conceal(960)
    after = concealer.accept(voice(960, 5760, hz=hz))
    whole = np.concatenate((before, made, after))
    assert steepest(whole) <= 1.5 * steepest(voice(4800, hz=hz))
    lost = voice(960, 4800, hz=hz).astype(float)
    assert np.corrcoef(made, lost)[0, 1] > 0.9


def test_made_up_sound_fades_to_silence_by_60_ms():
    concealer = Concealer()
    concealer.accept(voice(4800))
    made = np.concatenate([concealer.conceal(960) for _ in range(10)]).astype(float)
    loudness = np.sqrt(np.mean(made.reshape(-1, 960) ** 2, axis=1))
    assert loudness[0] > loudness[1] > loudness[2] > 0
    assert np.all(made[FADE_SAMPLES:] == 0)


def test_sound_after_a_long_hole_comes_in_without_a_click():
    concealer = Concealer()
    concealer.accept(voice(4800))
    made = concealer.conceal(4800)
    after = concealer.accept(np.full(960, 12_000, np.int16))
    assert steepest(np.concatenate((made[-10:], after))) <= 200


def test_hole_before_any_sound_is_silence():
    assert not Concealer().conceal(2880).any()


def test_silence_on_purpose_is_not_filled_with_voice():
    concealer = Concealer()
    concealer.accept(voice(4800))
    assert not concealer.silence(9600).any()
    assert not concealer.conceal(960).any()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from((120, 480, 960, 2880, 5760))), max_size=12), st.randoms())
def test_any_order_of_losses_gives_the_asked_lengths(steps, random):
    concealer = Concealer()
    for lost, samples in steps:
        noise = np.random.default_rng(random.randrange(2**32)).integers(-32768, 32767, samples).astype(np.int16)
        made = concealer.conceal(samples) if lost else concealer.accept(noise)
        assert made.shape == (samples,)
        assert made.dtype == np.int16
