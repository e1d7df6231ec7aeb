"""Pushed speech through a whole session in virtual time: what a listener hears, and what the events say of it."""

from __future__ import annotations

import numpy as np
import pytest
import soxr

from streamer.errors import SessionClosed, SpeechRejected
from streamer.media import PictureKind, Source
from streamer.pcm import PcmReader, wav_of
from streamer.speech import decode_speech

pytestmark = pytest.mark.unit


def voice(seconds, seed=0, hz=48_000):
    """A buzzing vowel with a moving pitch: it passes for speech and nowhere resembles itself."""
    t = np.arange(int(seconds * hz)) / hz
    phase = 2 * np.pi * (120 * t + 6 * np.sin(2 * np.pi * 0.7 * t + seed) + 3 * t**2)
    wave = sum(np.sin(k * phase) / k for k in range(1, 12))
    return np.rint(7000 * wave / np.abs(wave).max()).astype(np.int16)


def found_at(heard, said):
    """Where `said` begins in what was heard, and how alike they are, 0..1."""
    size = 1 << (len(heard) + len(said)).bit_length()
    likeness = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size)))[: len(heard)]
    at = int(likeness.argmax())
    piece = heard[at : at + len(said)].astype(np.float64)
    return at, float(piece @ said[: len(piece)] / (np.linalg.norm(piece) * np.linalg.norm(said) + 1e-9))


def in_50_ms(said, rate_hz, whole_file):
    """How ten seconds reach a session when they are pushed in 50 ms: as one file, or five messages."""
    if whole_file:
        return [decode_speech(wav_of(said, rate_hz), "audio/wav")]
    reader = PcmReader(rate_hz, 1)
    pieces = [reader.push(piece.astype("<i2").tobytes()) for piece in np.array_split(said, 5)]
    return [*pieces[:-1], np.concatenate((pieces[-1], reader.finish()))]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
async def test_ten_seconds_pushed_in_50_ms_play_as_ten_seconds_at_any_rate(virtual_call, rate_hz):
    said = voice(10.0, hz=rate_hz)
    wanted = soxr.resample(said.astype(np.float64), rate_hz, 48_000, quality="VHQ")
    async with virtual_call() as call:
        utterance = call.session.open_speech()
        for piece in in_50_ms(said, rate_hz, whole_file=rate_hz in (22_050, 44_100)):
            call.session.append_speech(utterance, piece)
            await call.wait(0.01)
        call.session.finish_speech(utterance)
        await call.wait(10.6)
        heard = call.sound()
    sounding, wanted_sounding = (np.flatnonzero(np.abs(sound) > 100) for sound in (heard, wanted))
    at = int(sounding[0] - wanted_sounding[0])
    near = max(0, at - 960)
    for second in range(10):  # nothing lost, nothing repeated: each second lies where it should, to the sample
        first = second * 48_000
        place, alike = found_at(heard[near + first :][: 48_000 + 1920], wanted[first:][:48_000])
        assert alike > 0.999
        assert abs(near + place - at) <= 1
    assert abs(int(np.ptp(sounding)) - int(np.ptp(wanted_sounding))) <= 0.02 * 48_000
    (finished,) = [e for e in call.seen if e["event"] == "playback_finished"]
    assert finished["position_s"] == pytest.approx(10.0, abs=0.001)


async def test_speech_is_heard_within_two_frames_and_a_half_of_its_coming(virtual_call):
    async with virtual_call() as call:
        for n in range(10):
            await call.wait(0.5 + n * 0.0123)
            began_ns = call.clock.now_ns()
            call.say(voice(0.3))
            await call.wait(0.4)
            first_ns = next(at for at, p in call.peer.shown if at >= began_ns and p.pcm48.any())
            assert first_ns - began_ns <= 100e6


async def test_speech_has_its_mouth_from_the_first_frame_on(virtual_call):
    async with virtual_call() as call:
        call.say(voice(1.0))
        await call.wait(1.5)
        kinds = [p.kind for _, p in call.peer.shown if p.pcm48.any()]
        assert set(kinds) == {PictureKind.VOICED}


async def test_utterances_play_one_after_the_other_and_events_follow_what_is_heard(virtual_call):
    async with virtual_call() as call:
        first, second = call.say(voice(2.5)), call.say(voice(0.5, 1))
        await call.wait(4.0)
        assert call.names() == [
            "speech_queued", "speech_queued", "playback_started", "playback_progress", "playback_progress",
            "playback_finished", "playback_started", "playback_finished",
        ]  # fmt: skip
        assert [e["speech"] for e in call.seen] == [first, second, *[first] * 4, *[second] * 2]
        assert [e["seq"] for e in call.seen] == list(range(1, 9))
        progress = [e for e in call.seen if e["event"] == "playback_progress"]
        assert [e["position_s"] for e in progress] == pytest.approx([1.0, 2.0], abs=0.04)
        assert [m for m in call.peer.told if m["type"] == "event"] == call.seen


async def test_interrupt_silences_sound_and_mouth_within_two_frames_and_the_ease(virtual_call):
    async with virtual_call() as call:
        call.say(voice(30.0))
        await call.wait(3.017)
        asked_ns = call.clock.now_ns()
        call.session.interrupt()
        await call.wait(1.0)
        after = [(at - asked_ns, p) for at, p in call.peer.shown if at > asked_ns]
        assert max((at for at, p in after if p.pcm48.any()), default=0) <= 40e6
        assert max((at for at, p in after if p.planes.any()), default=0) <= 120e6
        assert not after[0][1].pcm48[480:].any()
        finished = next(e for e in call.seen if e["event"] == "playback_finished")
        assert finished["interrupted"] is True
        assert finished["position_s"] == pytest.approx(3.0, abs=0.15)
        assert call.names()[-2:] == ["playback_finished", "interrupted"]


async def test_interrupt_before_speech_starts_cancels_it(virtual_call):
    async with virtual_call() as call:
        call.say(voice(1.0))
        call.session.interrupt()
        await call.wait(1.5)
        assert not call.sound().any()
        assert call.names() == ["speech_queued", "playback_finished", "interrupted"]
        assert call.seen[1]["position_s"] == 0


async def test_speech_right_after_an_interrupt_is_whole(virtual_call):
    said = voice(1.0, 3)
    async with virtual_call() as call:
        for pause in (0.5, 0.713, 0.927):
            call.say(voice(5.0))
            await call.wait(pause)
            call.session.interrupt()
            before = len(call.peer.shown)
            call.say(said)
            await call.wait(1.5)
            heard = np.concatenate([p.pcm48 for _, p in call.peer.shown[before:]])
            assert found_at(heard, said)[1] > 0.9999 or found_at(heard[1920:], said)[1] > 0.9999


async def test_one_utterance_cancelled_leaves_the_others_whole(virtual_call):
    said = voice(1.0, 5)
    async with virtual_call() as call:
        utterance = call.session.open_speech()
        call.session.append_speech(utterance, voice(5.0))
        call.say(said)
        await call.wait(0.8)
        call.session.cancel_speech(utterance)
        await call.wait(1.5)
        assert found_at(call.sound(), said)[1] > 0.9999
        finished = [(e["speech"], e["interrupted"]) for e in call.seen if e["event"] == "playback_finished"]
        assert finished == [("s1", True), ("s2", False)]


async def test_speech_that_comes_slower_than_it_is_spoken_waits_and_goes_on(virtual_call):
    said = voice(3.0)
    async with virtual_call() as call:
        utterance = call.session.open_speech()
        for piece in np.split(said, 6):
            call.session.append_speech(utterance, piece)
            await call.wait(0.8)
        call.session.finish_speech(utterance)
        await call.wait(0.5)
        heard = call.sound()
        assert np.array_equal(heard[heard != 0], said[said != 0])
        assert call.names().count("degraded") >= 4
        assert call.names().count("playback_started") == call.names().count("playback_finished") == 1
        starts = [i for i in np.flatnonzero(heard[1:].astype(bool) & ~heard[:-1].astype(bool))]
        assert len(starts) > 4


async def test_speech_in_real_time_packets_plays_without_a_gap(virtual_call):
    said = voice(4.0)
    async with virtual_call() as call:
        utterance = call.session.open_speech()
        for piece in np.split(said, 200):
            call.session.append_speech(utterance, piece)
            await call.wait(0.02)
        call.session.finish_speech(utterance)
        await call.wait(0.5)
        assert found_at(call.sound(), said)[1] > 0.9999
        assert "degraded" not in call.names()


async def test_pause_of_the_whole_process_loses_no_pushed_speech(virtual_call):
    said = voice(4.0)
    async with virtual_call() as call:
        call.say(said)
        await call.wait(1.0)
        call.clock._now_ns += 700_000_000  # everything stood still
        await call.wait(5.0)
        heard = call.sound()
        assert call.names().count("playback_finished") == 1
        assert call.seen[-1]["position_s"] == 4.0
        first_half, rest = said[:36_000], said[96_000:]
        assert found_at(heard, first_half)[1] > 0.999
        assert found_at(heard, rest)[1] > 0.999
        gap = np.diff(np.flatnonzero(heard != 0)).max() / 48
        assert gap < 700 + 300


async def test_only_so_much_waits_and_a_session_of_another_source_takes_none(virtual_call):
    async with virtual_call() as call:
        utterance = call.session.open_speech()
        call.session.append_speech(utterance, np.zeros(599 * 48_000, np.int16))
        with pytest.raises(SpeechRejected) as refused:
            call.session.append_speech(utterance, np.zeros(2 * 48_000, np.int16))
        assert refused.value.status == 413
    with pytest.raises(SessionClosed):
        call.session.open_speech()
    async with virtual_call(Source.NONE) as call:
        with pytest.raises(SpeechRejected) as refused:
            call.session.open_speech()
        assert refused.value.status == 409


async def test_end_of_the_session_ends_what_is_said_and_the_events(virtual_call):
    async with virtual_call() as call:
        call.say(voice(3.0))
        call.say(voice(3.0))
        await call.wait(1.0)
        call.peer.hang_up()
        await call.wait(0.1)
        call.collect()
        finished = [(e["speech"], e["interrupted"]) for e in call.seen if e["event"] == "playback_finished"]
        assert finished == [("s1", True), ("s2", True)]
        assert call.events.closed


async def test_engine_at_15_frames_a_second_keeps_the_sound_whole_and_the_mouth_moving(virtual_call):
    said = voice(8.0)
    async with virtual_call(job_ms=1000 / 15) as call:
        call.say(said)
        await call.wait(9.0)
        assert found_at(call.sound(), said)[1] > 0.9999
        kinds = [p.kind for _, p in call.peer.shown if p.pcm48.any()]
        assert kinds.count(PictureKind.HELD) > 20
        assert kinds.count(PictureKind.LATE) <= 8
        assert call.names().count("held") == 1
        assert call.names().count("degraded") == 1


async def test_engine_silent_for_three_seconds_keeps_the_sound_and_comes_back(virtual_call):
    said = voice(8.0)
    async with virtual_call() as call:
        call.say(said)
        await call.wait(2.0)
        call.engine._free_ns = call.clock.now_ns() + 3_000_000_000
        await call.wait(7.0)
        assert found_at(call.sound(), said)[1] > 0.9999
        kinds = [p.kind for _, p in call.peer.shown if p.pcm48.any()]
        missing = [k for k in kinds if k is not PictureKind.VOICED]
        assert 60 < len(missing) < 90
        assert missing[0] is PictureKind.HELD
        assert missing[-1] is PictureKind.LATE
        assert kinds[-50:] == [PictureKind.VOICED] * 50
        assert [n for n in call.names() if n in ("held", "late", "degraded")] == ["held", "late", "degraded"]


async def test_playout_delay_grows_with_a_slow_engine_one_frame_at_a_time_and_only_in_silence(virtual_call):
    async with virtual_call(job_ms=39.0) as call:
        assert call.session._line.snapshot.playout_delay_ms < 130
        call.say(voice(6.0))
        await call.wait(5.9)
        assert call.session._line.snapshot.playout_delay_ms < 130
        await call.wait(3.0)
        assert call.session._line.snapshot.playout_delay_ms == pytest.approx(165.0)
        shown = len(call.peer.shown)
        call.say(voice(2.0))
        await call.wait(3.0)
        kinds = [p.kind for _, p in call.peer.shown[shown:] if p.pcm48.any()]
        assert set(kinds) == {PictureKind.VOICED}
        indices = [p.index for _, p in call.peer.shown]
        assert indices == list(range(len(indices)))


async def test_other_avatar_and_size_come_with_the_next_picture_and_no_mouth_of_the_old_one(virtual_call):
    said = voice(3.0)
    async with virtual_call() as call:
        call.say(said)
        await call.wait(1.0)
        before = len(call.peer.shown)
        call.session.recast("other", call.cast((32, 24), shade=40))
        await call.wait(2.5)
        after = [p for _, p in call.peer.shown[before:]]
        assert {p.planes.shape for p in after} == {(36, 32)}
        assert call.session.avatar_id == "other"
        assert found_at(call.sound(), said)[1] > 0.9999
        assert sum(p.kind is not PictureKind.VOICED for p in after if p.pcm48.any()) <= 6
        indices = [p.index for _, p in call.peer.shown]
        assert indices == list(range(len(indices)))


async def test_clip_plays_once_between_utterances_and_gives_way_to_speech(virtual_call):
    async with virtual_call() as call:
        call.say(voice(1.0))
        await call.wait(0.5)
        call.session.play(call.cast(shade=90).canvas)
        await call.wait(3.5)
        shades = [int(p.planes.max()) for _, p in call.peer.shown]
        sounding = [i for i, (_, p) in enumerate(call.peer.shown) if p.pcm48.any()]
        assert all(shade == 90 for shade in shades[sounding[-1] + 14 : sounding[-1] + 24])
        assert shades.count(90) == 25 - 2 * 3
        assert shades[-1] == 0
        call.session.play(call.cast(shade=90).canvas)
        await call.wait(0.4)
        call.say(voice(1.0))
        await call.wait(0.5)
        assert {int(p.planes.max()) for _, p in call.peer.shown[-5:]} == {200}


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_chunked_resampling_agrees_with_whole_to_60_db(rate_hz, channels):
    source = voice(2.0, hz=rate_hz)
    data = np.repeat(source[:, None], channels, axis=1).astype("<i2").tobytes()
    reader, draw = PcmReader(rate_hz, channels), np.random.default_rng(rate_hz)
    made, at = [], 0
    while at < len(data):
        size = int(draw.integers(1, 4000))
        made.append(reader.push(data[at : at + size]))
        at += size
    chunked = np.concatenate([*made, reader.finish()]).astype(np.float64)
    whole = soxr.resample(source.astype(np.float32) / 32768, rate_hz, 48_000, quality="HQ") * 32768
    assert len(chunked) == pytest.approx(96_000, abs=2)
    length = min(len(chunked), len(whole))
    error = chunked[:length] - whole[:length]
    assert np.sqrt(np.mean(error**2)) < np.sqrt(np.mean(whole**2)) / 1000


@pytest.mark.parametrize(("rate_hz", "channels"), [(3_999, 1), (192_001, 1), (16_000, 0), (16_000, 9)])
def test_impossible_format_is_refused(rate_hz, channels):
    with pytest.raises(SpeechRejected):
        PcmReader(rate_hz, channels)
