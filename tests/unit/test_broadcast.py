"""One encoder, many viewers: keyframes merged, slow viewers alone, two rungs chosen by loss and estimates."""

from __future__ import annotations

import asyncio

import av
import numpy as np
import pytest

from streamer.broadcast.choice import RungChoice, ViewerRequests
from streamer.broadcast.feed import Feed
from streamer.broadcast.rung import half_size
from streamer.broadcast.station import Station, StationParts
from streamer.clock import NS_PER_MS, NS_PER_S, ManualClock, MonotonicClock
from streamer.config import Config
from streamer.errors import PipelineStalled
from streamer.graphics.planes import resized
from streamer.media import FRAME_NS, Picture, PictureKind, Stamps
from streamer.rtc.encoder import VideoCodec
from streamer.rtc.settings import IceSettings
from streamer.rtc.threads import CodecThreads

pytestmark = pytest.mark.unit
VP8 = VideoCodec("VP8")
SIDE = 256


def planes(seed):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (SIDE * 3 // 16, SIDE // 8)).astype(np.uint8)
    return np.kron(small, np.ones((8, 8), np.uint8))


def picture(index, shade=None):
    made = planes(index % 7) if shade is None else np.full((SIDE * 3 // 2, SIDE), shade, np.uint8)
    return Picture(index, made, np.zeros(1920, np.int16), PictureKind.IDLE, 0, Stamps())


@pytest.fixture
def codecs():
    with CodecThreads() as made:
        yield made


class Audience:
    """A feed that is on, in virtual time, and its viewers."""

    def __init__(self, codecs):
        self.clock = ManualClock(NS_PER_S)
        self.feed = Feed("desk", (SIDE, SIDE), self.clock, codecs)
        self.codecs = codecs
        self.index = 0

    async def viewer(self, group, codec=VP8):
        relay = self.feed.relay()
        relay.codec = codec
        relay.audio.started.set()
        relay.video.started.set()
        group.create_task(relay.run())
        await self.clock.advance(0)
        return relay

    async def frames(self, count, each=lambda index: None):
        for _ in range(count):
            each(self.index)
            self.feed.show(picture(self.index))
            self.index += 1
            await self._encoded()
            await self.clock.advance(FRAME_NS)

    async def _encoded(self):
        """Let the codec threads finish what they have: another job behind it tells."""
        for _ in range(3):
            for executor in (self.codecs.pictures, self.codecs.sound):
                await asyncio.get_running_loop().run_in_executor(executor, lambda: None)
            await self.clock.advance(0)


async def open_feed(audience, group):
    group.create_task(audience.feed.run())
    await audience.clock.advance(0)


class Eyes:
    """A viewer's decoder."""

    def __init__(self, relay):
        self.relay = relay
        self.decoder = av.CodecContext.create("vp8", "r")
        self.stamps = []

    def look(self):
        """Take every packet that waits for the socket, decode it: (width, height) of each picture."""
        sizes = []
        while (packet := self.relay.video.packets.get_nowait()) is not None:
            self.stamps.append(packet.pts)
            sizes += [(frame.width, frame.height) for frame in self.decoder.decode(av.Packet(bytes(packet)))]
        return sizes


async def test_fifty_viewers_cost_the_encoder_no_call_more_than_one(codecs):
    calls = []
    for viewers in (1, 50):
        audience = Audience(codecs)
        async with asyncio.TaskGroup() as group:
            await open_feed(audience, group)
            relays = [await audience.viewer(group) for _ in range(viewers)]
            await audience.frames(6)
            calls.append((audience.feed.stats.encoder_calls, audience.feed.strand.encoder_calls))
            assert all(len(Eyes(relay).look()) == 6 for relay in relays)
            for relay in relays:
                relay.stop()
            audience.feed.close()
    assert calls[0] == calls[1] == (6, 6)


async def test_nobody_watching_costs_no_encode(codecs):
    audience = Audience(codecs)
    async with asyncio.TaskGroup() as group:
        await open_feed(audience, group)
        await audience.frames(5)
        assert (audience.feed.stats.encoder_calls, audience.feed.strand.encoder_calls) == (0, 0)
        audience.feed.close()


async def test_fifty_lost_pictures_within_a_second_make_two_keyframes_at_most(codecs):
    audience = Audience(codecs)
    async with asyncio.TaskGroup() as group:
        await open_feed(audience, group)
        relays = [await audience.viewer(group) for _ in range(50)]
        await audience.frames(30, lambda index: [relay.video.packets.clear() for relay in relays])
        before = audience.feed.stats.keyframes

        def lose(index):
            for relay in relays[2 * (index - 30) : 2 * (index - 30) + 2]:
                relay.steering.keyframes.request()
            for relay in relays:
                relay.video.packets.clear()

        await audience.frames(25, lose)
        assert 1 <= audience.feed.stats.keyframes - before <= 2
        for relay in relays:
            relay.stop()
        audience.feed.close()


async def test_newcomer_sees_a_whole_picture_within_half_a_second(codecs):
    audience = Audience(codecs)
    async with asyncio.TaskGroup() as group:
        await open_feed(audience, group)
        first = await audience.viewer(group)
        old = Eyes(first)
        for gap_frames in (3, 7, 11, 1, 14, 5):
            await audience.frames(gap_frames, lambda index: old.look())
            newcomer = await audience.viewer(group)
            eyes, frames = Eyes(newcomer), 0
            while not eyes.look():
                await audience.frames(1, lambda index: old.look())
                frames += 1
            assert frames <= 13
            newcomer.stop()
        first.stop()
        audience.feed.close()


async def test_viewer_who_does_not_read_loses_pictures_alone_and_comes_back_with_a_whole_one(codecs):
    audience = Audience(codecs)
    async with asyncio.TaskGroup() as group:
        await open_feed(audience, group)
        slow, quick = await audience.viewer(group), await audience.viewer(group)
        seen = 0

        def read(index):
            nonlocal seen
            seen += len(quick.video.packets)
            while quick.video.packets.get_nowait() is not None:
                pass

        await audience.frames(50, read)
        read(0)
        assert seen == 50
        assert slow.counts["pictures_dropped"] > 30
        slow.video.packets.clear()
        slow.steering.keyframes.request()
        eyes, sizes = Eyes(slow), []
        await audience.frames(40, lambda index: read(index) or sizes.extend(eyes.look()))
        assert len(sizes) > 10
        assert audience.feed.stats.keyframes <= 5
        slow.stop()
        quick.stop()
        audience.feed.close()


async def test_viewer_with_loss_moves_to_half_size_and_back_without_a_gap(codecs):
    audience = Audience(codecs)
    async with asyncio.TaskGroup() as group:
        await open_feed(audience, group)
        relay, other = await audience.viewer(group), await audience.viewer(group)
        sizes, eyes = [], Eyes(relay)

        def watch(index):
            sizes.extend(eyes.look())
            other.video.packets.clear()

        await audience.frames(10, watch)
        for _ in range(2):
            relay.steering.bitrate.note_report(0.3, None, audience.clock.now_ns())
        await audience.frames(20, watch)
        assert sizes[-1] == (SIDE // 2, SIDE // 2)
        assert relay.half
        assert not other.half
        assert audience.feed.stats.rungs == 2
        relay.steering.bitrate.note_report(0.0, None, audience.clock.now_ns() + 30 * NS_PER_S)
        await audience.frames(20, watch)
        watch(0)
        assert sizes[-1] == (SIDE, SIDE)
        assert audience.feed.stats.rungs == 1
        assert len(sizes) >= 49
        assert eyes.stamps == sorted(set(eyes.stamps))
        relay.stop()
        other.stop()
        audience.feed.close()


def test_one_bad_report_moves_nobody_and_an_estimate_counts_only_with_loss():
    choice = RungChoice(1_500_000, 500_000)
    choice.note_report(0.5, None, NS_PER_S)
    choice.note_report(0.0, None, 2 * NS_PER_S)
    assert not choice.half
    choice.note_hint(400_000, 3 * NS_PER_S)
    for second in range(3, 9):
        choice.note_report(0.0, None, second * NS_PER_S)
    assert not choice.half
    choice.note_hint(400_000, 9 * NS_PER_S)
    for second in (9, 10):
        choice.note_report(0.05, None, second * NS_PER_S)
    assert choice.half
    assert choice.target_bps == 500_000


def test_viewer_who_fails_again_after_returning_waits_twice_as_long():
    choice, now_s = RungChoice(1_500_000, 500_000), 0
    waits = []
    for _ in range(3):
        for _ in range(2):
            now_s += 1
            choice.note_report(0.5, None, now_s * NS_PER_S)
        assert choice.half
        left = now_s
        while choice.half:
            now_s += 1
            choice.note_report(0.0, None, now_s * NS_PER_S)
        waits.append(now_s - left)
    assert waits == [11, 21, 41]


def test_viewer_who_asks_all_the_time_reaches_the_encoder_once_a_second():
    asked, now_ns = [], 0
    requests = ViewerRequests(lambda: asked.append(now_ns), lambda: now_ns)
    for step in range(100):
        now_ns = step * 50 * NS_PER_MS
        requests.request()
    assert len(asked) == 5
    assert requests.requests == 100


def test_half_size_is_the_same_picture():
    whole = planes(3)
    half = resized(whole, half_size((SIDE, SIDE)))
    assert half.shape == (SIDE * 3 // 4, SIDE // 2)
    assert abs(float(half[: SIDE // 2].mean()) - float(whole[:SIDE].mean())) < 1.0


async def test_source_that_begins_anew_goes_on_where_the_feed_is(codecs):
    clock = MonotonicClock()
    feed = Feed("desk", (SIDE, SIDE), clock, codecs)
    shown = []
    feed.taps.append(lambda p: shown.append(p.index))
    for index in range(5):
        feed.show(picture(index, 50))
    feed.source_changed()
    for index in range(3):
        feed.show(picture(index, 90))
    assert shown == [*range(5), 5, 6, 7]


async def test_feed_whose_encoder_fails_ends_alone_and_the_others_go_on(codecs, monkeypatch):
    clock = ManualClock(NS_PER_S)
    station = Station(StationParts(Config(), clock, codecs, IceSettings()))
    going_on = Feed.run

    async def run(feed):
        if feed.name == "broken":
            raise PipelineStalled("video encoder", 1000.0)
        await going_on(feed)

    monkeypatch.setattr(Feed, "run", run)
    async with asyncio.TaskGroup() as group:
        group.create_task(station.run())
        await clock.advance(0)
        station.open("broken", (SIDE, SIDE))
        station.open("desk", (SIDE, SIDE))
        await clock.advance(0)
        assert [feed.name for feed in station.feeds] == ["desk"]
        station.close()
