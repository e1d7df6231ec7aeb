"""Simulated rooms: what a visitor's microphone takes up of our own sound, of noise and of voices. Pure, seeded.

For measuring barge-in; sounds are (n,) f64 or f32 in -1..1 at 48 kHz.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.barge_in import BargeIn
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, SOUND_HZ, AudioChunk
from streamer.pipeline.resample import Decimator

Sound = npt.NDArray[np.floating]

RELEASE_SLOT = 6
"""So many slots of 20 ms after its place on the grid a frame is released."""
_DIRECT_SAMPLES = 120
_WALLS_SAMPLES = (180, 330, 510, 780)
_TAIL_SHARE = 0.15
_SPEAKING_SHARE = 0.05
"""Chunks louder than this share of the loudest count as speech."""


@dataclass(frozen=True, slots=True)
class Room:
    """From loudspeaker to microphone: direct sound, a few walls, a tail that falls by 60 dB in `decay_s`."""

    decay_s: float
    delay_ms: float
    """Network, buffers and air together."""
    seed: int

    def response(self) -> Sound:
        draw = np.random.default_rng(self.seed)
        t = np.arange(int(self.decay_s * SOUND_HZ)) / SOUND_HZ
        response: Sound = draw.standard_normal(len(t)) * np.exp(-6.9 * t / self.decay_s) * _TAIL_SHARE
        response[:_DIRECT_SAMPLES] = 0
        response[0] = 1
        for wall in _WALLS_SAMPLES:
            response[wall] += draw.uniform(-0.5, 0.5)
        return np.concatenate((np.zeros(int(self.delay_ms * SOUND_HZ / 1000)), response))


def loudness(sound: Sound) -> float:
    """RMS of the parts in which somebody speaks."""
    pieces = sound[: len(sound) // CHUNK_SAMPLES * CHUNK_SAMPLES].reshape(-1, CHUNK_SAMPLES)
    levels = np.sqrt((pieces**2).mean(axis=1))
    return float(np.sqrt((levels[levels > levels.max() * _SPEAKING_SHARE] ** 2).mean()))


def heard_back(played: Sound, room: Room, gain_db: float) -> Sound:
    """Our own sound through a room, `gain_db` against what was played, from slot 0 of the microphone on."""
    response = room.response()
    late = np.concatenate((np.zeros(RELEASE_SLOT * CHUNK_SAMPLES), played))
    size = 1 << (len(late) + len(response)).bit_length()
    echo = np.fft.irfft(np.fft.rfft(late, size) * np.fft.rfft(response, size), size)[: len(late)]
    return echo * loudness(played) * 10 ** (gain_db / 20) / loudness(echo)


def noise(length: int, level_db: float = -60.0, seed: int = 5) -> Sound:
    """White noise of this RMS against full scale."""
    return np.random.default_rng(seed).standard_normal(length) * 10 ** (level_db / 20)


def with_sound(microphone: Sound, said: Sound, at_s: float) -> Sound:
    """The same with something on top from `at_s` on, as far as there is room."""
    mixed, at = microphone.copy(), int(at_s * SOUND_HZ)
    said = said[: len(mixed) - at]
    mixed[at : at + len(said)] += said
    return mixed


def interruptions_ms(played: Sound, microphone: Sound) -> list[int]:
    """When barge-in was told while `played` was spoken, in ms of the microphone."""
    ear, decimator, found = BargeIn(RELEASE_SLOT), Decimator(), []
    whole = played[: len(played) // FRAME_SAMPLES * FRAME_SAMPLES]
    frames = np.rint(np.clip(whole, -1, 1) * 32767).astype(np.int16).reshape(-1, FRAME_SAMPLES)
    unheard = np.zeros(CHUNK_SAMPLES, np.int16)
    for slot in range(len(microphone) // CHUNK_SAMPLES):
        index, half = divmod(slot - RELEASE_SLOT, 2)
        if half == 0 and 0 <= index < len(frames):
            ear.play(index, frames[index])
        piece = microphone[slot * CHUNK_SAMPLES : (slot + 1) * CHUNK_SAMPLES]
        chunk = AudioChunk(decimator.push(piece.astype(np.float32)), unheard, slot * CHUNK_SAMPLES, 0)
        if ear.hear(chunk, slot, speaking=True):
            found.append((slot + 1) * 20)
    return found
