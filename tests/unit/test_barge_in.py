"""Barge-in: who is heard as an interruption, and what is not. Sound through simulated rooms, speech of real people."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from streamer.bench.rooms import Room, heard_back, interruptions_ms, loudness, noise, with_sound
from streamer.media import SOUND_HZ as HZ
from streamer.speech import decode_speech

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


@cache
def recording(path):
    kind = "audio/ogg" if path.endswith("ogg") else "audio/flac"
    sound = decode_speech((ROOT / path).read_bytes(), kind).astype(np.float32) / 32768
    return sound[np.flatnonzero(np.abs(sound) > 0.02)[0] :]


QUIET_S = 1.0


def avatar(seconds):
    """What we play: a moment of silence, then speech to the end."""
    speech = np.tile(recording("web/samples/evening-news.ogg"), 3)[: int((seconds - QUIET_S) * HZ)]
    return np.concatenate((np.zeros(int(QUIET_S * HZ), np.float32), speech))


def visitor():
    """What a visitor says: another, real voice."""
    return recording("tests/data/librivox_austen_0890.flac")


@pytest.mark.parametrize("gain_db", [-6, -20])
@pytest.mark.parametrize(("decay_s", "delay_ms"), [(0.2, 40), (0.4, 150), (0.7, 350)])
def test_own_sound_from_the_loudspeakers_is_no_interruption(gain_db, decay_s, delay_ms):
    played = avatar(14)
    echo = heard_back(played, Room(decay_s, delay_ms, seed=7), gain_db)
    assert interruptions_ms(played, echo + noise(len(echo))) == []


@pytest.mark.parametrize("gain_db", [-6, -20])
@pytest.mark.parametrize("at_s", [3.0, 6.0])
def test_visitor_is_heard_over_our_own_sound(gain_db, at_s):
    played = avatar(10)
    echo = heard_back(played, Room(0.4, 150, seed=3), gain_db)
    said = visitor() * loudness(played) / loudness(visitor())
    found = interruptions_ms(played, with_sound(echo + noise(len(echo)), said, at_s))
    assert found
    assert 200 <= found[0] - at_s * 1000 <= 700


def test_visitor_with_headphones_is_heard():
    played = avatar(6)
    found = interruptions_ms(played, with_sound(noise(len(played)), visitor() * 0.5, 3.0))
    assert found
    assert 200 <= found[0] - 3000 <= 700


def test_less_than_200_ms_of_speech_is_no_interruption():
    played = avatar(6)
    microphone = noise(len(played))
    for at_s in (2.0, 3.0, 4.0):
        microphone = with_sound(microphone, visitor()[: int(0.15 * HZ)], at_s)
    assert interruptions_ms(played, microphone) == []


def test_clicks_are_no_interruption():
    played, draw = avatar(8), np.random.default_rng(1)
    microphone = noise(len(played))
    for at in range(2 * HZ, len(microphone) - HZ, HZ // 7):
        microphone[at : at + 3] = 0.9
        microphone[at + 2000 : at + 2400] += draw.standard_normal(400) * 0.3
    assert interruptions_ms(played, microphone) == []


def test_coughs_are_no_interruption():
    """Two bursts of shaped noise, the second with a short hoarse voice, as coughs are."""
    played, draw = avatar(10), np.random.default_rng(2)
    microphone = noise(len(played))
    t = np.arange(int(0.35 * HZ)) / HZ
    for at_s in (2.0, 2.5, 5.0, 5.6, 7.0):
        burst = np.convolve(draw.standard_normal(len(t)), np.hanning(24), "same") / 8
        burst *= np.where(t < 0.05, t / 0.05, np.exp(-(t - 0.05) / 0.1)) * 0.4
        burst += 0.05 * np.sin(2 * np.pi * 170 * t) * ((t > 0.22) & (t < 0.3))
        microphone = with_sound(microphone, burst, at_s)
    assert interruptions_ms(played, microphone) == []


def test_steady_noise_is_no_interruption():
    played = avatar(8)
    assert interruptions_ms(played, noise(len(played), -30)) == []
