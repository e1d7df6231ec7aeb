"""The HTTP interface of a real server in this process: statuses, bounds, access, and nothing that leaks."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import numpy as np
import pytest
import pytest_asyncio

from avatars.store import RESERVED_IDS
from streamer.app import Server
from streamer.bench.served import served_here
from streamer.config import Config, check
from streamer.pcm import wav_of

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

SDP, WAV, WEBP = ({"Content-Type": kind} for kind in ("application/sdp", "audio/wav", "image/webp"))
TOKEN = "a-token-of-some-length"


async def _serve(config):
    """A running server: its URL and how to stop it."""
    server = Server(check(config))
    async with served_here(server) as url:
        yield url, server


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for all servers here: avatars are prepared once."""
    return str(tmp_path_factory.mktemp("avatars"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(store):
    async for url, _ in _serve(Config(port=0, avatars=store)):
        async with aiohttp.ClientSession(base_url=url) as http:
            yield http


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(store):
    async for url, _ in _serve(Config(port=0, avatars=store, token=TOKEN)):
        async with aiohttp.ClientSession(base_url=url) as http:
            yield http


async def problem(response):
    assert response.content_type == "application/problem+json"
    body = json.loads(await response.text())
    assert body["status"] == response.status
    assert body["detail"]
    return body


async def test_page_health_and_description_are_served_with_strict_headers(served):
    for path, kind in (
        ("/", "text/html"),
        ("/healthz", "application/json"),
        ("/readyz", "application/json"),
        ("/openapi.json", "application/json"),
        ("/metrics", "text/plain"),
        ("/api/capabilities", "application/json"),
    ):
        async with served.get(path) as response:
            assert (response.status, response.content_type) == (200, kind)
            assert "default-src 'self'" in response.headers["Content-Security-Policy"]


async def test_page_is_not_sent_again_when_the_browser_has_it(served):
    async with served.get("/") as first, served.get("/", headers={"If-None-Match": first.headers["ETag"]}) as again:
        assert again.status == 304


async def test_bundled_avatars_are_ready_with_pictures(served):
    async with served.get("/api/avatars") as response:
        avatars = (await response.json())["avatars"]
    assert [a["id"] for a in avatars][:3] == ["ruby", "blaze", "mateo"]
    assert all(a["state"] == "ready" for a in avatars)
    async with served.get(avatars[0]["thumbnail"] + "?size=512") as response:
        assert response.content_type == "image/jpeg"
        assert (await response.read())[:2] == b"\xff\xd8"


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "status"),
    [
        ("POST", "/api/sessions?avatar=ruby", "application/sdp", b"v=0", 400),
        ("POST", "/api/sessions?avatar=ruby", "application/sdp", b"\xff\xfe", 400),
        ("POST", "/api/sessions?avatar=ruby", "application/sdp", b"v=0\r\n" * 20_000, 413),
        ("POST", "/api/sessions?avatar=ruby", "text/html", b"v=0", 415),
        ("POST", "/api/sessions?avatar=ruby", "application/json", b"[" * 30_000, 400),
        ("POST", "/api/sessions?avatar=ruby", "application/json", b'{"sdp": 7}', 400),
        ("POST", "/api/sessions?avatar=nobody", "application/sdp", b"v=0", 404),
        ("POST", "/api/sessions?avatar=../../etc", "application/sdp", b"v=0", 400),
        ("POST", "/api/sessions?avatar=ruby&source=film", "application/sdp", b"v=0", 400),
        ("POST", "/api/sessions?avatar=ruby&canvas=99999", "application/sdp", b"v=0", 400),
        ("POST", "/api/sessions", "application/sdp", b"v=0", 400),
        ("PATCH", "/api/sessions/0123", "application/trickle-ice-sdpfrag", b"", 404),
        ("DELETE", "/api/sessions/0123", "text/plain", b"", 404),
        ("POST", "/api/sessions/0123/speech", "audio/wav", b"", 404),
        ("GET", "/api/avatars/nobody", "text/plain", b"", 404),
        ("GET", "/api/avatars/ruby/thumbnail?size=9999", "text/plain", b"", 400),
        ("GET", "/web/../pyproject.toml", "text/plain", b"", 404),
        ("GET", "/web/%2e%2e/streamer/app.py", "text/plain", b"", 404),
        ("GET", "/nowhere", "text/plain", b"", 404),
        ("PUT", "/api/sessions", "text/plain", b"", 405),
    ],
)
async def test_wrong_request_gets_a_problem_document_with_its_status(served, method, path, kind, body, status):
    async with served.request(method, path, data=body, headers={"Content-Type": kind}) as response:
        assert response.status == status
        await problem(response)


async def test_foreign_origin_is_refused_and_own_origin_is_not(served):
    async with served.get("/api/avatars", headers={"Origin": "https://evil.example"}) as response:
        assert response.status == 403
        await problem(response)
    own = str(served._base_url).rstrip("/")
    async with served.get("/api/avatars", headers={"Origin": own}) as response:
        assert response.status == 200


async def test_name_repointed_at_this_machine_is_refused(served):
    async with served.get("/api/avatars", headers={"Host": "evil.example:8007"}) as response:
        assert response.status == 421


async def test_token_guards_the_api_and_the_metrics_but_not_the_page(guarded):
    wrong = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": "Bearer é"})
    sockets = ({"Sec-WebSocket-Protocol": f"liveanchor, bearer.{coded}"} for coded in ("é", "A", "****"))
    for path, headers_given in zip(("/api/avatars", "/metrics", "/api/sessions"), sockets, strict=True):
        for headers in (*wrong, headers_given):
            async with guarded.get(path, headers=headers) as response:
                assert response.status == 401
                assert response.headers["WWW-Authenticate"].startswith("Bearer")
        async with guarded.get(path, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert response.status == 200
    for path in ("/", "/healthz", "/readyz"):
        async with guarded.get(path) as response:
            assert response.status == 200


async def test_every_described_call_exists_and_every_route_is_described(served):
    async with served.get("/openapi.json") as response:
        described = await response.json()
    paths = described["paths"]
    assert described["openapi"] == "3.1.0"
    for path, operations in paths.items():
        for method in operations:
            concrete = path.replace("{avatar}", "nobody").replace("{job}", "0" * 16).replace("{session}", "0" * 32)
            async with served.request(method, concrete) as response:
                assert response.status != 405
                assert not (response.status == 404 and response.content_type != "application/problem+json")


async def test_no_name_a_user_may_give_is_an_address_of_the_server(store):
    async for _, server in _serve(Config(port=0, avatars=store)):
        routes = [resource.canonical.split("/") for resource in server.application().router.resources()]
    taken: dict[str, set[str]] = {"{avatar}": set(), "{feed}": set(), "{room}": set(), "{seat}": set()}
    for route in routes:
        for place, part in enumerate(route):
            if part in taken:
                beside = [other[place] for other in routes if len(other) > place and other[:place] == route[:place]]
                taken[part] |= {name for name in beside if not name.startswith("{")}
    assert taken == {"{avatar}": RESERVED_IDS, "{feed}": set(), "{room}": set(), "{seat}": set()}


async def test_full_server_says_when_to_come_back(store):
    async for url, server in _serve(Config(port=0, avatars=store)):
        server.registry._opening = server.registry.limit
        async with (
            aiohttp.ClientSession(base_url=url) as http,
            http.post(
                "/api/sessions?avatar=ruby", data=b"v=0", headers={"Content-Type": "application/sdp"}
            ) as response,
        ):
            assert response.status == 503
            assert int(response.headers["Retry-After"]) > 0
            assert (await problem(response))["type"].endswith("SessionLimit")
        server.registry._opening = 0


async def finished(http, location):
    """Follow a making job to its end."""
    async with asyncio.timeout(60):
        while True:
            async with http.get(location) as response:
                job = await response.json()
            if job["state"] in ("ready", "failed"):
                return job
            await asyncio.sleep(0.05)  # noqa: TID251 - a client that polls, as clients do


def portrait():
    from avatars.bundled import bundled_portraits

    return bundled_portraits()[1].path.read_bytes()


async def test_uploaded_portrait_becomes_an_avatar_that_can_be_shown_and_deleted(served):
    async with served.post("/api/avatars?avatar=guest", data=portrait(), headers=WEBP) as sent:
        assert sent.status == 202
        location = sent.headers["Location"]
    job = await finished(served, location)
    assert job["state"] == "ready", job
    assert job["report"]["grade"] in "ABCD"
    async with served.get("/api/avatars/guest") as response:
        assert (await response.json())["report"] == job["report"]
    async with served.get("/api/avatars/guest/thumbnail") as response:
        assert response.status == 200
        etag = response.headers["ETag"]
    async with served.get("/api/avatars/guest/thumbnail", headers={"If-None-Match": etag}) as response:
        assert response.status == 304
    async with served.delete("/api/avatars/guest") as response:
        assert response.status == 204
    async with served.get("/api/avatars/guest") as response:
        assert response.status == 404


async def test_upload_without_a_face_fails_with_advice_and_leaves_no_avatar(served):
    import cv2
    import numpy as np

    body = cv2.imencode(".png", np.full((400, 400, 3), 90, np.uint8))[1].tobytes()
    async with served.post("/api/avatars?avatar=nobody", data=body, headers={"Content-Type": "image/png"}) as sent:
        location = sent.headers["Location"]
    job = await finished(served, location)
    assert job["state"] == "failed"
    assert "face" in job["error"]
    async with served.post("/api/sessions?avatar=nobody", data=b"v=0", headers=SDP) as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("query", "kind", "body", "status"),
    [
        ("avatar=../x", "image/png", b"x", 400),
        ("", "image/png", b"x", 400),
        ("avatar=jobs", "image/png", b"x", 400),
        ("avatar=clear", "image/png", b"x", 400),
        ("avatar=a", "text/html", b"x", 415),
        ("avatar=a", "image/png", b"", 400),
        ("avatar=a&notify=http://127.0.0.1/x", "image/png", b"x", 400),
        ("avatar=a&notify=http://169.254.169.254/x", "image/png", b"x", 400),
        ("avatar=a&notify=http://[::ffff:10.0.0.1]/x", "image/png", b"x", 400),
        ("avatar=a&notify=file:///etc/passwd", "image/png", b"x", 400),
        ("avatar=a&notify=http://localhost:8007/", "image/png", b"x", 400),
    ],
)
async def test_wrong_upload_is_refused_before_anything_is_made(served, query, kind, body, status):
    async with served.post(f"/api/avatars?{query}", data=body, headers={"Content-Type": kind}) as response:
        assert response.status == status
        await problem(response)


async def test_sound_becomes_a_film_with_picture_and_sound_and_says_whether_it_was_cached(served):
    import io

    import av

    hum = (6000 * np.sin(np.arange(48_000) / 30)).astype(np.int16)
    hits = []
    for _ in range(2):
        async with served.post("/api/avatars/ruby/render?canvas=256", data=wav_of(hum), headers=WAV) as response:
            assert response.status == 200
            hits.append(response.headers["X-Cache-Hit"])
            film = await response.read()
    with av.open(io.BytesIO(film)) as container:
        video, audio = container.streams.video[0], container.streams.audio[0]
        assert (video.width, video.height) == (256, 256)
        assert abs(float(video.duration * video.time_base) - float(audio.duration * audio.time_base)) < 0.1
    assert hits[-1] == "True"
    async with served.post("/api/avatars/ruby/render", data=b"nonsense", headers=WAV) as response:
        assert 400 <= response.status < 500
        await problem(response)
