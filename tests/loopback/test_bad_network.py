"""A call over a bad network: everything goes through the relay, and the show goes on."""

from __future__ import annotations

import asyncio

from streamer.clock import MonotonicClock
from streamer.rtc.peer import Peer
from streamer.rtc.settings import PeerSettings
from streamer.soak import echo
from streamer.soak.client import Visit, Visitor
from streamer.soak.impairment import Impairment
from streamer.soak.relay import Relay

SIZE = (256, 256)


async def test_visitor_behind_loss_delay_and_reordering_sees_nearly_every_picture(codecs, tone_bursts):
    clock, enough = MonotonicClock(), asyncio.Event()
    net = Impairment(loss_percent=5, delay_ms=15, jitter_ms=4, reorder_percent=2)
    relay = Relay(net, 3, clock)
    pts = []

    def look(picture):
        pts.append(picture.pts // 3600)
        if len(pts) > 60:
            enough.set()

    visitor = Visitor(Visit(microphone=tone_bursts(4.0), on_picture=look), clock)
    peer = Peer(PeerSettings(size_px=SIZE, remote_is_local=True), clock, codecs)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(relay.run())]
            await visitor.connect(relay.over(peer.answer))
            tasks += [group.create_task(peer.run()), group.create_task(visitor.run())]
            await peer.connected()
            tasks.append(group.create_task(echo.run(peer, SIZE)))
            await enough.wait()
            for task in tasks:
                task.cancel()
    finally:
        relay.close()
        await peer.close()
        await visitor.close()
    assert relay.up.shaper.passed > 50
    assert relay.down.shaper.passed > 60
    assert relay.down.shaper.lost > 0
    assert len(pts) > 0.8 * (pts[-1] - pts[0])
