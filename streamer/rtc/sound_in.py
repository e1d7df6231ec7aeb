"""What comes in from a peer: its packets through our own buffer and decoder into `SoundBlock`s."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from streamer.channel import Channel, WhenFull
from streamer.clock import Clock
from streamer.media import SoundBlock
from streamer.rtc.aiortc_hooks import RtpArrival
from streamer.rtc.decoder import SoundDecoder
from streamer.rtc.inbound import InboundAudioBuffer
from streamer.rtc.settings import InboundStats

MAX_SOURCES = 64
"""A peer whose sound comes from more sources than this is playing with us."""


class SoundIn:
    """The receiving half of a peer. `take` only deposits; `run` orders, decodes and publishes."""

    def __init__(self, clock: Clock, executor: Executor, on_abuse: Callable[[], None]) -> None:
        self.blocks: Channel[SoundBlock] = Channel("inbound", 64, WhenFull.DROP_OLDEST)
        self._clock = clock
        self._executor = executor
        self._on_abuse = on_abuse
        self._buffer = InboundAudioBuffer()
        self._decoder = SoundDecoder()
        self._work = asyncio.Event()
        self._hole = asyncio.Event()

    @property
    def stats(self) -> InboundStats:
        return self._buffer.stats

    def take(self, packet: RtpArrival) -> None:
        """A packet has arrived."""
        self._buffer.push(packet.sequence_number, packet.timestamp, packet.payload, self._clock.now_ns(), packet.ssrc)
        self._work.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._publish(), name="inbound-sound")
            group.create_task(self._watch_holes(), name="inbound-holes")

    def close(self) -> None:
        self.blocks.close()

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            pieces = self._buffer.pop(self._clock.now_ns())
            if pieces:
                for block in await loop.run_in_executor(self._executor, self._decoder.decode, pieces):
                    self.blocks.put_nowait(block)
                continue
            if self._buffer.next_deadline_ns() is not None:
                self._hole.set()
            if self._buffer.sources > MAX_SOURCES:
                self._on_abuse()
            self._work.clear()
            await self._work.wait()

    async def _watch_holes(self) -> None:
        """Wake the publisher when a hole's time is up."""
        while True:
            await self._hole.wait()
            self._hole.clear()
            deadline_ns = self._buffer.next_deadline_ns()
            if deadline_ns is not None:
                await self._clock.sleep_until(deadline_ns)
                self._work.set()
