"""Downloads: whole, in part, only if changed, given up half-way, and while asyncio's own threads are all taken."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from streamer.clock import NS_PER_S, MonotonicClock
from streamer.http.files import PIECE_BYTES, Downloads

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

CLOCK = MonotonicClock()
BODY = os.urandom(PIECE_BYTES * 2 + 1234)
LARGE_BYTES = 256 << 20


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "film.mp4"
    path.write_bytes(BODY)
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(film):
    downloads, app = Downloads(), web.Application()

    async def answer(request):
        return await downloads.answer(request, film.parent / request.match_info["name"])

    app.router.add_get("/{name}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
            yield session
    finally:
        await runner.cleanup()
        downloads.close()


async def get(http, *, method="GET", path="/film.mp4", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with http.request(method, path, headers=named) as response:
        return response, await response.read()


def is_open(path):
    """By this process."""
    return path in {link.resolve() for link in Path("/proc/self/fd").iterdir()}


async def closed(path):
    """Return once this process has the file open no more."""
    while is_open(path):
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 100)


async def test_download_is_the_file_and_says_what_it_is(http, film):
    response, body = await get(http)
    assert (response.status, body) == (200, BODY)
    assert response.content_type == "video/mp4"
    assert response.headers["Accept-Ranges"] == "bytes"
    assert all(response.headers[name] for name in ("ETag", "Last-Modified"))
    await closed(film)


async def test_head_says_the_size_and_sends_nothing(http):
    response, body = await get(http, method="HEAD")
    assert (response.status, body, response.headers["Content-Length"]) == (200, b"", str(len(BODY)))


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=1000-", 1000, None),
        ("bytes=-500", len(BODY) - 500, None),
        (f"bytes=-{10 * len(BODY)}", 0, None),
        (f"bytes=77-{10 * len(BODY)}", 77, None),
        (f"bytes=10-{PIECE_BYTES + 10}", 10, PIECE_BYTES + 11),
    ],
)
async def test_player_that_seeks_gets_the_part_it_asks_for(http, asked, first, end):
    response, body = await get(http, Range=asked)
    end = end or len(BODY)
    assert response.status == 206
    assert response.headers["Content-Range"] == f"bytes {first}-{end - 1}/{len(BODY)}"
    assert body == BODY[first:end]


@pytest.mark.parametrize("asked", [f"bytes={len(BODY)}-", "bytes=5-1", "bytes=-", "lines=1-2", "nonsense"])
async def test_part_that_is_not_there_is_refused_with_the_size(http, asked):
    response, _ = await get(http, Range=asked)
    assert (response.status, response.headers["Content-Range"]) == (416, f"bytes */{len(BODY)}")


async def test_file_that_has_not_changed_is_not_sent_again(http):
    first, _ = await get(http)
    tag, date, early = first.headers["ETag"], first.headers["Last-Modified"], "Thu, 01 Jan 1970 00:00:00 GMT"
    for wanted, headers in (
        (304, {"If_None_Match": tag}),
        (304, {"If_None_Match": f'"other", W/{tag}'}),
        (304, {"If_Modified_Since": date}),
        (200, {"If_Modified_Since": early}),
        (200, {"If_None_Match": '"other"', "If_Modified_Since": date}),
        (412, {"If_Match": '"other"'}),
        (200, {"If_Match": tag}),
        (200, {"If_Match": "*"}),
        (412, {"If_Unmodified_Since": early}),
        (200, {"If_Unmodified_Since": date}),
    ):
        response, body = await get(http, **headers)
        assert (response.status, body) == (wanted, BODY if wanted == 200 else b""), headers


async def test_download_goes_on_where_it_stopped_only_if_the_file_is_the_same(http):
    first, _ = await get(http)
    for condition, wanted in (
        (first.headers["ETag"], 206),
        (first.headers["Last-Modified"], 206),
        ('"other"', 200),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 200),
    ):
        response, body = await get(http, Range="bytes=100-", If_Range=condition)
        assert (response.status, body) == (wanted, BODY[100:] if wanted == 206 else BODY), condition


async def test_file_that_is_gone_is_not_found(http):
    response, _ = await get(http, path="/nothing.mp4")
    assert response.status == 404


async def test_empty_file_is_an_empty_download(http, film):
    (film.parent / "empty.webm").touch()
    response, body = await get(http, path="/empty.webm")
    assert (response.status, response.content_type, body) == (200, "video/webm", b"")


async def test_download_that_is_given_up_closes_the_file(http, film):
    large = film.parent / "large.mp4"
    with large.open("wb") as file:
        file.truncate(LARGE_BYTES)
    response = await http.get("/large.mp4")
    await response.content.readexactly(1000)
    assert is_open(large)
    response.close()
    await closed(large)
    assert (await get(http))[1] == BODY


async def test_file_that_shrinks_while_it_is_sent_ends_the_download_as_broken(http, film):
    large = film.parent / "shrinking.mp4"
    with large.open("wb") as file:
        file.truncate(LARGE_BYTES)
    async with http.get("/shrinking.mp4") as response:
        await response.content.readexactly(1000)
        os.truncate(large, 1000)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    await closed(large)


async def test_full_default_executor_stops_no_download(http):
    loop, gate = asyncio.get_running_loop(), threading.Event()
    blocked = [loop.run_in_executor(None, gate.wait, 30) for _ in range(64)]
    try:
        assert (await get(http))[1] == BODY
    finally:
        gate.set()
        await asyncio.gather(*blocked)
