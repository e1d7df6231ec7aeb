"""A strand of sound: encoded once, its packets shared by all who listen."""

from __future__ import annotations

import asyncio

from streamer.channel import Channel, ChannelClosed, WhenFull
from streamer.clock import Clock
from streamer.media import FRAME_NS, S16
from streamer.rtc.encoder import SoundEncoder
from streamer.rtc.threads import CodecThreads
from streamer.rtc.tracks import PacketTrack

MOST_WAITING = 3


class Strand:
    """`hear` never waits; `run` encodes. Nobody listens: nothing is encoded."""

    def __init__(self, clock: Clock, codecs: CodecThreads) -> None:
        self.listeners: set[PacketTrack] = set()
        self.encoder_calls = 0
        self._clock = clock
        self._codecs = codecs
        self._sounds: Channel[tuple[int, S16]] = Channel("strand", MOST_WAITING, WhenFull.DROP_OLDEST)

    def hear(self, index: int, pcm48: S16) -> None:
        """(1920,) s16 of frame `index`."""
        if self.listeners:
            self._sounds.put_nowait((index, pcm48))

    async def run(self) -> None:
        """Encode until closed."""
        loop, encoder = asyncio.get_running_loop(), SoundEncoder()
        while True:
            try:
                index, pcm48 = await self._sounds.get()
            except ChannelClosed:
                return
            self.encoder_calls += 1
            first, second = await loop.run_in_executor(self._codecs.sound, encoder.encode, pcm48, index)
            for listener in self.listeners:
                listener.packets.put_nowait(first)
            if len(self._sounds) == 0:
                # Half a frame apart: a receiver takes a burst of two for jitter.
                await self._clock.sleep_until(self._clock.now_ns() + FRAME_NS // 2)
            for listener in self.listeners:
                listener.packets.put_nowait(second)

    def close(self) -> None:
        self._sounds.close()
