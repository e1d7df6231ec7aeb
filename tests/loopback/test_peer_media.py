"""Sound and pictures between two real peers: they arrive, together, in both codecs, and survive loss."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest

from streamer.clock import MonotonicClock
from streamer.media import FRAME_NS, FRAME_SAMPLES, Picture, PictureKind, Stamps
from streamer.rtc.settings import PeerSettings
from streamer.soak.client import ReportStamp, RtpStamp, Visit

pytestmark = pytest.mark.loopback

NTP_SECOND = 1 << 32


def is_open(planes: np.ndarray) -> bool:
    height, width = planes.shape[0] * 2 // 3, planes.shape[1]
    return planes[height // 2, width // 2] > 150


def loud(pcm: np.ndarray) -> bool:
    return float(np.abs(pcm.astype(int)).max()) > 2000


@pytest.mark.parametrize(
    ("codec", "size_px"),
    [
        ("VP8", (512, 512)),
        ("H264", (512, 512)),
        pytest.param("VP8", (640, 480), marks=pytest.mark.long),
        pytest.param("H264", (256, 256), marks=pytest.mark.long),
        ("H264", (642, 482)),
    ],
)
async def test_square_and_tone_come_back_in_the_codec_asked_for(call, tone_bursts, codec, size_px):
    visit = Visit(microphone=tone_bursts(5.0), codec=codec)
    async with call(visit, PeerSettings(size_px=size_px, remote_is_local=True)) as running:
        await running.until(
            lambda: (
                len(running.pictures) > 30
                and {is_open(p.planes) for p in running.pictures} == {True, False}
                and any(loud(b.pcm48) for b in running.blocks)
            )
        )
        stats = running.peer.stats
    width, height = size_px
    assert running.pictures[0].planes.shape == (height * 3 // 2, width)
    assert stats.video_codec == codec
    assert stats.keyframes >= 1
    steps = np.diff([p.pts for p in running.pictures])
    assert np.all(steps > 0)
    assert np.all(steps % 3600 == 0)


async def test_picture_and_sound_of_one_moment_carry_the_same_time(call, tone_bursts):
    rtp: list[RtpStamp] = []
    reports: list[ReportStamp] = []
    visit = Visit(microphone=tone_bursts(5.0), on_rtp=rtp.append, on_report=reports.append)
    async with call(visit) as running:
        await running.until(
            lambda: (
                {r.kind for r in reports} == {"audio", "video"}
                and any(is_open(p.planes) for p in running.pictures)
                and any(loud(b.pcm48) for b in running.blocks)
            )
        )
    first = {kind: next(r.timestamp for r in rtp if r.kind == kind) for kind in ("audio", "video")}
    report = {kind: next(r for r in reports if r.kind == kind) for kind in ("audio", "video")}

    def wall_s(kind: str, timestamp: int, rate_hz: int) -> float:
        ahead = ((timestamp - report[kind].rtp_timestamp + 2**31) % 2**32) - 2**31
        return (report[kind].ntp % (NTP_SECOND * 100_000)) / NTP_SECOND + ahead / rate_hz

    opened = next(p for p in running.pictures if is_open(p.planes))
    heard = next(b for b in running.blocks if loud(b.pcm48))
    onset = heard.source_sample + int(np.argmax(np.abs(heard.pcm48.astype(int)) > 2000))
    seen_s = wall_s("video", first["video"] + opened.pts, 90_000)
    heard_s = wall_s("audio", first["audio"] + onset, 48_000)
    assert -0.045 < seen_s - heard_s < 0.010


async def test_lost_packets_of_the_microphone_are_made_up_and_the_line_stays_whole(call, tone_bursts):
    dice = random.Random(5)
    heard = []

    async def listen(peer, _):
        while True:
            heard.append(await peer.inbound.get())

    visit = Visit(microphone=tone_bursts(4.0), lose_uplink=lambda: dice.random() < 0.1)
    async with call(visit, drive=listen) as running:
        while len(heard) < 150:
            heard.append(await running.peer.inbound.get())
        stats = running.peer.stats.inbound
    heard.sort(key=lambda block: block.source_sample)
    assert running.visitor.counts.uplink_lost > 3
    assert stats.lost >= 3
    assert stats.concealed_samples >= 960 * stats.lost
    ends = [block.source_sample + len(block.pcm48) for block in heard]
    assert [block.source_sample for block in heard[1:]] == ends[:-1]


async def test_visitor_without_a_microphone_sees_and_hears(call):
    clock = MonotonicClock()

    async def show(peer, size_px):
        planes = np.full((size_px[1] * 3 // 2, size_px[0]), 200, np.uint8)
        sound = (3000 * np.sin(np.arange(FRAME_SAMPLES) / 20)).astype(np.int16)
        start_ns = clock.now_ns()
        for index in range(100):
            await clock.sleep_until(start_ns + index * FRAME_NS)
            peer.show(Picture(index, planes, sound, PictureKind.IDLE, 0, Stamps()))

    async with call(Visit(), drive=show) as running:
        sent: list[Picture] = []
        running.peer.on_sent = sent.append
        await running.until(lambda: len(running.pictures) > 20 and any(loud(b.pcm48) for b in running.blocks))
    assert len(sent) > 10
    assert all(0 < p.stamps.encoded_ns <= p.stamps.sent_ns for p in sent)
    assert [p.index for p in sent] == sorted({p.index for p in sent})


async def test_lost_pictures_bring_keyframes_but_no_flood_of_them(call, tone_bursts):
    async with call(Visit(microphone=tone_bursts(6.0))) as running:
        await running.until(lambda: len(running.pictures) > 25)
        receiver = running.visitor._video.receiver
        (ssrc,) = {key for key in receiver._RTCRtpReceiver__remote_streams}
        for _ in range(40):
            await receiver._send_rtcp_pli(ssrc)
        seen = len(running.pictures)
        await running.until(lambda: len(running.pictures) > seen + 25)
        stats = running.peer.stats
    assert stats.keyframe_requests == 40
    assert 2 <= stats.keyframes <= 6


async def test_late_and_repeated_pictures_are_dropped_and_counted(call):
    async def idle(peer, size_px):
        await asyncio.Event().wait()

    async with call(Visit(), drive=idle) as running:
        planes = np.zeros((384, 256), np.uint8)
        sound = np.zeros(FRAME_SAMPLES, np.int16)
        for index in (5, 6, 6, 3):
            running.peer.show(Picture(index, planes, sound, PictureKind.IDLE, 0, Stamps()))
        assert running.peer.stats.pictures_dropped >= 2


async def test_two_calls_at_once_never_hear_each_other(call, tone_bursts):
    def level(blocks, hz):
        sound = np.concatenate([b.pcm48 for b in blocks[-40:]]).astype(float)
        t = np.arange(len(sound)) / 48_000
        return abs(np.dot(sound, np.exp(2j * np.pi * hz * t))) / len(sound)

    def long_tone(hz):
        return Visit(microphone=tone_bursts(6.0, on_s=6.0, off_s=0.0, hz=hz))

    async with call(long_tone(440.0)) as one, call(long_tone(1000.0)) as two:
        await one.until(lambda: len(one.blocks) > 80)
        await two.until(lambda: len(two.blocks) > 80)
    assert level(one.blocks, 440) > 100 * level(one.blocks, 1000)
    assert level(two.blocks, 1000) > 100 * level(two.blocks, 440)
