"""What a server keeps of visitors who are gone: nothing, whether they leave, fall silent or are killed."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiortc import RTCPeerConnection

from streamer.app import Server
from streamer.bench.bursts import burst_microphone
from streamer.bench.call import CONNECT_WITHIN_S, visit
from streamer.bench.served import serve_command, served, served_here
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from streamer.config import Config, check
from streamer.rtc.peer import Peer
from streamer.session import Session
from streamer.soak.client import Visit, Visitor, over_http
from streamer.soak.watch import read_metrics

pytestmark = pytest.mark.loopback

CLOCK = MonotonicClock()
STAY_S = 0.6
FREED_WITHIN_S = 8.0 + 0.5
"""Eight seconds, and the time to see it."""
SPEECH = burst_microphone(1, seed=0).burst
LIVING = (RTCPeerConnection, Peer, Session, Visitor)

KILLED = """
import asyncio, sys
import numpy as np
from streamer.bench.call import visit
from streamer.clock import MonotonicClock
from streamer.soak.client import Visit
asyncio.run(visit(sys.argv[1], Visit(np.zeros(48_000, np.int16)), MonotonicClock(), 600.0))
"""


@asynccontextmanager
async def running(avatars_dir):
    """A server on this loop, so that its tasks and objects can be counted."""
    server = Server(check(Config(port=0, avatars=str(avatars_dir))))
    async with served_here(server) as url:
        yield server, url


async def until(condition):
    """Look every 20 ms; the test's own timeout is the limit."""
    while not condition():
        await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)


async def call_and_leave(url, server):
    """Connect, speak, leave; returns once the slot is free."""
    visitor = await visit(f"{url}api/sessions?avatar=ruby&source=mirror", Visit(SPEECH), CLOCK, STAY_S)
    assert visitor.counts.pictures > 0
    await until(lambda: server.registry.active == 0)


def holdings():
    """Tasks, threads and descriptors of this process, and how many peers and sessions live in it."""
    gc.collect()
    return (
        sorted(task.get_name() for task in asyncio.all_tasks()),
        sorted(thread.name for thread in threading.enumerate()),
        len(list(Path("/proc/self/fd").iterdir())),
        sum(issubclass(type(thing), LIVING) for thing in gc.get_objects()),
    )


@pytest.mark.parametrize("cycles", [5, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(400)])])
async def test_visitors_who_leave_leave_nothing_behind(avatars_dir, cycles):
    async with running(avatars_dir) as (server, url):
        await call_and_leave(url, server)
        before = holdings()
        for _ in range(cycles):
            await call_and_leave(url, server)
        async with asyncio.timeout(FREED_WITHIN_S):  # the last visitor's end may still be on its way
            await until(lambda: holdings() == before)


def test_server_has_after_its_first_visitor_the_threads_it_had_before(avatars_dir):
    with served(serve_command(avatars_dir)) as server:
        before = asyncio.run(threads_of(server.url))
        asyncio.run(visit(f"{server.url}api/sessions?avatar=ruby&source=mirror", Visit(SPEECH), CLOCK, STAY_S))
        assert asyncio.run(threads_of(server.url)) == before


async def threads_of(url):
    """As the server counts them: libvpx begins and ends threads of its own with each encoder."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}metrics") as response:
        return read_metrics(await response.text(), 0.0).values["threads"]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_server_does_not_grow_with_its_visitors(avatars_dir):
    with served(serve_command(avatars_dir)) as server:
        url, sizes_mb = f"{server.url}api/sessions?avatar=ruby&source=mirror", []
        for _ in range(50):
            asyncio.run(visit(url, Visit(SPEECH), CLOCK, STAY_S))
            sizes_mb.append(server.read().rss_bytes / 1e6)
        slope_mb = 10 * np.polyfit(np.arange(10, 50), sizes_mb[10:], 1)[0]
        print(f"{slope_mb:.2f} MB in 10 cycles")
        assert slope_mb < 1.0


async def killed_one(url, server):
    """A visitor in a process of its own that was killed while live: its session, and when it died."""
    command = (sys.executable, "-c", KILLED, f"{url}api/sessions?avatar=ruby&source=mirror")
    process = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await until(lambda: any(session.state == "live" for session in server.registry.list()))
        (session,) = server.registry.list()
    finally:
        process.kill()
        await process.wait()
    return session, CLOCK.now_ns()


async def test_visitors_who_are_killed_or_fall_silent_free_their_slots_in_eight_seconds(avatars_dir):
    async with running(avatars_dir) as (server, url):
        killed = await killed_one(url, server)
        visitor = Visitor(Visit(np.zeros(48_000, np.int16)), CLOCK)
        async with aiohttp.ClientSession() as http:
            await visitor.connect(over_http(http, f"{url}api/sessions?avatar=ruby&source=mirror"))
        async with asyncio.TaskGroup() as group:
            group.create_task(visitor.run())
            await until(lambda: visitor.counts.pictures > 10)
            visitor.abandon()
            silent = (server.registry.list()[-1], CLOCK.now_ns())
            for session, died_ns in (killed, silent):
                await until(lambda session=session: session not in server.registry.list())
                assert (CLOCK.now_ns() - died_ns) / NS_PER_S <= FREED_WITHIN_S
            visitor.gone.set()
        await visitor.close()
