"""What interrupts and what does not, over many rooms, levels and seeds: the limits that docs/conversation.md states."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from streamer.bench.rooms import Room, heard_back, interruptions_ms, loudness, noise, with_sound
from streamer.media import SOUND_HZ
from streamer.speech import decode_speech

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SEEDS = range(12)
QUIET_S, AT_S, SECONDS = 1.0, 5.0, 8.0
VISITORS = ("tests/data/librivox_austen_0890.flac", "tests/data/librivox_austen_0930.flac")


@cache
def recording(path):
    sound = decode_speech((ROOT / path).read_bytes(), None).astype(np.float32) / 32768
    return sound[np.flatnonzero(np.abs(sound) > 0.02)[0] :]


def played(seed, seconds=SECONDS):
    """What the avatar says: a moment of silence, then one of the samples from a place of its own."""
    sample = np.tile(recording(f"web/samples/{('evening-news', 'late-desk', 'weather')[seed % 3]}.ogg"), 4)
    start = seed * 7919 % (len(sample) // 2)
    speech = sample[start : start + int((seconds - QUIET_S) * SOUND_HZ)]
    return np.concatenate((np.zeros(int(QUIET_S * SOUND_HZ), np.float32), speech))


def room(seed):
    draw = np.random.default_rng(seed)
    return Room(float(draw.uniform(0.15, 0.8)), float(draw.uniform(20, 400)), seed)


def visitor(seed):
    sound = recording(VISITORS[seed % 2])
    start = seed * 3 * SOUND_HZ // 7 % (len(sound) // 2)
    sound = sound[start:]
    return sound[np.flatnonzero(np.abs(sound) > 0.1 * np.abs(sound).max())[0] :]


def told(name, delays, out_of):
    spread = f"{np.median(delays):.0f} / {np.percentile(delays, 95):.0f} ms" if delays else "-"
    print(f"{name:<58} {len(delays):>3} of {out_of}   {spread}")


@pytest.mark.parametrize("gain_db", [-6, -12, -20])
def test_own_sound_through_many_rooms(gain_db):
    false = [found for seed in SEEDS for found in interruptions_ms(
        played(seed, 20.0), heard_back(played(seed, 20.0), room(seed), gain_db)
        + noise(int(20.0 * SOUND_HZ) + 6 * 960, -60, seed))[:1]]  # fmt: skip
    print()
    told(f"own sound at {gain_db} dB, 20 s, interrupted by itself", false, len(SEEDS))
    assert len(false) <= len(SEEDS) // 10


@pytest.mark.parametrize(
    ("gain_db", "level_db"),
    [(-6, 6), (-6, 0), (-6, -6), (-6, -12), (-20, 0), (-20, -6), (-20, -12), (-20, -20), (-20, -26)],
)
def test_visitor_over_own_sound(gain_db, level_db):
    """level_db: the visitor against what we play, at the microphone."""
    delays = []
    for seed in SEEDS:
        ours, said = played(seed), visitor(seed)
        echo = heard_back(ours, room(seed), gain_db)
        said = said * loudness(ours) * 10 ** (level_db / 20) / loudness(said)
        microphone = with_sound(echo + noise(len(echo), -60, seed), said, AT_S)
        delays += [ms - AT_S * 1000 for ms in interruptions_ms(ours, microphone) if ms > AT_S * 1000][:1]
    print()
    told(f"visitor {level_db - gain_db:+} dB against our own sound, which is at {gain_db} dB", delays, len(SEEDS))
    if level_db >= gain_db + 12:
        assert len(delays) >= 0.9 * len(SEEDS)


@pytest.mark.parametrize(("level_db", "noise_db"), [(-30, -60), (-40, -60), (-46, -66), (-50, -70), (-30, -45)])
def test_quiet_visitor_with_headphones(level_db, noise_db):
    """level_db: RMS of the visitor's speech against full scale."""
    delays = []
    for seed in SEEDS:
        ours, said = played(seed), visitor(seed)
        said = said * 10 ** (level_db / 20) / loudness(said)
        microphone = with_sound(noise(len(ours), noise_db, seed), said, AT_S)
        delays += [ms - AT_S * 1000 for ms in interruptions_ms(ours, microphone) if ms > AT_S * 1000][:1]
    print()
    told(f"visitor with headphones at {level_db} dBFS, noise at {noise_db}", delays, len(SEEDS))


def clicks(seed, draw):
    at = draw.integers(0, SOUND_HZ // 5)
    sound = np.zeros(SOUND_HZ // 2)
    sound[at : at + 3] = draw.uniform(0.3, 1.0)
    ring = draw.integers(200, 2000)
    sound[at + 3 : at + 3 + ring] = draw.standard_normal(ring) * np.exp(-np.arange(ring) / 200) * 0.4
    return sound


def cough(seed, draw):
    """A burst of shaped noise, at times with a short hoarse voice behind it."""
    length_s = draw.uniform(0.2, 0.45)
    t = np.arange(int(length_s * SOUND_HZ)) / SOUND_HZ
    burst = np.convolve(draw.standard_normal(len(t)), np.hanning(draw.integers(12, 60)), "same")
    burst *= np.where(t < 0.04, t / 0.04, np.exp(-(t - 0.04) / draw.uniform(0.06, 0.15)))
    burst *= draw.uniform(0.1, 0.6) / np.abs(burst).max()
    voiced = (t > length_s * 0.6) & (t < length_s * 0.9)
    return burst + draw.uniform(0, 0.06) * np.sin(2 * np.pi * draw.uniform(110, 260) * t) * voiced


def short_word(seed, draw):
    return visitor(seed)[: int(0.15 * SOUND_HZ)] * 0.6


@pytest.mark.parametrize("made", [clicks, cough, short_word], ids=lambda made: made.__name__)
def test_sounds_that_are_no_speech(made):
    false = []
    for seed in SEEDS:
        ours, draw = played(seed, 10.0), np.random.default_rng(seed)
        microphone = noise(len(ours), -60, seed)
        for at_s in np.arange(2.0, 9.0, 0.9):
            microphone = with_sound(microphone, made(seed, draw), at_s + draw.uniform(0, 0.2))
        false += interruptions_ms(ours, microphone)[:1]
    print()
    told(f"{made.__name__}, 8 of them, taken for an interruption", false, len(SEEDS))
    assert len(false) <= len(SEEDS) // 10
