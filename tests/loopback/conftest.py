"""Two real peers on this machine: ours, driven by the trivial echo, and a visitor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from streamer.clock import MonotonicClock
from streamer.media import SOUND_HZ, SoundBlock
from streamer.rtc.peer import Peer
from streamer.rtc.settings import PeerSettings
from streamer.rtc.threads import CodecThreads
from streamer.soak import echo
from streamer.soak.client import SeenPicture, Visit, Visitor

SIZE = (256, 256)


def bursts(seconds: float, on_s: float = 0.3, off_s: float = 0.7, hz: float = 440.0) -> np.ndarray:
    """Silence and tone in turn, silence first."""
    t = np.arange(int(seconds * SOUND_HZ)) / SOUND_HZ
    return (9000 * np.sin(2 * np.pi * hz * t) * (t % (on_s + off_s) >= off_s)).astype(np.int16)


@dataclass(eq=False)
class Call:
    """A running call and what the visitor noticed."""

    peer: Peer
    visitor: Visitor
    pictures: list[SeenPicture]
    blocks: list[SoundBlock]
    noticed: asyncio.Event

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what the visitor noticed satisfies a condition; the test's own timeout is the limit."""
        while not condition():
            self.noticed.clear()
            await self.noticed.wait()


@asynccontextmanager
async def open_call(
    visit: Visit | None = None,
    settings: PeerSettings | None = None,
    drive: Callable[[Peer, tuple[int, int]], Awaitable[None]] = echo.run,
    clock: MonotonicClock | None = None,
):
    """Connect a visitor to a peer, run both until the block ends, close both."""
    settings = settings or PeerSettings(size_px=SIZE, remote_is_local=True)
    visit = visit or Visit(microphone=bursts(2.0))
    pictures: list[SeenPicture] = []
    blocks: list[SoundBlock] = []
    noticed = asyncio.Event()

    def notice(into: list, also):
        def callback(item):
            into.append(item)
            noticed.set()
            if also is not None:
                also(item)

        return callback

    visit = replace(visit, on_picture=notice(pictures, visit.on_picture), on_sound=notice(blocks, visit.on_sound))
    codecs = CodecThreads()
    visitor = Visitor(visit, MonotonicClock())
    peer = Peer(settings, clock or MonotonicClock(), codecs)
    try:
        await visitor.connect(peer.answer)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(peer.run()), group.create_task(visitor.run())]
            await peer.connected()
            tasks.append(group.create_task(drive(peer, settings.size_px)))
            yield Call(peer, visitor, pictures, blocks, noticed)
            for task in tasks:
                task.cancel()
    finally:
        await peer.close()
        await visitor.close()
        codecs.close()


def possessions() -> tuple[set[str], int]:
    """Threads by name and open descriptors of this process."""
    return {thread.name for thread in threading.enumerate()}, len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def codecs():
    with CodecThreads() as made:
        yield made


@pytest.fixture
def call():
    return open_call


@pytest.fixture
def tone_bursts():
    return bursts


@pytest.fixture
def holdings():
    return possessions
