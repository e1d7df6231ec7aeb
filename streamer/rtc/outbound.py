"""What goes out to a peer: pictures and their sound through our encoders into the two tracks, on one media clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiortc import RTCRtpSender

from streamer.channel import Channel, ChannelClosed, WhenFull
from streamer.clock import Clock, wall_clock_s
from streamer.media import FRAME_NS, FRAME_SAMPLES, FRAME_TICKS, SOUND_HZ, VIDEO_CLOCK_HZ, Picture
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc.bitrate import BitrateControl, KeyframeGate, ResendBudget, Steering, nominal_bps
from streamer.rtc.encoder import SoundEncoder, VideoCodec, VideoEncoder, picture_size_px
from streamer.rtc.encoding import encode_all
from streamer.rtc.reports import MediaClock, ReportClock
from streamer.rtc.threads import CodecThreads
from streamer.rtc.tracks import PacketTrack

PACKET_GAP_NS = FRAME_NS // 2
MOST_SOUNDS = 3
"""Frames of sound that may wait behind playout; more would be heard long after an interrupt."""
LONGEST_LEAVING = 12
"""Frames after which the other half, sound or video, is no longer waited for."""


class Outbound:
    """The sending half of a peer. `show` never waits; `run` encodes for as long as the peer lives."""

    def __init__(self, size_px: tuple[int, int], clock: Clock, codecs: CodecThreads) -> None:
        self.audio = PacketTrack("audio", 2 * MOST_SOUNDS, self._on_sound_left)
        self.video = PacketTrack("video", 4, self._on_left)
        self.both = True
        """The peer takes sound and video: neither starts before the other can, within half a second."""
        self._waited = 0
        self.codec: VideoCodec | None = None
        self.on_sent: Callable[[Picture], None] | None = None
        self.steering = Steering(BitrateControl(nominal_bps(size_px)), KeyframeGate(), ResendBudget())
        self.counts = dict.fromkeys(("pictures_sent", "pictures_dropped", "keyframes"), 0)
        self._clock = clock
        self._codecs = codecs
        self._media = MediaClock()
        self._encoder = VideoEncoder()
        self._size_px = size_px
        self._last_index = -1
        self._sounds: Channel[Picture] = Channel("sounds", MOST_SOUNDS, WhenFull.DROP_OLDEST)
        self._pictures: Channel[Picture] = Channel("pictures", 1, WhenFull.DROP_OLDEST)
        self._leaving: dict[int, Picture] = {}
        self._sounds_left: dict[int, int] = {}

    @property
    def rebuilds(self) -> int:
        return max(0, self._encoder.rebuilds)

    def show(self, picture: Picture) -> None:
        """Send a picture with its sound: sound always, the picture unless a newer one overtakes it."""
        now_ns = self._clock.now_ns()
        if picture.index <= self._last_index:
            self.counts["pictures_dropped"] += 1
            return
        self._last_index = picture.index
        self._media.anchor(picture.index, now_ns, wall_clock_s())
        sound, video = self.audio.started.is_set(), self.video.started.is_set()
        if self.both and not (sound and video) and self._waited < LONGEST_LEAVING:
            self._waited += 1
            return
        if sound:
            self._sounds.put_nowait(picture)
        if video and not self._pictures.put_nowait(picture):
            self.counts["pictures_dropped"] += 1

    def anchored(self, sender: RTCRtpSender) -> ReportClock:
        """Put a sender's reports on the media clock."""
        return anchor(sender, self.video if sender.kind == "video" else self.audio, self._media, self._clock)

    async def run(self) -> None:
        """Encode until stopped. Raises PipelineStalled if the video encoder refuses a whole second."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._encode_sounds(), name="encode-sound")
                encoding = encode_all(self._pictures, self._encode_picture, self._refused)
                group.create_task(encoding, name="encode-video")
        finally:
            # Behind a picture that may still be in work: megabytes that the next peer can use at once.
            self._codecs.pictures.submit(self._encoder.reset)

    def stop(self) -> None:
        """No more pictures; the tracks end."""
        for track in (self.audio, self.video):
            track.stop()
        self._sounds.close()
        self._pictures.close()
        self._leaving.clear()
        self.on_sent = None

    async def _encode_sounds(self) -> None:
        loop, encoder = asyncio.get_running_loop(), SoundEncoder()
        while True:
            try:
                picture = await self._sounds.get()
            except ChannelClosed:
                return
            first, second = await loop.run_in_executor(self._codecs.sound, encoder.encode, picture.pcm48, picture.index)
            self.audio.packets.put_nowait(first)
            if len(self._sounds) == 0:
                # In step: half a frame apart, for a receiver takes a burst of two for jitter and waits longer.
                await self._clock.sleep_until(self._clock.now_ns() + PACKET_GAP_NS)
            self.audio.packets.put_nowait(second)

    def _refused(self) -> None:
        self.counts["pictures_dropped"] += 1
        self._encoder.reset()

    async def _encode_picture(self, picture: Picture) -> None:
        assert self.codec is not None
        size_px = picture_size_px(picture.planes)
        if size_px != self._size_px:
            self._size_px = size_px
            self.steering.bitrate.resize(nominal_bps(size_px))
        job = partial(
            self._encoder.encode,
            self.codec,
            picture.planes,
            picture.index,
            self.steering.bitrate.target_bps,
            keyframe=self.steering.keyframes.due(self._clock.now_ns()),
        )
        encoded = await asyncio.get_running_loop().run_in_executor(self._codecs.pictures, job)
        picture.stamps.encoded_ns = now_ns = self._clock.now_ns()
        if encoded.keyframe:
            self.steering.keyframes.note_keyframe(now_ns)
            self.counts["keyframes"] += 1
        self._leaving[picture.index] = picture
        if not self.video.packets.put_nowait(encoded.packet):
            self.steering.keyframes.request()  # a hole in the stream: what follows cannot be decoded

    def _on_left(self, pts: int) -> None:
        index = pts // FRAME_TICKS
        picture = self._leaving.get(index)
        if picture is None:
            return
        picture.stamps.sent_ns = self._clock.now_ns()
        self.counts["pictures_sent"] += 1
        if not self.both or index in self._sounds_left:
            self._note_left(index)
        for late in [i for i in self._leaving if i < index - LONGEST_LEAVING]:
            self._note_left(late)

    def _on_sound_left(self, pts: int) -> None:
        index, first = divmod(pts, FRAME_SAMPLES)
        if first == 0:
            return
        self._sounds_left[index] = self._clock.now_ns()
        for old in [i for i in self._sounds_left if i < index - LONGEST_LEAVING]:
            del self._sounds_left[old]
        picture = self._leaving.get(index)
        if picture is not None and picture.stamps.sent_ns:
            self._note_left(index)

    def _note_left(self, index: int) -> None:
        """A picture and its own sound have left."""
        picture = self._leaving.pop(index)
        picture.stamps.sound_sent_ns = self._sounds_left.get(index, 0)
        if self.on_sent is not None and picture.stamps.sent_ns:
            self.on_sent(picture)


def anchor(sender: RTCRtpSender, track: PacketTrack, media: MediaClock, clock: Clock) -> ReportClock:
    """Let a sender, which sends `track`, report by a media clock."""
    reports = ReportClock(media, VIDEO_CLOCK_HZ if sender.kind == "video" else SOUND_HZ)

    def report() -> tuple[int, int] | None:
        if track.waiting and track.last_pts is not None:
            reports.learn(hooks.last_timestamp(sender), track.last_pts)
        return reports.report(clock.now_ns())

    hooks.anchor_reports(sender, report)
    return reports
