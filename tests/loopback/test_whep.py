"""Viewers of a real server: the verbs of WHEP, one encode for all of them, pictures that decode."""

from __future__ import annotations

import asyncio
import re

import aiohttp
import pytest
import pytest_asyncio

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import MonotonicClock
from streamer.config import BroadcastConfig, Config, IceConfig, IceServerConfig, LimitsConfig, check
from streamer.soak.client import Visit, Visitor, over_http
from streamer.soak.watcher import Watcher

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}
SDP = {"Content-Type": "application/sdp"}
ORIGIN = "http://studio.example"
TURN = IceServerConfig(("turn:127.0.0.1:9?transport=udp",), 'na"me', "secret")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir):
    """A server with a session that may be watched as `desk`."""
    config = Config(
        port=0, avatars=str(avatars_dir), allowed_origins=(ORIGIN,), canvas_px=256,
        ice=IceConfig((IceServerConfig(("stun:127.0.0.1:9",)), TURN)),
        limits=LimitsConfig(viewers=6, offers_burst=1000),
        broadcast=BroadcastConfig(require_if_match=True),
    )  # fmt: skip
    server = Server(check(config))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http, asyncio.TaskGroup() as group:
        visitor = Visitor(Visit(), MonotonicClock())
        await visitor.connect(over_http(http, "/api/sessions?avatar=ruby&source=none&feed=desk"))
        running = group.create_task(visitor.run())
        await visitor.ready.wait()
        await server.station.get("desk").begun.wait()
        yield server, http
        running.cancel()
        await visitor.close()


@pytest_asyncio.fixture(loop_scope="module")
async def watch(house):
    """`await watch()`: a viewer of `desk` who has seen a picture; all leave at the end."""
    _, http = house
    made = []

    async def join():
        watcher = Watcher(MonotonicClock())
        made.append(watcher)
        await watcher.connect(http, "/whep/desk")
        await watcher.seen.wait()
        return watcher

    yield join
    for watcher in made:
        await watcher.close(http)


async def offer(kind="recvonly"):
    from aiortc import RTCConfiguration, RTCPeerConnection

    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for media in ("audio", "video"):
        connection.addTransceiver(media, kind)
    await connection.setLocalDescription()
    sdp = connection.localDescription.sdp
    await connection.close()
    return sdp


async def test_three_viewers_see_whole_pictures_of_one_encoder(house, watch):
    server, _ = house
    watchers = [await watch() for _ in range(3)]
    feed = server.station.get("desk")
    before, frames = feed.stats.encoder_calls, [len(w.arrivals_ns) for w in watchers]
    while min(len(w.arrivals_ns) - f for w, f in zip(watchers, frames, strict=True)) < 25:
        watchers[0].noticed.clear()
        await watchers[0].noticed.wait()
    assert feed.stats.encoder_calls - before <= 35
    assert feed.stats.viewers == 3
    assert all(w.sound_packets for w in watchers)


async def test_answer_only_sends_and_names_session_ice_session_and_ice_servers(house):
    _, http = house
    async with http.post("/whep/desk", data=await offer("sendrecv"), headers=SDP) as response:
        answer = await response.text()
        assert (response.status, response.content_type) == (201, "application/sdp")
        location, etag = response.headers["Location"], response.headers["ETag"]
        assert re.fullmatch(r"/whep/desk/[0-9a-f]{32}", location)
        assert re.fullmatch(r'"[0-9a-f]+"', etag)
        assert response.headers.getall("Link") == [
            '<stun:127.0.0.1:9>; rel="ice-server"',
            '<turn:127.0.0.1:9?transport=udp>; rel="ice-server"; username="na\\"me"; credential="secret"; '
            'credential-type="password"',
        ]
    assert answer.count("a=sendonly") == 2
    assert "a=sendrecv" not in answer
    async with http.delete(location) as response:
        assert response.status == 200


async def test_trickle_is_taken_for_the_ice_session_it_names_and_a_restart_is_refused(house):
    _, http = house
    async with http.post("/whep/desk", data=await offer(), headers=SDP) as response:
        location, etag = response.headers["Location"], response.headers["ETag"]
    candidate = "m=audio 9 RTP/AVP 0\r\na=mid:0\r\na=candidate:1 1 udp 2122260223 127.0.0.1 61764 typ host\r\n"
    restart = "a=ice-ufrag:other\r\na=ice-pwd:another-password-of-22-chars\r\n"
    for body, headers, status in (
        (candidate, {"If-Match": etag}, 204),
        (candidate, {"If-Match": '"other"'}, 412),
        (candidate, {}, 428),
        (restart, {"If-Match": "*"}, 422),
        (candidate, {"If-Match": etag, "Content-Type": "text/plain"}, 415),
        ("a=candidate:nonsense\r\n", {"If-Match": etag}, 400),
    ):
        async with http.patch(location, data=body, headers={**FRAGMENT, **headers}) as response:
            assert response.status == status, (body, headers)
            assert "ETag" not in response.headers
    async with http.delete(location) as response:
        assert response.status == 200
    async with http.delete(location) as response:
        assert response.status in (200, 404)


async def test_other_words_and_methods_are_refused_with_the_right_status(house):
    _, http = house
    sdp = await offer()
    for method, path, body, kind, status in (
        ("POST", "/whep/nobody", sdp, "application/sdp", 404),
        ("POST", "/whep/desk", sdp, "text/plain", 415),
        ("POST", "/whep/desk", "not an offer", "application/sdp", 400),
        ("GET", "/whep/desk", None, None, 405),
        ("PUT", "/whep/desk", sdp, "application/sdp", 405),
        ("GET", "/whep/desk/00", None, None, 405),
        ("DELETE", "/whep/desk/00", None, None, 404),
        ("PATCH", "/whep/desk/00", "", "application/trickle-ice-sdpfrag", 404),
    ):
        headers = {"Content-Type": kind} if kind else {}
        async with http.request(method, path, data=body, headers=headers) as response:
            assert response.status == status, (method, path)
            assert response.content_type == "application/problem+json"


async def test_page_of_an_allowed_origin_may_watch_and_reads_where_its_session_is(house):
    _, http = house
    preflight = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    async with http.options("/whep/desk", headers=preflight) as response:
        assert response.status == 200
        assert response.headers["Accept-Post"] == "application/sdp"
        assert response.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
        assert "Authorization" in response.headers["Access-Control-Allow-Headers"]
        assert len(response.headers.getall("Link")) == 2
    async with http.options("/whep/desk/00", headers=preflight) as response:
        assert {"PATCH", "DELETE"} <= set(response.headers["Access-Control-Allow-Methods"].split(", "))
        assert "If-Match" in response.headers["Access-Control-Allow-Headers"]
    async with http.post("/whep/nobody", data="", headers={**SDP, "Origin": ORIGIN}) as response:
        assert {"Location", "Link", "ETag"} <= set(response.headers["Access-Control-Expose-Headers"].split(", "))


async def test_viewers_beyond_the_limit_are_told_when_to_come_back(house, watch):
    _, http = house
    sdp = await offer()
    locations = []
    for _ in range(6):
        async with http.post("/whep/desk", data=sdp, headers=SDP) as response:
            locations.append(response.headers.get("Location"))
    async with http.post("/whep/desk", data=sdp, headers=SDP) as response:
        assert (response.status, int(response.headers["Retry-After"])) == (503, 10)
    for location in filter(None, locations):
        async with http.delete(location):
            pass


async def test_flood_of_viewers_is_told_to_wait_and_those_who_watch_notice_nothing(avatars_dir):
    limits = LimitsConfig(offers_per_s=0.1, offers_burst=4)
    server = Server(check(Config(port=0, avatars=str(avatars_dir), canvas_px=256, limits=limits)))
    watcher, owner = Watcher(MonotonicClock()), Visitor(Visit(), MonotonicClock())
    async with (
        served_here(server) as url, aiohttp.ClientSession(base_url=url) as http, asyncio.TaskGroup() as group
    ):  # fmt: skip
        await owner.connect(over_http(http, "/api/sessions?avatar=ruby&source=none&feed=desk"))
        running = group.create_task(owner.run())
        await owner.ready.wait()
        await server.station.get("desk").begun.wait()
        await watcher.connect(http, "/whep/desk")
        await watcher.seen.wait()
        sdp, statuses = await offer(), []
        for _ in range(8):
            async with http.post("/whep/desk", data=sdp, headers=SDP) as response:
                statuses.append(response.status)
                if response.status == 429:
                    assert int(response.headers["Retry-After"]) >= 1
        assert statuses == [201] * 2 + [429] * 6
        seen = len(watcher.arrivals_ns)
        while len(watcher.arrivals_ns) < seen + 25:
            watcher.noticed.clear()
            await watcher.noticed.wait()
        running.cancel()
    await owner.close()
    await watcher.close()


async def test_feed_without_a_picture_yet_is_a_conflict_with_a_time_to_come_back(house):
    server, http = house
    feed = server.station.open("later", (256, 256))
    async with http.post("/whep/later", data=await offer(), headers=SDP) as response:
        assert response.status == 409
        assert int(response.headers["Retry-After"]) > 0
    server.station.close_feed(feed)
    async with http.post("/whep/later", data=await offer(), headers=SDP) as response:
        assert response.status == 404


async def test_list_tells_how_many_watch_at_what_cost(house, watch):
    _, http = house
    await watch()
    async with http.get("/api/feeds") as response:
        (feed,) = (await response.json())["feeds"]
    assert (feed["feed"], feed["live"], feed["viewers"], feed["rungs"]) == ("desk", True, 1, 1)
    assert (feed["width"], feed["height"]) == (256, 256)


async def test_name_of_a_feed_in_use_or_no_name_at_all_is_refused(house):
    _, http = house
    sdp = await offer()
    for name, status in (("desk", 409), ("Desk%21", 400)):
        async with http.post(f"/api/sessions?avatar=ruby&source=none&feed={name}", data=sdp, headers=SDP) as response:
            assert response.status == status
