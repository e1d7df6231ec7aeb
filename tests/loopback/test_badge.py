"""The badge that says what a picture is, in what visitors and viewers decode."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import numpy as np
import pytest
import pytest_asyncio

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import MonotonicClock
from streamer.config import Config, check
from streamer.errors import ConfigError
from streamer.graphics.badge import Badge
from streamer.pcm import wav_of
from streamer.soak.client import Visit, Visitor

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

CLOCK = MonotonicClock()
WAV = {"Content-Type": "audio/wav"}
SIDE_PX = 256


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(avatars_dir):
    server = Server(check(Config(port=0, avatars=str(avatars_dir), canvas_px=SIDE_PX)))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as session:
        yield session


def corner(planes):
    """Luma where the badge lies."""
    x1, y1, x2, y2 = Badge("AI").rect((planes.shape[1], planes.shape[0] * 2 // 3))
    return planes[y1:y2, x1:x2].astype(int)


def has_badge(planes):
    """Bright letters on a dark plate."""
    luma = corner(planes)
    return luma.max() > 170 and np.median(luma) < 90


def mouth(planes):
    height = planes.shape[0] * 2 // 3
    return planes[height // 2 : height * 3 // 4, planes.shape[1] // 3 : planes.shape[1] * 2 // 3].astype(int)


@asynccontextmanager
async def seen(http, path):
    """Planes of every picture that a visitor decodes, while the block runs; the visitor."""
    pictures, noticed = [], asyncio.Event()

    def look(picture):
        pictures.append(picture.planes.copy())
        noticed.set()

    async def until(count):
        while len(pictures) < count:
            noticed.clear()
            await noticed.wait()

    visitor = Visitor(Visit(on_picture=look), CLOCK)
    locations = []

    async def signal(offer):
        async with http.post(path, data=offer, headers={"Content-Type": "application/sdp"}) as response:
            assert response.status == 201, await response.text()
            locations.append(response.headers["Location"])
            return await response.text()

    await visitor.connect(signal)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(visitor.run())
        await until(1)
        yield pictures, until, locations[0]
        running.cancel()
    await visitor.close()
    async with http.delete(locations[0]):
        pass


async def test_session_that_asks_for_a_badge_shows_it_idle_speaking_and_as_another_avatar(http):
    t = np.arange(48_000 * 2) / 48_000
    sound = (9000 * np.sin(2 * np.pi * 180 * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))).astype("<i2")
    async with seen(http, "/api/sessions?avatar=ruby&source=agent&badge=AI") as (pictures, until, location):
        await until(10)
        async with http.post(f"{location}/speech", data=wav_of(sound), headers=WAV) as response:
            assert response.status == 202
        await until(40)
        async with http.post(f"{location}/avatar?avatar=blaze") as response:
            assert response.status == 200
        await until(55)
    assert all(has_badge(planes) for planes in pictures)
    moved = [np.abs(mouth(planes) - mouth(pictures[5])).max() for planes in pictures[:40]]
    assert max(moved) > 40, "nobody spoke"


async def test_session_that_does_not_ask_has_none(http):
    async with seen(http, "/api/sessions?avatar=ruby&source=none") as (pictures, until, _):
        await until(10)
    assert not any(has_badge(planes) for planes in pictures)


async def test_badge_of_too_many_words_is_refused(http):
    for words in ("x" * 21, "", "%20"):
        url = f"/api/sessions?avatar=ruby&badge={words}"
        async with http.post(url, data="v=0", headers={"Content-Type": "application/sdp"}) as response:
            assert response.status == 400
            assert "1 to 20 characters" in (await response.json())["detail"]
    with pytest.raises(ConfigError, match="1 to 20 characters"):
        check(Config(badge="x" * 21))


async def test_viewer_of_one_seat_sees_the_badge_of_its_room(http):
    for room, badge in (("marked", "AI"), ("plain", None)):
        body = {"seats": [{"seat": "ada", "avatar": "ruby"}], "width": 320, "height": 256, "badge": badge}
        async with http.post(f"/api/rooms?room={room}", json=body) as response:
            assert response.status == 201
        for feed in (room, f"{room}.ada"):
            async with seen(http, f"/whep/{feed}") as (pictures, until, _):
                await until(3)
            assert {has_badge(planes) for planes in pictures} == {badge is not None}, feed
        async with http.delete(f"/api/rooms/{room}"):
            pass


async def test_server_with_a_badge_puts_it_on_sessions_rooms_and_seats_and_no_visitor_takes_it_off(avatars_dir):
    server = Server(check(Config(port=0, avatars=str(avatars_dir), canvas_px=SIDE_PX, badge="AI")))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http:
        async with seen(http, "/api/sessions?avatar=ruby&source=none&badge=%20&feed=own") as (pictures, until, _):
            await until(10)
        assert all(has_badge(planes) for planes in pictures)
        body = {"seats": [{"seat": "ada", "avatar": "ruby"}], "width": 320, "height": 256}
        async with http.post("/api/rooms?room=desk", json=body) as response:
            assert response.status == 201
        shown = {}
        for name in ("desk", "desk.ada"):
            feed, here = server.station.get(name), asyncio.Event()

            def look(picture, name=name, here=here):
                shown[name] = picture.planes
                here.set()

            feed.taps.append(look)
            await here.wait()
        assert {name: has_badge(planes) for name, planes in shown.items()} == {"desk": True, "desk.ada": True}
