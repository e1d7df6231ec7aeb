"""Barge-in: says when a visitor speaks while the avatar speaks; clicks, coughs and our own echo do not count. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from streamer.echo import BANDS, CHUNK_SAMPLES_16K, F32, F64, TAPS, Bands, EchoDoubt, EchoPath, excess_of
from streamer.media import CHUNK_SAMPLES, CHUNKS_PER_FRAME, FRAME_SAMPLES, S16, AudioChunk
from streamer.pipeline.resample import Decimator
from streamer.pipeline.vad import CHUNK_MS, Vad, VadSettings

_RING_SLOTS = 128
_SMOOTHING = 0.5
NOISE_MARGIN = 3.0
"""Least power of two seconds to the usual power of noise."""
PITCHED = 0.6
"""Least self-similarity at the pitch of a voice: a cough has none."""
LEARNING_CHUNKS = 30
"""Before that the echo expected is no guide, and its errors say nothing about later ones."""
_NOISE_RMS = 10 ** (-52 / 20)
_MOST_GAIN = 10.0
"""The detector of voices knows those of headsets: a microphone's sound is raised until its noise has this level."""
_LAGS = slice(40, 230)
"""70 to 400 Hz at 16 kHz."""
_NOISE_CHUNKS = 100


@dataclass(frozen=True, slots=True)
class BargeInSettings:
    """What counts as an interruption."""

    minimum_speech_ms: int = 200
    within_ms: int = 480
    """The least speech must come within this time."""
    pitched_share: float = 0.5
    """So much of it must be pitched."""


class BargeIn:
    """One a session. `play` everything that is released, `hear` every chunk of the microphone, in order."""

    def __init__(self, release_slot: int, settings: BargeInSettings | None = None) -> None:
        """release_slot: in which slot of 20 ms frame 0 is released. Slot 0 is the start of the session's grid."""
        settings = settings or BargeInSettings()
        self._release_slot = release_slot
        self._needed = settings.minimum_speech_ms // CHUNK_MS
        self._pitched_needed = int(self._needed * settings.pitched_share)
        self._recent: deque[tuple[bool, bool]] = deque(maxlen=settings.within_ms // CHUNK_MS)
        self._vad = Vad(VadSettings(minimum_speech_ms=CHUNK_MS, hangover_ms=CHUNK_MS, floor_dbfs=-50.0))
        self._path = EchoPath()
        self._doubt = EchoDoubt()
        self._speaker = _Speaker()
        self._microphone = Bands()
        self._heard = np.zeros(BANDS)
        self._echo = np.zeros(BANDS)
        self._noise: deque[F64] = deque(maxlen=_NOISE_CHUNKS)
        self._tail: F32 = np.zeros(CHUNK_SAMPLES_16K, np.float32)

    def play(self, index: int, pcm48: S16 | None) -> None:
        """Frame `index` is released: (1920,) s16, or None for silence."""
        self._speaker.play(index * CHUNKS_PER_FRAME + self._release_slot, pcm48)

    def hear(self, chunk: AudioChunk, slot: int, *, speaking: bool) -> bool:
        """What the microphone took up in a slot. True where the visitor interrupts; only while we are `speaking`."""
        power = self._microphone.push(chunk.samples16)
        joined = np.concatenate((self._tail, chunk.samples16))
        self._tail = chunk.samples16
        played = self._speaker.before(slot)
        self._heard = _SMOOTHING * self._heard + (1 - _SMOOTHING) * power
        self._echo = _SMOOTHING * self._echo + (1 - _SMOOTHING) * self._path.predict(played)
        if not played.any():
            self._noise.append(self._heard)
        noise = NOISE_MARGIN * self._floor()
        voice = self._vad.push(_raised(chunk, noise), chunk.captured_ns).speech
        excess = excess_of(self._heard, self._echo + noise)
        near = voice and excess > self._doubt.limit
        if self._path.learn(played, power, noise) and self._path.learned_chunks > LEARNING_CHUNKS:
            self._doubt.note(excess)
        if not speaking:
            self._recent.clear()
            return False
        self._recent.append((near, near and pitch(joined) > PITCHED))
        nears, pitches = (sum(column) for column in zip(*self._recent, strict=True))
        if nears < self._needed or pitches < self._pitched_needed:
            return False
        self._recent.clear()
        return True

    def _floor(self) -> F64:
        """(BANDS,) the least power of two seconds in which nothing was played: what is always there."""
        floor: F64 = np.minimum.reduce(self._noise) if self._noise else np.zeros(BANDS)
        return floor


def _raised(chunk: AudioChunk, noise: F64) -> AudioChunk:
    """The same as if it came from a microphone near the mouth, where its noise, (BANDS,) power, is low."""
    rms = float(np.sqrt(noise.sum()))
    if rms <= 0.0 or rms >= _NOISE_RMS:
        return chunk
    return replace(chunk, samples16=chunk.samples16 * np.float32(min(_MOST_GAIN, _NOISE_RMS / rms)))


class _Speaker:
    """What was played, by slot of the microphone's grid."""

    def __init__(self) -> None:
        self._bands = Bands()
        self._decimator = Decimator()
        self._ring = np.zeros((_RING_SLOTS, BANDS))
        self._next = 0
        self._silent = True

    def play(self, slot: int, pcm48: S16 | None) -> None:
        for missing in range(max(self._next, slot - _RING_SLOTS), slot):
            self._ring[missing % _RING_SLOTS] = 0.0
        silent = pcm48 is None
        sound = np.zeros(FRAME_SAMPLES, np.float32) if pcm48 is None else pcm48.astype(np.float32) / 32768.0
        for part in range(CHUNKS_PER_FRAME):
            row = np.zeros(BANDS)
            if not (silent and self._silent):
                piece = sound[part * CHUNK_SAMPLES : (part + 1) * CHUNK_SAMPLES]
                row = self._bands.push(self._decimator.push(piece))
            self._ring[(slot + part) % _RING_SLOTS] = row
        self._silent = silent
        self._next = slot + CHUNKS_PER_FRAME

    def before(self, slot: int) -> F64:
        """(TAPS, BANDS) power played at `slot` and before, newest first; nothing is known of the future."""
        slots = slot - np.arange(TAPS)
        rows: F64 = self._ring[slots % _RING_SLOTS]
        rows[slots >= self._next] = 0.0
        return rows


def pitch(samples16: F32) -> float:
    """How much 40 ms of sound resemble themselves a pitch period later, 0..1."""
    centred = samples16 - samples16.mean()
    spectrum = np.fft.rfft(centred, 1024)
    likeness = np.fft.irfft(spectrum.real**2 + spectrum.imag**2)
    if likeness[0] <= 1e-9:
        return 0.0
    lags = np.arange(_LAGS.start, _LAGS.stop)
    return float((likeness[_LAGS] * len(centred) / (len(centred) - lags)).max() / likeness[0])
