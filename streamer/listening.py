"""Listening to a visitor while the avatar speaks: the microphone on the session's grid, and its ear for barge-in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from streamer.barge_in import BargeIn
from streamer.channel import Channel, ChannelClosed, WhenFull
from streamer.clock import Clock
from streamer.media import CHUNK_SAMPLES, FRAME_NS, AudioChunk, SoundBlock
from streamer.pipeline import ingest

SLOT_NS = FRAME_NS // 2
"""20 ms."""


class Listener:
    """Tells `on_barge_in` when the visitor speaks while there is something to interrupt."""

    def __init__(self, ear: BargeIn, speaking: Callable[[], bool], on_barge_in: Callable[[], None]) -> None:
        self._ear = ear
        self._speaking = speaking
        self._on_barge_in = on_barge_in

    async def run(self, blocks: Channel[SoundBlock], start_ns: int, clock: Clock) -> None:
        """Listen from the first block on; `start_ns` is slot 0. Ends with the blocks."""
        try:
            first = await blocks.get()
        except ChannelClosed:
            return
        slot = max(0, (first.arrived_ns - start_ns) // SLOT_NS - 2)
        line = ingest.Ingest(start_ns + slot * SLOT_NS)
        chunks: Channel[AudioChunk] = Channel("heard", 64, WhenFull.DROP_OLDEST)
        for chunk in line.push(first, clock.now_ns()):
            chunks.put_nowait(chunk)
        async with asyncio.TaskGroup() as group:
            group.create_task(ingest.run(line, blocks, chunks, clock), name="microphone")
            group.create_task(ingest.run_fill(line, chunks, clock), name="microphone-fill")
            while True:
                chunk = await chunks.get()
                if self._ear.hear(chunk, slot + chunk.first_sample // CHUNK_SAMPLES, speaking=self._speaking()):
                    self._on_barge_in()
