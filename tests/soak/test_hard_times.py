"""Bad networks and bad crowds against a server in a process of its own. Each test prints what it measured."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from streamer.bench.served import serve_command, served
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from streamer.media import SOUND_HZ
from streamer.soak.client import Visit, Visitor, over_http
from streamer.soak.impairment import Impairment
from streamer.soak.mutation import Mutator
from streamer.soak.plan import Profile
from streamer.soak.relay import Relay
from streamer.soak.run import Options, Soak
from streamer.soak.watch import read_metrics

pytestmark = [pytest.mark.soak, pytest.mark.long, pytest.mark.timeout(400)]

CLOCK = MonotonicClock()
CORPUS = Path(__file__).parents[1] / "corpus"
SDP = {"Content-Type": "application/sdp"}
OPEN_DOORS = "[limits]\nsessions = 400\noffers_per_s = 5000\noffers_burst = 5000\n"


@contextmanager
def open_house(avatars_dir, settings_dir):
    settings = settings_dir / "open.toml"
    settings.write_text(OPEN_DOORS)
    with served(serve_command(avatars_dir, ("--canvas", "256", "--config", str(settings)))) as server:
        yield server


@pytest.fixture(scope="module")
def house(avatars_dir, tmp_path_factory):
    """A server that lets many in: its doors are not what is tried here."""
    with open_house(avatars_dir, tmp_path_factory.mktemp("settings")) as server:
        yield server


@pytest.fixture
def new_house(avatars_dir, tmp_path):
    """One that has not measured its engine's pace yet, and so lets in more than it could drive."""
    with open_house(avatars_dir, tmp_path) as server:
        yield server


def options(seconds, net=None, **profiles):
    mix = {Profile(name): count for name, count in profiles.items()}
    return Options(
        avatar="ruby", canvas_px=256, profiles=mix, seconds=seconds, ramp_s=1.0, net=net or Impairment(), decoded=4,
        processes=2,
    )  # fmt: skip


def soaked(url, wanted):
    return asyncio.run(Soak(url, wanted, lambda record, now_s: None).run())


async def reading(http, url):
    async with http.get(f"{url}metrics") as response:
        return read_metrics(await response.text(), 0.0)


async def until_empty(http, url, within_s):
    """Seconds until nobody is in any more."""
    began = time.monotonic()
    while (await reading(http, url)).values["sessions"] > 0:
        assert time.monotonic() - began < within_s
        await CLOCK.sleep_until(CLOCK.now_ns() + 100 * NS_PER_MS)
    return time.monotonic() - began


@pytest.mark.parametrize(("loss", "shown"), [(2, 98), (5, 95), (15, 85)])
def test_viewer_behind_loss_sees_nearly_all_pictures_and_never_loses_the_sound(house, loss, shown):
    figures = soaked(house.url, options(20, Impairment(loss_percent=loss), talker=1, listener=1))["figures"]
    print(
        f"loss {loss} %: {figures['frames_shown_percent']} % shown, sound gap {figures['sound_gap_max_ms']} ms at most"
    )
    assert figures["frames_shown_percent"] >= shown
    assert figures["sound_silent_s"] == 0
    assert figures["failures"] == 0


def test_viewer_on_a_link_of_300_kbit_hears_all_and_is_sent_no_more_than_fits(house):
    wanted = replace(options(30, Impairment(rate_kbps=300), talker=1), canvas_px=512)  # which would like 1.5 Mbit/s
    report = soaked(house.url, wanted)
    figures, (first, *_, last) = report["figures"], report["thirds"]["frame_gap_ms"]["p99"]
    print(
        f"300 kbit/s: {figures['frames_shown_percent']} % shown, sound gap {figures['sound_gap_max_ms']} ms at most, "
        f"frame gap p99 {first} ms in the first third, {last} ms in the last"
    )
    assert figures["sound_silent_s"] == 0
    assert figures["failures"] == 0
    assert last < 1000


def test_viewer_after_five_dark_seconds_sees_and_hears_again_within_four(house):
    net = Impairment(blackouts_s=((8, 5),))
    figures = soaked(house.url, options(18, net, talker=1, listener=1))["figures"]
    again_s = figures["frame_gap_max_ms"] / 1000 - 5
    print(f"blackout of 5 s: pictures again {again_s:.2f} s after it, sound gap {figures['sound_gap_max_ms']} ms")
    assert again_s < 4
    assert figures["sound_gap_max_ms"] < 9000
    assert figures["failures"] == 0


async def test_slot_of_a_viewer_who_stays_dark_is_free_for_the_next(house):
    async with aiohttp.ClientSession() as http:
        relay = Relay(Impairment(blackouts_s=((4, 40),)), 1, CLOCK)
        visitor = Visitor(Visit(np.zeros(SOUND_HZ, np.int16)), CLOCK)
        async with asyncio.TaskGroup() as group:
            moving = group.create_task(relay.run())
            await visitor.connect(relay.over(over_http(http, f"{house.url}api/sessions?avatar=ruby&source=mirror")))
            watching = group.create_task(visitor.run())
            await CLOCK.sleep_until(CLOCK.now_ns() + 4 * NS_PER_S)
            assert visitor.counts.pictures > 10
            freed_s = await until_empty(http, house.url, 45)
            watching.cancel()
            moving.cancel()
        await visitor.close()
        relay.close()
    print(f"blackout of 40 s: slot free {freed_s:.1f} s into it")


async def an_offer():
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.addTransceiver("audio", "recvonly")
    connection.addTransceiver("video", "recvonly")
    await connection.setLocalDescription()
    sdp = connection.localDescription.sdp
    await connection.close()
    return sdp


async def test_two_hundred_who_never_come_are_forgotten_with_all_they_cost(new_house):
    offer = await an_offer()
    async with aiohttp.ClientSession() as http:

        async def half_open(count):
            for _ in range(count):
                url = f"{new_house.url}api/sessions?avatar=ruby&source=none"
                async with http.post(url, data=offer, headers=SDP) as response:
                    assert response.status == 201
            began = time.monotonic()
            return began, await until_empty(http, new_house.url, 40)

        await half_open(200)  # pools fill once
        await CLOCK.sleep_until(CLOCK.now_ns() + 3 * NS_PER_S)
        before = (await reading(http, new_house.url)).values
        _, reaped_s = await half_open(200)
        await CLOCK.sleep_until(CLOCK.now_ns() + 3 * NS_PER_S)
        after = (await reading(http, new_house.url)).values
    grown_mb = (after["rss_bytes"] - before["rss_bytes"]) / 1e6
    print(f"200 half-open: gone {reaped_s:.1f} s after the last, memory {grown_mb:+.1f} MB")
    assert reaped_s <= 15
    assert grown_mb < 5
    for name in ("tasks", "threads", "descriptors"):
        assert after[name] <= before[name] + 1


async def test_fifteen_hundred_mutated_offers_leave_nothing(new_house):
    corpus = [path.read_bytes() for path in sorted((CORPUS / "sdp").iterdir())]
    statuses: dict[int, int] = {}
    async with aiohttp.ClientSession() as http:
        before = await reading(http, new_house.url)
        for offer in Mutator(corpus, 11).mutants(1500):
            url = f"{new_house.url}api/sessions?avatar=ruby&source=none"
            async with http.post(url, data=offer, headers=SDP) as response:
                statuses[response.status] = statuses.get(response.status, 0) + 1
                location = response.headers.get("Location")
            if location:
                await http.delete(new_house.url.rstrip("/") + location)
        await until_empty(http, new_house.url, 40)
        await CLOCK.sleep_until(CLOCK.now_ns() + 3 * NS_PER_S)
        after = await reading(http, new_house.url)
    lag = after.histograms["loop_lag"].since(before.histograms["loop_lag"])
    over = lag.counts[-1] - lag.counts[lag.edges_s.index(0.05)]
    print(f"1500 mutated offers: {statuses}; loop lag p99 {lag.quantile_ms(0.99):.1f} ms, over 50 ms {over:.0f} times")
    assert all(status == 201 or 400 <= status < 500 for status in statuses)
    for name in ("tasks", "threads", "descriptors"):
        assert after.values[name] <= before.values[name] + 1


async def test_flood_of_offers_is_told_to_wait_and_those_who_are_in_notice_nothing(avatars_dir):
    offer, statuses = await an_offer(), {}
    with served(serve_command(avatars_dir, ("--canvas", "256"))) as server:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=200)) as http:

            async def knock():
                url = f"{server.url}api/sessions?avatar=ruby&source=none"
                async with http.post(url, data=offer, headers=SDP) as response:
                    statuses[response.status] = statuses.get(response.status, 0) + 1
                    if response.status in (429, 503):
                        assert int(response.headers["Retry-After"]) >= 1

            async def flood():
                await CLOCK.sleep_until(CLOCK.now_ns() + 10 * NS_PER_S)
                start_ns = CLOCK.now_ns()
                async with asyncio.TaskGroup() as knocks:
                    for number in range(1000):
                        await CLOCK.sleep_until(start_ns + number * 10 * NS_PER_MS)
                        knocks.create_task(knock())

            soak = Soak(server.url, options(22, talker=1, listener=1), lambda record, now_s: None)
            report, _ = await asyncio.gather(soak.run(), flood())
    figures = report["figures"]
    print(f"100 offers a second for 10 s: {statuses}; frame gap p99 {figures['frame_gap_p99_ms']} ms")
    assert set(statuses) <= {201, 429, 503}
    assert statuses[429] > 500
    assert figures["frame_gap_p99_ms"] < 120
    assert figures["failures"] == 0
