"""Recordings of a real server: a feed and a session to files that play, and a feed pushed to an RTMP server."""

from __future__ import annotations

import asyncio
import io
import shutil
import socket
import threading

import aiohttp
import av
import numpy as np
import pytest
import pytest_asyncio

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import NS_PER_S, MonotonicClock
from streamer.config import BroadcastConfig, Config, LimitsConfig, check
from streamer.pcm import wav_of

CLOCK = MonotonicClock()
pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir, tmp_path_factory):
    """A server with a small room; `rtmp` is where it may push to."""
    rtmp, port = f"rtmp://127.0.0.1:{free_port()}/live/", free_port()
    config = Config(
        port=port, avatars=str(avatars_dir), recordings=str(tmp_path_factory.mktemp("films")),
        broadcast=BroadcastConfig(push_to=(rtmp, f"http://127.0.0.1:{port}/whip/")), limits=LimitsConfig(recordings=2),
    )  # fmt: skip
    server = Server(check(config))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http:
        seats = [{"seat": "ada", "avatar": "ruby"}]
        async with http.post("/api/rooms?room=desk", json={"seats": seats, "width": 320, "height": 256}) as response:
            assert response.status == 201
        await server.station.get("desk").begun.wait()
        yield server, http, rtmp


async def recorded(http, recording, seconds):
    """Wait until so much is written, then stop; the view once it has ended."""
    while (view := await state(http, recording))["seconds"] < seconds:
        assert view["state"] == "recording", view
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 10)
    async with http.delete(f"/api/recordings/{recording}") as response:
        assert response.status == 202
    while (view := await state(http, recording))["state"] == "recording":
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)
    return view


async def state(http, recording):
    async with http.get(f"/api/recordings/{recording}") as response:
        return await response.json()


@pytest.mark.parametrize("kind", ["mp4", pytest.param("webm", marks=pytest.mark.long)])
async def test_feed_is_recorded_to_a_file_as_long_as_its_frames(house, kind):
    _, http, _ = house
    async with http.post(f"/api/recordings?feed=desk&format={kind}&badge=AI") as response:
        assert response.status == 201
        recording = (await response.json())["recording"]
    view = await recorded(http, recording, 2.0)
    assert (view["state"], view["error"]) == ("finished", None)
    async with http.get(f"/api/recordings/{recording}/file") as response:
        body = await response.read()
    with av.open(io.BytesIO(body)) as film:
        frames = [frame for frame in film.decode(video=0)]
        assert (frames[0].width, frames[0].height) == (320, 256)
        assert abs(len(frames) / 25 - view["seconds"]) < 0.001


async def test_recording_is_downloaded_in_parts_while_every_thread_of_asyncio_is_taken(house):
    _, http, _ = house
    async with http.post("/api/recordings?feed=desk") as response:
        path = response.headers["Location"]
    await recorded(http, path.rsplit("/", 1)[1], 0.2)
    loop, gate = asyncio.get_running_loop(), threading.Event()
    blocked = [loop.run_in_executor(None, gate.wait, 30) for _ in range(64)]
    try:
        async with http.get(f"{path}/file") as response:
            whole = await response.read()
        async with http.get(f"{path}/file", headers={"Range": "bytes=4-7"}) as response:
            assert (response.status, response.content_type) == (206, "video/mp4")
            assert await response.read() == whole[4:8] == b"ftyp"
    finally:
        gate.set()
        await asyncio.gather(*blocked)


async def test_what_cannot_be_recorded_or_pushed_is_refused(house):
    _, http, rtmp = house
    for path, body, status in (
        ("recordings", None, 400),
        ("recordings?feed=nobody", None, 404),
        ("recordings?session=nobody", None, 404),
        ("recordings?feed=desk&format=gif", None, 400),
        ("recordings?feed=desk&badge=" + "x" * 30, None, 400),
        ("pushes", {"feed": "desk", "url": "rtmp://203.0.113.9/live/key"}, 403),
        ("pushes", {"feed": "desk", "url": "http://127.0.0.1/"}, 403),
        ("pushes", {"feed": "desk", "url": "file:///etc/passwd"}, 400),
        ("pushes", {"feed": "nobody", "url": rtmp + "key"}, 404),
        ("pushes", {"feed": "desk"}, 400),
    ):
        async with http.post(f"/api/{path}", json=body) as response:
            assert response.status == status, path


async def test_push_to_a_server_that_is_not_there_fails_with_words_and_without_the_key(house):
    _, http, rtmp = house
    async with http.post("/api/pushes", json={"feed": "desk", "url": rtmp + "secret-key"}) as response:
        assert response.status == 201
        view = await response.json()
    while view["state"] == "recording":
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)
        view = await state(http, view["recording"])
    assert view["state"] == "failed"
    assert view["error"]
    assert "secret-key" not in str(view)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg here to play the RTMP server")
async def test_feed_pushed_by_rtmp_arrives_with_picture_and_sound(house, tmp_path):
    _, http, rtmp = house
    out = tmp_path / "received.flv"
    server = await asyncio.create_subprocess_exec(
        "ffmpeg", "-v", "error", "-listen", "1", "-i", rtmp + "key", "-t", "3", "-c", "copy", str(out),
        stdin=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(40):
        async with http.post("/api/pushes", json={"feed": "desk", "url": rtmp + "key"}) as response:
            view = await response.json()
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 2)
        view = await state(http, view["recording"])
        if view["state"] == "recording":
            break
    await server.wait()
    with av.open(str(out)) as film:
        assert {stream.type for stream in film.streams} == {"video", "audio"}
        assert len([frame for frame in film.decode(video=0)]) >= 40
    async with http.delete(f"/api/recordings/{view['recording']}"):
        pass


async def test_feed_pushed_by_whip_speaks_at_the_server_it_is_pushed_to(house):
    server, http, _ = house
    url = str(http._base_url) + "whip/echo?avatar=ruby&canvas=256"
    async with http.post("/api/pushes", json={"feed": "desk", "url": url}) as response:
        assert response.status == 201, await response.text()
        view = await response.json()
    sound = {"data": tone(), "headers": {"Content-Type": "audio/wav"}}
    while not any(feed.name == "echo" for feed in server.station.feeds):
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)
    heard = []
    server.station.get("echo").taps.append(lambda picture: heard.append(int(np.abs(picture.pcm48.astype(int)).max())))
    async with http.post("/api/rooms/desk/seats/ada/speech", **sound) as response:
        assert response.status == 202
    while max(heard, default=0) < 3000:
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)
    async with http.delete(f"/api/recordings/{view['recording']}"):
        pass
    while (view := await state(http, view["recording"]))["state"] == "recording":
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)
    assert view["state"] == "finished"


def tone():
    t = np.arange(48_000 * 2) / 48_000
    return wav_of((9000 * np.sin(2 * np.pi * 500 * t)).astype(np.int16))
