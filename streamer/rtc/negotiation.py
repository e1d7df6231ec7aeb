"""Builds the answer to an offer: which lines send, which receive, with which codecs, on which sockets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpCodecCapability,
    RTCRtpSender,
    RTCRtpTransceiver,
    RTCSessionDescription,
)
from aiortc.rtcicetransport import RTCIceTransport
from aiortc.rtcrtpparameters import RTCRtpCodecParameters

from streamer.errors import SignalingError
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc import ice
from streamer.rtc.encoder import VideoCodec, fits_h264
from streamer.rtc.offer import MediaLine, Offer
from streamer.rtc.settings import VIDEO_CODECS, PeerSettings


@dataclass(frozen=True, slots=True)
class Lines:
    """The transceivers of the lines that carry our media; None where the offer has no such line."""

    audio: RTCRtpTransceiver | None
    video: RTCRtpTransceiver | None

    def present(self) -> list[RTCRtpTransceiver]:
        return [line for line in (self.audio, self.video) if line is not None]


def new_connection(settings: PeerSettings) -> RTCPeerConnection:
    return RTCPeerConnection(RTCConfiguration(iceServers=ice.to_rtc_servers(settings.ice.ice_servers)))


def prepare(
    connection: RTCPeerConnection,
    offer: Offer,
    settings: PeerSettings,
    tracks: dict[str, MediaStreamTrack],
) -> Lines:
    """Add a transceiver for each kind the offer has, with its codecs chosen. Raises SignalingError."""
    lines: dict[str, RTCRtpTransceiver | None] = {}
    for kind in ("audio", "video"):
        line = offer.first(kind)
        takes = settings.takes and kind == "audio"
        if line is None or not (settings.gives or takes):
            lines[kind] = None
            continue
        # Video is only sent: answering "sendonly" spares a peer the uplink for a camera that nobody would watch.
        direction = "sendrecv" if settings.gives and takes else "sendonly" if settings.gives else "recvonly"
        transceiver = connection.addTransceiver(tracks[kind] if settings.gives else kind, direction)
        transceiver.setCodecPreferences(_preferences(line, settings))
        lines[kind] = transceiver
    return Lines(lines["audio"], lines["video"])


def _preferences(line: MediaLine, settings: PeerSettings) -> list[RTCRtpCodecCapability]:
    if line.kind == "audio":
        wanted: tuple[str, ...] = ("OPUS",)
    else:
        known = VIDEO_CODECS if fits_h264(settings.size_px) else ("VP8",)
        order = (*settings.prefer, *line.codecs)
        wanted = tuple(dict.fromkeys(name for name in order if name in known))
    wanted = tuple(name for name in wanted if name in line.codecs)
    if not wanted:
        spoken = "Opus" if line.kind == "audio" else " and ".join(VIDEO_CODECS)
        raise SignalingError(f"the offer has no {line.kind} codec that this server speaks ({spoken})", 406)
    capabilities = RTCRtpSender.getCapabilities(line.kind).codecs
    # Constrained baseline before baseline: it is what our H.264 stream is.
    capabilities = sorted(capabilities, key=lambda c: str(c.parameters.get("profile-level-id", "")) == "42001f")
    chosen = [c for name in wanted for c in capabilities if c.name.upper() == name]
    return chosen + [c for c in capabilities if c.name.lower() == "rtx"]


async def settle(
    connection: RTCPeerConnection,
    offer: Offer,
    lines: Lines,
    settings: PeerSettings,
    on_check: Callable[[], None],
) -> str:
    """Apply the offer, gather, and return the answer. Raises whatever aiortc raises on a bad offer."""
    await connection.setRemoteDescription(RTCSessionDescription(offer.sdp, "offer"))
    for transceiver in connection.getTransceivers():
        if transceiver not in lines.present():
            transceiver.direction = "inactive"
    for transport in ice_transports(connection):
        agent = hooks.connection(transport)
        hooks.drop_stubs(agent)
        hooks.tap_checks(agent, on_check)
        gather = partial(ice.gather, settings=settings.ice, remote_is_local=settings.remote_is_local)
        hooks.gather_with(agent, gather)
    await connection.setLocalDescription()
    return str(connection.localDescription.sdp)


def ice_transports(connection: RTCPeerConnection) -> list[RTCIceTransport]:
    """The ICE transports in use: one, where everything is bundled."""
    bearers = [t.receiver.transport for t in connection.getTransceivers()]
    if connection.sctp is not None:
        bearers.append(connection.sctp.transport)
    return list(dict.fromkeys(bearer.transport for bearer in bearers if bearer is not None))


def video_codec(parameters: RTCRtpCodecParameters) -> VideoCodec:
    """What the answer says we send."""
    return VideoCodec(parameters.name.upper(), str(parameters.parameters.get("profile-level-id", "42e01f")))
