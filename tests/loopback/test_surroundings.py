"""What is around the server fails: the disk, the clock, whoever reads its log. The viewer sees and hears on."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime

import aiohttp
import av
import numpy as np
import pytest

from streamer.bench.served import serve_command, served
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock, wall_clock_s
from streamer.media import SOUND_HZ, VIDEO_CLOCK_HZ
from streamer.soak.client import Visit, Visitor

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.long,
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="pipes, namespaces and clocks of Linux"),
]

CLOCK = MonotonicClock()
SDP = {"Content-Type": "application/sdp"}
GOES_ON_WITHIN_S = 20.0
"""A viewer's next second, on however busy a machine. A server that stands still never gets there."""
VOICE = (9000 * np.sin(np.arange(SOUND_HZ) * 0.02) * (1 + np.sin(np.arange(SOUND_HZ) * 0.0004)) / 2).astype(np.int16)
"""One second."""


async def until(condition):
    """Look every 20 ms; the caller's own timeout is the limit."""
    while not condition():
        await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)


class Viewer:
    """Somebody who speaks to an avatar and watches it."""

    def __init__(self, url, **visit):
        self.url, self.offer, self.session = url, "", ""
        self.visitor = Visitor(Visit(VOICE, endless=True, **visit), CLOCK)
        self.http = aiohttp.ClientSession(base_url=url, timeout=aiohttp.ClientTimeout(total=GOES_ON_WITHIN_S))

    async def signal(self, offer):
        self.offer = offer
        path = "/api/sessions?avatar=ruby&source=mirror&canvas=256"
        async with self.http.post(path, data=offer, headers=SDP) as response:
            assert response.status == 201, await response.text()
            self.session = response.headers["Location"]
            return await response.text()

    async def goes_on(self):
        """Sees and hears a second more."""
        counts = self.visitor.counts
        pictures, samples = counts.pictures, counts.sound_samples
        async with asyncio.timeout(GOES_ON_WITHIN_S):
            await until(lambda: counts.pictures > pictures + 20 and counts.sound_samples > samples + SOUND_HZ)
        assert not self.visitor.gone.is_set()


@asynccontextmanager
async def viewing(url, **visit):
    """A viewer whose show has begun."""
    viewer = Viewer(url, **visit)
    try:
        async with viewer.http:
            await viewer.visitor.connect(viewer.signal)
            async with asyncio.TaskGroup() as group:
                group.create_task(viewer.visitor.run())
                await viewer.goes_on()
                yield viewer
                viewer.visitor.gone.set()
    finally:
        await viewer.visitor.close()


async def make_it_log(viewer):
    """One line: an offer that aiortc stumbles over."""
    offer = viewer.offer.replace("a=setup:actpass", "a=setup:bogus")
    async with viewer.http.post("/api/sessions?avatar=ruby&source=mirror", data=offer, headers=SDP) as response:
        assert response.status == 400


def pipe_of_a_page():
    """A pipe that holds 4096 bytes: (end to read, end to write)."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    return reading, writing


def fill(writing):
    """Until not one more byte fits."""
    os.set_blocking(writing, False)
    try:
        for size in (4096, 1):
            while True:
                try:
                    os.write(writing, b"." * size)
                except BlockingIOError:
                    break
    finally:
        os.set_blocking(writing, True)  # the flag belongs to the pipe: the server's end must wait as it would anywhere


async def test_viewer_sees_on_while_nobody_reads_the_log_and_the_log_goes_on_when_somebody_does(avatars_dir):
    reading, writing = pipe_of_a_page()
    try:
        with served(serve_command(avatars_dir), log_to=writing) as server:
            async with viewing(server.url) as viewer:
                fill(writing)
                await make_it_log(viewer)
                await viewer.goes_on()
                await make_it_log(viewer)
                await viewer.goes_on()
                heard = bytearray()
                async with asyncio.timeout(GOES_ON_WITHIN_S):
                    await until(lambda: both_lines_are_in(heard, reading))
    finally:
        os.close(reading)
        os.close(writing)


def both_lines_are_in(heard, reading):
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        heard += os.read(reading, 4096)
    return heard.count(b"offer_refused reason=KeyError\n") == 2


@pytest.mark.parametrize("gone", ["the reader", "the disk"])
async def test_viewer_sees_on_when_the_log_can_no_longer_be_written(avatars_dir, gone):
    reading, writing = os.pipe() if gone == "the reader" else (None, os.open("/dev/full", os.O_WRONLY))
    try:
        with served(serve_command(avatars_dir), log_to=writing) as server:
            if reading is not None:
                os.close(reading)
            async with viewing(server.url) as viewer:
                for _ in range(3):
                    await make_it_log(viewer)
                await viewer.goes_on()
    finally:
        os.close(writing)


SMALL_DISK = ("unshare", "--map-root-user", "--mount", "sh", "-c")
MOUNTED = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'


@pytest.fixture
def small_disk(tmp_path):
    """A folder for recordings, and what a command begins with that finds 256 KB of room in it."""
    folder = tmp_path / "films"
    folder.mkdir()
    wrapped = [*SMALL_DISK, MOUNTED, str(folder)]
    tried = subprocess.run([*wrapped, "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    if tried is None or tried.returncode:
        pytest.skip("no mount namespaces here")
    return folder, wrapped


async def state_of(viewer, recording):
    async with viewer.http.get(f"/api/recordings/{recording}") as response:
        return await response.json()


async def test_viewer_sees_on_when_the_disk_is_full_and_the_film_plays_as_far_as_it_came(avatars_dir, small_disk):
    folder, wrapped = small_disk
    settings = folder.parent / "settings.toml"
    settings.write_text(f"recordings = {json.dumps(str(folder))}\n")
    with served([*wrapped, *serve_command(avatars_dir, ("--config", str(settings)))]) as server:
        async with viewing(server.url) as viewer:
            session = viewer.session.rpartition("/")[2]
            async with viewer.http.post(f"/api/recordings?session={session}") as response:
                assert response.status == 201
                recording = (await response.json())["recording"]
            async with asyncio.timeout(90):
                while (view := await state_of(viewer, recording))["state"] == "recording":
                    await viewer.goes_on()
            assert view["state"] == "failed"
            assert "No space left" in view["error"]
            await viewer.goes_on()
            async with viewer.http.get(f"/api/recordings/{recording}/file") as response:
                film = await response.read()
            async with viewer.http.post(f"/api/recordings?session={session}") as response:
                assert response.status in (201, 507)  # the next one fails in its turn and disturbs nobody
            await viewer.goes_on()
    assert frames_in(film) >= 25


def frames_in(film):
    """Pictures up to the end, or to the one that the end cut off."""
    found = 0
    with av.open(io.BytesIO(film)) as played, suppress(av.InvalidDataError):
        for _ in played.decode(video=0):
            found += 1
    return found


STEPPING_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static volatile long *step_s;

__attribute__((constructor)) static void begin(void) {
    step_s = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, open(getenv("STEP_FILE"), O_RDONLY), 0);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && which == CLOCK_REALTIME && step_s) now->tv_sec += *step_s;
    return failed;
}
"""
"""The wall clock of one process, and of no other, stands where a file says."""


@pytest.fixture
def stepping_clock(tmp_path):
    """(what a process needs in its environment, a call that steps its wall clock by seconds)."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to make a clock that steps")
    source, library, steps = tmp_path / "clock.c", tmp_path / "clock.so", tmp_path / "steps"
    source.write_text(STEPPING_CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    steps.write_bytes(bytes(8))
    with steps.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:

        def step_to(seconds):
            shared[:] = int(seconds).to_bytes(8, sys.byteorder, signed=True)

        yield {"LD_PRELOAD": str(library), "STEP_FILE": str(steps)}, step_to


async def wall_offset_s(viewer):
    """How far the server's wall clock is from ours, as its answers say."""
    async with viewer.http.get("/healthz") as response:
        return parsedate_to_datetime(response.headers["Date"]).timestamp() - wall_clock_s()


async def test_viewer_sees_and_hears_in_step_while_the_wall_clock_jumps_an_hour_ahead_and_two_back(
    avatars_dir, stepping_clock
):
    environment, step_to = stepping_clock
    starts = {"audio": [], "video": []}
    """Wall times at which each stream's RTP time was 0, one a sender report."""

    def note(report):
        rate_hz = SOUND_HZ if report.kind == "audio" else VIDEO_CLOCK_HZ
        starts[report.kind].append(report.ntp / 2**32 - report.rtp_timestamp / rate_hz)

    async def told_twice():
        before = {kind: len(told) for kind, told in starts.items()}
        async with asyncio.timeout(GOES_ON_WITHIN_S):
            await until(lambda: all(len(told) >= before[kind] + 2 for kind, told in starts.items()))

    with served(serve_command(avatars_dir), environment) as server:
        async with viewing(server.url, on_report=note) as viewer:
            await told_twice()
            for seconds in (3600, -3600, 0):
                step_to(seconds)
                await viewer.goes_on()
                await told_twice()
                assert abs(await wall_offset_s(viewer) - seconds) < 30  # it did jump
            async with viewer.http.get(viewer.session) as response:
                assert (await response.json())["state"] == "live"
    for kind, told in starts.items():
        round_s = 2**32 / (SOUND_HZ if kind == "audio" else VIDEO_CLOCK_HZ)  # RTP time begins anywhere and wraps
        # The first report may come before the stream's first packet and know no RTP time yet.
        apart = [(start - told[-1] + round_s / 2) % round_s - round_s / 2 for start in told[1:]]
        assert max(map(abs, apart)) < 0.1, told


async def test_viewer_of_a_server_that_stood_still_for_nine_seconds_sees_on(avatars_dir):
    with served(serve_command(avatars_dir)) as server:
        async with viewing(server.url) as viewer:
            os.kill(server.pid, signal.SIGSTOP)
            try:
                await CLOCK.sleep_until(CLOCK.now_ns() + 9 * NS_PER_S)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            await viewer.goes_on()
            async with viewer.http.get("/metrics") as response:
                assert not re.search(r'avatar_sessions_total\{result="silent"\} [1-9]', await response.text())


async def test_viewer_sees_on_when_its_avatar_is_deleted(avatars_dir, tmp_path):
    with served(serve_command(avatars_dir)):
        pass  # the portraits are made
    shutil.copytree(avatars_dir / "ruby", tmp_path / "avatars" / "ruby")
    with served(serve_command(tmp_path / "avatars")) as server:
        async with viewing(server.url) as viewer:
            async with viewer.http.delete("/api/avatars/ruby") as response:
                assert response.status == 204
            async with viewer.http.post("/api/avatars/clear") as response:
                assert response.status == 200
            assert not (tmp_path / "avatars" / "ruby").exists()
            await viewer.goes_on()
            await viewer.goes_on()
