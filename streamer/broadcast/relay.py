"""The sending half of a viewer: packets of a feed that were encoded for all. A slow viewer loses frames alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import av
from aiortc import RTCRtpSender

from streamer.broadcast.choice import RungChoice, ViewerRequests, ViewerSteering
from streamer.broadcast.rung import Rung, RungKey
from streamer.broadcast.strand import Strand
from streamer.clock import Clock
from streamer.media import Picture
from streamer.rtc.bitrate import ResendBudget
from streamer.rtc.encoder import EncodedPicture, VideoCodec
from streamer.rtc.outbound import anchor
from streamer.rtc.reports import MediaClock, ReportClock
from streamer.rtc.tracks import PacketTrack

MOST_PICTURES = 8
"""Encoded pictures that may wait for a viewer's socket, and those a newcomer starts with."""
MOST_SOUNDS = 6
PATIENCE_S = 0.5
"""How long sound waits for video to start, and the other way round."""


class Source(Protocol):
    """A feed, as a viewer sees it."""

    @property
    def media(self) -> MediaClock: ...

    @property
    def strand(self) -> Strand: ...

    @property
    def bitrates_bps(self) -> tuple[int, int]:
        """Of the full and the half-size rung; equal where there is no half."""
        ...

    def join(self, relay: Relay) -> None: ...

    def leave(self, relay: Relay) -> None: ...

    def rung(self, key: RungKey) -> Rung:
        """The rung under this key, made and started if nobody is on it yet."""
        ...

    def sweep(self) -> None:
        """Somebody has left a rung: end those that nobody is on."""
        ...


class Relay:
    """A `sending.SendingHalf`. `strand` replaces the feed's sound, for a participant who must not hear itself."""

    def __init__(self, feed: Source, clock: Clock, strand: Strand | None = None) -> None:
        self.audio = PacketTrack("audio", MOST_SOUNDS)
        self.video = PacketTrack("video", MOST_PICTURES, self._on_left)
        self.both = True
        self.codec: VideoCodec | None = None
        self.on_sent: Callable[[Picture], None] | None = None
        self.counts = dict.fromkeys(("pictures_sent", "pictures_dropped", "keyframes"), 0)
        self._feed = feed
        self._clock = clock
        self._strand = strand or feed.strand
        requests = ViewerRequests(self._ask, clock.now_ns)
        self.steering = ViewerSteering(RungChoice(*feed.bitrates_bps), requests, ResendBudget())
        self._rung: Rung | None = None
        self._next: Rung | None = None
        self._whole = False
        self._last_pts = -1
        self._over = asyncio.Event()

    @property
    def rebuilds(self) -> int:
        """There is no encoder of its own."""
        return 0

    @property
    def half(self) -> bool:
        """The viewer gets the half-size rung."""
        return self._rung is not None and self._rung.key.half

    def show(self, picture: Picture) -> None:
        """Pictures come from the feed only."""

    def anchored(self, sender: RTCRtpSender) -> ReportClock:
        """Put a sender's reports on the feed's media clock: all viewers have one timeline."""
        return anchor(sender, self.video if sender.kind == "video" else self.audio, self._feed.media, self._clock)

    async def run(self) -> None:
        """Watch from the moment media can flow until stopped."""
        tracks = [self.video] if self.codec is not None else []
        tracks += [self.audio] if self.both or self.codec is None else []
        await tracks[0].started.wait()
        try:
            async with asyncio.timeout(PATIENCE_S):
                for track in tracks:
                    await track.started.wait()
        except TimeoutError:
            pass
        self._feed.join(self)
        if self.audio in tracks:
            self._strand.listeners.add(self.audio)
        try:
            if self.codec is not None:
                self._rung = self._feed.rung(RungKey(self.codec, half=False))
                self._rung.welcome(self)
            await self._over.wait()
        finally:
            self._strand.listeners.discard(self.audio)
            for rung in (self._rung, self._next):
                if rung is not None:
                    rung.takers.discard(self)
            self._feed.leave(self)

    def stop(self) -> None:
        """No more packets; the tracks end."""
        for track in (self.audio, self.video):
            track.stop()
        self._over.set()

    def take(self, rung: Rung, picture: EncodedPicture) -> None:
        """Part of rung.Taker. On the way to another rung the old one goes on until the new one's first keyframe."""
        if rung is self._next:
            if not picture.keyframe:
                return
            self._arrive(rung)
        elif rung is not self._rung:
            return
        elif self._next is None:
            self._set_out(rung)
        self.steering.keyframes.remind()
        self._whole = self._whole or picture.keyframe
        if not self._whole:
            self.counts["pictures_dropped"] += 1
            return
        if picture.keyframe:
            self.counts["keyframes"] += 1
            self.steering.keyframes.note_keyframe()
        if not self.video.packets.put_nowait(self._later(picture.packet)):
            # A hole: what waits and what follows is of no use before the next keyframe.
            self.counts["pictures_dropped"] += 1 + self.video.packets.clear()
            self._whole = False
            self.steering.keyframes.request()

    def _set_out(self, rung: Rung) -> None:
        """Towards the rung that suits the link now."""
        half = self.steering.bitrate.half
        full_bps, half_bps = self._feed.bitrates_bps
        if half != rung.key.half and full_bps != half_bps:
            self._next = self._feed.rung(RungKey(rung.key.codec, half))
            self._next.admit(self)

    def _arrive(self, rung: Rung) -> None:
        if self._rung is not None:
            self._rung.takers.discard(self)
        self._rung, self._next = rung, None
        self._feed.sweep()

    def _later(self, packet: av.Packet[Any]) -> av.Packet[Any]:
        """The packet, later than the one before: both rungs may give the same moment when they change places."""
        pts = packet.pts or 0
        if pts <= self._last_pts:
            moved = av.Packet(bytes(packet))
            moved.pts, moved.time_base = self._last_pts + 1, packet.time_base
            packet, pts = moved, self._last_pts + 1
        self._last_pts = pts
        return packet

    def _ask(self) -> None:
        if self._rung is not None:
            self._rung.request_keyframe()

    def _on_left(self, pts: int) -> None:
        self.counts["pictures_sent"] += 1
