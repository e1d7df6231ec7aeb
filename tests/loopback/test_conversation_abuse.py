"""Programs that misbehave: whatever they send or fail to read, the session goes on and its events stay one story."""

from __future__ import annotations

import asyncio
import io
import socket as sockets
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pytest
import pytest_asyncio
import soundfile

from streamer import admission
from streamer.app import Server
from streamer.bench.served import served_here
from streamer.client import Client
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config, check
from streamer.errors import ServerRefused
from streamer.http import conversation, socket
from streamer.soak.client import Visit

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

CLOCK = MonotonicClock()
HZ = 48_000
BUZZ = (9000 * np.sign(np.sin(np.arange(HZ) * 0.02))).astype("<i2").tobytes()
"""One second."""
HUNG_UP_WITHIN_S = 30.0
"""Far more than the reader is given here, on however busy a machine; without the limit it would be for ever."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir):
    server = Server(check(Config(port=0, avatars=str(avatars_dir))))
    async with served_here(server) as url:
        yield url, server.registry


@pytest_asyncio.fixture(loop_scope="module")
async def client(house):
    """A program at a server where nobody else is."""
    url, registry = house
    while registry.active:  # the session of the test before may still be on its way out
        await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)
    async with Client(url) as made:
        made.url, made.registry = url, registry
        yield made


async def until(session, done):
    """Events up to the first for which `done` holds."""
    found = []
    async for event in session.events():
        found.append(event)
        if done(event):
            return found
    raise AssertionError(f"the session ended: {found}")


def finished(events):
    return {e["speech"]: e["interrupted"] for e in events if e["event"] == "playback_finished"}


async def test_two_programs_at_once_are_heard_one_after_the_other(client):
    async with client.call("ruby", Visit()) as call:
        session = call.session
        async with session.stream(HZ) as one, session.stream(HZ) as two:
            for at in range(0, len(BUZZ), 7_777):
                await one.write(BUZZ[at : at + 7_777])
                await two.write(BUZZ[at : at + 7_777])
        told = await until(session, lambda e: e["event"] == "playback_finished" and e["speech"] == "s2")
    assert finished(told) == {"s1": False, "s2": False}
    assert {e["speech"]: e["position_s"] for e in told if e["event"] == "playback_finished"} == {"s1": 1.0, "s2": 1.0}


async def test_storm_of_interrupts_ends_all_and_what_comes_after_is_heard(client):
    async with client.call("ruby", Visit()) as call:
        session = call.session
        async with session.stream(HZ) as stream:
            for _ in range(60):
                await stream.write(BUZZ[:9_600])
                await stream.interrupt()
                await stream.end()
            await asyncio.gather(*(session.interrupt() for _ in range(60)))
            await stream.write(BUZZ)
        told = await until(session, lambda e: e["event"] == "playback_finished" and not e["interrupted"])
    assert sum(e["event"] == "interrupted" for e in told) == 120
    assert [e["seq"] for e in told] == list(range(1, len(told) + 1))
    assert len(finished(told)) == 61
    assert told[-1]["position_s"] == 1.0


async def test_flood_of_interrupts_in_one_go_costs_no_reader_an_event(client, monkeypatch):
    monkeypatch.setattr(admission, "REQUESTS_PER_S", 2000.0)
    async with client.call("ruby", Visit()) as call, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{client.url}api/sessions/{call.session.id}/speech") as wire:
            for _ in range(4000):
                await wire.send_str('{"type":"interrupt"}')
            told = await until(call.session, lambda e: e["seq"] >= 4000)
        assert (await call.session.state())["state"] == "live"
        assert client.registry.get(call.session.id).peer.stats.events_dropped == 0
    assert [e["seq"] for e in told] == list(range(1, len(told) + 1))


async def test_thousands_of_tiny_pieces_and_messages_do_not_hold_up_the_session(client):
    async with client.call("ruby", Visit()) as call, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{client.url}api/sessions/{call.session.id}/speech") as wire:
            for _ in range(200):
                await wire.send_json({"type": "start", "rate": HZ})
                await wire.send_bytes(BUZZ[:3])
                await wire.send_bytes(b"")
                await wire.send_json({"type": "end"})
        assert (await call.session.state())["state"] == "live"
        await call.session.interrupt()
        told = await until(call.session, lambda e: e["event"] == "interrupted")
    assert [e["seq"] for e in told] == list(range(1, len(told) + 1))


async def test_program_that_dies_in_the_middle_of_an_utterance_leaves_the_line_to_others(client):
    async with client.call("ruby", Visit()) as call:
        session = call.session
        address = urlsplit(client.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            f"GET /api/sessions/{session.id}/speech HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        assert b"101" in await reader.readline()
        start = b'{"type":"start","rate":48000}'
        writer.write(bytes([0x81, 0x80 | len(start), 0, 0, 0, 0]) + start)
        writer.write(bytes([0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0]) + bytes(500))  # a length that lies
        await until(session, lambda e: e["event"] == "speech_queued")
        linger = b"\x01\0\0\0\0\0\0\0"
        writer.get_extra_info("socket").setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, linger)
        writer.transport.abort()
        async with session.stream(HZ) as stream:
            await stream.write(BUZZ)
        told = await until(session, lambda e: e["event"] == "playback_finished" and e["speech"] == "s2")
    assert finished(told) == {"s1": False, "s2": False}


@pytest.mark.parametrize("path", ["events", "speech"])
async def test_reader_who_never_reads_is_hung_up_on_and_the_session_goes_on(client, path, monkeypatch):
    monkeypatch.setattr(conversation, "WRITE_WITHIN_S", 0.3)
    monkeypatch.setattr(socket, "WRITE_WITHIN_S", 0.3)
    async with client.call("ruby", Visit()) as call:
        session, address = call.session, urlsplit(client.url)
        with sockets.socket() as deaf:
            deaf.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, (address.hostname, address.port))
            upgrade = (
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            )
            asked = f"GET /api/sessions/{session.id}/{path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            await loop.sock_sendall(deaf, f"{asked}{upgrade if path == 'speech' else ''}\r\n".encode())
            while not (await loop.sock_recv(deaf, 12)):
                pass
            log = client.registry.get(session.id)._log
            before, log._sink = len(log._readers), None
            for _ in range(200):  # 20 MB for the deaf one alone: more than all buffers between hold
                log.tell({"event": "held", "index": "9" * 100_000})
            async with asyncio.timeout(HUNG_UP_WITHIN_S):
                while len(log._readers) >= before:
                    assert (await session.state())["state"] == "live"


async def test_sound_that_grows_a_thousandfold_is_refused_and_nothing_of_it_stays(client):
    body = io.BytesIO()
    soundfile.write(body, np.zeros(2 * 3600 * 8_000, np.int16), 8_000, format="FLAC")
    async with client.call("ruby", Visit()) as call:
        with pytest.raises(ServerRefused) as refused:
            await call.session.speak(body.getvalue(), "audio/flac")
        assert refused.value.status == 413
        assert (await call.session.state())["queued_s"] == 0
