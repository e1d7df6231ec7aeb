"""The sending half, on a clock of the test's own: what leaves, when, and what is given up instead of queued."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager

import numpy as np
import pytest

from streamer.clock import NS_PER_MS, ManualClock
from streamer.media import FRAME_NS, FRAME_SAMPLES, Picture, PictureKind, Stamps
from streamer.rtc.encoder import VideoCodec
from streamer.rtc.outbound import Outbound
from streamer.rtc.threads import CodecThreads

pytestmark = pytest.mark.unit

SIZE = (128, 96)


class AtOnce(Executor):
    """Runs a job where it is submitted: the real work without the thread."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def picture(index: int, size_px: tuple[int, int] = SIZE) -> Picture:
    planes = np.full((size_px[1] * 3 // 2, size_px[0]), index * 7 % 255, np.uint8)
    sound = np.full(FRAME_SAMPLES, index, np.int16)
    return Picture(index, planes, sound, PictureKind.IDLE, 0, Stamps())


class Line:
    """An `Outbound` whose senders take every packet at once and note its media time and the hour."""

    def __init__(self, *, both: bool = True) -> None:
        self.clock = ManualClock(1_000 * NS_PER_MS)
        self.out = Outbound(SIZE, self.clock, CodecThreads(AtOnce(), AtOnce()))
        self.out.codec = VideoCodec("VP8")
        self.out.both = both
        self.audio: list[tuple[int, float]] = []
        self.video: list[tuple[int, float]] = []
        self.sent: list[Picture] = []
        self.out.on_sent = self.sent.append

    async def send(self, track, into) -> None:
        while True:
            packet = await track.recv()
            into.append((packet.pts, self.clock.now_ns() / NS_PER_MS - 1000))

    @asynccontextmanager
    async def running(self, *, audio: bool = True, video: bool = True):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.out.run())]
            if audio:
                tasks.append(group.create_task(self.send(self.out.audio, self.audio)))
            if video:
                tasks.append(group.create_task(self.send(self.out.video, self.video)))
            await self.clock.advance(0)
            yield
            for task in tasks:
                task.cancel()

    async def show(self, *indices: int, wait_ms: float = 40) -> None:
        for index in indices:
            self.out.show(picture(index))
            await self.clock.advance(int(wait_ms * NS_PER_MS))


async def test_sound_leaves_in_two_packets_half_a_frame_apart_and_the_picture_with_the_first():
    line = Line()
    async with line.running():
        await line.show(0, 1, 2)
    assert line.audio == [(960 * n, 20.0 * n) for n in range(6)]
    assert line.video == [(3600 * n, 40.0 * n) for n in range(3)]


async def test_burst_after_a_stall_sends_all_sound_at_once_and_the_newest_picture_only():
    line = Line()
    async with line.running():
        await line.show(0)
        for index in (1, 2, 3):
            line.out.show(picture(index))
        await line.clock.advance(20 * NS_PER_MS)
    assert [pts for pts, _ in line.audio] == [960 * n for n in range(8)]
    assert [ms for _, ms in line.audio[2:7]] == [40.0] * 5
    assert [pts for pts, _ in line.video] == [0, 3 * 3600]
    assert line.out.counts["pictures_dropped"] == 2


async def test_late_and_repeated_pictures_are_dropped_with_their_sound():
    line = Line()
    async with line.running():
        await line.show(5, 6, 6, 3, 7)
    assert [pts // 3600 for pts, _ in line.video] == [5, 6, 7]
    assert [pts // 1920 for pts, _ in line.audio] == [5, 5, 6, 6, 7, 7]
    assert line.out.counts["pictures_dropped"] == 2


async def test_skipped_indices_leave_a_hole_in_time_and_nothing_else():
    line = Line()
    async with line.running():
        await line.show(0, 5)
    assert [pts for pts, _ in line.video] == [0, 5 * 3600]
    assert [pts for pts, _ in line.audio] == [0, 960, 9600, 10560]


async def test_neither_track_starts_before_the_other_can():
    line = Line()
    async with line.running(video=False):
        await line.show(0, 1, 2)
        assert line.audio == []
    async with line.running():
        await line.show(3)
    assert [line.audio[0][0] // 1920, line.video[0][0] // 3600] == [3, 3]


async def test_line_that_never_starts_is_not_waited_for_for_ever():
    line = Line()
    async with line.running(video=False):
        await line.show(*range(20))
    assert line.audio
    assert line.video == []


async def test_sent_pictures_are_told_once_with_their_stamps():
    line = Line()
    async with line.running():
        await line.show(0, 1, 2)
    assert [p.index for p in line.sent][:2] == [0, 1]
    for shown in line.sent:
        assert 0 < shown.stamps.encoded_ns <= shown.stamps.sent_ns


async def test_requests_bring_one_keyframe_and_it_is_counted():
    line = Line()
    async with line.running():
        await line.show(*range(15))
        for _ in range(30):
            line.out.steering.keyframes.request()
        await line.show(*range(15, 40))
    assert line.out.counts["keyframes"] == 2


async def test_encoded_picture_that_is_lost_here_brings_a_keyframe():
    line = Line()
    line.out.video.started.set()
    async with line.running(video=False):
        await line.show(*range(8))
        assert line.out.video.packets.dropped > 0
        assert line.out.steering.keyframes.requests > 0


async def test_pictures_of_another_size_go_on_at_another_rate():
    line = Line()
    async with line.running():
        await line.show(0)
        before = line.out.steering.bitrate.target_bps
        line.out.show(picture(1, (256, 192)))
        await line.clock.advance(FRAME_NS)
        assert line.out.steering.bitrate.target_bps > before
        await line.show(2)
    assert [pts for pts, _ in line.video] == [0, 3600, 7200]
    assert line.out.counts["keyframes"] == 3


async def test_stopping_ends_the_encoders():
    line = Line()
    run = asyncio.ensure_future(line.out.run())  # noqa: TID251 - the test is its owner
    await line.clock.advance(0)
    line.out.stop()
    await run
