"""A server that is told to stop: no new visitors, what is being said is finished, and it ends with 0."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request

import numpy as np
import pytest

from streamer.bench.served import serve_command, served
from streamer.client import Client
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from streamer.media import SOUND_HZ
from streamer.soak.client import Visit

CLOCK = MonotonicClock()


def status(url):
    try:
        with urllib.request.urlopen(f"{url}readyz", timeout=10) as response:
            return response.status, json.loads(response.read())["status"]
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())["status"]


async def ended(server):
    async with asyncio.timeout(15):
        while server.running:
            await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)
    return server.exit_code


def tone(seconds):
    t = np.arange(int(seconds * SOUND_HZ))
    return (8000 * np.sin(2 * np.pi * 220 * t / SOUND_HZ)).astype("<i2").tobytes()


async def test_what_is_being_said_is_heard_to_its_end_and_then_the_server_ends_with_0(avatars_dir):
    with served(serve_command(avatars_dir, ("--canvas", "256"))) as server:
        async with Client(server.url) as client, client.call("ruby", Visit(), source="agent") as call:
            events, heard = [], asyncio.Event()

            async def follow():
                async for event in call.session.events():
                    events.append(event)
                    heard.set()

            async def until_told(name):
                while name not in [event["event"] for event in events]:
                    heard.clear()
                    await heard.wait()

            async with asyncio.TaskGroup() as group:
                group.create_task(follow())
                async with call.session.stream(48_000) as speech:
                    await speech.write(tone(1.5))
                await until_told("playback_started")
                os.kill(server.pid, signal.SIGTERM)
                await until_told("draining")
                assert await asyncio.to_thread(status, server.url) == (503, "draining")
                refused = await offer(server.url)
                assert (refused.code, refused.headers["Retry-After"]) == (503, "30")
            finished = next(event for event in events if event["event"] == "playback_finished")
            assert not finished["interrupted"]
            assert finished["position_s"] == pytest.approx(1.5, abs=0.1)
            assert await ended(server) == 0


async def offer(url):
    request = urllib.request.Request(
        f"{url}api/sessions?avatar=ruby", data=b"v=0", headers={"Content-Type": "application/sdp"}
    )
    try:
        return await asyncio.to_thread(urllib.request.urlopen, request)
    except urllib.error.HTTPError as refused:
        return refused


async def told(visitor, key, value):
    """Wait for a message of the telemetry channel."""
    async with asyncio.timeout(10):
        while (await visitor.telemetry.get()).get(key) != value:
            pass


@pytest.mark.long
async def test_visitor_of_a_mirror_is_told_and_a_second_signal_ends_it_at_once(avatars_dir):
    with served(serve_command(avatars_dir, ("--canvas", "256"))) as server:
        visit = Visit(np.zeros(SOUND_HZ, np.int16))
        async with Client(server.url) as client, client.call("ruby", visit, source="mirror") as call:
            await told(call.visitor, "type", "snapshot")
            os.kill(server.pid, signal.SIGTERM)
            await told(call.visitor, "event", "draining")
            began_ns = CLOCK.now_ns()
            while CLOCK.now_ns() - began_ns < NS_PER_S // 2:
                await CLOCK.sleep_until(CLOCK.now_ns() + 50 * NS_PER_MS)
                assert server.running
            os.kill(server.pid, signal.SIGTERM)
            assert await ended(server) == 0
    assert not server.running
