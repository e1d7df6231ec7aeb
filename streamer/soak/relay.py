"""A bad network between one visitor and a server: two UDP sockets, and session descriptions that name them.

Both descriptions are rewritten. A relay on one side alone would be walked around: each peer learns the other's own
address from its first check.
"""

from __future__ import annotations

import asyncio
import heapq
import ipaddress
from typing import Any

from streamer.clock import NS_PER_S, Clock
from streamer.errors import SignalingError
from streamer.soak.client import Signal
from streamer.soak.impairment import Impairment, Shaper

Address = tuple[str, int]
MOST_WAITING = 4096
"""Datagrams in one direction; more are lost."""
LOOPBACK = "127.0.0.1"


def address_in(sdp: str) -> Address:
    """The first IPv4 UDP candidate of a description, loopback before others. Raises SignalingError."""
    found: list[Address] = []
    for line in sdp.splitlines():
        words = line.removeprefix("a=candidate:").split()
        if line.startswith("a=candidate:") and len(words) >= 8 and words[2].lower() == "udp" and _is_v4(words[4]):
            found.append((words[4], int(words[5])))
    if not found:
        raise SignalingError("the description has no IPv4 candidate to relay")
    return next((address for address in found if address[0] == LOOPBACK), found[0])


def named(sdp: str, address: Address) -> str:
    """The description with `address` as its only candidate in every section."""
    host, port = address
    candidate = f"a=candidate:1 1 udp 2130706431 {host} {port} typ host"
    lines: list[str] = []
    for line in sdp.splitlines():
        if line.startswith("a=end-of-candidates"):
            continue
        if line.startswith("a=candidate:"):
            if not (lines and lines[-1] == candidate):
                lines.append(candidate)
            continue
        lines.append(line)
    return "\r\n".join(lines) + "\r\n"


def _is_v4(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False


class _Side(asyncio.DatagramProtocol):
    """One of the two sockets: what comes in goes into a lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.answers: tuple[Lane, asyncio.DatagramTransport] | None = None
        """The lane back, as long as it is to lead to whoever writes first: a browser that trickles its candidates."""

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if self.answers is not None:
            back, transport = self.answers
            back.lead_to(transport, addr[:2])
            self.answers = None
        self._lane.take(data)

    def error_received(self, exc: Exception) -> None:
        """A port that is closed by now: that is what networks are like."""


class Lane:
    """One direction. `take` decides, `run` waits and lets out."""

    def __init__(self, shaper: Shaper, clock: Clock) -> None:
        self.shaper = shaper
        self._clock = clock
        self._out: tuple[asyncio.DatagramTransport, Address] | None = None
        self._waiting: list[tuple[int, int, bytes]] = []
        self._order = 0
        self._changed = asyncio.Event()

    def lead_to(self, transport: asyncio.DatagramTransport, address: Address) -> None:
        """From here on datagrams leave by `transport` for `address`."""
        self._out = transport, address

    def take(self, data: bytes) -> None:
        now_ns = self._clock.now_ns()
        out_ns = self.shaper.admit(len(data), now_ns)
        if out_ns is None or self._out is None or len(self._waiting) >= MOST_WAITING:
            return
        if out_ns <= now_ns and not self._waiting:
            self._send(data)
            return
        self._order += 1
        heapq.heappush(self._waiting, (out_ns, self._order, data))
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            now_ns = self._clock.now_ns()
            while self._waiting and self._waiting[0][0] <= now_ns:
                self._send(heapq.heappop(self._waiting)[2])
            wait_s = (self._waiting[0][0] - now_ns) / NS_PER_S if self._waiting else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _send(self, data: bytes) -> None:
        assert self._out is not None
        transport, address = self._out
        if not transport.is_closing():
            transport.sendto(data, address)


class Relay:
    """One visitor's way to the server and back. `over` wraps the signalling, `run` moves datagrams, `close` ends it."""

    def __init__(self, impairment: Impairment, seed: int, clock: Clock) -> None:
        now_ns = clock.now_ns()
        self.up = Lane(Shaper(impairment, 2 * seed, now_ns), clock)
        self.down = Lane(Shaper(impairment, 2 * seed + 1, now_ns), clock)
        self._transports: list[asyncio.DatagramTransport] = []

    def over(self, signal: Signal) -> Signal:
        """The same signalling; server and visitor are told of the relay's sockets in place of each other's."""

        async def through(offer: str) -> str:
            (to_visitor, side), (to_server, _) = await self._open(self.up), await self._open(self.down)
            answer = await signal(named(offer, to_server.get_extra_info("sockname")[:2]))
            self.up.lead_to(to_server, address_in(answer))
            if "a=candidate:" in offer:
                self.down.lead_to(to_visitor, address_in(offer))
            else:
                side.answers = self.down, to_visitor
            return named(answer, to_visitor.get_extra_info("sockname")[:2])

        return through

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.up.run(), name="relay-up")
            group.create_task(self.down.run(), name="relay-down")

    def close(self) -> None:
        for transport in self._transports:
            transport.close()

    async def _open(self, lane: Lane) -> tuple[asyncio.DatagramTransport, _Side]:
        loop = asyncio.get_running_loop()
        transport, side = await loop.create_datagram_endpoint(lambda: _Side(lane), local_addr=(LOOPBACK, 0))
        self._transports.append(transport)
        return transport, side
