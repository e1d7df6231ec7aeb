"""Whatever the world sends, a parser answers with its own refusal: mutants of a corpus, the same ones in every run."""

from __future__ import annotations

import random
from pathlib import Path

import av
import pytest

from streamer.errors import ConfigError, SignalingError, SpeechRejected
from streamer.pcm import PcmReader
from streamer.rtc.control import read_message
from streamer.rtc.ice import read_fragment
from streamer.rtc.inbound import InboundAudioBuffer
from streamer.rtc.offer import read_offer
from streamer.soak.impairment import read_impairment
from streamer.soak.mutation import Mutator
from streamer.soak.report import read_report
from streamer.speech import SpeechLimits, decode_speech

CORPUS = Path(__file__).parents[1] / "corpus"


def corpus(name):
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.fixture(autouse=True)
def _quiet_decoder():
    av.logging.set_level(av.logging.PANIC)


def test_mutants_are_the_same_in_every_run_and_differ_from_their_origin():
    once, again = (list(Mutator(corpus("sdp"), 5).mutants(200)) for _ in range(2))
    assert once == again
    assert sum(mutant not in corpus("sdp") for mutant in once) > 190


def test_mutated_offers_are_read_or_refused():
    read = 0
    for text in Mutator(corpus("sdp"), 1).texts(1500):
        try:
            read_offer(text, remote_is_local=False)
            read += 1
        except SignalingError as refused:
            assert 400 <= refused.status < 500  # noqa: PT017 - both outcomes are right
    assert 100 < read < 1400


def test_mutated_fragments_are_read_or_refused():
    for text in Mutator(corpus("fragment"), 2).texts(1500):
        try:
            read_fragment(text, "EsAw", remote_is_local=False)
        except SignalingError as refused:
            assert 400 <= refused.status < 500  # noqa: PT017


def test_mutated_control_messages_are_objects_or_nothing():
    kinds = {type(read_message(text)) for text in Mutator(corpus("control"), 3).texts(3000)}
    assert kinds == {dict, type(None)}


def test_mutated_sounds_are_decoded_or_refused_and_never_longer_than_allowed():
    limits, decoded = SpeechLimits(1 << 20, 5.0), 0
    for sound in Mutator(corpus("audio"), 4).mutants(250):
        try:
            pcm48 = decode_speech(sound, None, limits)
            assert len(pcm48) <= 5.1 * 48_000
            decoded += 1
        except SpeechRejected as refused:
            assert 400 <= refused.status < 500  # noqa: PT017
    assert decoded > 10


def test_mutated_reports_and_networks_are_read_or_refused():
    for mutant in Mutator([b'{"report":"liveanchor soak","version":1}'], 6).mutants(1000):
        try:
            read_report(mutant, "x")
        except ConfigError:
            continue
    for text in Mutator([b"loss=5,delay=50,blackout=20:5"], 7).texts(1000):
        try:
            read_impairment(text)
        except ConfigError:
            continue


def test_packets_in_any_order_at_any_time_neither_raise_nor_pile_up():
    dice, payloads = random.Random(8), [m[:400] for m in Mutator(corpus("datagram"), 8).mutants(400)]
    buffer, now_ns = InboundAudioBuffer(), 0
    for payload in payloads * 10:
        now_ns += dice.randrange(0, 40_000_000)
        buffer.push(dice.randrange(1 << 16), dice.randrange(1 << 32), payload, now_ns, dice.choice((1, 1, 2)))
        for piece in buffer.pop(now_ns):
            assert piece is not None


def test_pcm_of_any_length_and_format_is_taken_or_refused():
    dice = random.Random(9)
    for _ in range(150):
        try:
            reader = PcmReader(
                dice.choice((0, -1, 1, 4000, 24_000, 44_100, 192_000, 1 << 40)), dice.choice((0, 1, 2, 8, 99))
            )
        except SpeechRejected:
            continue
        for _ in range(4):
            reader.push(dice.randbytes(dice.randrange(0, 3000)))
        reader.finish()


def test_no_single_offer_holds_the_parser_up():
    long = "v=0\r\n" + "a=x\r\n" * 100_000
    for text in (
        long,
        "a" * (20 << 20),
        "m=audio 9 x 0\r\n" * 400,
        "a=candidate:1 1 udp 9 1.2.3.4 5 typ host\r\n" * 2000,
    ):
        with pytest.raises(SignalingError):
            read_offer(text, remote_is_local=False)
