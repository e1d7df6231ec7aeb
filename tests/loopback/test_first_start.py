"""The very first start: pages are open before the portraits are ready."""

from __future__ import annotations

import asyncio
import threading

import aiohttp
import pytest

from avatars.bundled import FIRST, bundled_portraits
from streamer.app import Announcements, Server
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config, check

pytestmark = [pytest.mark.loopback, pytest.mark.timeout(120)]

CLOCK = MonotonicClock()
FOUND_WITHIN_S = 60.0
FIRST_IDS = [portrait.id for portrait in bundled_portraits()[:FIRST]]


class Preparation:
    """Stands still at the beginning of each portrait until it is let go on."""

    def __init__(self):
        self.at = ""
        self._gates = {avatar_id: threading.Event() for avatar_id in FIRST_IDS}

    def note(self, avatar_id, done):
        """In the preparing thread."""
        if done == 0:
            self.at = avatar_id
            self._gates[avatar_id].wait(FOUND_WITHIN_S)

    async def reaches(self, avatar_id):
        while self.at != avatar_id:
            await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)

    def let_go_on(self, avatar_id):
        self._gates[avatar_id].set()


async def test_page_that_was_told_of_a_face_sees_it_though_its_preparation_has_begun_meanwhile(
    tmp_path, unused_tcp_port
):
    one, two, *rest = FIRST_IDS
    preparation, stop, ready = Preparation(), asyncio.Event(), asyncio.Event()
    server = Server(check(Config(port=unused_tcp_port, avatars=str(tmp_path / "avatars"))))
    announcements = Announcements(preparation.note, lambda url: ready.set())
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with asyncio.timeout(FOUND_WITHIN_S), asyncio.TaskGroup() as group, aiohttp.ClientSession(url) as http:
        group.create_task(server.run(announcements, stop))
        try:
            await preparation.reaches(one)
            async with http.get("/api/avatars") as response:
                told = {view["id"]: view for view in (await response.json())["avatars"]}
            assert told[two]["state"] == "ready"
            preparation.let_go_on(one)
            await preparation.reaches(two)
            asking = group.create_task(look(http, f"{told[two]['thumbnail']}?size=64"))
            async with http.get(f"/api/avatars/{two}") as response:
                assert (await response.json())["state"] == "preparing"
            for avatar_id in (two, *rest):
                preparation.let_go_on(avatar_id)
            assert await asking == (200, b"\xff\xd8")
            await ready.wait()
        finally:
            for avatar_id in FIRST_IDS:
                preparation.let_go_on(avatar_id)
            stop.set()


async def look(http, path):
    async with http.get(path) as response:
        return response.status, (await response.read())[:2]
