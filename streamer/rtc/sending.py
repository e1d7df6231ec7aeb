"""What a peer needs of its sending half: two tracks, what feedback moves, and a task. Knows no implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from aiortc import RTCRtpSender

from streamer.media import Picture
from streamer.rtc.encoder import VideoCodec
from streamer.rtc.link import Steers
from streamer.rtc.reports import ReportClock
from streamer.rtc.tracks import PacketTrack


class SendingHalf(Protocol):
    """`outbound.Outbound` encodes for one peer; a feed's relay passes on what was encoded for all."""

    both: bool
    """The peer takes sound and video."""
    codec: VideoCodec | None
    """What was negotiated; set by the peer."""
    on_sent: Callable[[Picture], None] | None

    @property
    def audio(self) -> PacketTrack: ...

    @property
    def video(self) -> PacketTrack: ...

    @property
    def steering(self) -> Steers: ...

    @property
    def counts(self) -> Mapping[str, int]:
        """pictures_sent, pictures_dropped, keyframes."""
        ...

    @property
    def rebuilds(self) -> int: ...

    def show(self, picture: Picture) -> None: ...

    def anchored(self, sender: RTCRtpSender) -> ReportClock: ...

    async def run(self) -> None: ...

    def stop(self) -> None: ...
