"""Every private name of aiortc and aioice that we rely on, pinned by what it must do; and nobody else touches one."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import numpy as np
import pytest
from aioice import Candidate, ice, stun
from aiortc import RTCConfiguration, RTCPeerConnection, rtp
from aiortc.codecs import get_encoder
from aiortc.rtcrtpparameters import RTCRtpCodecParameters, RTCRtpReceiveParameters
from aiortc.rtcrtpreceiver import RemoteStreamTrack

from streamer.clock import MonotonicClock
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc.encoder import VideoCodec, VideoEncoder
from streamer.rtc.tracks import PacketTrack
from streamer.soak.picture_buffer import PictureBuffer

pytestmark = pytest.mark.contract

STREAMER = Path(hooks.__file__).parents[1]
VP8 = RTCRtpCodecParameters(mimeType="video/VP8", clockRate=90_000, payloadType=96)
OPUS = RTCRtpCodecParameters(mimeType="audio/opus", clockRate=48_000, channels=2, payloadType=96)
BORROWED = ("aiortc", "aioice")


@pytest.fixture
async def connection():
    made = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    yield made
    await made.close()


def soon(function):
    """The same function, to be awaited."""

    async def call(argument):
        return function(argument)

    return call


def audio_line(connection):
    return connection.addTransceiver(PacketTrack("audio", 4), "sendrecv")


def test_every_private_name_is_there():
    hooks.check()


def test_a_missing_name_is_named(monkeypatch):
    monkeypatch.setattr(hooks, "ATTRIBUTES", (*hooks.ATTRIBUTES, (ice.Connection, "_gone_tomorrow")))
    with pytest.raises(RuntimeError, match="_gone_tomorrow"):
        hooks.check()


def test_a_changed_signature_is_named(monkeypatch):
    monkeypatch.setattr(hooks, "METHODS", ((ice.Connection, "check_incoming", ("self", "other")),))
    with pytest.raises(RuntimeError, match="check_incoming"):
        hooks.check()


@pytest.mark.parametrize("owner_and_name", hooks.ATTRIBUTES, ids=lambda pair: f"{pair[0].__name__}.{pair[1]}")
async def test_attribute_is_set_on_a_living_object(connection, owner_and_name):
    owner, name = owner_and_name
    line = audio_line(connection)
    transport = line.receiver.transport.transport
    living = [line, line.sender, line.receiver, transport, transport.iceGatherer, hooks.connection(transport)]
    (found,) = [thing for thing in living if type(thing) is owner]
    assert hasattr(found, name)


async def test_a_picture_is_decoded_at_its_marker_and_not_at_the_next_picture(connection):
    receiver = connection.addTransceiver("video", "recvonly").receiver
    hooks.take_pictures_from(receiver, PictureBuffer(MonotonicClock()))
    receiver._track = track = RemoteStreamTrack("video")
    await receiver.receive(RTCRtpReceiveParameters(codecs=[VP8]))
    planes = np.random.default_rng(0).integers(0, 255, (96 * 3 // 2, 96), np.uint8)
    picture = VideoEncoder().encode(VideoCodec("VP8"), planes, 0, 2_000_000, keyframe=True).packet
    payloads, _ = get_encoder(VP8).pack(picture)
    assert len(payloads) > 1
    packets = [
        rtp.RtpPacket(payload_type=96, sequence_number=(0xFFFF + i) & 0xFFFF, timestamp=9000, ssrc=5, payload=payload)
        for i, payload in enumerate(payloads)
    ]
    packets[-1].marker = 1
    for packet in [*packets[:1], *reversed(packets[1:])]:
        assert track._queue.empty()
        await receiver._handle_rtp_packet(packet, arrival_time_ms=0)
    frame = await track.recv()
    assert (frame.width, frame.height) == (96, 96)
    await receiver.stop()


async def test_diverted_packets_reach_the_sink_and_no_thread_decodes_them(connection):
    line, taken = audio_line(connection), []
    hooks.divert_rtp(line.receiver, taken.append)
    line.receiver._track = RemoteStreamTrack("audio")
    await line.receiver.receive(RTCRtpReceiveParameters(codecs=[OPUS]))
    assert line.receiver._RTCRtpReceiver__decoder_thread is None
    router = line.receiver.transport._rtp_router
    for seq in (10, 12):
        packet = rtp.RtpPacket(payload_type=96, sequence_number=seq, timestamp=seq * 960, ssrc=5, payload=b"\xf8ab")
        await router.route_rtp(packet)._handle_rtp_packet(packet, arrival_time_ms=0)
    assert [(p.sequence_number, p.timestamp, p.ssrc, p.payload) for p in taken] == [
        (10, 9600, 5, b"\xf8ab"),
        (12, 11520, 5, b"\xf8ab"),
    ]
    (stats,) = [s for s in (await line.receiver.getStats()).values() if s.type == "inbound-rtp"]
    assert (stats.packetsReceived, stats.packetsLost) == (2, 1)
    await line.receiver.stop()


async def test_a_peer_that_invents_sources_fills_no_table(connection):
    line, taken = audio_line(connection), []
    hooks.divert_rtp(line.receiver, taken.append)
    line.receiver._RTCRtpReceiver__codecs[96] = OPUS
    for ssrc in range(100):
        packet = rtp.RtpPacket(payload_type=96, ssrc=ssrc, payload=b"\xf8")
        await line.receiver._handle_rtp_packet(packet, arrival_time_ms=0)
    assert len(taken) == 100
    assert len(line.receiver._RTCRtpReceiver__remote_streams) == hooks.MAX_SOURCES


async def test_feedback_of_the_peer_is_read_and_only_allowed_packets_are_sent_again(connection):
    sender, heard, resent = audio_line(connection).sender, [], []
    sender._retransmit = soon(resent.append)
    hooks.tap_rtcp(sender, heard.append, lambda lost: lost[:1])
    info = rtp.RtcpReceiverInfo(sender._ssrc, 51, 3, 9, 1, 7, 8)
    other = rtp.RtcpReceiverInfo(sender._ssrc ^ 1, 0, 0, 0, 0, 0, 0)
    lost = rtp.RtcpRtpfbPacket(fmt=rtp.RTCP_RTPFB_NACK, ssrc=1, media_ssrc=sender._ssrc, lost=[4, 5])
    estimate = rtp.pack_remb_fci(700_000, [sender._ssrc])
    for packet in (
        rtp.RtcpRrPacket(ssrc=1, reports=[info, other]),
        rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_PLI, ssrc=1, media_ssrc=sender._ssrc),
        rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_FIR, ssrc=1, media_ssrc=sender._ssrc),
        rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=estimate),
        rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=b"REMB\x09\x00\x00\x00"),
        lost,
    ):
        await sender._handle_rtcp_packet(packet)
    assert [f.report.fraction_lost for f in heard if f.report] == [51]
    assert sum(f.picture_lost for f in heard) == 2
    assert [f.bitrate_bps for f in heard if f.bitrate_bps] == [700_000 >> 2 << 2]
    assert resent == [4]


async def test_sender_reports_say_what_the_hook_says(connection):
    sender, wire = audio_line(connection).sender, []
    sender.transport._send_rtp = soon(wire.append)
    pairs = iter([(11 << 32, 77), None])
    hooks.anchor_reports(sender, lambda: next(pairs))
    for _ in range(2):
        report = rtp.RtcpSrPacket(ssrc=sender._ssrc, sender_info=rtp.RtcpSenderInfo(5, 6, 0, 0))
        await sender._send_rtcp([report])
    said = [rtp.RtcpPacket.parse(data)[0].sender_info for data in wire]
    assert [(info.ntp_timestamp, info.rtp_timestamp) for info in said] == [(11 << 32, 77), (5, 6)]


async def test_sent_counts_and_last_timestamp_start_at_nothing(connection):
    sender = audio_line(connection).sender
    assert hooks.sent(sender) == (0, 0)
    assert hooks.last_timestamp(sender) == 0


async def test_candidates_come_from_our_own_gathering(connection):
    line = audio_line(connection)
    agent = hooks.connection(line.receiver.transport.transport)
    candidate = Candidate("f", 1, "udp", 1, "192.0.2.77", 4000, "host")
    hooks.gather_with(agent, soon(lambda _: [candidate]))
    await connection.setLocalDescription()
    assert "192.0.2.77 4000 typ host" in connection.localDescription.sdp
    assert line.receiver.transport.transport.iceGatherer.state == "completed"


async def test_adopted_sockets_are_closed_with_the_agent(connection):
    agent = hooks.connection(audio_line(connection).receiver.transport.transport)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: ice.StunProtocol(agent), local_addr=("127.0.0.1", 0)
    )
    hooks.adopt(agent, protocol)
    await agent.close()
    assert transport.is_closing()


async def test_empty_datagrams_end_before_the_dtls_loop_and_others_reach_it(connection):
    agent = hooks.connection(audio_line(connection).receiver.transport.transport)
    passed = []
    agent.data_received = lambda data, component: passed.append(data)
    hooks.drop_stubs(agent)
    for data in (b"", b"\x80", bytes(7), bytes(8), bytes(1200)):
        agent.data_received(data, 1)
    assert passed == [bytes(8), bytes(1200)]


async def test_authenticated_checks_are_seen_and_still_answered(connection):
    agent = hooks.connection(audio_line(connection).receiver.transport.transport)
    seen, passed = [], []
    agent.check_incoming = lambda *call: passed.append(call)
    hooks.tap_checks(agent, lambda: seen.append(1))
    agent._early_checks_done = True
    sent = []
    protocol = type("P", (), {"send_stun": lambda self, message, addr: sent.append(message)})()

    def request(password: str) -> stun.Message:
        message = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
        message.attributes["USERNAME"] = f"{agent.local_username}:peer"
        message.attributes["ICE-CONTROLLING"] = 1
        message.add_message_integrity(password.encode())
        return stun.parse_message(bytes(message))

    agent.request_received(request("wrong-password-of-22-chars"), ("192.0.2.1", 5), protocol)
    assert (len(seen), len(passed)) == (0, 0)
    agent.request_received(request(agent.local_password), ("192.0.2.1", 5), protocol)
    assert (len(seen), len(passed)) == (1, 1)
    assert len(sent) == 2


async def test_the_codec_that_is_sent_is_the_first_of_the_line(connection):
    line = audio_line(connection)
    line._codecs = [OPUS]
    assert hooks.negotiated(line) is OPUS
    assert get_encoder(OPUS)


def test_only_the_hooks_touch_private_names_of_aiortc():
    """No other file of the package reads `x._name` off anything but itself, in files that know aiortc or aioice."""
    offences = []
    for path in sorted(STREAMER.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name == "aiortc_hooks.py" or not _knows_aiortc(tree):
            continue
        for node in ast.walk(tree):
            private = isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__")
            if private and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                offences.append(f"{path.relative_to(STREAMER)}:{node.lineno} .{node.attr}")
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_RTC"):
                offences.append(f"{path.relative_to(STREAMER)}:{node.lineno} {node.value}")
    assert offences == []


def _knows_aiortc(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if any(name.split(".")[0] in BORROWED or name.startswith("streamer.rtc") for name in names):
            return True
    return False
