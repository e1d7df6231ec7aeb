"""A rung of a feed: one encoder at one size, however many watch. Its packets go to all viewers on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from streamer.channel import Channel, WhenFull
from streamer.clock import Clock
from streamer.graphics.planes import resized
from streamer.media import Picture
from streamer.rtc.bitrate import KeyframeGate, nominal_bps
from streamer.rtc.encoder import EncodedPicture, VideoCodec, VideoEncoder, picture_size_px
from streamer.rtc.encoding import encode_all
from streamer.rtc.threads import CodecThreads

RECENT_PICTURES = 5
"""A newcomer gets a keyframe this young and what followed at once, instead of costing everybody another."""
LEAST_HALF_PX = 128
"""Pictures with a shorter side have no half-size rung."""


@dataclass(frozen=True, slots=True)
class RungKey:
    """What tells the rungs of a feed apart."""

    codec: VideoCodec
    half: bool


class Taker(Protocol):
    """A viewer, as a rung sees it."""

    def take(self, rung: Rung, picture: EncodedPicture) -> None:
        """One encoded picture, in order. Never blocks."""
        ...


@dataclass(slots=True)
class RungCounts:
    """Since the rung began."""

    encoder_calls: int = 0
    keyframes: int = 0
    pictures_dropped: int = 0


class Rung:
    """`show` never waits; `run` encodes until closed."""

    def __init__(self, key: RungKey, clock: Clock, codecs: CodecThreads) -> None:
        self.key = key
        self.takers: set[Taker] = set()
        self.counts = RungCounts()
        self._clock = clock
        self._codecs = codecs
        self._encoder = VideoEncoder()
        self._keyframes = KeyframeGate()
        self._pictures: Channel[Picture] = Channel("rung-pictures", 1, WhenFull.DROP_OLDEST)
        self._recent: list[EncodedPicture] = []

    def show(self, picture: Picture) -> None:
        """The next picture; one still waiting is overtaken."""
        if not self._pictures.put_nowait(picture):
            self.counts.pictures_dropped += 1

    def request_keyframe(self) -> None:
        """Somebody needs a whole picture. Merged: at most one every 500 ms is made."""
        self._keyframes.request()

    def welcome(self, taker: Taker) -> None:
        """A viewer comes who has seen nothing yet: it starts with a keyframe made a moment ago, or with the next."""
        for picture in self._recent:
            taker.take(self, picture)
        self.admit(taker, ask=not self._recent)

    def admit(self, taker: Taker, *, ask: bool = True) -> None:
        """A viewer comes; `ask`: it waits for a keyframe."""
        self.takers.add(taker)
        if ask:
            self.request_keyframe()

    async def run(self) -> None:
        """Encode until closed. Raises PipelineStalled if the encoder refuses a whole second."""
        try:
            await encode_all(self._pictures, self._pass_on, self._refused)
        finally:
            self._codecs.pictures.submit(self._encoder.reset)

    def close(self) -> None:
        self._pictures.close()

    def _refused(self) -> None:
        self.counts.pictures_dropped += 1
        self._encoder.reset()

    async def _pass_on(self, picture: Picture) -> None:
        self.counts.encoder_calls += 1
        work = partial(self._encode, picture, keyframe=self._keyframes.due(self._clock.now_ns()))
        encoded = await asyncio.get_running_loop().run_in_executor(self._codecs.pictures, work)
        if encoded.keyframe:
            self._keyframes.note_keyframe(self._clock.now_ns())
            self.counts.keyframes += 1
            self._recent = [encoded]
        elif self._recent:
            # Too old to be sent in one go: the next newcomer asks for a keyframe.
            self._recent = [*self._recent, encoded] if len(self._recent) < RECENT_PICTURES else []
        for taker in tuple(self.takers):
            taker.take(self, encoded)

    def _encode(self, picture: Picture, *, keyframe: bool) -> EncodedPicture:
        """In the codec thread."""
        planes = picture.planes
        if self.key.half:
            planes = resized(planes, half_size(picture_size_px(planes)))
        bitrate_bps = nominal_bps(picture_size_px(planes))
        return self._encoder.encode(self.key.codec, planes, picture.index, bitrate_bps, keyframe=keyframe)


def has_half(size_px: tuple[int, int]) -> bool:
    """Whether pictures of this size have a half-size rung."""
    return min(size_px) >= LEAST_HALF_PX


def half_size(size_px: tuple[int, int]) -> tuple[int, int]:
    """Half of (width, height), even."""
    return size_px[0] // 4 * 2, size_px[1] // 4 * 2
