"""Offers of browsers, of strangers and of vandals: what the answer says, and that only SignalingError comes out."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest
from aioice import stun
from aiortc.sdp import SessionDescription

from streamer.clock import MonotonicClock
from streamer.errors import SignalingError
from streamer.rtc import negotiation
from streamer.rtc.peer import Peer
from streamer.rtc.settings import IceServer, IceSettings, PeerSettings

pytestmark = pytest.mark.loopback

OFFERS = {
    path.stem: path.read_text().replace("\n", "\r\n") for path in (Path(__file__).parent / "offers").glob("*.sdp")
}
BROWSERS = sorted(OFFERS)


def settings(**changes) -> PeerSettings:
    return PeerSettings(**{"size_px": (512, 512), "remote_is_local": True, **changes})


async def answered(codecs, offer: str, **changes) -> SessionDescription:
    peer = Peer(settings(**changes), MonotonicClock(), codecs)
    try:
        return SessionDescription.parse(await peer.answer(offer))
    finally:
        await peer.close()


def line(answer: SessionDescription, kind: str):
    return next(media for media in answer.media if media.kind == kind)


def only(offer: str, *codecs: str) -> str:
    """The offer with these video codecs alone, in this order, as setCodecPreferences leaves it."""
    head, video, rest = _split(offer)
    numbers = {}
    for row in video:
        if row.startswith("a=rtpmap:"):
            number, name = row[len("a=rtpmap:") :].split(" ")
            numbers.setdefault(name.split("/")[0], []).append(number)
    kept = [number for codec in codecs for number in numbers[codec]]
    fixed = " ".join(video[0].split(" ")[:3])
    rows = [row for row in video[1:] if not row.startswith(("a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"))]
    rows += [
        row
        for number in kept
        for row in video
        if row.startswith(tuple(f"a={k}:{number} " for k in ("rtpmap", "fmtp", "rtcp-fb")))
    ]
    return "\r\n".join([*head, f"{fixed} {' '.join(kept)}", *rows, *rest])


def _split(offer: str) -> tuple[list[str], list[str], list[str]]:
    rows = offer.split("\r\n")
    start = next(n for n, row in enumerate(rows) if row.startswith("m=video"))
    end = next((n for n, row in enumerate(rows) if n > start and row.startswith("m=")), len(rows))
    return rows[:start], rows[start:end], rows[end:]


@pytest.mark.parametrize("browser", BROWSERS)
async def test_browser_is_sent_what_it_wants_and_asked_for_its_microphone_only(codecs, browser):
    answer = await answered(codecs, OFFERS[browser])
    assert [media.kind for media in answer.media] == ["audio", "video", "application"]
    assert line(answer, "audio").direction == "sendrecv"
    assert line(answer, "video").direction == "sendonly"
    assert [codec.name for codec in line(answer, "audio").rtp.codecs] == ["opus"]
    assert line(answer, "video").rtp.codecs[0].name == "VP8"
    assert line(answer, "audio").msid.split()[0] == line(answer, "video").msid.split()[0]
    assert answer.group[0].items == ["0", "1", "2"]


@pytest.mark.parametrize("browser", BROWSERS)
@pytest.mark.parametrize(
    ("offered", "prefer", "sent"),
    [
        (("VP8",), (), "VP8"),
        (("H264",), (), "H264"),
        (("H264", "VP8"), (), "H264"),
        (("VP8", "H264"), (), "VP8"),
        (("VP8", "H264"), ("H264",), "H264"),
        (("VP8",), ("H264",), "VP8"),
        (("H264",), ("VP8",), "H264"),
        (("VP9", "VP8"), (), "VP8"),
    ],
)
async def test_video_codec_honours_the_offer_and_then_the_house(codecs, browser, offered, prefer, sent):
    peer = Peer(settings(prefer=prefer), MonotonicClock(), codecs)
    answer = SessionDescription.parse(await peer.answer(only(OFFERS[browser], *offered)))
    first = line(answer, "video").rtp.codecs[0]
    assert first.name == peer.stats.video_codec == sent
    if sent == "H264":
        assert first.parameters["profile-level-id"] == "42e01f"
        assert first.parameters["packetization-mode"] == "1"
    await peer.close()


async def test_picture_too_large_for_h264_goes_out_as_vp8(codecs):
    offer = only(OFFERS["chromium"], "H264", "VP8")
    assert line(await answered(codecs, offer, size_px=(1920, 1080)), "video").rtp.codecs[0].name == "VP8"
    with pytest.raises(SignalingError) as refused:
        await answered(codecs, only(offer, "H264"), size_px=(1920, 1080))
    assert refused.value.status == 406


@pytest.mark.parametrize(
    ("offered", "expected"), [("sendrecv", "sendonly"), ("sendonly", "inactive"), ("inactive", "inactive")]
)
async def test_camera_of_a_visitor_is_declined(codecs, offered, expected):
    offer = OFFERS["chromium"].replace("a=recvonly", f"a={offered}")
    assert line(await answered(codecs, offer), "video").direction == expected


async def test_second_line_of_a_kind_is_declined(codecs):
    head, video, rest = _split(OFFERS["chromium"])
    again = [row.replace("a=mid:1", "a=mid:9") for row in video]
    offer = "\r\n".join([*head, *video, *again, *rest]).replace("BUNDLE 0 1 2", "BUNDLE 0 1 9 2")
    answer = await answered(codecs, offer)
    assert [media.direction for media in answer.media[:3]] == ["sendrecv", "sendonly", "inactive"]


async def test_no_codec_in_common_is_406(codecs):
    with pytest.raises(SignalingError) as refused:
        await answered(codecs, only(OFFERS["chromium"], "VP9", "AV1"))
    assert refused.value.status == 406


async def test_remote_peer_is_not_offered_loopback(codecs):
    def hosts(answer):
        return {candidate.ip for candidate in answer.media[0].ice_candidates}

    assert "127.0.0.1" in hosts(await answered(codecs, OFFERS["chromium"]))
    assert "127.0.0.1" not in hosts(
        await answered(codecs, OFFERS["chromium"], remote_is_local=False, ice=IceSettings(announce=("203.0.113.7",)))
    )


async def test_announced_address_and_port_range_are_what_the_answer_says(codecs):
    ice = IceSettings(announce=("203.0.113.7",), udp_ports=(46000, 46020))
    answer = await answered(codecs, OFFERS["chromium"], remote_is_local=False, ice=ice)
    (candidate,) = answer.media[0].ice_candidates
    assert candidate.ip == "203.0.113.7"
    assert 46000 <= candidate.port <= 46020


async def test_full_port_range_is_503_and_leaves_nothing_open(codecs):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("0.0.0.0", 0))
        port = taken.getsockname()[1]
        ice = IceSettings(announce=("203.0.113.7",), udp_ports=(port, port))
        with pytest.raises(SignalingError) as refused:
            await answered(codecs, OFFERS["chromium"], remote_is_local=False, ice=ice)
        assert refused.value.status == 503


async def test_dead_stun_and_turn_servers_do_not_hold_up_the_answer(codecs):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        servers = (IceServer(f"stun:127.0.0.1:{port}"), IceServer(f"turn:127.0.0.1:{port}?transport=udp", "u", "p"))
        async with asyncio.timeout(2.5):  # aioice alone would take 5 s
            answer = await answered(codecs, OFFERS["chromium"], ice=IceSettings(ice_servers=servers))
    assert {candidate.type for candidate in answer.media[0].ice_candidates} == {"host"}


class StunServer(asyncio.DatagramProtocol):
    """Tells everybody that they are called 198.51.100.9."""

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        request = stun.parse_message(data)
        answer = stun.Message(stun.Method.BINDING, stun.Class.RESPONSE, request.transaction_id)
        answer.attributes["XOR-MAPPED-ADDRESS"] = ("198.51.100.9", addr[1])
        self.transport.sendto(bytes(answer), addr)


async def test_stun_server_that_answers_adds_the_outside_address(codecs):
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(StunServer, local_addr=("127.0.0.1", 0))
    server = IceServer(f"stun:127.0.0.1:{transport.get_extra_info('sockname')[1]}")
    ice = IceSettings(ice_servers=(server,), announce=("203.0.113.7",), gather_cap_ms=5000)
    answer = await answered(codecs, OFFERS["chromium"], remote_is_local=False, ice=ice)
    assert {(c.type, c.ip) for c in answer.media[0].ice_candidates} == {
        ("host", "203.0.113.7"),
        ("srflx", "198.51.100.9"),
    }
    transport.close()


async def test_second_offer_to_a_peer_is_refused(codecs):
    peer = Peer(settings(), MonotonicClock(), codecs)
    await peer.answer(OFFERS["chromium"])
    with pytest.raises(SignalingError) as refused:
        await peer.answer(OFFERS["chromium"])
    assert refused.value.status == 409


async def test_names_that_nobody_can_resolve_are_not_waited_for(codecs):
    peer = Peer(settings(), MonotonicClock(), codecs)
    async with asyncio.timeout(0.9):  # one unresolved name alone would take 1 s
        await peer.answer(OFFERS["chromium"])
        await peer.add_candidates("a=candidate:1 1 udp 1 0f3a.local 5000 typ host\r\n")
    (transport,) = negotiation.ice_transports(peer._connection)
    assert transport.getRemoteCandidates() == []
    await peer.close()


async def test_trickled_candidates_reach_ice_in_every_dialect(codecs):
    peer = Peer(settings(remote_is_local=False), MonotonicClock(), codecs)
    await peer.answer(OFFERS["chromium"])
    await peer.add_candidates(
        "a=ice-ufrag:" + peer._offer.ufrag + "\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n"
        "a=candidate:1 1 UDP 5 198.51.100.4 5000 typ srflx raddr 10.0.0.1 rport 9\r\n"
        "a=candidate:2 0 udp 4 [2001:db8::4] 5001 typ host\r\na=end-of-candidates\r\n"
    )
    await peer.add_candidates("a=end-of-candidates\r\n")
    await peer.add_candidates("a=candidate:3 1 udp 3 198.51.100.5 5002 typ host\r\n")
    (transport,) = negotiation.ice_transports(peer._connection)
    assert [c.ip for c in transport.getRemoteCandidates()] == ["198.51.100.4", "2001:db8::4", "198.51.100.5"]
    await peer.close()


async def test_trickle_is_bounded_and_refused_without_a_session(codecs):
    peer = Peer(settings(), MonotonicClock(), codecs)
    with pytest.raises(SignalingError) as refused:
        await peer.add_candidates("")
    assert refused.value.status == 409
    await peer.answer(OFFERS["chromium"])
    with pytest.raises(SignalingError, match="broken"):
        await peer.add_candidates("a=candidate:1 1 udp x 198.51.100.4 5000 typ host\r\n")
    many = "".join(f"a=candidate:1 1 udp 9 198.51.100.4 {port} typ host\r\n" for port in range(5000, 5050))
    await peer.add_candidates(many)
    with pytest.raises(SignalingError, match="more than"):
        await peer.add_candidates(many)
    await peer.close()
    with pytest.raises(SignalingError):
        await peer.add_candidates("")


@pytest.mark.parametrize("seed", range(4))
async def test_mutilated_offers_give_answers_or_refusals_and_leave_nothing(codecs, holdings, seed):
    dice = random.Random(seed)
    before, alive = holdings(), len(asyncio.all_tasks())
    for _ in range(40):
        peer = Peer(settings(remote_is_local=dice.random() < 0.5), MonotonicClock(), codecs)
        try:
            await peer.answer(mutilated(dice, OFFERS[dice.choice(BROWSERS)]))
        except SignalingError as refused:
            assert 400 <= refused.status < 500  # noqa: PT017 - both outcomes are right
            assert peer.ended is not None
        await peer.close()
    while len(asyncio.all_tasks()) > alive:
        await MonotonicClock().sleep_until(0)
    assert holdings() == before


def mutilated(dice: random.Random, offer: str) -> str:
    rows = offer.split("\r\n")
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(rows))
        match dice.randrange(6):
            case 0:
                del rows[at]
            case 1:
                rows.insert(dice.randrange(len(rows)), rows[at])
            case 2:
                rows[at] = rows[at][: dice.randrange(len(rows[at]) + 1)]
            case 3:
                words = rows[at].split(" ")
                words[dice.randrange(len(words))] = dice.choice(("", "-1", "99999999999", "abc", "::1", "1e9"))
                rows[at] = " ".join(words)
            case 4:
                spot = dice.randrange(len(rows[at]) + 1)
                rows[at] = rows[at][:spot] + chr(dice.randrange(32, 127)) + rows[at][spot + 1 :]
            case _:
                other = dice.randrange(len(rows))
                rows[at], rows[other] = rows[other], rows[at]
    return "\r\n".join(rows)
