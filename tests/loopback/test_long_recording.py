"""Minutes of a session on file: exact in length, in step to the end, and what a killed server leaves plays up to there.

LIVEANCHOR_RECORDING_MINUTES says how many (5 unless set); the server that is killed is so after four fifths of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import aiohttp
import av
import numpy as np
import pytest

from streamer.bench.clicks import click_track, clicks_in, flashes_in, nearest_apart
from streamer.bench.served import served
from streamer.clock import NS_PER_S, MonotonicClock
from streamer.media import CHUNK_SAMPLES, SOUND_HZ
from streamer.soak.client import Visit, Visitor

MINUTES = float(os.environ.get("LIVEANCHOR_RECORDING_MINUTES", "5"))
PERIOD = 53 * CHUNK_SAMPLES
"""1.06 s: clicks fall on both halves of a frame."""
MINUTE = click_track(range(0, 56 * PERIOD, PERIOD), 56 * PERIOD)
"""A click again and again; the visitor repeats it."""
TOLERANCE_S = 0.040
HELD_SHARE = 0.01
"""Of the clicks; a mouth that came too late is held and flashes a frame or two behind its sound, and only it."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(60 * MINUTES + 240),
    pytest.mark.skipif(shutil.which("ffprobe") is None, reason="no ffprobe here to judge the film"),
]
CLOCK = MonotonicClock()


async def called(http, visitor):
    """The session's address."""
    places = []

    async def signal(offer):
        url = "/api/sessions?avatar=ruby&source=mirror&canvas=512"
        async with http.post(url, data=offer, headers={"Content-Type": "application/sdp"}) as response:
            assert response.status == 201
            places.append(response.headers["Location"])
            return await response.text()

    await visitor.connect(signal)
    return places[0].rpartition("/")[2]


async def recorded(server, seconds, *, kill):
    """Talk into a session and record it for so long; the wall seconds between order and stop, and the last view."""
    visitor, view = Visitor(Visit(MINUTE, endless=True, decodes=False), CLOCK), {}
    async with aiohttp.ClientSession(base_url=server.url) as http, asyncio.TaskGroup() as group:
        session = await called(http, visitor)
        group.create_task(visitor.run())
        await visitor.ready.wait()
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S)
        async with http.post(f"/api/recordings?session={session}") as response:
            assert response.status == 201
            path = f"/api/recordings/{(await response.json())['recording']}"
        began = time.monotonic()
        await CLOCK.sleep_until(CLOCK.now_ns() + int(seconds * NS_PER_S))
        if kill:
            os.kill(server.pid, signal.SIGKILL)
        else:
            async with http.delete(path) as response:
                assert response.status == 202
        wall_s = time.monotonic() - began
        while not kill and (view := await (await http.get(path)).json())["state"] == "recording":
            await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)
        visitor.gone.set()
    await visitor.close()
    return wall_s, view


def by_ffprobe(path):
    """(seconds of the file, seconds by kind of stream): what ffprobe says, where the file says it."""
    told = subprocess.run(
        ["ffprobe", "-v", "error", "-print_format", "json", "-show_format", "-show_streams", str(path)],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert told.stderr == b""
    found = json.loads(told.stdout)
    return float(found["format"]["duration"]), {
        stream["codec_type"]: float(stream["duration"]) for stream in found["streams"] if "duration" in stream
    }


def flashes_s(path):
    """When the face turned white."""
    times, levels = [], []
    with av.open(str(path)) as film:
        for frame in film.decode(video=0):
            times.append(frame.time)
            levels.append(frame.to_ndarray(format="yuv420p")[: frame.height].mean())
    return flashes_in(np.array(times), np.array(levels))


def clicks_s(path):
    """When the clicks begin."""
    with av.open(str(path)) as film:
        resampler = av.AudioResampler("s16", "mono", SOUND_HZ)
        parts = [part.to_ndarray()[0] for frame in film.decode(audio=0) for part in resampler.resample(frame)]
    return np.array(clicks_in(np.concatenate(parts), PERIOD)) / SOUND_HZ


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_minutes_on_file_are_exact_and_in_step(avatars_dir, tmp_path, kill):
    seconds = 60 * MINUTES * (0.8 if kill else 1.0)
    with served([sys.executable, "-m", "streamer.bench.flash", str(avatars_dir), str(tmp_path)]) as server:
        wall_s, view = asyncio.run(recorded(server, seconds, kill=kill))
    (path,) = tmp_path.glob("*.mp4")
    whole_s, streams_s = by_ffprobe(path)
    flashes, heard = flashes_s(path), clicks_s(path)
    apart_s = nearest_apart(heard, flashes)
    apart_ms = 1000 * apart_s
    print(f"{'killed' if kill else 'stopped'} after {wall_s:.2f} s: ffprobe {whole_s:.3f} s, {streams_s}; {view}")
    print(f"{len(heard)} clicks: flash {apart_ms.min():.0f} to {apart_ms.max():.0f} ms after the click;", end=" ")
    print(f"median of the first ten {np.median(apart_ms[:10]):.0f}, of the last {np.median(apart_ms[-10:]):.0f}")
    assert len(heard) >= 0.97 * whole_s * SOUND_HZ / PERIOD - 1
    beyond = np.abs(apart_s) > TOLERANCE_S
    print(f"{beyond.sum()} of {len(heard)} beyond {1000 * TOLERANCE_S:.0f} ms")
    assert beyond.mean() <= HELD_SHARE
    assert np.abs(apart_s).max() <= 3 * TOLERANCE_S
    assert abs(np.median(apart_s[:10]) - np.median(apart_s[-10:])) <= 0.005
    if kill:
        assert wall_s - 2.0 <= whole_s <= wall_s + TOLERANCE_S
    else:
        assert view["state"] == "finished"
        assert abs(whole_s - view["seconds"]) <= TOLERANCE_S
        assert abs(whole_s - wall_s) <= TOLERANCE_S + 0.04  # the order falls between two frames, and so does the stop
        assert all(abs(s - whole_s) <= TOLERANCE_S for s in streams_s.values())
