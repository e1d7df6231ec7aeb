"""A synthetic visitor: an aiortc client that talks into a session, sees and hears it, and stamps what passes.

Used by loopback tests, the latency bench and the soak. It runs anywhere an event loop runs, best in its own process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import av
import numpy as np
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCRtpTransceiver,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from streamer.channel import Channel, WhenFull
from streamer.clock import NS_PER_MS, NS_PER_S, Clock
from streamer.errors import SignalingError
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, S16, SOUND_HZ, U8, SoundBlock
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc import ice, negotiation
from streamer.rtc.control import Message, encode_message, read_message
from streamer.rtc.encoder import SoundEncoder
from streamer.rtc.settings import IceSettings, InboundStats
from streamer.rtc.sound_in import SoundIn
from streamer.rtc.tracks import PacketTrack
from streamer.soak.picture_buffer import PictureBuffer

Signal = Callable[[str], Awaitable[str]]
"""Takes an SDP offer to the server and brings the answer."""

PACKET_NS = CHUNK_SAMPLES * NS_PER_S // SOUND_HZ
ASK_AGAIN_NS = 25 * NS_PER_MS
SILENT_PACKETS = FRAME_SAMPLES // CHUNK_SAMPLES
"""Behind the packets of a microphone stands one frame of silence."""


@dataclass(frozen=True, slots=True)
class SentStamp:
    """A microphone packet left: the sound [first_sample, first_sample + 960) at `sent_ns`."""

    first_sample: int
    sent_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class SeenPicture:
    """A decoded picture."""

    planes: U8
    """(H * 3 // 2, W) u8 I420."""
    pts: int
    """90 kHz ticks since the first picture decoded."""
    decoded_ns: int


@dataclass(frozen=True, slots=True)
class ReportStamp:
    """A sender report of the server: wall time and RTP timestamp that belong together."""

    kind: str
    ntp: int
    rtp_timestamp: int


@dataclass(frozen=True, slots=True)
class RtpStamp:
    """Arrival of one RTP packet of the server."""

    kind: str
    timestamp: int
    arrived_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """What a visitor does."""

    microphone: S16 | None = None
    """(n,) s16 mono 48 kHz, sent in real time from the start of media, then silence; None: no microphone."""
    codec: str | None = None
    """"VP8" or "H264": offer only this; None: both, VP8 first."""
    lose_uplink: Callable[[], bool] | None = None
    """Asked for each outgoing media packet; True loses it."""
    on_picture: Callable[[SeenPicture], None] | None = None
    on_sound: Callable[[SoundBlock], None] | None = None
    on_rtp: Callable[[RtpStamp], None] | None = None
    on_report: Callable[[ReportStamp], None] | None = None
    on_spoken: Callable[[SentStamp], None] | None = None
    endless: bool = False
    """The microphone, whole frames long, begins again at its end; what was sent is told to `on_spoken` only."""
    decodes: bool = True
    """Pictures are decoded; otherwise their packets are counted and never asked for again."""
    watches: bool = True
    """False: a publisher, who only speaks."""


@dataclass(slots=True)
class VisitCounts:
    """What a visitor saw and heard."""

    pictures: int = 0
    sound_samples: int = 0
    uplink_lost: int = 0
    events: int = 0
    sent: list[SentStamp] = field(default_factory=list)


class Visitor:
    """Use: `connect`, then `run` for as long as the visit lasts, then `close`. All on one event loop."""

    def __init__(self, visit: Visit, clock: Clock) -> None:
        self.counts = VisitCounts()
        self.telemetry: Channel[Message] = Channel("telemetry", 256, WhenFull.DROP_OLDEST)
        self.ready = asyncio.Event()
        """Media can flow."""
        self.gone = asyncio.Event()
        self._visit = visit
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, "visitor-codec")
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._connection.on("connectionstatechange", self._on_state)
        self._connection.on("datachannel", self._on_channel)
        self._control: RTCDataChannel = self._connection.createDataChannel("control")
        self._microphone = PacketTrack("audio", 8, self._on_left)
        self._said: list[bytes] = []
        self._pictures = PictureBuffer(clock)
        self._sound_in = SoundIn(clock, self._executor, self.gone.set)
        self._audio = self._add_sound()
        self._video = self._add_video() if visit.watches else None

    @property
    def inbound_stats(self) -> InboundStats:
        return self._sound_in.stats

    async def connect(self, signal: Signal) -> str:
        """Offer, get the answer, apply it; returns the answer. Raises what `signal` raises."""
        if self._visit.microphone is not None:  # before the call: a real microphone speaks from the first moment on
            encode = partial(_encoded, self._visit.microphone)
            self._said = await asyncio.get_running_loop().run_in_executor(self._executor, encode)
        for transport in negotiation.ice_transports(self._connection):
            gather = partial(ice.gather, settings=IceSettings(), remote_is_local=True)
            hooks.gather_with(hooks.connection(transport), gather)
        await self._connection.setLocalDescription()
        answer = await signal(self._connection.localDescription.sdp)
        await self._connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        if self._visit.lose_uplink is not None:
            hooks.filter_sent(self._audio.receiver.transport, self._keep)
        return answer

    async def run(self) -> None:
        """Talk, watch and listen until the server is gone or the caller cancels."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._speak(), name="visitor-speak"),
                group.create_task(self._watch(), name="visitor-watch"),
                group.create_task(self._ask_again(), name="visitor-ask-again"),
                group.create_task(self._sound_in.run(), name="visitor-decode"),
                group.create_task(self._listen(), name="visitor-listen"),
            ]
            await self.gone.wait()
            for task in tasks:
                task.cancel()

    def tell(self, message: Mapping[str, object]) -> None:
        """Send on `control`; dropped while it is not open."""
        if self._control.readyState == "open":
            self._control.send(encode_message(message))

    def abandon(self) -> None:
        """Stop answering without a word, as a peer does whose machine loses power."""
        hooks.filter_sent(self._audio.receiver.transport, lambda _: False)
        hooks.deafen(hooks.connection(self._audio.receiver.transport.transport))

    async def close(self) -> None:
        self.gone.set()
        self._microphone.stop()
        self._sound_in.close()
        self.telemetry.close()
        await self._connection.close()
        self._executor.shutdown(wait=True)

    def _add_sound(self) -> RTCRtpTransceiver:
        audio: RTCRtpTransceiver
        if self._visit.microphone is not None:
            audio = self._connection.addTransceiver(self._microphone, "sendrecv")
        else:
            audio = self._connection.addTransceiver("audio", "recvonly")
        hooks.divert_rtp(audio.receiver, self._on_sound_packet)
        self._tap_reports(audio.receiver, "audio")
        return audio

    def _add_video(self) -> RTCRtpTransceiver:
        video: RTCRtpTransceiver = self._connection.addTransceiver("video", "recvonly")
        if self._visit.decodes:
            hooks.take_pictures_from(video.receiver, self._pictures)
            hooks.tap_rtp(video.receiver, partial(self._note_rtp, "video"))
        else:
            hooks.divert_rtp(video.receiver, partial(self._note_rtp, "video"))
        self._tap_reports(video.receiver, "video")
        if self._visit.codec is not None:
            capabilities = RTCRtpReceiver.getCapabilities("video")
            assert capabilities is not None
            names = (self._visit.codec.lower(), "rtx")
            video.setCodecPreferences([c for c in capabilities.codecs if c.name.lower() in names])
        return video

    def _tap_reports(self, receiver: RTCRtpReceiver, kind: str) -> None:
        on_report = self._visit.on_report
        if on_report is not None:
            hooks.tap_sender_reports(receiver, lambda ntp, rtp: on_report(ReportStamp(kind, ntp, rtp)))

    async def _speak(self) -> None:
        """Put the microphone's packets on the wire, one every 20 ms on a steady grid."""
        if not self._said:
            return
        packets, silence = self._said, self._said[-1]
        await self._microphone.started.wait()
        start_ns = self._clock.now_ns()
        number = 0
        while True:
            await self._clock.sleep_until(start_ns + (number + 1) * PACKET_NS)
            at = number % (len(packets) - SILENT_PACKETS) if self._visit.endless else number
            packet = av.Packet(packets[at] if at < len(packets) else silence)
            packet.pts = number * CHUNK_SAMPLES
            packet.time_base = SoundEncoder.TIME_BASE
            self._microphone.packets.put_nowait(packet)
            number += 1

    async def _watch(self) -> None:
        track: MediaStreamTrack | None = self._video.receiver.track if self._video is not None else None
        if track is None:
            return
        first_pts: int | None = None
        while True:
            try:
                frame = await track.recv()
            except MediaStreamError:
                return
            if not isinstance(frame, av.VideoFrame) or frame.pts is None:
                continue
            first_pts = frame.pts if first_pts is None else first_pts
            self.counts.pictures += 1
            if self._visit.on_picture is not None:
                planes: U8 = frame.to_ndarray(format="yuv420p").astype(np.uint8, copy=False)
                self._visit.on_picture(SeenPicture(planes, frame.pts - first_pts, self._clock.now_ns()))

    async def _ask_again(self) -> None:
        """Ask for what was lost until it is here."""
        while self._video is not None:
            await self._clock.sleep_until(self._clock.now_ns() + ASK_AGAIN_NS)
            missing = self._pictures.missing()
            if missing:
                await hooks.ask_again(self._video.receiver, self._pictures.ssrc, missing)

    async def _listen(self) -> None:
        while True:
            block = await self._sound_in.blocks.get()
            self.counts.sound_samples += len(block.pcm48)
            if self._visit.on_sound is not None:
                self._visit.on_sound(block)

    def _on_sound_packet(self, packet: hooks.RtpArrival) -> None:
        self._note_rtp("audio", packet)
        self._sound_in.take(packet)

    def _note_rtp(self, kind: str, packet: hooks.RtpArrival) -> None:
        if self._visit.on_rtp is not None:
            self._visit.on_rtp(RtpStamp(kind, packet.timestamp, self._clock.now_ns()))

    def _on_left(self, pts: int) -> None:
        stamp = SentStamp(pts, self._clock.now_ns())
        if not self._visit.endless:
            self.counts.sent.append(stamp)
        if self._visit.on_spoken is not None:
            self._visit.on_spoken(stamp)

    def _keep(self, datagram: bytes) -> bool:
        if hooks.is_media(datagram) and self._visit.lose_uplink is not None and self._visit.lose_uplink():
            self.counts.uplink_lost += 1
            return False
        return True

    def _on_state(self) -> None:
        state = self._connection.connectionState
        if state == "connected":
            self.ready.set()
        elif state in ("failed", "closed"):
            self.gone.set()

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label == "telemetry":
            channel.on("message", self._on_telemetry)

    def _on_telemetry(self, data: str | bytes) -> None:
        message = read_message(data)
        if message is not None:
            self.counts.events += 1
            self.telemetry.put_nowait(message)


def _encoded(microphone: S16) -> list[bytes]:
    """The sound as Opus packets of 20 ms, one of silence at the end."""
    frames = -(-len(microphone) // FRAME_SAMPLES) + 1
    sound = np.zeros(frames * FRAME_SAMPLES, np.int16)
    sound[: len(microphone)] = microphone
    encoder = SoundEncoder()
    return [
        bytes(packet)
        for index, piece in enumerate(sound.reshape(frames, FRAME_SAMPLES))
        for packet in encoder.encode(piece, index)
    ]


def over_http(session: aiohttp.ClientSession, url: str, headers: Mapping[str, Any] | None = None) -> Signal:
    """Signalling by `POST url` with the offer as application/sdp, as a WHIP client does."""

    async def signal(offer: str) -> str:
        async with session.post(
            url, data=offer, headers={"Content-Type": "application/sdp", **(headers or {})}
        ) as response:
            body = await response.text()
            if response.status != 201:
                raise SignalingError(body, response.status)
            return body

    return signal
