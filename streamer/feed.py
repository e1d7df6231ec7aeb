"""The feed: puts pushed speech on the session's grid, just early enough for its mouths to be rendered. Pure.

While nobody speaks it gives silence as late as it can, so that new speech starts at the next frame that can be made.
"""

from __future__ import annotations

import numpy as np

from streamer.channel import Channel
from streamer.clock import Clock
from streamer.media import CHUNK_SAMPLES, FRAME_NS, FRAME_SAMPLES, S16, AudioChunk
from streamer.pipeline.resample import Decimator
from streamer.speech_line import SpeechLine

_SILENCE: S16 = np.zeros(CHUNK_SAMPLES, np.int16)
_SILENCE.flags.writeable = False


class Feed:
    """Contiguous 20 ms chunks on the grid, from a line of speech. `emit` once a frame, or more often."""

    def __init__(self, line: SpeechLine, first_release_ns: int, lookahead_chunks: int, tail_frames: int) -> None:
        """first_release_ns: when frame 0 is released; lookahead_chunks: sound an engine needs behind a frame;
        tail_frames: how long after speech mouths are still rendered.
        """
        self._line = line
        self._first_release_ns = first_release_ns
        self._ahead_samples = lookahead_chunks * CHUNK_SAMPLES
        self._decimator = Decimator()
        self._tail_frames = tail_frames
        self._tail_until = -1
        self._next_first = 0
        self._tick = 0
        self._generation = 0
        self._open_from = 0
        self._begins_at = 0
        self.render_frames = 1
        """How many frames before its release a frame's sound leaves: the time to render its mouth."""
        self.released = -1
        """Index of the last frame that playout released: speech for it or before it would come too late."""

    @property
    def next_ns(self) -> int:
        """When `emit` has something to do."""
        return self._first_release_ns + (self._tick - self.render_frames) * FRAME_NS

    def void(self, generation: int) -> None:
        """What was emitted is void; what comes is of a new generation and starts with a whole frame."""
        self._generation = generation
        self._tail_until = -1
        self._open_from = -(-self._next_first // FRAME_SAMPLES) * FRAME_SAMPLES

    def emit(self, now_ns: int) -> list[AudioChunk]:
        """The chunks due by now."""
        reached = (now_ns - self._first_release_ns) // FRAME_NS + self.render_frames
        self._tick = max(self._tick, reached + 1)
        # New speech begins with a frame that can still get its mouth; what is running goes on wherever it can be heard.
        self._begins_at = 0 if self._line.running else reached * FRAME_SAMPLES
        chunks = self._until(reached * FRAME_SAMPLES, now_ns)
        if self._line.flowing:
            self._tail_until = reached + self._tail_frames
        if reached < self._tail_until:
            chunks += self._until((reached + 1) * FRAME_SAMPLES + self._ahead_samples, now_ns)
        return chunks

    def _until(self, end: int, now_ns: int) -> list[AudioChunk]:
        chunks = []
        while self._next_first < end:
            chunks.append(self._chunk(now_ns))
        return chunks

    def _chunk(self, now_ns: int) -> AudioChunk:
        first = self._next_first
        self._next_first += CHUNK_SAMPLES
        pcm48 = None
        if first >= max(self._open_from, self._begins_at, (self.released + 1) * FRAME_SAMPLES):
            pcm48 = self._line.take(first)
        if pcm48 is None:
            pcm48 = _SILENCE
        samples16 = self._decimator.push(pcm48.astype(np.float32) / 32768.0)
        return AudioChunk(samples16, pcm48, first, now_ns, self._generation)


async def run(feed: Feed, chunks: Channel[AudioChunk], clock: Clock) -> None:
    """Feed the line for as long as the session lives."""
    while not chunks.closed:
        await clock.sleep_until(feed.next_ns)
        for chunk in feed.emit(clock.now_ns()):
            chunks.put_nowait(chunk)
