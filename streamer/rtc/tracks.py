"""Tracks that hand finished packets to aiortc's senders. They know when a packet has left, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import av
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from streamer.channel import Channel, ChannelClosed, WhenFull


class PacketTrack(MediaStreamTrack):
    """One outgoing stream of `av.Packet`s, each with its media time (pts)."""

    def __init__(self, kind: str, capacity: int, on_left: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.packets: Channel[av.Packet[Any]] = Channel(f"{kind}-packets", capacity, WhenFull.DROP_OLDEST)
        self.started = asyncio.Event()
        """Set once the connection asks for the first packet."""
        self.last_pts: int | None = None
        """Of the packet handed over last."""
        self.waiting = False
        """The sender waits for the next packet: all of the last one is with the socket."""
        self.bytes_handed = 0
        self._on_left = on_left

    async def recv(self) -> av.Packet[Any]:
        """The next packet. The sender comes back only after it has sent all of the one before."""
        self.started.set()
        if self._on_left is not None and self.last_pts is not None:
            self._on_left(self.last_pts)
        self.waiting = True
        try:
            packet = await self.packets.get()
        except ChannelClosed:
            raise MediaStreamError from None
        finally:
            self.waiting = False
        self.last_pts = packet.pts
        self.bytes_handed += packet.size
        return packet

    def stop(self) -> None:
        super().stop()
        self.packets.close()
