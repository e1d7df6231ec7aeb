"""One WebRTC peer: offer and answer, sound in, pictures out, two data channels. The only class the server talks to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiortc import RTCPeerConnection
from aiortc.sdp import candidate_from_sdp

from streamer.channel import Channel
from streamer.clock import NS_PER_S, Clock
from streamer.errors import SignalingError
from streamer.media import Picture, SoundBlock
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc import ice, negotiation
from streamer.rtc.control import DataChannels, Message
from streamer.rtc.encoder import fits_h264
from streamer.rtc.link import Link, SenderFeedback
from streamer.rtc.offer import MAX_CANDIDATES, Offer, read_offer
from streamer.rtc.outbound import Outbound
from streamer.rtc.sending import SendingHalf
from streamer.rtc.settings import PeerSettings, PeerStats
from streamer.rtc.sound_in import SoundIn
from streamer.rtc.threads import CodecThreads

logger = logging.getLogger(__name__)


class Peer:
    """Use: `answer` once, then `run` until it returns; `close` always. All calls on one event loop."""

    def __init__(
        self, settings: PeerSettings, clock: Clock, codecs: CodecThreads, sending: SendingHalf | None = None
    ) -> None:
        """`sending` replaces encoders of the peer's own, for example by the packets of a feed."""
        self._settings = settings
        self._clock = clock
        self._link = Link(clock)
        self._outbound: SendingHalf = sending if sending is not None else Outbound(settings.size_px, clock, codecs)
        self._sound_in = SoundIn(clock, codecs.sound, self._on_abuse)
        self._data = DataChannels(self._link.note_alive, self._on_abuse)
        self._connection: RTCPeerConnection | None = None
        self._lines = negotiation.Lines(None, None)
        self._offer: Offer | None = None
        self._candidates = 0
        self._closing = asyncio.Lock()

    @property
    def inbound(self) -> Channel[SoundBlock]:
        """The peer's sound: ordered, gaps filled, mono 48 kHz. Not read in time, the oldest blocks are dropped."""
        return self._sound_in.blocks

    @property
    def control(self) -> Channel[Message]:
        """JSON objects from the browser's `control` channel; pings are answered inside."""
        return self._data.control

    @property
    def on_sent(self) -> Callable[[Picture], None] | None:
        """Called on the loop when the last packet of a picture's video has left; must only deposit."""
        return self._outbound.on_sent

    @on_sent.setter
    def on_sent(self, callback: Callable[[Picture], None] | None) -> None:
        self._outbound.on_sent = callback

    @property
    def ended(self) -> str | None:
        """Why the peer is gone, in one word for logs and metrics; None while it is not."""
        return self._link.ended

    async def answer(self, offer_sdp: str) -> str:
        """Answer an SDP offer, once. Raises SignalingError, after which the peer is closed."""
        try:
            if self._offer is not None or self._link.ended is not None:
                raise SignalingError("this session has been answered already; make a new one", 409)
            offer = self._offer = read_offer(offer_sdp, remote_is_local=self._settings.remote_is_local)
            self._candidates = offer.candidates
            return await self._negotiate(offer)
        except SignalingError:
            await self.close()
            raise
        except Exception as error:  # one of the five borders: a bad offer raises nearly anything in aiortc
            await self.close()
            logger.info("offer_refused", extra={"reason": type(error).__name__})
            raise SignalingError("the offer cannot be understood") from error

    def check_size(self, size_px: tuple[int, int]) -> None:
        """Raise SignalingError (409) if pictures of this size do not fit the codec that was agreed on."""
        codec = self._outbound.codec
        if codec is not None and codec.name == "H264" and not fits_h264(size_px):
            raise SignalingError(f"{size_px[0]} x {size_px[1]} is too large for this session's H.264", 409)

    async def add_candidates(self, fragment: str) -> None:
        """Take a trickle ICE fragment (RFC 8840). Raises SignalingError; what ICE cannot use is dropped."""
        if self._offer is None or self._connection is None:
            raise SignalingError("there is nothing to add candidates to", 409)
        local = self._settings.remote_is_local
        values = ice.read_fragment(fragment, self._offer.ufrag, remote_is_local=local)
        self._candidates += len(values)
        if self._candidates > MAX_CANDIDATES:
            raise SignalingError(f"the session has more than {MAX_CANDIDATES} candidates")
        for value in values:
            try:
                candidate = candidate_from_sdp(value)
            except ValueError:
                raise SignalingError("the fragment has a broken candidate") from None
            candidate.ip, candidate.component = candidate.ip.strip("[]"), 1
            for transport in negotiation.ice_transports(self._connection):
                await transport.addRemoteCandidate(candidate)

    async def connected(self, timeout_ns: int = 15 * NS_PER_S) -> None:
        """Return once media can flow. Raises SignalingError (408) if that takes too long or fails."""
        await self._link.wait_connected(timeout_ns)

    def show(self, picture: Picture) -> None:
        """Send a picture and its sound. Never blocks; a picture that is late or overtaken is dropped and counted."""
        self._outbound.show(picture)

    def send_event(self, message: Mapping[str, object]) -> None:
        """Send on the `telemetry` channel; dropped while it is not open or holds more than 256 KB."""
        self._data.send_event(message)

    async def run(self) -> None:
        """Encode, decode and watch until the peer is gone (see `ended`)."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._outbound.run(), name="outbound"),
                group.create_task(self._sound_in.run(), name="inbound"),
                group.create_task(self._link.watch(), name="liveness"),
            ]
            await self._link.gone.wait()
            for task in tasks:
                task.cancel()

    async def until_gone(self) -> None:
        """Return once the peer has left or was hung up on."""
        await self._link.gone.wait()

    def hang_up(self) -> None:
        """End `run`; the owner then calls `close`."""
        self._link.end("hung_up")

    async def close(self) -> None:
        """Free sockets, tasks and threads. Idempotent; returns when all is gone."""
        self._link.end("closed")
        async with self._closing:
            connection, self._connection = self._connection, None
            self._outbound.stop()
            self._sound_in.close()
            self._data.close()
            if connection is None:
                return
            transports = negotiation.ice_transports(connection)
            try:
                await connection.close()
            except Exception:  # noqa: BLE001 - the same border: aiortc's close stumbles over half-applied offers; the sockets must go all the same
                logger.info("close_stumbled")
                for transport in transports:
                    await transport.stop()

    @property
    def stats(self) -> PeerStats:
        """A reading of now."""
        senders = [line.sender for line in self._lines.present()]
        sent = [hooks.sent(sender) for sender in senders]
        outbound = self._outbound
        return PeerStats(
            video_codec=outbound.codec.name if outbound.codec else "",
            connected=self._link.connected,
            ended=self._link.ended,
            packets_sent=sum(packets for packets, _ in sent),
            bytes_sent=sum(octets for _, octets in sent),
            video_bytes=outbound.video.bytes_handed,
            audio_bytes=outbound.audio.bytes_handed,
            target_bitrate_bps=outbound.steering.bitrate.target_bps if outbound.codec else 0,
            rtt_ms=self._link.rtt_ms,
            outbound_loss=self._link.loss,
            keyframe_requests=outbound.steering.keyframes.requests,
            encoder_rebuilds=outbound.rebuilds,
            events_dropped=self._data.events_dropped,
            inbound=self._sound_in.stats,
            **outbound.counts,
        )

    async def _negotiate(self, offer: Offer) -> str:
        connection = self._connection = negotiation.new_connection(self._settings)
        connection.on("connectionstatechange", self._on_state)
        tracks = {"audio": self._outbound.audio, "video": self._outbound.video}
        lines = self._lines = negotiation.prepare(connection, offer, self._settings, dict(tracks))
        self._outbound.both = len(lines.present()) == 2
        for line in lines.present():
            steering = self._outbound.steering if line is lines.video else None
            reports = self._outbound.anchored(line.sender)
            feedback = SenderFeedback(self._link, reports, self._clock, steering)
            hooks.tap_rtcp(line.sender, feedback.heard, feedback.resend)
        if lines.audio is not None:
            hooks.divert_rtp(lines.audio.receiver, self._on_packet)
        if offer.first("application") is not None:
            self._data.attach(connection)
        sdp = await negotiation.settle(connection, offer, lines, self._settings, self._link.note_alive)
        if lines.video is not None:
            self._outbound.codec = negotiation.video_codec(hooks.negotiated(lines.video))
        return sdp

    def _on_packet(self, packet: hooks.RtpArrival) -> None:
        self._link.note_alive()
        self._sound_in.take(packet)

    def _on_state(self) -> None:
        self._link.note_state(self._connection.connectionState if self._connection is not None else "closed")

    def _on_abuse(self) -> None:
        self._link.end("misbehaving")
