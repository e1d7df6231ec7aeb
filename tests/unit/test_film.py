"""Films and recordings: exact length, sound in step, holes filled, playable after a crash, bounded memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import av
import numpy as np
import pytest

from streamer.broadcast.recorder import MOST_WAITING, Recorder, RecordingOrder
from streamer.clock import MonotonicClock
from streamer.errors import ConfigError
from streamer.film import FILM, RECORDINGS, RTMP, recording
from streamer.graphics.badge import Badge
from streamer.media import FRAME_SAMPLES, Picture, PictureKind, Stamps

pytestmark = pytest.mark.unit
SIZE = (160, 96)
KINDS = {"mp4": RECORDINGS["mp4"], "webm": RECORDINGS["webm"], "film": FILM}
SUFFIX = {"mp4": "mp4", "webm": "webm", "film": "mp4"}

CRASHING = """
import sys, os, numpy as np
from streamer.film import RECORDINGS, recording
kind = sys.argv[2]
with recording(sys.argv[1], (160, 96), RECORDINGS[kind]) as film:
    for index in range(100000):
        planes = np.full((144, 160), 60 + index % 100, np.uint8)
        film.add(index, planes, np.zeros(1920, np.int16))
        if index == 260:
            os.kill(os.getpid(), 9)
"""


def flash(index):
    """A bright frame with a click in its middle every second, dark and silent otherwise."""
    on = index % 25 == 12
    planes = np.full((SIZE[1] * 3 // 2, SIZE[0]), 128, np.uint8)
    planes[: SIZE[1]] = 220 if on else 30
    sound = np.zeros(FRAME_SAMPLES, np.int16)
    if on:
        sound[:] = (20000 * np.sin(2 * np.pi * 1000 * np.arange(FRAME_SAMPLES) / 48_000)).astype(np.int16)
    return planes, sound


def picture(index):
    planes, sound = flash(index)
    return Picture(index, planes, sound, PictureKind.IDLE, 0, Stamps())


def watched(path):
    """(times of bright frames, times of loud moments' middles, seconds of picture, seconds of sound)."""
    bright, loud, last_v, last_a = [], [], 0.0, 0.0
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            last_v = frame.time + 0.04
            if frame.to_ndarray(format="gray8").mean() > 120:
                bright.append(frame.time)
    with av.open(str(path)) as container:
        resampler = av.AudioResampler("s16", "mono", 48_000)
        for frame in container.decode(audio=0):
            for part in resampler.resample(frame):
                pcm = part.to_ndarray().reshape(-1).astype(int)
                at = np.flatnonzero(np.abs(pcm) > 8000)
                loud += list(part.time + at / 48_000)
                last_a = part.time + len(pcm) / 48_000
    return np.array(bright), np.array(loud), last_v, last_a


@pytest.mark.parametrize("kind", KINDS)
def test_film_has_the_length_of_its_frames_and_sound_in_step(tmp_path, kind):
    path = tmp_path / f"film.{SUFFIX[kind]}"
    with recording(path, SIZE, KINDS[kind]) as film:
        for index in range(7, 132):
            film.add(index, *flash(index))
    bright, loud, video_s, sound_s = watched(path)
    assert abs(video_s - 5.0) <= 0.04
    assert abs(sound_s - 5.0) <= 0.04
    assert len(bright) == 5
    for at in bright:
        near = loud[np.abs(loud - at) < 0.3]
        assert abs(near.mean() - (at + 0.02)) <= 0.04


def test_frames_that_never_came_show_the_picture_before_in_silence(tmp_path):
    path = tmp_path / "film.mp4"
    with recording(path, SIZE, RECORDINGS["mp4"]) as film:
        for index in [*range(30), *range(60, 100)]:
            film.add(index, *flash(index))
        film.add(5, *flash(5))
        assert (film.frames, film.missing_frames) == (100, 30)
    bright, _, video_s, sound_s = watched(path)
    assert abs(video_s - 4.0) <= 0.04
    assert abs(sound_s - 4.0) <= 0.04
    assert np.round(bright * 25).astype(int).tolist() == [12, 62, 87]


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_recording_whose_process_was_killed_plays_up_to_its_last_second(tmp_path, kind):
    path = tmp_path / f"film.{kind}"
    ended = subprocess.run([sys.executable, "-c", CRASHING, str(path), kind], capture_output=True, timeout=60)
    assert ended.returncode == -9, ended.stderr.decode()
    _, _, video_s, sound_s = watched(path)
    assert 8.5 <= video_s <= 10.5
    assert abs(video_s - sound_s) <= 1.1


def test_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"), recording(tmp_path / "nowhere" / "film.mp4", SIZE, FILM):
        pass


async def test_recorder_marks_every_picture_and_fits_other_sizes_to_its_own(tmp_path):
    order = RecordingOrder("desk", str(tmp_path / "film.mp4"), RECORDINGS["mp4"], SIZE, Badge("AI"))
    recorder = Recorder(order)
    for index in range(50):
        planes, sound = flash(index)
        if index >= 25:
            planes = np.full((96, 64), 128, np.uint8)
        recorder.take(Picture(index, planes, sound, PictureKind.IDLE, 0, Stamps()))
    recorder.stop()
    await recorder.run()
    assert (recorder.state, recorder.frames, recorder.given_up) == ("finished", 50, 0)
    with av.open(order.target) as container:
        frames = [frame.to_ndarray(format="gray8") for frame in container.decode(video=0)]
    assert {frame.shape for frame in frames} == {(SIZE[1], SIZE[0])}
    assert frames[3][2:20, 120:].max() > 150
    assert frames[3][40:, :100].max() < 80


async def test_recorder_that_falls_behind_gives_pictures_up_and_no_sound(tmp_path):
    order = RecordingOrder("desk", str(tmp_path / "film.mp4"), RECORDINGS["mp4"], SIZE)
    recorder = Recorder(order)
    for index in range(MOST_WAITING - 10):  # nobody writes yet
        recorder.take(picture(index))
    recorder.stop()
    await recorder.run()
    assert recorder.frames == MOST_WAITING - 10
    assert recorder.given_up > 50
    _, loud, _, sound_s = watched(order.target)
    assert abs(sound_s - recorder.frames / 25) <= 0.04
    assert len(set(np.round(loud).astype(int))) >= 9


async def test_recorder_that_cannot_write_tells_why_and_takes_no_more(tmp_path):
    order = RecordingOrder("desk", str(tmp_path / "nowhere" / "film.mp4"), RECORDINGS["mp4"], SIZE)
    recorder = Recorder(order)
    recorder.take(picture(0))
    await recorder.run()
    assert recorder.state == "failed"
    assert "cannot be written" in recorder.error
    recorder.take(picture(1))


async def test_server_of_others_that_hangs_up_ends_the_recording_and_nothing_else():
    async def hang_up(_, writer):
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    recorder = Recorder(RecordingOrder("desk", f"rtmp://127.0.0.1:{port}/live/key", RTMP, SIZE))
    clock = MonotonicClock()
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        for index in range(100_000):
            recorder.take(picture(index))
            await clock.sleep_until(clock.now_ns() + 5_000_000)
            if recorder.state != "recording":
                break
    assert recorder.state == "failed"
    assert "key" not in recorder.error
    server.close()
    await server.wait_closed()


async def test_recording_cut_short_in_the_middle_of_its_work_ends_whole(tmp_path):
    order = RecordingOrder("desk", str(tmp_path / "film.mp4"), RECORDINGS["mp4"], SIZE)
    recorder = Recorder(order)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(recorder.run())
        for index in range(100):
            recorder.take(picture(index))
        await asyncio.sleep(0)  # noqa: TID251 - let it begin
        running.cancel()
    while recorder.state == "recording":
        await MonotonicClock().sleep_until(MonotonicClock().now_ns() + 10_000_000)
    assert recorder.state == "finished"
    assert watched(order.target)[2] == pytest.approx(4.0, abs=0.04)
