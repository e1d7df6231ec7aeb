"""Publishers of a real server: RFC 9725 line by line, and what is published is seen and heard."""

from __future__ import annotations

import asyncio
import re

import aiohttp
import numpy as np
import pytest
import pytest_asyncio
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.sdp import SessionDescription

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import MonotonicClock
from streamer.config import BroadcastConfig, Config, IceConfig, IceServerConfig, LimitsConfig, check
from streamer.soak.client import Visit, Visitor, over_http
from streamer.soak.watcher import Watcher

CLOCK = MonotonicClock()
pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

TOKEN = "a-token-of-some-length"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir):
    config = Config(
        port=0, token=TOKEN, avatars=str(avatars_dir), canvas_px=256,
        ice=IceConfig((IceServerConfig(("stun:127.0.0.1:9",)),)), limits=LimitsConfig(sessions=2, offers_burst=1000),
        broadcast=BroadcastConfig(require_if_match=True),
    )  # fmt: skip
    server = Server(check(config))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url, headers=AUTH) as http:
        yield server, http


async def offer(*kinds, direction="sendonly"):
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for kind in kinds:
        connection.addTransceiver(kind, direction)
    await connection.setLocalDescription()
    sdp = connection.localDescription.sdp
    await connection.close()
    return sdp


@pytest_asyncio.fixture(loop_scope="module")
async def published(house):
    """An answered publication that nobody connects: location, ETag, answer, headers."""
    _, http = house
    async with http.post("/whip/air?avatar=ruby", data=await offer("audio", "video"), headers=SDP) as response:
        assert response.status == 201
        yield response.headers["Location"], response.headers["ETag"], await response.text(), response.headers
        location = response.headers["Location"]
    async with http.delete(location):
        pass
    while house[0].registry.active:
        await CLOCK.sleep_until(CLOCK.now_ns() + 10_000_000)  # the slot is given back by the session's own task


async def test_4_2_offer_is_answered_201_with_answer_location_and_etag(published):
    location, etag, answer, headers = published
    assert headers["Content-Type"].startswith("application/sdp")
    assert re.fullmatch(r"/whip/air/[0-9a-f]{32}", location)
    assert re.fullmatch(r'"[^"]+"', etag)
    assert answer.startswith("v=0")


async def test_4_2_answer_receives_only_and_has_all_candidates(published):
    answer = SessionDescription.parse(published[2])
    audio = next(media for media in answer.media if media.kind == "audio")
    assert audio.direction == "recvonly"
    assert audio.ice_candidates
    assert audio.ice_candidates_complete


async def test_4_4_1_bundle_and_rtcp_mux_are_kept(published):
    answer = SessionDescription.parse(published[2])
    assert [len(group.items) for group in answer.group if group.semantic == "BUNDLE"] == [2]
    assert all(media.rtcp_mux for media in answer.media)


async def test_4_4_3_no_line_is_rejected_by_itself(published):
    assert all(media.port for media in SessionDescription.parse(published[2]).media)


async def test_4_4_3_offer_that_cannot_be_taken_whole_is_406(house):
    _, http = house
    for sdp in (
        await offer("video"),
        await offer("audio", "audio"),
        await offer("audio", direction="recvonly"),
        await offer("audio", "video", "video"),
    ):
        async with http.post("/whip/none?avatar=ruby", data=sdp, headers=SDP) as response:
            assert response.status == 406


async def test_4_2_wrong_type_is_415_and_broken_offer_400(house):
    _, http = house
    for body, kind, status in ((await offer("audio"), "text/plain", 415), ("nonsense", "application/sdp", 400)):
        async with http.post("/whip/none?avatar=ruby", data=body, headers={"Content-Type": kind}) as response:
            assert response.status == status


async def test_4_2_other_methods_on_endpoint_and_session_are_405(house, published):
    _, http = house
    for path, methods, allowed in (
        ("/whip/air", ("GET", "PUT", "HEAD"), "POST"),
        (published[0], ("GET", "PUT", "POST", "HEAD"), "PATCH"),
    ):
        for method in methods:
            async with http.request(method, path) as response:
                assert response.status == 405
                assert allowed in response.headers["Allow"]


async def test_4_2_delete_ends_the_session_and_ignores_entity_tags(house):
    _, http = house
    async with http.post("/whip/short?avatar=ruby", data=await offer("audio"), headers=SDP) as response:
        location = response.headers["Location"]
    async with http.delete(location, headers={"If-Match": '"another"'}) as response:
        assert response.status == 200
    while house[0].registry.active:
        await CLOCK.sleep_until(CLOCK.now_ns() + 10_000_000)  # the session ends in its own time
    async with http.delete(location) as response:
        assert response.status == 404


async def test_4_3_1_trickle_needs_the_ice_sessions_tag(house, published):
    _, http = house
    location, etag, *_ = published
    body = "m=audio 9 RTP/AVP 0\r\na=mid:0\r\na=candidate:1 1 udp 2122260223 127.0.0.1 61764 typ host\r\n"
    tcp = "a=candidate:2 1 tcp 1518280447 192.0.2.1 9 typ host tcptype active\r\na=end-of-candidates\r\n"
    for text, headers, status in (
        (body, {"If-Match": etag}, 204),
        (tcp, {"If-Match": etag}, 204),
        (body, {"If-Match": '"outdated"'}, 412),
        (body, {}, 428),
        (body, {"If-Match": etag, "Content-Type": "application/sdp"}, 415),
        ("a=candidate:broken\r\n", {"If-Match": etag}, 400),
    ):
        async with http.patch(location, data=text, headers={**FRAGMENT, **headers}) as response:
            assert response.status == status
            assert "ETag" not in response.headers
            assert (await response.read() == b"") == (status == 204)


async def test_4_3_3_ice_restart_is_422_and_the_session_lives_on(house, published):
    _, http = house
    restart = "a=ice-ufrag:ysXw\r\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\r\n"
    async with http.patch(published[0], data=restart, headers={**FRAGMENT, "If-Match": "*"}) as response:
        assert response.status == 422
    assert len(house[0].registry.list()) == 1


async def test_4_5_full_server_is_503_with_retry_after(house, published):
    _, http = house
    async with http.post("/whip/second?avatar=ruby", data=await offer("audio"), headers=SDP) as second:
        assert second.status == 201
        async with http.post("/whip/third?avatar=ruby", data=await offer("audio"), headers=SDP) as response:
            assert response.status == 503
            assert int(response.headers["Retry-After"]) > 0
        async with http.delete(second.headers["Location"]):
            pass


async def test_flood_of_publications_is_told_to_wait_and_other_calls_are_not(avatars_dir):
    limits = LimitsConfig(offers_per_s=0.1, offers_burst=3)
    server = Server(check(Config(port=0, avatars=str(avatars_dir), canvas_px=256, limits=limits)))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http:
        statuses = []
        for _ in range(6):
            async with http.post("/whip/air?avatar=ruby", data="nonsense", headers=SDP) as response:
                statuses.append(response.status)
                if response.status == 429:
                    assert 1 <= int(response.headers["Retry-After"]) <= 10
        assert statuses == [400] * 3 + [429] * 3
        for method, path, status in (("OPTIONS", "/whip/air", 200), ("DELETE", "/whip/air/00", 404)):
            async with http.request(method, path) as response:
                assert response.status == status
        async with http.get("/metrics") as response:
            assert 'avatar_offers_rejected_total{reason="TooManyOffers"} 3.0' in await response.text()


async def test_4_6_ice_servers_come_as_links_with_answer_and_options(house, published):
    _, http = house
    assert published[3].getall("Link") == ['<stun:127.0.0.1:9>; rel="ice-server"']
    async with http.options("/whip/air") as response:
        assert response.status == 200
        assert response.headers["Accept-Post"] == "application/sdp"
        assert response.headers.getall("Link") == ['<stun:127.0.0.1:9>; rel="ice-server"']


async def test_4_7_bearer_token_is_needed_but_for_preflights(house):
    _, http = house
    async with aiohttp.ClientSession(base_url=http._base_url) as stranger:
        async with stranger.post("/whip/air?avatar=ruby", data=await offer("audio"), headers=SDP) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
        async with stranger.options("/whip/air") as response:
            assert response.status == 200


async def test_feed_that_is_published_already_is_a_conflict(house, published):
    _, http = house
    async with http.post("/whip/air?avatar=ruby", data=await offer("audio"), headers=SDP) as response:
        assert response.status == 409


async def test_published_voice_moves_an_avatar_that_others_watch(house):
    server, http = house
    t = np.arange(48_000 * 4) / 48_000
    speech = (9000 * np.sin(2 * np.pi * 180 * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))).astype(np.int16)
    publisher, watcher = Visitor(Visit(microphone=speech, watches=False), MonotonicClock()), Watcher(MonotonicClock())
    try:
        await publisher.connect(over_http(http, "/whip/air?avatar=ruby"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(publisher.run())
            heard = []
            server.station.get("air").taps.append(lambda picture: heard.append(int(np.abs(picture.pcm48).max())))
            await server.station.get("air").begun.wait()
            await watcher.connect(http, "/whep/air")
            await watcher.seen.wait()
            while max(heard, default=0) < 3000:
                watcher.noticed.clear()
                await watcher.noticed.wait()
            running.cancel()
    finally:
        await watcher.close(http)
        await publisher.close()
