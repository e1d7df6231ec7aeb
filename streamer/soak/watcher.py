"""A light viewer of a feed: WHEP; it decodes the first whole picture, then reads no more than the packets' headers."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

import aiohttp
import av
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpTransceiver, RTCSessionDescription
from aiortc.codecs.vpx import VpxPayloadDescriptor

from streamer.clock import Clock
from streamer.errors import SignalingError
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc import ice, negotiation
from streamer.rtc.settings import IceSettings


class Watcher:
    """Use: `connect`, then look at what was noted, then `close`. Takes VP8."""

    def __init__(self, clock: Clock) -> None:
        self.called_ns = 0
        """The offer was posted."""
        self.joined_ns: int | None = None
        """Media could flow."""
        self.first_picture_ns: int | None = None
        """A whole picture was decoded."""
        self.arrivals_ns: list[int] = []
        """When the last packet of each picture came."""
        self.packets = 0
        self.lost = 0
        self.sound_packets = 0
        self.seen = asyncio.Event()
        """The first picture is there."""
        self.noticed = asyncio.Event()
        """Another picture has come; the reader clears it."""
        self._clock = clock
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._connection.on("connectionstatechange", self._on_state)
        audio = self._connection.addTransceiver("audio", "recvonly")
        self._video: RTCRtpTransceiver = self._connection.addTransceiver("video", "recvonly")
        hooks.divert_rtp(audio.receiver, self._on_sound)
        hooks.divert_rtp(self._video.receiver, self._on_packet)
        self._last_seq: int | None = None
        self._video_ssrc = 0
        self._picture: list[bytes] = []
        self._session = ""

    @property
    def location(self) -> str:
        """Path of the session."""
        return self._session

    async def connect(self, http: aiohttp.ClientSession, url: str) -> None:
        """Watch what is answered at a WHEP endpoint, or at /api/sessions. Raises SignalingError."""
        for transport in negotiation.ice_transports(self._connection):
            gather = partial(ice.gather, settings=IceSettings(), remote_is_local=True)
            hooks.gather_with(hooks.connection(transport), gather)
        await self._connection.setLocalDescription()
        self.called_ns = self._clock.now_ns()
        headers = {"Content-Type": "application/sdp"}
        async with http.post(url, data=self._connection.localDescription.sdp, headers=headers) as response:
            body = await response.text()
            if response.status != 201:
                raise SignalingError(body, response.status)
            self._session = response.headers["Location"]
        await self._connection.setRemoteDescription(RTCSessionDescription(body, "answer"))

    async def ask_for_picture(self) -> None:
        """Say that the picture is lost (PLI)."""
        await hooks.ask_for_keyframe(self._video.receiver)

    def stall(self) -> None:
        """Read nothing any more and say nothing, as a frozen machine does."""
        hooks.freeze(hooks.connection(self._video.receiver.transport.transport))

    def gaps_ms(self, since_ns: int = 0) -> list[float]:
        """Between the pictures that came after a time."""
        came = [at for at in self.arrivals_ns if at > since_ns]
        return [(after - before) / 1e6 for before, after in pairwise(came)]

    async def close(self, http: aiohttp.ClientSession | None = None) -> None:
        """Leave; with `http` the server is told."""
        if http is not None and self._session:
            async with http.delete(self._session):
                pass
        await self._connection.close()

    def _on_state(self) -> None:
        if self._connection.connectionState == "connected":
            self.joined_ns = self._clock.now_ns()

    def _on_sound(self, _: hooks.RtpArrival) -> None:
        self.sound_packets += 1

    def _on_packet(self, packet: hooks.RtpArrival) -> None:
        if not packet.payload:
            return
        self._video_ssrc = packet.ssrc
        self._note(packet.sequence_number, marker=packet.marker)
        if not self.seen.is_set():
            self._look(packet)
            if self.seen.is_set():
                hooks.skim(self._video.receiver.transport, self._on_header)

    def _on_header(self, ssrc: int, sequence_number: int, marker: bool) -> None:
        if ssrc == self._video_ssrc:
            self._note(sequence_number, marker=marker)
        else:
            self.sound_packets += 1

    def _note(self, sequence_number: int, *, marker: bool) -> None:
        step = 1 if self._last_seq is None else (sequence_number - self._last_seq) & 0xFFFF
        if step == 0 or step > 0x8000:
            return
        self._last_seq = sequence_number
        self.packets += 1
        self.lost += step - 1
        if marker:
            self.arrivals_ns.append(self._clock.now_ns())
            self.noticed.set()

    def _look(self, packet: hooks.RtpArrival) -> None:
        """Decode the first whole picture."""
        descriptor, rest = VpxPayloadDescriptor.parse(packet.payload)
        if descriptor.partition_start and descriptor.partition_id == 0:
            self._picture = []
        self._picture.append(rest)
        if packet.marker and self._picture and not self._picture[0][0] & 1:  # a key frame, RFC 6386 section 9.1
            decoder = av.CodecContext.create("vp8", "r")
            if decoder.decode(av.Packet(b"".join(self._picture))):
                self.first_picture_ns = self._clock.now_ns()
                self.seen.set()
