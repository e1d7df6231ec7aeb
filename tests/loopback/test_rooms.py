"""Live rooms on a real server: layouts, the floor, speech in turn, participants who do not hear themselves."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import numpy as np
import pytest
import pytest_asyncio

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import MonotonicClock
from streamer.config import Config, LimitsConfig, check
from streamer.errors import ConfigError
from streamer.pcm import wav_of
from streamer.roundtable.opening import open_file
from streamer.roundtable.script import read_beside
from streamer.soak.client import Visit, Visitor, over_http
from streamer.soak.watcher import Watcher
from streamer.tts import Voices

CLOCK = MonotonicClock()
pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]


def seat(name, source="speech", **more):
    return {"seat": name, "avatar": "ruby", "name": name.title(), "source": source, **more}


def wav(hz, seconds=1.0):
    t = np.arange(int(48_000 * seconds)) / 48_000
    pcm = (9000 * np.sin(2 * np.pi * hz * t)).astype("<i2")
    return wav_of(pcm)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir):
    config = Config(port=0, avatars=str(avatars_dir), canvas_px=256)
    server = Server(check(config))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http:
        yield server, http


@pytest_asyncio.fixture(loop_scope="module")
async def opened(house):
    """`await opened(seats, **description)`: a small room called `desk`; closed at the end."""
    server, http = house
    rooms = []

    async def make(seats, **description):
        body = {"seats": seats, "width": 320, "height": 256, **description}
        async with http.post("/api/rooms?room=desk", json=body) as response:
            assert response.status == 201, await response.text()
            assert response.headers["Location"] == "/api/rooms/desk"
        rooms.append(server.rooms.get("desk"))
        return rooms[-1]

    yield make
    for room in rooms:
        room.close()
    while server.rooms.list():
        await CLOCK.sleep_until(CLOCK.now_ns() + 10_000_000)  # the room ends in its own time


async def put(http, path, status=200, **body):
    async with http.post(f"/api/rooms/desk/{path}", **body) as response:
        assert response.status == status, await response.text()
        return await response.json()


def spy(feed):
    """Loudest frequency of every loud frame that a feed shows."""
    found = []

    def look(picture):
        sound = picture.pcm48.astype(float)
        if np.abs(sound).max() > 2000:
            spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
            found.append(round(float(np.argmax(spectrum)) * 25 / 100) * 100)

    feed.taps.append(look)
    return found


async def test_room_is_watched_whole_and_seat_by_seat(house, opened):
    server, http = house
    await opened([seat("ada"), seat("ben")], title="Late desk")
    watchers = [Watcher(MonotonicClock()) for _ in range(2)]
    for watcher, feed in zip(watchers, ("desk", "desk.ada"), strict=True):
        await server.station.get(feed).begun.wait()
        await watcher.connect(http, f"/whep/{feed}")
        await watcher.seen.wait()
    async with http.get("/api/rooms/desk") as response:
        room = await response.json()
    assert (room["title"], room["layout"], room["viewers"]) == ("Late desk", "grid", 1)
    assert [s["seat"] for s in room["seats"]] == ["ada", "ben"]
    async with http.delete("/api/rooms/desk") as response:
        assert response.status == 204
    for watcher in watchers:
        await watcher.close()


async def test_speakers_in_a_queue_are_heard_one_after_the_other_and_in_full(house, opened):
    _, http = house
    room = await opened([seat("ada"), seat("ben")], floor="queue")
    heard = spy(room.feed)
    for name, hz in (("ada", 400), ("ben", 800), ("ada", 1200)):
        await put(http, f"seats/{name}/speech", 202, data=wav(hz, 0.6), headers={"Content-Type": "audio/wav"})
    while room.floor.turns:
        await room.tick()
    order = [hz for i, hz in enumerate(heard) if i == 0 or hz != heard[i - 1]]
    assert order == [400, 800, 1200]
    assert all(heard.count(hz) >= 15 for hz in order)


async def test_moderated_seat_speaks_once_it_has_been_given_the_floor(house, opened):
    _, http = house
    room = await opened([seat("ada"), seat("ben")], floor="moderated")
    sound = {"data": wav(600, 0.4), "headers": {"Content-Type": "audio/wav"}}
    await put(http, "seats/ada/speech", 409, **sound)
    assert (await put(http, "seats/ada/hand"))["hand"] is True
    assert (await put(http, "seats/ada/grant"))["heard"] is True
    heard = spy(room.feed)
    await put(http, "seats/ada/speech", 202, **sound)
    while len(heard) < 8:
        await room.tick()
    assert (await put(http, "seats/ada/mute"))["heard"] is False


async def test_flood_of_joins_is_told_to_wait_and_so_is_what_else_that_address_offers(avatars_dir):
    limits = LimitsConfig(offers_per_s=0.1, offers_burst=2)
    server = Server(check(Config(port=0, avatars=str(avatars_dir), canvas_px=256, limits=limits)))
    headers = {"Content-Type": "application/sdp"}
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http:
        body = {"seats": [seat("ada", "mic")], "width": 320, "height": 256}
        async with http.post("/api/rooms?room=desk", json=body) as response:
            assert response.status == 201
        join = "/api/rooms/desk/seats/ada/join"
        for path, status in (
            (join, 400), (join, 400), (join, 429), ("/whep/desk", 429), ("/whip/air", 429),
            ("/api/sessions?avatar=ruby", 429), ("/api/rooms/desk/seats/ada/hand", 200),
        ):  # fmt: skip
            async with http.post(path, data="nonsense", headers=headers) as response:
                assert response.status == status, path
                assert ("Retry-After" in response.headers) == (status == 429)


@pytest.mark.long
async def test_participants_hear_each_other_and_not_themselves(house, opened):
    _, http = house
    room = await opened([seat("ada", "mic"), seat("ben", "mic")])
    hz = {"ada": 500, "ben": 900}
    blocks = {name: [] for name in hz}
    visitors = {}
    for name, pitch in hz.items():
        t = np.arange(48_000 * 40) / 48_000
        microphone = (7000 * np.sin(2 * np.pi * pitch * t)).astype(np.int16)
        visitors[name] = Visitor(Visit(microphone, decodes=False, on_sound=blocks[name].append), CLOCK)
        await visitors[name].connect(over_http(http, f"/api/rooms/desk/seats/{name}/join"))
    async with http.post(
        "/api/rooms/desk/seats/ada/join", data="v=0", headers={"Content-Type": "application/sdp"}
    ) as taken:
        assert taken.status == 409
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(visitor.run()) for visitor in visitors.values()]

        while min(len(loud(blocks[name])) for name in hz) < 40:
            await room.tick()
        for task in running:
            task.cancel()
    for visitor in visitors.values():
        await visitor.close()
    for name, own in hz.items():
        (other,) = (h for n, h in hz.items() if n != name)
        spectra = np.abs(np.fft.rfft(np.array(loud(blocks[name]))))  # 50 Hz a line: both tones fall on one
        ratios = 20 * np.log10(spectra[:, other // 50] / spectra[:, own // 50])
        assert np.median(ratios) > 40


def loud(blocks):
    """The blocks of 20 ms that are loud from end to end."""
    whole = [block.pcm48.astype(float) for block in blocks if len(block.pcm48) == 960]
    return [sound for sound in whole if min(np.abs(part).max() for part in np.split(sound, 4)) > 2000]


async def test_layout_focus_and_gain_are_changed_while_it_runs(house, opened):
    _, http = house
    room = await opened([seat("ada"), seat("ben"), seat("cy")])
    view = await put(http, "layout", json={"layout": "focus", "featured": ["cy"]})
    assert view["layout"] == "focus"
    await room.tick()
    await room.tick()
    assert room.table.featured == ("cy",)
    assert (await put(http, "seats/ben/gain?db=-6"))["gain_db"] == -6.0
    assert (await put(http, "floor", json={"mode": "moderated"}))["floor"] == "moderated"


@pytest.mark.long
async def test_voice_published_by_whip_speaks_through_the_seat_that_waits_for_it(house, opened):
    _, http = house
    room = await opened([seat("ada", "whip:studio"), seat("ben")])
    t = np.arange(48_000 * 8) / 48_000
    publisher = Visitor(Visit((7000 * np.sin(2 * np.pi * 700 * t)).astype(np.int16), watches=False), MonotonicClock())
    heard = spy(room.feed)
    await publisher.connect(over_http(http, "/whip/studio"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(publisher.run())
        while heard.count(700) < 10:
            await room.tick()
        running.cancel()
    await publisher.close()


async def test_nonsense_is_refused_with_words_and_leaves_no_room(house, opened):
    server, http = house
    for query, body, status in (
        ("room=desk", {"seats": []}, 400),
        ("room=desk", {"seats": [seat(f"s{i}") for i in range(9)]}, 400),
        ("room=desk", {"seats": [seat("ada"), seat("ada")]}, 400),
        ("room=desk", {"seats": [seat("ada", "line-in")]}, 400),
        ("room=desk", {"seats": [seat("ada")], "width": 333}, 400),
        ("room=desk", {"seats": [seat("ada")], "font": "/etc/passwd"}, 400),
        ("room=desk", {"seats": [seat("ada")], "background": "red"}, 400),
        ("room=desk", {"seats": [seat("ada")], "colour": 1}, 400),
        ("room=desk", {"seats": [seat("ada", avatar="nobody")]}, 404),
        ("room=../desk", {"seats": [seat("ada")]}, 400),
        ("", {"seats": [seat("ada")]}, 400),
    ):
        async with http.post(f"/api/rooms?{query}", json=body) as response:
            assert response.status == status, body
            assert (await response.json())["detail"]
    async with http.post("/api/rooms?room=desk", data=b"[" * 50_000) as response:
        assert response.status == 400
    assert server.rooms.list() == []
    assert server.station.feeds == []
    await opened([seat("ada")])
    for path, status in (
        ("seats/nobody/mute", 404), ("seats/ada/explode", 404), ("seats/ada/gain?db=loud", 400),
        ("seats/ada/gain?db=nan", 400), ("layout", 400), ("floor", 400),
    ):  # fmt: skip
        async with http.post(f"/api/rooms/desk/{path}", data=b"{}") as response:
            assert response.status == status, path


async def test_state_comes_as_a_stream_until_the_room_ends(house, opened):
    _, http = house
    room = await opened([seat("ada")])
    async with http.get("/api/rooms/desk/events") as response:
        assert response.content_type == "text/event-stream"
        lines = 0
        async for line in response.content:
            if line.startswith(b"data: "):
                lines += 1
            if lines == 3:
                room.close()
    assert lines >= 3


@pytest.mark.long
async def test_show_of_a_file_is_played_live_line_by_line(house, tmp_path):
    server, _ = house
    for name, hz in (("low", 400), ("high", 900)):
        (tmp_path / f"{name}.wav").write_bytes(wav(hz, 0.5))
    rundown = [
        {"seat": "ada", "audio": "low.wav"},
        {"pause_s": 0.2},
        {"layout": "solo"},
        {"seat": "ben", "audio": "high.wav"},
    ]
    described = {"seats": [seat("ada"), seat("ben")], "width": 320, "height": 256, "gap_s": 0.1, "rundown": rundown}
    (tmp_path / "late.json").write_text(json.dumps(described))
    playing = await open_file(server.rooms, tmp_path / "late.json", Voices(None), server.speech_executor)
    room = server.rooms.get("late")
    heard = spy(room.feed)
    await playing
    room.close()
    order = [hz for i, hz in enumerate(heard) if i == 0 or hz != heard[i - 1]]
    assert order == [400, 900]
    assert room.table.layout == "solo"
    while server.rooms.list():
        await CLOCK.sleep_until(CLOCK.now_ns() + 10_000_000)


async def test_show_may_read_only_what_lies_beside_it(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.wav").write_bytes(wav(400))
    for name in ("../secret.wav", str(tmp_path / "secret.wav")):
        with pytest.raises(ConfigError, match="beside"):
            read_beside(tmp_path / "in", name)
