"""The one door to private names of aiortc and aioice. `check` says at start whether every one of them is there."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from aioice import Candidate, ice, stun
from aiortc import RTCIceGatherer, RTCRtpReceiver, RTCRtpSender, RTCRtpTransceiver, rtcrtpreceiver, rtp
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtcicetransport import RTCIceTransport
from aiortc.rtcrtpparameters import RTCRtpCodecParameters, RTCRtpReceiveParameters

MAX_SOURCES = 8
"""Reception reports are kept for so many sources of a peer; a browser has one a line."""

LEAST_BYTES = 8
"""The shortest datagram that means something: a bare RTCP packet."""

_STREAMS = "_RTCRtpReceiver__remote_streams"
_CODECS = "_RTCRtpReceiver__codecs"
_JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_MAPPER = "_RTCRtpReceiver__timestamp_mapper"
_DECODER = "_RTCRtpReceiver__decoder_thread"
_TO_DECODE = "_RTCRtpReceiver__decoder_queue"
_DEPACKETISED = "_data"
_PACKETS = "_RTCRtpSender__packet_count"
_OCTETS = "_RTCRtpSender__octet_count"
_LAST_TIMESTAMP = "_RTCRtpSender__rtp_timestamp"

METHODS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (RTCRtpReceiver, "_handle_rtp_packet", ("self", "packet", "arrival_time_ms")),
    (RTCRtpReceiver, "_handle_disconnect", ("self",)),
    (RTCRtpReceiver, "_handle_rtcp_packet", ("self", "packet")),
    (RTCRtpReceiver, "receive", ("self", "parameters")),
    (RTCRtpReceiver, "_send_rtcp_pli", ("self", "media_ssrc")),
    (RTCRtpReceiver, "_send_rtcp_nack", ("self", "media_ssrc", "lost")),
    (RTCRtpSender, "_handle_rtcp_packet", ("self", "packet")),
    (RTCRtpSender, "_send_rtcp", ("self", "packets")),
    (ice.Connection, "check_incoming", ("self", "message", "addr", "protocol")),
    (ice.Connection, "data_received", ("self", "data", "component")),
    (ice.Connection, "get_component_candidates", ("self", "component", "addresses", "timeout")),
    (ice.Connection, "request_received", ("self", "message", "addr", "protocol")),
    (ice.StunProtocol, "__init__", ("self", "receiver")),
    (ice.StunProtocol, "send_stun", ("self", "message", "addr")),
    (ice.StunProtocol, "request", ("self", "request", "addr", "integrity_key", "retransmissions")),
    (rtcrtpreceiver.StreamStatistics, "__init__", ("self", "clockrate")),
    (rtcrtpreceiver.StreamStatistics, "add", ("self", "packet")),
)
"""Methods replaced on single objects or called, with the parameters relied on."""

ATTRIBUTES: tuple[tuple[type, str], ...] = (
    (RTCRtpReceiver, _STREAMS),
    (RTCRtpReceiver, _CODECS),
    (RTCRtpReceiver, _JITTER_BUFFER),
    (RTCRtpReceiver, _MAPPER),
    (RTCRtpReceiver, _DECODER),
    (RTCRtpReceiver, _TO_DECODE),
    (RTCRtpSender, _PACKETS),
    (RTCRtpSender, _OCTETS),
    (RTCRtpSender, _LAST_TIMESTAMP),
    (RTCRtpSender, "_ssrc"),
    (RTCRtpTransceiver, "_codecs"),
    (RTCIceGatherer, "_connection"),
    (RTCIceTransport, "_recv"),
    (RTCIceTransport, "_send"),
    (ice.Connection, "_protocols"),
)
"""Attributes set in `__init__`, relied on by name."""

WORDS: tuple[tuple[type, str], ...] = ((RTCRtpReceiver, f"packet.{_DEPACKETISED} = depayload("),)
"""Attributes set elsewhere: the words that set them."""


@dataclass(frozen=True, slots=True)
class RtpArrival:
    """An authenticated RTP packet of the peer."""

    sequence_number: int
    timestamp: int
    ssrc: int
    payload: bytes
    marker: bool = False
    """The last packet of a picture."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """One RTCP message of the peer about what we send."""

    picture_lost: bool = False
    bitrate_bps: int | None = None
    report: rtp.RtcpReceiverInfo | None = None


def check() -> None:
    """Raise RuntimeError naming the first private name that is not what this file relies on."""
    for owner, name, parameters in METHODS:
        method = getattr(owner, name, None)
        if method is None or tuple(inspect.signature(method).parameters) != parameters:
            raise RuntimeError(f"{owner.__module__}.{owner.__name__}.{name}({', '.join(parameters)}) is not there")
    for owner, name in ATTRIBUTES:
        if f"self.{_unmangled(owner, name)}" not in inspect.getsource(owner):
            raise RuntimeError(f"{owner.__module__}.{owner.__name__}.{name} is not there")
    for owner, words in WORDS:
        if words not in inspect.getsource(owner):
            raise RuntimeError(f"{owner.__module__}.{owner.__name__} does not say {words!r}")


def _unmangled(owner: type, name: str) -> str:
    return name.removeprefix(f"_{owner.__name__}")


def divert_rtp(receiver: RTCRtpReceiver, sink: Callable[[RtpArrival], None]) -> None:
    """Hand a receiver's packets to `sink` on the loop, before aiortc's jitter buffer.

    The receiver's decoder thread is ended as soon as it starts. Reception reports go on as before, so the peer still
    learns of loss and jitter.
    """
    receive = receiver.receive
    streams: dict[int, rtcrtpreceiver.StreamStatistics] = getattr(receiver, _STREAMS)
    codecs: dict[int, RTCRtpCodecParameters] = getattr(receiver, _CODECS)

    async def receive_undecoded(parameters: RTCRtpReceiveParameters) -> None:
        await receive(parameters)
        receiver._handle_disconnect()

    async def handle(packet: rtp.RtpPacket, arrival_time_ms: int) -> None:
        codec = codecs.get(packet.payload_type)
        if codec is None:
            return
        statistics = streams.get(packet.ssrc)
        if statistics is None and len(streams) < MAX_SOURCES:
            statistics = streams[packet.ssrc] = rtcrtpreceiver.StreamStatistics(codec.clockRate)
        if statistics is not None:
            statistics.add(packet)
        sink(_arrival(packet))

    _replace(receiver, "receive", receive_undecoded)
    _replace(receiver, "_handle_rtp_packet", handle)


def _arrival(packet: rtp.RtpPacket) -> RtpArrival:
    return RtpArrival(packet.sequence_number, packet.timestamp, packet.ssrc, packet.payload, bool(packet.marker))


def tap_rtp(receiver: RTCRtpReceiver, on_packet: Callable[[RtpArrival], None]) -> None:
    """See a receiver's packets pass; aiortc goes on decoding them."""
    original = receiver._handle_rtp_packet

    async def handle(packet: rtp.RtpPacket, arrival_time_ms: int) -> None:
        on_packet(_arrival(packet))
        await original(packet, arrival_time_ms)

    _replace(receiver, "_handle_rtp_packet", handle)


class Pictures(Protocol):
    """Stands in for aiortc's jitter buffer of a video receiver."""

    @property
    def ssrc(self) -> int:
        """The stream's."""

    def add(self, packet: rtp.RtpPacket) -> tuple[bool, JitterFrame | None]:
        """Whether the peer must be asked for a keyframe, and a picture or None."""

    def whole(self) -> tuple[int, JitterFrame] | None:
        """The next picture that is whole, with its payload type."""


def take_pictures_from(receiver: RTCRtpReceiver, pictures: Pictures) -> None:
    """Let a video receiver decode each picture as soon as `pictures` has it whole."""
    setattr(receiver, _JITTER_BUFFER, pictures)
    original = receiver._handle_rtp_packet

    async def handle(packet: rtp.RtpPacket, arrival_time_ms: int) -> None:
        await original(packet, arrival_time_ms)
        while (found := pictures.whole()) is not None:
            payload_type, picture = found
            picture.timestamp = getattr(receiver, _MAPPER).map(picture.timestamp)
            if getattr(receiver, _DECODER) is not None:
                getattr(receiver, _TO_DECODE).put((getattr(receiver, _CODECS)[payload_type], picture))

    _replace(receiver, "_handle_rtp_packet", handle)


async def ask_again(receiver: RTCRtpReceiver, ssrc: int, missing: list[int]) -> None:
    """Tell the peer which packets of its stream are still missing."""
    await receiver._send_rtcp_nack(ssrc, missing)


def tap_sender_reports(receiver: RTCRtpReceiver, on_report: Callable[[int, int], None]) -> None:
    """See the peer's (NTP, RTP) pairs about a stream it sends."""
    original = receiver._handle_rtcp_packet

    async def handle(packet: rtp.AnyRtcpPacket) -> None:
        if isinstance(packet, rtp.RtcpSrPacket):
            on_report(packet.sender_info.ntp_timestamp, packet.sender_info.rtp_timestamp)
        await original(packet)

    _replace(receiver, "_handle_rtcp_packet", handle)


def tap_rtcp(
    sender: RTCRtpSender, on_feedback: Callable[[Feedback], None], resend: Callable[[list[int]], list[int]]
) -> None:
    """Read the peer's RTCP about a sender. aiortc sends again what `resend` lets through of the lost packets."""
    original = sender._handle_rtcp_packet

    async def handle(packet: rtp.AnyRtcpPacket) -> None:
        match packet:
            case rtp.RtcpRrPacket() | rtp.RtcpSrPacket():
                for report in packet.reports:
                    if report.ssrc == sender._ssrc:
                        on_feedback(Feedback(report=report))
            case rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_PLI | rtp.RTCP_PSFB_FIR):
                on_feedback(Feedback(picture_lost=True))
            case rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_APP):
                bitrate_bps = _estimate(packet.fci, sender._ssrc)
                if bitrate_bps is not None:
                    on_feedback(Feedback(bitrate_bps=bitrate_bps))
            case rtp.RtcpRtpfbPacket(fmt=rtp.RTCP_RTPFB_NACK):
                packet.lost = resend(packet.lost)
                await original(packet)
            case _:
                pass

    _replace(sender, "_handle_rtcp_packet", handle)


def _estimate(fci: bytes, ssrc: int) -> int | None:
    try:
        bitrate_bps, sources = rtp.unpack_remb_fci(fci)
    except (ValueError, IndexError, struct.error):
        return None
    return bitrate_bps if ssrc in sources else None


def anchor_reports(sender: RTCRtpSender, report: Callable[[], tuple[int, int] | None]) -> None:
    """Let `report` say the (NTP, RTP) pair of each sender report; None leaves aiortc's pair, the time of sending."""
    original = sender._send_rtcp

    async def send(packets: list[rtp.AnyRtcpPacket]) -> None:
        for packet in packets:
            if isinstance(packet, rtp.RtcpSrPacket):
                pair = report()
                if pair is not None:
                    packet.sender_info.ntp_timestamp, packet.sender_info.rtp_timestamp = pair
        await original(packets)

    _replace(sender, "_send_rtcp", send)


def sent(sender: RTCRtpSender) -> tuple[int, int]:
    """(packets, payload bytes) a sender has sent."""
    return getattr(sender, _PACKETS), getattr(sender, _OCTETS)


def last_timestamp(sender: RTCRtpSender) -> int:
    """RTP timestamp of the packet sent last."""
    timestamp: int = getattr(sender, _LAST_TIMESTAMP)
    return timestamp


def negotiated(transceiver: RTCRtpTransceiver) -> RTCRtpCodecParameters:
    """The codec a transceiver sends with: the first of the answer."""
    return transceiver._codecs[0]


def connection(transport: RTCIceTransport) -> ice.Connection:
    """The ICE agent under a transport."""
    return transport.iceGatherer._connection


def tap_checks(agent: ice.Connection, on_alive: Callable[[], None]) -> None:
    """Call `on_alive` for every authenticated connectivity or consent check of the peer."""
    original = agent.check_incoming

    def check_incoming(message: stun.Message, addr: tuple[str, int], protocol: ice.StunProtocol) -> None:
        on_alive()
        original(message, addr, protocol)

    _replace(agent, "check_incoming", check_incoming)


def drop_stubs(agent: ice.Connection) -> None:
    """Let datagrams too short for any protocol end here: an empty one, from anybody, would end aiortc's DTLS loop."""
    original = agent.data_received

    def data_received(data: bytes, component: int) -> None:
        if len(data) >= LEAST_BYTES:
            original(data, component)

    _replace(agent, "data_received", data_received)


def gather_with(agent: ice.Connection, gather: Callable[[ice.Connection], Awaitable[list[Candidate]]]) -> None:
    """Let `gather` find the agent's local candidates in place of aioice."""

    async def get_component_candidates(component: int, addresses: list[str]) -> list[Candidate]:
        return await gather(agent)

    _replace(agent, "get_component_candidates", get_component_candidates)


def adopt(agent: ice.Connection, protocol: ice.StunProtocol) -> None:
    """Give an agent a bound socket: it sends checks from it and closes it."""
    agent._protocols.append(protocol)


def filter_sent(transport: RTCDtlsTransport, keep: Callable[[bytes], bool]) -> None:
    """Lose the datagrams of a transport that `keep` refuses: a bad network for tests and load clients."""
    original = transport.transport._send

    async def send(data: bytes) -> None:
        if keep(data):
            await original(data)

    _replace(transport.transport, "_send", send)


def skim(transport: RTCDtlsTransport, on_header: Callable[[int, int, bool], None]) -> None:
    """Read no more than the headers of what comes: (ssrc, sequence number, marker), which SRTP leaves in the clear.

    For load clients: fifty of them fit where one that decrypts would.
    """
    original = transport.transport._recv

    async def receive() -> bytes:
        while is_media(data := await original()):
            if len(data) >= 12:
                on_header(int.from_bytes(data[8:12], "big"), int.from_bytes(data[2:4], "big"), bool(data[1] & 0x80))
        return data

    _replace(transport.transport, "_recv", receive)


def is_media(datagram: bytes) -> bool:
    """Whether a datagram is RTP, not RTCP, DTLS or STUN."""
    return len(datagram) > 1 and 127 < datagram[0] < 192 and not rtp.is_rtcp(datagram)


async def ask_for_keyframe(receiver: RTCRtpReceiver) -> None:
    """Tell the peer that the picture it sends is lost."""
    for ssrc in tuple(getattr(receiver, _STREAMS)):
        await receiver._send_rtcp_pli(ssrc)


def freeze(agent: ice.Connection) -> None:
    """Let an agent read its sockets no more and send no checks: its machine stands still."""
    deafen(agent)
    for protocol in agent._protocols:
        pause = getattr(protocol.transport, "pause_reading", None)
        if pause is not None:
            pause()


def deafen(agent: ice.Connection) -> None:
    """Let an agent answer no more checks and send none: to its peer it is dead."""

    def ignore(message: stun.Message, addr: tuple[str, int], *_: object) -> None:
        return

    _replace(agent, "request_received", ignore)
    for protocol in agent._protocols:
        _replace(protocol, "send_stun", ignore)


def _replace(owner: Any, name: str, method: Callable[..., Any]) -> None:
    setattr(owner, name, method)
