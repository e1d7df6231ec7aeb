"""Voice activity: says which 20 ms chunks are speech. Never touches sound and adds nothing to the line's latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import webrtcvad

from streamer.channel import Channel, ChannelClosed
from streamer.clock import Clock
from streamer.media import ANALYSIS_HZ, AudioChunk, GatedChunk

CHUNK_MS = 20


@dataclass(frozen=True, slots=True)
class VadSettings:
    """When sound counts as speech."""

    aggressiveness: int = 2
    """webrtcvad's mode, 0 (lets most through) to 3 (strictest)."""
    minimum_speech_ms: int = 40
    """Shorter bursts, such as a click, are not speech. Paid for by the look-ahead."""
    hangover_ms: int = 200
    floor_dbfs: float = -60.0
    """Quieter chunks are silence whatever the detector thinks."""


class Vad:
    """One per source; feed it every chunk in order."""

    def __init__(self, settings: VadSettings | None = None) -> None:
        self._settings = settings or VadSettings()
        self._detector = webrtcvad.Vad(self._settings.aggressiveness)
        self._floor = 10.0 ** (self._settings.floor_dbfs / 20)
        self._run_ms = 0
        self._left_ms = 0
        self._generation = 0

    @property
    def speech(self) -> bool:
        """The last chunk was speech, hangover included."""
        return self._left_ms > 0

    def push(self, chunk: AudioChunk, now_ns: int) -> GatedChunk:
        """Judge one chunk. `speech` covers the hangover; the pre-roll is the window stage's.

        A chunk of another generation starts afresh: void speech has no hangover.
        """
        if chunk.generation != self._generation:
            self._generation, self._run_ms, self._left_ms = chunk.generation, 0, 0
        if self._is_voice(chunk):
            self._run_ms += CHUNK_MS
            if self._run_ms >= self._settings.minimum_speech_ms:
                self._left_ms = self._settings.hangover_ms
        else:
            self._run_ms = 0
            self._left_ms = max(0, self._left_ms - CHUNK_MS)
        return GatedChunk(chunk, self._left_ms > 0, now_ns)

    def _is_voice(self, chunk: AudioChunk) -> bool:
        level = float(np.sqrt(np.mean(np.square(chunk.samples16))))
        if level < self._floor:
            return False
        pcm = np.clip(chunk.samples16 * 32767.0, -32768, 32767).astype("<i2").tobytes()
        return bool(self._detector.is_speech(pcm, ANALYSIS_HZ))


async def run(vad: Vad, chunks: Channel[AudioChunk], gated: Channel[GatedChunk], clock: Clock) -> None:
    """Judge chunks as they come."""
    while True:
        try:
            chunk = await chunks.get()
        except ChannelClosed:
            return
        gated.put_nowait(vad.push(chunk, clock.now_ns()))
