"""Some visitors send nonsense on every way in; the server refuses it in words, and the others notice nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import socket
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config, LimitsConfig, check
from streamer.soak.client import Visit, Visitor
from streamer.soak.mutation import Mutator
from streamer.soak.relay import address_in

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

CLOCK = MonotonicClock()
CORPUS = Path(__file__).parents[1] / "corpus"
SDP = {"Content-Type": "application/sdp"}


def corpus(name):
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir):
    """A running server and its URL."""
    limits = LimitsConfig(offers_burst=10_000, offers_per_s=1000, upload_bytes=1 << 20)
    config = Config(port=0, avatars=str(avatars_dir), canvas_px=256, limits=limits)
    server = Server(check(config))
    async with served_here(server) as url:
        yield server, url


async def until(condition):
    """Look every 20 ms; the test's own timeout is the limit."""
    while not condition():
        await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)


class Watcher:
    """A visitor who only looks; `location` and `answer` of its session."""

    def __init__(self, http, url, source="agent"):
        self.visitor = Visitor(Visit(), CLOCK)
        self._http, self._url = http, f"{url}api/sessions?avatar=ruby&source={source}"

    async def __aenter__(self):
        async def signal(offer):
            async with self._http.post(self._url, data=offer, headers=SDP) as response:
                self.location = response.headers["Location"]
                return await response.text()

        self.answer = await self.visitor.connect(signal)
        self._running = asyncio.TaskGroup()
        await self._running.__aenter__()
        self._running.create_task(self.visitor.run())
        await self.sees(5)
        return self

    async def __aexit__(self, *error):
        self.visitor.gone.set()
        await self._running.__aexit__(*error)
        await self.visitor.close()

    async def sees(self, more):
        pictures = self.visitor.counts.pictures
        await until(lambda: self.visitor.counts.pictures >= pictures + more)


def failures(caplog):
    return [r for r in caplog.records if r.levelno >= logging.ERROR and r.name.startswith("streamer")]


async def test_viewer_sees_on_while_sockets_of_the_session_talk_nonsense(house, caplog):
    _, url = house
    async with aiohttp.ClientSession(base_url=url) as http, Watcher(http, url) as watcher:
        dice, refused = random.Random(1), 0
        for frame in Mutator(corpus("socket"), 1).mutants(60):
            async with http.ws_connect(f"{watcher.location}/speech") as ws:
                if dice.random() < 0.3:
                    await ws.send_str('{"type":"start","rate":16000}')
                if dice.random() < 0.5:
                    await ws.send_str(frame.decode("utf-8", "replace"))
                else:
                    await ws.send_bytes(frame)
                await ws.send_str('{"type":"nonsense"}')
                async for message in ws:
                    refused += json.loads(message.data).get("type") == "error"
        assert refused == 60
        await http.post(f"{watcher.location}/interrupt")
        await watcher.sees(10)
    assert failures(caplog) == []


async def test_viewer_sees_on_whatever_its_own_control_channel_says(house, caplog):
    _, url = house
    async with aiohttp.ClientSession(base_url=url) as http, Watcher(http, url) as watcher:
        channel = watcher.visitor._control
        for i, frame in enumerate(Mutator(corpus("control"), 2).mutants(400)):
            channel.send(frame if i % 3 == 0 else frame.decode("utf-8", "replace"))
        channel.send("[" * 20_000)
        await watcher.sees(15)
    assert failures(caplog) == []


async def test_viewer_sees_on_while_strangers_knock_on_its_port(house, caplog):
    _, url = house
    async with aiohttp.ClientSession(base_url=url) as http, Watcher(http, url) as watcher:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"", address_in(watcher.answer))
            for i, datagram in enumerate(Mutator(corpus("datagram"), 3).mutants(1500)):
                stranger.sendto(datagram[:1400], address_in(watcher.answer))
                if i % 50 == 0:
                    await watcher.sees(1)
        await watcher.sees(10)
    assert failures(caplog) == []


@pytest.mark.long
async def test_mutated_offers_and_fragments_get_4xx_or_an_answer_and_leave_nothing(house, caplog):
    server, url = house
    statuses: dict[int, int] = {}
    async with aiohttp.ClientSession(base_url=url) as http, Watcher(http, url) as watcher:
        for offer in Mutator(corpus("sdp"), 4).mutants(60):
            async with http.post("/api/sessions?avatar=ruby&source=none", data=offer, headers=SDP) as response:
                statuses[response.status] = statuses.get(response.status, 0) + 1
                location = response.headers.get("Location")
            if location:
                await http.delete(location)
        for fragment in Mutator(corpus("fragment"), 5).mutants(120):
            kind = {"Content-Type": "application/trickle-ice-sdpfrag"}
            async with http.patch(watcher.location, data=fragment, headers=kind) as response:
                statuses[response.status] = statuses.get(response.status, 0) + 1
        await until(lambda: len(server.registry.list()) == 1)
        await watcher.sees(10)
    assert {status for status in statuses if status not in (201, 204)} <= {400, 404, 406, 413, 415, 422}
    assert statuses[400] > 20
    assert statuses[204] > 4
    assert failures(caplog) == []


VALUES = ("", "0", "-1", "ruby", "../x", "%00", "a" * 300, "512", "agent", "1e9", "null", "\u2603", "x--y")
KINDS = (
    "application/json",
    "application/sdp",
    "audio/wav",
    "text/plain",
    "image/png",
    "x/y",
    "",
    "text/plain; charset=\u00e9",
)
UNTRIED = {"/metrics", "/api/avatars/{avatar}/render"}
"""Nothing to get wrong; minutes of work where a mutant is a good sound."""


async def test_every_described_call_answers_nonsense_with_a_described_status(house, caplog):
    """From our own OpenAPI document: wild parameters, bodies and types for each operation."""
    _, url = house
    dice, bodies = (
        random.Random(6),
        list(Mutator([m for name in ("sdp", "socket", "audio") for m in corpus(name)], 6).mutants(64)),
    )
    async with aiohttp.ClientSession(base_url=url) as http:
        async with http.get("/openapi.json") as response:
            paths = (await response.json())["paths"]
        tried = 0
        for path, operations in paths.items():
            for method, operation in operations.items():
                if path in UNTRIED or (method, path) == ("post", "/api/avatars"):
                    continue
                described = {int(status) for status in operation["responses"]} | {401, 403, 404, 405, 400}
                for _ in range(8):
                    where = re.sub(r"\{\w+\}", lambda _: dice.choice(VALUES) or "x", path)
                    query = {
                        p["name"]: dice.choice(VALUES) for p in operation.get("parameters", ()) if p["in"] == "query"
                    }
                    query |= {"unheard": "of"} if dice.random() < 0.3 else {}
                    kind = dice.choice(KINDS)
                    async with http.request(
                        method, where, params=query, data=dice.choice(bodies) if "requestBody" in operation else None,
                        headers={"Content-Type": kind} if kind else {},
                    ) as response:  # fmt: skip
                        assert response.status in described, (method, where, query, response.status)
                        if response.status >= 400:
                            assert response.content_type == "application/problem+json"
                            problem = await response.json(content_type=None)
                            assert problem["status"] == response.status
                            assert "Traceback" not in problem["detail"]
                        tried += 1
    assert tried > 100
    assert failures(caplog) == []
