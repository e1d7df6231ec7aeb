"""A peer's life: it connects or says why not, is alive while it speaks, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from streamer.clock import MonotonicClock
from streamer.errors import SignalingError
from streamer.rtc.peer import Peer
from streamer.rtc.settings import PeerSettings
from streamer.soak.client import Visit, Visitor

pytestmark = pytest.mark.loopback

SETTINGS = PeerSettings(size_px=(256, 256), remote_is_local=True)


class FastClock(MonotonicClock):
    """Sixteen times as fast: what takes 8 s happens in half a second."""

    RATE = 16

    def now_ns(self) -> int:
        return super().now_ns() * self.RATE

    async def sleep_until(self, deadline_ns: int) -> None:
        await super().sleep_until(deadline_ns // self.RATE)


async def settled(alive: int) -> None:
    """Let tasks that are ending end."""
    while len(asyncio.all_tasks()) > alive:
        await MonotonicClock().sleep_until(0)


async def test_connect_talk_leave_leaves_no_task_thread_or_descriptor(call, holdings):
    await asyncio.get_running_loop().run_in_executor(None, bool)  # whatever the loop makes once is made now
    before, alive = None, len(asyncio.all_tasks())
    for _ in range(4):
        async with call() as running:
            await running.until(lambda: len(running.pictures) > 5)
        await settled(alive)
        before = before or holdings()
    assert holdings() == before


async def test_peer_that_hangs_up_ends_the_run_as_left(call):
    async with call() as running:
        await running.until(lambda: len(running.pictures) > 5)
        await running.visitor._connection.close()
        while running.peer.ended is None:
            await MonotonicClock().sleep_until(0)
        assert running.peer.ended == "left"
        assert not running.peer.stats.connected


async def test_peer_that_dies_without_a_word_is_gone_after_eight_seconds(call):
    async with call(clock=FastClock()) as running:
        running.visitor.abandon()
        async with asyncio.timeout(5):
            while running.peer.ended is None:
                await MonotonicClock().sleep_until(0)
        assert running.peer.ended == "silent"


async def test_nobody_connecting_is_an_error_after_the_timeout(codecs):
    visitor = Visitor(Visit(), MonotonicClock())
    peer = Peer(SETTINGS, MonotonicClock(), codecs)

    async def lost(offer: str) -> str:
        await peer.answer(offer)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await visitor.connect(lost)
    with pytest.raises(SignalingError) as refused:
        await peer.connected(timeout_ns=50_000_000)
    assert refused.value.status == 408
    await peer.close()
    with pytest.raises(SignalingError):
        await peer.connected()
    await visitor.close()


async def test_wrong_fingerprint_fails_the_connection(codecs):
    visitor = Visitor(Visit(), MonotonicClock())
    peer = Peer(SETTINGS, MonotonicClock(), codecs)

    async def forged(offer: str) -> str:
        rows = offer.split("\r\n")
        for number, row in enumerate(rows):
            if row.startswith("a=fingerprint:"):
                name, value = row.split(" ")
                rows[number] = f"{name} {value[3:]}:00"
        return await peer.answer("\r\n".join(rows))

    await visitor.connect(forged)
    with pytest.raises(SignalingError):
        await peer.connected()
    assert peer.ended == "failed"
    await peer.close()
    await visitor.close()


async def test_close_is_idempotent_and_may_come_at_any_time(codecs):
    peer = Peer(SETTINGS, MonotonicClock(), codecs)
    await peer.close()
    await peer.close()
    visitor = Visitor(Visit(), MonotonicClock())
    peer = Peer(SETTINGS, MonotonicClock(), codecs)
    await visitor.connect(peer.answer)
    await asyncio.gather(peer.close(), peer.close())
    await peer.run()
    assert peer.ended == "closed"
    await visitor.close()


async def test_hanging_up_ends_the_run(call):
    async with call() as running:
        running.peer.hang_up()
        await running.peer.run()
        assert running.peer.ended == "hung_up"


async def test_control_and_telemetry_carry_messages_both_ways(call):
    async with call() as running:
        pongs: list[object] = []
        running.visitor._control.on("message", pongs.append)
        while running.visitor._control.readyState != "open":
            await MonotonicClock().sleep_until(0)
        running.visitor.tell({"type": "ping", "t": 12.5})
        running.visitor.tell({"type": "interrupt"})
        running.visitor._control.send("[]")
        running.visitor._control.send(b"\x00")
        running.visitor._control.send("x" * 20_000)
        running.visitor.tell({"type": "stats", "rtt_ms": 1})
        assert await running.peer.control.get() == {"type": "interrupt"}
        assert await running.peer.control.get() == {"type": "stats", "rtt_ms": 1}
        assert pongs == ['{"type":"pong","t":12.5}']
        while running.visitor.counts.events == 0:
            running.peer.send_event({"type": "event", "event": "held", "t_ms": 5})
            await MonotonicClock().sleep_until(0)
        assert await running.visitor.telemetry.get() == {"type": "event", "event": "held", "t_ms": 5}


async def test_reader_who_does_not_read_loses_events_and_costs_no_memory(call):
    async with call() as running:
        while running.visitor.counts.events == 0:
            running.peer.send_event({"type": "event"})
            await MonotonicClock().sleep_until(0)
        dropped = running.peer.stats.events_dropped
        for _ in range(2000):
            running.peer.send_event({"type": "event", "filler": "x" * 2000})
        assert running.peer.stats.events_dropped - dropped > 1000


async def test_peer_that_opens_channel_after_channel_is_shown_out(call):
    async with call() as running:
        for number in range(20):
            running.visitor._connection.createDataChannel(f"x{number}")
        while running.peer.ended is None:
            await MonotonicClock().sleep_until(0)
        assert running.peer.ended == "misbehaving"


def test_everything_works_on_uvloop_too(call):
    async def visit():
        async with call() as running:
            await running.until(lambda: len(running.pictures) > 20 and len(running.blocks) > 20)
            return running.peer.stats

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stats = runner.run(visit())
    assert stats.inbound.lost == 0
    assert stats.rtt_ms is None or stats.rtt_ms < 1000
