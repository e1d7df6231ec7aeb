"""Ingest: puts a source's sound on the session's frame grid, chunk by chunk, without a hole. Knows no transport.

The mapping from the source's samples to the grid is fixed at the first block, follows the source's crystal through a
resampler that leans, and is anchored anew only after a lasting change. Sound that comes too late for its slot is
dropped, never queued: an underrun holds, it does not shift.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from streamer.channel import Channel, ChannelClosed
from streamer.clock import NS_PER_MS, NS_PER_S, Clock
from streamer.media import CHUNK_SAMPLES, FRAME_NS, FRAME_SAMPLES, S16, SOUND_HZ, AudioChunk, SoundBlock
from streamer.pipeline.drift import DriftFollower
from streamer.pipeline.resample import F32, Decimator, LeaningResampler

CHUNK_NS = CHUNK_SAMPLES * NS_PER_S // SOUND_HZ
LET_IN_NS = 5 * NS_PER_MS
JUDGED_BLOCKS = 500
"""Ten seconds of packets of 20 ms."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How patient ingest is."""

    fill_margin_ms: float = 30.0
    """How long after its due time a chunk's sound is waited for before silence takes its slot."""


@dataclass(slots=True)
class IngestCounts:
    """What happened to the sound, in samples at 48 kHz."""

    late_samples: int = 0
    filled_samples: int = 0
    anchors: int = 0


class Ingest:
    """Blocks of a source in, contiguous 20 ms chunks on the grid out."""

    def __init__(self, start_ns: int, settings: IngestSettings | None = None) -> None:
        self._start_ns = start_ns
        self._settings = settings or IngestSettings()
        self.fill_margin_ns = int(self._settings.fill_margin_ms * NS_PER_MS)
        """How long after its due time a chunk's sound is waited for; follows what playout can wait."""
        self._resampler = LeaningResampler()
        self._decimator = Decimator()
        self._drift = DriftFollower()
        self._pending = np.zeros(0, np.float32)
        self._pending_first = 0
        self._next_first = 0
        self._anchored = False
        self._captured_ns = start_ns
        self._lead_ns = 0
        self.generation = 0
        self.counts = IngestCounts()
        self.lateness_ns: deque[int] = deque(maxlen=JUDGED_BLOCKS)
        """How long after its place on the grid each block that really came was here: what the path does."""

    @property
    def next_fill_ns(self) -> int:
        """When `fill` has something to do if no sound comes before."""
        return self._due_ns(self._next_first) + self.fill_margin_ns

    def anchor_at_start(self) -> None:
        """The first block to come starts where the grid does, whenever it arrives: the grid was made for it."""
        self._anchored = True
        self.counts.anchors += 1

    @property
    def lead_ns(self) -> int:
        """How much longer than at the start sound waits between its arrival and its place on the grid."""
        return self._lead_ns

    def shift(self, frames: int) -> None:
        """Put what is to come so many frames later on the grid: later sound leaves a gap, earlier sound is cut.

        Meant for silence; in speech a gap is heard. The grid itself goes on: no index is skipped or used twice.
        """
        self._lead_ns += frames * FRAME_NS
        if self._anchored:
            self._pending_first += frames * FRAME_SAMPLES
            self._trim()

    def push(self, block: SoundBlock, now_ns: int) -> list[AudioChunk]:
        """Put a block on the grid. Returns the chunks it completes, contiguous with all before them."""
        samples = self._resampler.push(block.pcm48.astype(np.float32) / 32768.0, 1.0 + self._drift.lean_ppm * 1e-6)
        if not self._anchored:
            self._anchor(block.arrived_ns, len(samples))
        lost = self._append(samples)
        self._captured_ns = block.arrived_ns
        self._follow(block, lost=lost)
        return self._complete()

    def fill(self, now_ns: int) -> list[AudioChunk]:
        """Silence for every slot whose sound has not come in time."""
        chunks = []
        while self.next_fill_ns <= now_ns:
            padded = np.zeros(CHUNK_SAMPLES, np.float32)
            if self._pending_first == self._next_first:
                padded[: len(self._pending)] = _faded_out(self._pending[:CHUNK_SAMPLES])
                self.counts.filled_samples -= len(self._pending)
            self.counts.filled_samples += CHUNK_SAMPLES
            chunks.append(self._emit(padded, self._due_ns(self._next_first)))
            self._trim()
        return chunks

    def _anchor(self, arrived_ns: int, length: int) -> None:
        """Fix the mapping: a block that ends when it arrives starts at the next chunk edge from there."""
        position = (arrived_ns - self._start_ns + self._lead_ns) * SOUND_HZ / NS_PER_S - length
        edge = int(np.ceil((position - 24) / CHUNK_SAMPLES)) * CHUNK_SAMPLES
        self._pending_first = edge
        self._anchored = True
        self.counts.anchors += 1

    def _anchor_anew(self, lateness_ms: float) -> None:
        """Move the mapping by whole chunks so that blocks of this lateness come just in time again.

        Later: silence fills the gap. Earlier: as much sound is dropped, since its slots have been given away.
        """
        self._pending_first += int(np.ceil(lateness_ms * NS_PER_MS / CHUNK_NS)) * CHUNK_SAMPLES
        self._trim()
        self.counts.anchors += 1

    def _append(self, samples: F32) -> bool:
        """Add to what is pending. True where some of it comes too late for its slots."""
        first = self._pending_first + len(self._pending)
        late = min(len(samples), max(0, self._next_first - first))
        self.counts.late_samples += late
        self._pending = np.concatenate((self._pending, samples))
        self._trim()
        return late > 0

    def _trim(self) -> None:
        """Forget pending sound whose slot has been given away."""
        gone = min(len(self._pending), max(0, self._next_first - self._pending_first))
        if gone:
            self._pending = self._pending[gone:]
            self._pending_first += gone

    def _follow(self, block: SoundBlock, *, lost: bool) -> None:
        """Lean against drift; anchor anew after a lasting change of the path."""
        arrived_ns = block.arrived_ns
        end = self._pending_first + len(self._pending)
        expected_ns = self._start_ns - self._lead_ns + end * NS_PER_S // SOUND_HZ
        if not block.concealed:
            self.lateness_ns.append(arrived_ns - expected_ns)
        lateness_ms = self._drift.follow(arrived_ns, arrived_ns - expected_ns, lost=lost)
        if lateness_ms is not None:
            self.lateness_ns.clear()
            self._anchor_anew(lateness_ms)

    def _complete(self) -> list[AudioChunk]:
        chunks = []
        while len(self._pending) and self._next_first < self._pending_first:
            self.counts.filled_samples += CHUNK_SAMPLES
            chunks.append(self._emit(np.zeros(CHUNK_SAMPLES, np.float32), self._captured_ns))
        while len(self._pending) >= CHUNK_SAMPLES:
            chunks.append(self._emit(self._pending[:CHUNK_SAMPLES], self._captured_ns))
            self._trim()
        return chunks

    def _emit(self, samples: F32, captured_ns: int) -> AudioChunk:
        chunk = AudioChunk(
            samples16=self._decimator.push(samples),
            pcm48=_to_s16(samples),
            first_sample=self._next_first,
            captured_ns=captured_ns,
            generation=self.generation,
        )
        self._next_first += CHUNK_SAMPLES
        return chunk

    def _due_ns(self, first: int) -> int:
        """When the last sample of the chunk at `first` happens on the session clock."""
        return self._start_ns - self._lead_ns + (first + CHUNK_SAMPLES) * NS_PER_S // SOUND_HZ


def _faded_out(samples: F32) -> F32:
    ramp = np.ones(len(samples), np.float32)
    length = min(len(samples), 96)
    ramp[len(samples) - length :] = np.linspace(1, 0, length, dtype=np.float32)
    return samples * ramp


def _to_s16(samples: F32) -> S16:
    pcm: S16 = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
    return pcm


async def run(ingest: Ingest, blocks: Channel[SoundBlock], chunks: Channel[AudioChunk], clock: Clock) -> None:
    """Move blocks to chunks as they come; a second task (`run_fill`) gives late slots away."""
    while True:
        try:
            block = await blocks.get()
        except ChannelClosed:
            return
        for chunk in ingest.push(block, clock.now_ns()):
            chunks.put_nowait(chunk)


async def run_fill(ingest: Ingest, chunks: Channel[AudioChunk], clock: Clock) -> None:
    """Give slots away whose sound does not come, for as long as the session lives."""
    while not chunks.closed:
        due_ns = ingest.next_fill_ns
        await clock.sleep_until(due_ns)
        if clock.now_ns() > due_ns + FRAME_NS:  # everything stood still: let in first what came meanwhile
            await clock.sleep_until(clock.now_ns() + LET_IN_NS)
        for chunk in ingest.fill(clock.now_ns()):
            chunks.put_nowait(chunk)
