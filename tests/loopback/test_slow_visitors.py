"""Visitors who connect and then take for ever are shown out; those who ask notice nothing."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config, check
from streamer.http import body, doorstep

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

CLOCK = MonotonicClock()
SHOWN_OUT_WITHIN_S = 20.0
"""Far more than the tests give; without a limit of the server's it would be an hour, or for ever."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(avatars_dir):
    """Of a server with little patience."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(doorstep, "ASK_WITHIN_S", 0.5)
        patched.setattr(body, "READ_WITHIN_S", 0.5)
        async with served_here(Server(check(Config(port=0, avatars=str(avatars_dir))))) as url:
            yield url


async def dripped(url, beginning, drops):
    """Send a beginning, then drop by drop until the server answers or hangs up; what it said."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)

    async def drip():
        writer.write(beginning.replace("HOST", address.netloc).encode())
        while True:
            writer.write(drops)
            await CLOCK.sleep_until(CLOCK.now_ns() + 50 * NS_PER_MS)

    try:
        async with asyncio.timeout(SHOWN_OUT_WITHIN_S), asyncio.TaskGroup() as group:
            dripping = group.create_task(drip())
            said = await heard(reader)
            dripping.cancel()
    finally:
        writer.close()
    return said


async def heard(reader):
    try:
        return await reader.read(4096)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("beginning", "drops"),
    [
        pytest.param("", b"", marks=pytest.mark.long),
        pytest.param("GE", b"", marks=pytest.mark.long),
        ("GET / HTTP/1.1\r\nHost: HOST\r\nX-Slow: ", b"x"),
    ],
)
async def test_headers_that_never_end_cost_a_connection_for_moments_only(url, beginning, drops):
    assert await dripped(url, beginning, drops) == b""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("sessions?avatar=ruby", "application/sdp"),
        pytest.param("avatars?avatar=slow", "image/png", marks=pytest.mark.long),
        pytest.param("avatars/ruby/render", "audio/wav", marks=pytest.mark.long),
    ],
)
async def test_body_that_trickles_is_refused_with_408(url, path, kind):
    headers = f"Host: HOST\r\nContent-Type: {kind}\r\nContent-Length: 60000\r\n\r\n"
    assert b" 408 " in await dripped(url, f"POST /api/{path} HTTP/1.1\r\n{headers}", b"v")


async def test_who_has_asked_may_stay_and_ask_again(url):
    connected = []

    async def note(_session, _context, _parameters):
        connected.append(True)

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(note)
    async with aiohttp.ClientSession(trace_configs=[trace]) as http:
        for wait_ms in (0, 700, 700):
            await CLOCK.sleep_until(CLOCK.now_ns() + wait_ms * NS_PER_MS)
            async with http.get(f"{url}healthz") as response:
                assert response.status == 200
                await response.read()
    assert len(connected) == 1
