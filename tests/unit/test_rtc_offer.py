"""Offers and trickle fragments at the border: bounds first, then what ICE may hear of."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SignalingError
from streamer.rtc.ice import Bind, plan_binds, read_fragment
from streamer.rtc.offer import read_offer, usable_candidate

pytestmark = pytest.mark.unit

HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\n"
SECRETS = "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 AA:BB\r\na=setup:actpass\r\n"
AUDIO = (
    "m=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=sendrecv\r\na=rtcp-mux\r\n"
    f"a=rtpmap:111 opus/48000/2\r\na=rtpmap:0 PCMU/8000\r\n{SECRETS}"
)
VIDEO = (
    "m=video 9 UDP/TLS/RTP/SAVPF 102 96\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\na=recvonly\r\na=rtcp-mux\r\n"
    f"a=rtpmap:96 VP8/90000\r\na=rtpmap:102 H264/90000\r\n{SECRETS}"
)
HOST = "1 1 udp 2122260223 192.168.1.7 50000 typ host"


def offer(*lines: str) -> str:
    return HEAD + AUDIO + "".join(f"{line}\r\n" for line in lines) + VIDEO


def test_offer_says_what_it_wants_in_its_own_order():
    read = read_offer(offer(), remote_is_local=False)
    audio, video = read.lines
    assert (audio.kind, audio.codecs, audio.gives, audio.wants) == ("audio", ("OPUS", "PCMU"), True, True)
    assert (video.mid, video.codecs, video.gives, video.wants) == ("1", ("H264", "VP8"), False, True)
    assert read.first("application") is None
    assert read.ufrag == "abcd"


def test_names_and_ends_are_stripped_and_the_rest_of_the_text_is_untouched():
    name = HOST.replace("192.168.1.7", "0f3a.local")
    read = read_offer(offer(f"a=candidate:{HOST}", f"a=candidate:{name}", "a=end-of-candidates"), remote_is_local=False)
    assert read.sdp == offer(f"a=candidate:{HOST}")
    assert read.candidates == 2


@pytest.mark.parametrize(
    ("candidate", "remote", "local"),
    [
        (HOST, True, True),
        (HOST.replace("udp", "UDP"), True, True),
        (HOST.replace("192.168.1.7", "[fd00::2]"), True, True),
        ("1 0 udp 1 10.0.0.1 5000 typ host", True, True),
        ("1 2 udp 1 10.0.0.1 5000 typ host", False, False),
        ("1 1 tcp 1 10.0.0.1 9 typ host tcptype active", False, False),
        ("1 1 udp 1 abc.local 5000 typ host", False, False),
        ("1 1 udp 1 example.org 5000 typ host", False, False),
        ("1 1 udp 1 127.0.0.1 5000 typ host", False, True),
        ("1 1 udp 1 ::1 5000 typ host", False, True),
        ("1 1 udp 1 169.254.169.254 80 typ host", False, True),
        ("1 1 udp 1 0.0.0.0 80 typ host", False, False),
        ("1 1 udp 1 224.0.0.251 5353 typ host", False, False),
        ("", False, False),
    ],
)
def test_only_addresses_worth_a_knock_reach_ice(candidate, remote, local):
    assert usable_candidate(candidate, remote_is_local=False) is remote
    assert usable_candidate(candidate, remote_is_local=True) is local


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 400),
        ("hello", 400),
        ("v=0\r\ns=-\r\n", 400),
        ("v=0\r\n" + "a=x\r\n" * 20_000, 413),
        ("v=0\r\na=" + "x" * 2_000_000, 413),
        ("v=0\r\na=" + "x" * 2000 + "\r\n" + AUDIO, 400),
        (HEAD + AUDIO * 5, 400),
        (HEAD + VIDEO + "m=audio 9\r\n", 400),
        (HEAD + "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n" + SECRETS, 400),
        (offer(*[f"a=candidate:{HOST}"] * 65), 400),
        (offer("a=\x00"), 400),
        (offer("a=x\u2028m=video 9 X 1"), 400),
        (HEAD + AUDIO.replace("a=fingerprint", "a=fingerpoint") + VIDEO, 400),
        (HEAD + AUDIO + VIDEO.replace("a=ice-pwd:", "a=ice-pwd:\r\na=x:"), 400),
        (HEAD + AUDIO + VIDEO.replace("a=mid:1", "a=mid:0"), 400),
        (HEAD + AUDIO + VIDEO.replace("a=mid:1", "a=mid:2"), 400),
        (HEAD + AUDIO + VIDEO.replace("a=rtcp-mux\r\n", ""), 400),
        (HEAD + AUDIO + VIDEO.replace("a=setup:actpass\r\n", ""), 400),
        (HEAD + AUDIO.replace("SAVPF 111", "SAVPF" + " 111" * 200), 400),
    ],
)
def test_offer_out_of_bounds_is_refused(text, status):
    with pytest.raises(SignalingError) as refused:
        read_offer(text, remote_is_local=True)
    assert refused.value.status == status


def test_huge_body_is_refused_without_being_read():
    body = "v=0\r\n" + "a=candidate:" * 2_000_000
    before = time.process_time()
    with pytest.raises(SignalingError):
        read_offer(body, remote_is_local=True)
    assert time.process_time() - before < 1.0


@given(st.text(max_size=3000), st.integers(0, 900), st.booleans())
def test_no_text_raises_anything_but_a_refusal(noise, at, local):
    text = offer()
    for candidate in (noise, text[:at] + noise + text[at:], text[:at] + text[at + len(noise) :]):
        with suppress(SignalingError):
            read_offer(candidate, remote_is_local=local)
        with suppress(SignalingError):
            read_fragment(candidate, "abcd", remote_is_local=local)


def test_fragment_gives_its_usable_candidates():
    fragment = (
        "a=ice-ufrag:abcd\r\na=ice-pwd:x\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n"
        f"a=candidate:{HOST}\r\na=candidate:1 1 udp 1 x.local 1 typ host\r\na=end-of-candidates\r\n"
    )
    assert read_fragment(fragment, "abcd", remote_is_local=False) == [HOST]
    assert read_fragment("", "abcd", remote_is_local=False) == []


@pytest.mark.parametrize(
    ("fragment", "status"),
    [
        ("a=ice-ufrag:other\r\n", 422),
        ("a=candidate:1 1 udp\r\n", 400),
        (f"a=candidate:{HOST}\r\n" * 65, 400),
        ("a=" + "x" * 5000, 400),
        ("x" * 70_000, 413),
        ("a=\x07\r\n", 400),
    ],
)
def test_broken_fragment_is_refused(fragment, status):
    with pytest.raises(SignalingError) as refused:
        read_fragment(fragment, "abcd", remote_is_local=False)
    assert refused.value.status == status


def test_own_addresses_are_offered_as_they_are():
    assert plan_binds(["10.0.0.5", "fd00::5"], (), remote_is_local=False) == [
        Bind("10.0.0.5", "10.0.0.5"),
        Bind("fd00::5", "fd00::5"),
    ]


def test_local_peer_gets_loopback_first_even_on_a_machine_with_nothing_else():
    assert plan_binds([], (), remote_is_local=True) == [Bind("127.0.0.1", "127.0.0.1")]
    assert plan_binds(["10.0.0.5"], (), remote_is_local=True)[0].bound == "127.0.0.1"


def test_announced_addresses_replace_the_own_ones():
    binds = plan_binds(["10.0.0.5", "172.17.0.1"], ("203.0.113.9", "10.0.0.5", "2001:db8::9"), remote_is_local=False)
    assert binds == [Bind("0.0.0.0", "203.0.113.9"), Bind("10.0.0.5", "10.0.0.5"), Bind("::", "2001:db8::9")]
