"""Barge-in: who is heard as an interruption, and what is not. Sound through simulated rooms, speech of real people."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from streamer.barge_in import BargeIn
from streamer.media import AudioChunk
from streamer.pipeline.resample import Decimator
from streamer.speech import decode_speech

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
RELEASE_SLOT = 6
HZ = 48_000


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


def loudness(sound):
    """RMS of the parts in which somebody speaks."""
    pieces = sound[: len(sound) // 960 * 960].reshape(-1, 960)
    levels = np.sqrt((pieces**2).mean(axis=1))
    return float(np.sqrt((levels[levels > levels.max() * 0.05] ** 2).mean()))


def room(decay_s, delay_ms, seed):
    """Loudspeaker to microphone: direct sound, a few walls, a tail that falls by 60 dB in `decay_s`."""
    draw = np.random.default_rng(seed)
    t = np.arange(int(decay_s * HZ)) / HZ
    response = draw.standard_normal(len(t)) * np.exp(-6.9 * t / decay_s) * 0.15
    response[:120] = 0
    response[0] = 1
    for wall in (180, 330, 510, 780):
        response[wall] += draw.uniform(-0.5, 0.5)
    return np.concatenate((np.zeros(int(delay_ms * HZ / 1000)), response))


def heard_back(sound, response, gain_db):
    """Our own sound through a room, `gain_db` against what we played; released RELEASE_SLOT slots late."""
    late = np.concatenate((np.zeros(RELEASE_SLOT * 960), sound))
    size = len(late) + len(response)
    echo = np.fft.irfft(np.fft.rfft(late, size) * np.fft.rfft(response, size), size)[: len(late)]
    return echo * loudness(sound) * 10 ** (gain_db / 20) / loudness(echo)


def noise(length, level_db=-60):
    return np.random.default_rng(5).standard_normal(length) * 10 ** (level_db / 20)


def interruptions_ms(played, microphone):
    """When barge-in was told, in ms of the microphone."""
    ear, decimator, found = BargeIn(RELEASE_SLOT), Decimator(), []
    frames = np.rint(np.clip(played[: len(played) // 1920 * 1920], -1, 1) * 32767).astype(np.int16).reshape(-1, 1920)
    for slot in range(len(microphone) // 960):
        index, half = divmod(slot - RELEASE_SLOT, 2)
        if half == 0 and 0 <= index < len(frames):
            ear.play(index, frames[index])
        sound = decimator.push(microphone[slot * 960 : (slot + 1) * 960].astype(np.float32))
        chunk = AudioChunk(sound, np.zeros(960, np.int16), slot * 960, 0)
        if ear.hear(chunk, slot, speaking=True):
            found.append((slot + 1) * 20)
    return found


def with_visitor(microphone, said, at_s):
    mixed, at = microphone.copy(), int(at_s * HZ)
    said = said[: len(mixed) - at]
    mixed[at : at + len(said)] += said
    return mixed


@pytest.mark.parametrize("gain_db", [-6, -20])
@pytest.mark.parametrize(("decay_s", "delay_ms"), [(0.2, 40), (0.4, 150), (0.7, 350)])
def test_own_sound_from_the_loudspeakers_is_no_interruption(gain_db, decay_s, delay_ms):
    played = avatar(14)
    echo = heard_back(played, room(decay_s, delay_ms, seed=7), gain_db)
    assert interruptions_ms(played, echo + noise(len(echo))) == []


@pytest.mark.parametrize("gain_db", [-6, -20])
@pytest.mark.parametrize("at_s", [3.0, 6.0])
def test_visitor_is_heard_over_our_own_sound(gain_db, at_s):
    played = avatar(10)
    echo = heard_back(played, room(0.4, 150, seed=3), gain_db)
    said = visitor() * loudness(played) / loudness(visitor())
    found = interruptions_ms(played, with_visitor(echo + noise(len(echo)), said, at_s))
    assert found
    assert 200 <= found[0] - at_s * 1000 <= 700


def test_visitor_with_headphones_is_heard():
    played = avatar(6)
    found = interruptions_ms(played, with_visitor(noise(len(played)), visitor() * 0.5, 3.0))
    assert found
    assert 200 <= found[0] - 3000 <= 700


def test_less_than_200_ms_of_speech_is_no_interruption():
    played = avatar(6)
    microphone = noise(len(played))
    for at_s in (2.0, 3.0, 4.0):
        microphone = with_visitor(microphone, visitor()[: int(0.15 * HZ)], at_s)
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
        microphone = with_visitor(microphone, burst, at_s)
    assert interruptions_ms(played, microphone) == []


def test_steady_noise_is_no_interruption():
    played = avatar(8)
    assert interruptions_ms(played, noise(len(played), -30)) == []
