"""A seat: an avatar's session whose pictures go to the table, and whose voice comes from whoever sits there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamer.channel import Channel, WhenFull
from streamer.clock import NS_PER_MS, Clock
from streamer.errors import SignalingError
from streamer.media import Picture, PictureKind, SoundBlock

MOST_PICTURES = 4
STEADY_NS = 12 * NS_PER_MS
"""A seat's first picture waits so long: those after it may be late by as much and are still in time."""
STEADY_PICTURES = 2
"""More than so many waiting are a delay that need not be."""


@dataclass(frozen=True, slots=True)
class _NoLink:
    bytes_sent: int = 0
    rtt_ms: float | None = None


class Port:
    """Stands where a session has its peer (see outlet.Outlet). Give the sound to `inbound`, take the pictures."""

    def __init__(self, clock: Clock) -> None:
        self.inbound: Channel[SoundBlock] = Channel("seat-sound", 64, WhenFull.DROP_OLDEST)
        self.control: Channel[dict[str, Any]] = Channel("seat-control", 1, WhenFull.DROP_OLDEST)
        self.on_sent: Callable[[Picture], None] | None = None
        self.watchers: list[Callable[[Picture], None]] = []
        """Called on the loop with every picture; must only deposit."""
        self.repeated = 0
        """Frames for which the seat had no picture in time."""
        self.skipped = 0
        """Pictures that came in a heap and were passed over."""
        self._clock = clock
        self._pictures: Channel[tuple[int, Picture]] = Channel("seat-pictures", MOST_PICTURES, WhenFull.DROP_OLDEST)
        self._gone = asyncio.Event()
        self._steady = False

    @property
    def stats(self) -> _NoLink:
        return _NoLink()

    def show(self, picture: Picture) -> None:
        """The seat's next picture."""
        now_ns = self._clock.now_ns()
        if not self._pictures.put_nowait((now_ns, picture)):
            self.skipped += 1
        for watcher in tuple(self.watchers):
            watcher(picture)
        if self.on_sent is not None:
            picture.stamps.encoded_ns = picture.stamps.sent_ns = picture.stamps.sound_sent_ns = now_ns
            self.on_sent(picture)

    def take(self, now_ns: int) -> Picture | None:
        """The picture for the table's next frame; None where it has not come.

        All grids tick alike, so one picture comes a frame; the first is let lie a moment, so that a little lateness
        of the next ones does no harm.
        """
        waiting = self._pictures.peek()
        if waiting is None:
            self.repeated += self._steady
            self._steady = False
            return None
        if not self._steady:
            if now_ns - waiting[0] < STEADY_NS:
                return None
            self._steady = True
        self._pictures.get_nowait()
        after = self._pictures.peek()
        if after is not None and len(self._pictures) >= STEADY_PICTURES and _is_silent(waiting[1]):
            self._pictures.get_nowait()  # after a stall: silence is passed over, so that no delay stays
            self.skipped += 1
            return after[1]
        return waiting[1]

    async def connected(self, timeout_ns: int) -> None:
        """There is nobody to wait for."""

    async def run(self) -> None:
        await self._gone.wait()

    async def until_gone(self) -> None:
        await self._gone.wait()

    async def close(self) -> None:
        self.hang_up()
        for channel in (self.inbound, self.control, self._pictures):
            channel.close()

    async def add_candidates(self, fragment: str) -> None:
        raise SignalingError("a seat has no connection of its own", 409)

    def send_event(self, message: Mapping[str, object]) -> None:
        """Events of a seat are read over HTTP."""

    def check_size(self, size_px: tuple[int, int]) -> None:
        """Any size: the table fits it in."""

    def hang_up(self) -> None:
        self._gone.set()


class Voice:
    """Passes a contributor's sound to a seat. Without the floor it is silence, so that the mouth rests too."""

    def __init__(self, port: Port, heard: Callable[[], bool]) -> None:
        self._port = port
        self._heard = heard
        self.level = 0.0
        """RMS of the last sound, heard or not, full scale 1: the moderator sees who wants to speak."""

    async def run(self, blocks: Channel[SoundBlock]) -> None:
        """Until the blocks end (ChannelClosed)."""
        while True:
            block = await blocks.get()
            self.level = float(np.sqrt(np.mean(np.square(block.pcm48.astype(np.float32))))) / 32768.0
            if not self._heard():
                silence = np.zeros_like(block.pcm48)
                block = SoundBlock(silence, block.source_sample, block.arrived_ns, block.concealed)
            self._port.inbound.put_nowait(block)


def _is_silent(picture: Picture) -> bool:
    return picture.kind is PictureKind.IDLE and not picture.pcm48.any()
