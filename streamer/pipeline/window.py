"""Windows: cuts the gated sound into frames of the grid, and into windows with the context an engine declares."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.channel import Channel, ChannelClosed
from streamer.clock import Clock
from streamer.media import (
    CHUNK_SAMPLES,
    CHUNKS_PER_FRAME,
    FRAME_SAMPLES_16K,
    AudioChunk,
    AudioWindow,
    FrameSound,
    GatedChunk,
    Stamps,
)

CHUNK_SAMPLES_16K = FRAME_SAMPLES_16K // CHUNKS_PER_FRAME


def lookahead_chunks(lookahead_samples: int) -> int:
    """An engine's look-ahead at 16 kHz in whole chunks."""
    return -(-lookahead_samples // CHUNK_SAMPLES_16K)


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """What the engine wants around a frame, at 16 kHz, and how early a mouth may start."""

    context_samples: int
    lookahead_samples: int
    preroll_ms: int = 60
    """A frame is voiced if speech begins within this time after it; at most the look-ahead is known."""


class Windower:
    """Contiguous gated chunks in; out comes each frame's sound when it is whole, its window with the look-ahead."""

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._samples: npt.NDArray[np.float32] = np.zeros(settings.context_samples, np.float32)
        self._chunks: deque[GatedChunk] = deque()
        self._last: AudioChunk | None = None
        self._ahead_chunks = lookahead_chunks(settings.lookahead_samples)
        self._preroll_chunks = min(self._ahead_chunks, settings.preroll_ms // 20)

    def push(self, gated: GatedChunk, now_ns: int) -> list[FrameSound | AudioWindow]:
        """Take a chunk; return the sound and the window it completes.

        Sound before a change of generation or a hole is no context for the sound behind it.
        """
        last, self._last = self._last, gated.chunk
        if last is not None and gated.chunk.first_sample != last.first_sample + CHUNK_SAMPLES:
            self._chunks.clear()
            self._samples = np.zeros(self._settings.context_samples, np.float32)
        elif last is not None and gated.chunk.generation != last.generation:
            self._samples = np.zeros_like(self._samples)
        self._samples = np.concatenate((self._samples, gated.chunk.samples16))
        self._chunks.append(gated)
        made: list[FrameSound | AudioWindow] = []
        if len(self._chunks) >= CHUNKS_PER_FRAME and _place_in_frame(gated) == CHUNKS_PER_FRAME - 1:
            made.append(self._sound(now_ns))
        if len(self._chunks) >= CHUNKS_PER_FRAME + self._ahead_chunks:
            if _place_in_frame(self._chunks[0]):
                self._forget(1)
            else:
                made.append(self._window(now_ns))
                self._forget(CHUNKS_PER_FRAME)
        return made

    def _sound(self, now_ns: int) -> FrameSound:
        frame = [self._chunks[i - CHUNKS_PER_FRAME] for i in range(CHUNKS_PER_FRAME)]
        return FrameSound(
            index=_frame_index(frame[0]),
            pcm48=np.concatenate([g.chunk.pcm48 for g in frame]),
            speech=any(g.speech for g in frame),
            generation=min(g.chunk.generation for g in frame),
            stamps=Stamps(captured_ns=frame[-1].chunk.captured_ns, gated_ns=frame[-1].gated_ns, windowed_ns=now_ns),
        )

    def _window(self, now_ns: int) -> AudioWindow:
        settings = self._settings
        frame = [self._chunks[i] for i in range(CHUNKS_PER_FRAME)]
        near = [self._chunks[i] for i in range(CHUNKS_PER_FRAME + self._preroll_chunks)]
        length = settings.context_samples + FRAME_SAMPLES_16K + settings.lookahead_samples
        last = self._chunks[CHUNKS_PER_FRAME - 1 + self._ahead_chunks]
        return AudioWindow(
            index=_frame_index(frame[0]),
            samples16=self._samples[:length].copy(),
            voiced=any(g.speech for g in near),
            generation=min(g.chunk.generation for g in frame),
            stamps=Stamps(captured_ns=last.chunk.captured_ns, gated_ns=last.gated_ns, windowed_ns=now_ns),
        )

    def _forget(self, chunks: int) -> None:
        for _ in range(chunks):
            self._chunks.popleft()
        self._samples = self._samples[chunks * CHUNK_SAMPLES_16K :]


def _place_in_frame(gated: GatedChunk) -> int:
    return gated.chunk.first_sample // CHUNK_SAMPLES % CHUNKS_PER_FRAME


def _frame_index(gated: GatedChunk) -> int:
    return gated.chunk.first_sample // (CHUNK_SAMPLES * CHUNKS_PER_FRAME)


async def run(
    windower: Windower, gated: Channel[GatedChunk], windows: Channel[FrameSound | AudioWindow], clock: Clock
) -> None:
    """Cut windows as chunks come."""
    while True:
        try:
            chunk = await gated.get()
        except ChannelClosed:
            return
        for made in windower.push(chunk, clock.now_ns()):
            windows.put_nowait(made)
