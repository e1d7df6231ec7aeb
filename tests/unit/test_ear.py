"""Hearing phones: each stream's sound reaches its decoder once and in order, whatever frames are missing."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engines import catalog
from engines.contract import ANALYSIS_HZ, FRAME_SAMPLES_16K, Stream
from engines.errors import EngineUnavailable
from engines.warp import ear
from engines.warp.ear import Ear, Window
from engines.warp.hearing import Hearing
from engines.warp.score import load_clip
from streamer.pipeline.window import lookahead_chunks

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"
CONTEXT = 9480


class Tape:
    """Stands in for a decoder: keeps the sound of each of its lives."""

    def __init__(self):
        self.lives = []

    def start_utt(self):
        self.lives.append([])

    def process_raw(self, pcm, no_search, full_utt):
        assert (no_search, full_utt) == (False, False)
        self.lives[-1].append(np.frombuffer(pcm, np.int16))
        return 0

    def end_utt(self):
        pass

    def get_cmn(self, update):
        assert update

    def seg(self):
        rows = sum(map(len, self.lives[-1])) // 160
        return [SimpleNamespace(start_frame=0, end_frame=rows, word="SIL")] if rows else None

    def sound(self, life=-1):
        return np.concatenate(self.lives[life])


@dataclass
class Speaker:
    """Ten seconds of sound that is different everywhere, in windows."""

    samples: np.ndarray

    def window(self, index, generation=0):
        start = index * FRAME_SAMPLES_16K
        length = CONTEXT + FRAME_SAMPLES_16K + ear.LOOKAHEAD_SAMPLES
        padded = np.concatenate([np.zeros(CONTEXT, np.float32), self.samples])
        return Window(padded[start : start + length], CONTEXT, index, generation)

    def heard(self, first_sample, last_index):
        end = (last_index + 1) * FRAME_SAMPLES_16K + ear.LOOKAHEAD_SAMPLES
        return (self.samples[first_sample:end] * 32767).astype(np.int16)


@pytest.fixture
def speaker():
    return Speaker(np.random.default_rng(3).uniform(-0.5, 0.5, 60 * ANALYSIS_HZ).astype(np.float32))


def test_every_sample_is_heard_once_even_where_frames_are_missing_or_asked_for_twice(speaker):
    tape = Tape()
    listener = Ear(tape)
    for index in (20, 21, 22, 22, 23, 27, 28, 36, 37):
        listener.phones(speaker.window(index))

    np.testing.assert_array_equal(tape.sound(), speaker.heard(20 * FRAME_SAMPLES_16K - ear.PRIMING_SAMPLES, 37))


def test_after_a_long_pause_it_begins_anew_with_a_little_of_what_came_before(speaker):
    tape = Tape()
    listener = Ear(tape)
    listener.phones(speaker.window(20))
    listener.phones(speaker.window(60))

    assert len(tape.lives) == 2
    np.testing.assert_array_equal(tape.sound(), speaker.heard(60 * FRAME_SAMPLES_16K - ear.PRIMING_SAMPLES, 60))


def test_after_an_interrupt_nothing_of_the_old_speech_is_left(speaker):
    tape = Tape()
    listener = Ear(tape)
    listener.phones(speaker.window(20, generation=1))
    listener.phones(speaker.window(21, generation=2))

    assert len(tape.lives) == 2


def test_a_long_speech_is_cut_in_its_pauses_and_loses_no_sound(speaker):
    tape = Tape()
    listener = Ear(tape)
    for index in range(20, 1000):
        listener.phones(speaker.window(index))

    assert len(tape.lives) == 3  # 15 s each
    whole = np.concatenate([tape.sound(life) for life in range(3)])
    np.testing.assert_array_equal(whole, speaker.heard(20 * FRAME_SAMPLES_16K - ear.PRIMING_SAMPLES, 999))


def test_what_is_not_yet_decoded_is_not_called_a_pause(speaker):
    tape = Tape()
    tape.seg = lambda: None
    assert Ear(tape).phones(speaker.window(20)) == ()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(EngineUnavailable, match=r"liveanchor\[pocketsphinx\]"):
        catalog.serving("warp", Path("models"), {"phones": "pocketsphinx"})


def test_an_unknown_recogniser_is_named():
    with pytest.raises(EngineUnavailable, match=r"'whisper'.*pocketsphinx"):
        catalog.serving("warp", Path("models"), {"phones": "whisper"})


@pytest.fixture(scope="module")
def clip():
    return load_clip(DATA / "librivox_austen_0930.flac", DATA / "librivox_austen_0930.phone.json").samples


@pytest.fixture(scope="module")
def hearing():
    pytest.importorskip("pocketsphinx")
    return Hearing("pocketsphinx")


def said(hearing, clip, stream, index):
    start = index * FRAME_SAMPLES_16K
    return hearing.hear(clip[start : start + hearing.window_samples], index, 0, stream).shapes


def test_phones_cost_no_latency(hearing):
    assert lookahead_chunks(hearing.lookahead_samples) == lookahead_chunks(Hearing().lookahead_samples)


def test_two_who_speak_at_once_are_kept_apart(hearing, clip):
    one, other = Stream(), Stream()
    together = []
    for index in range(25):
        together.append(said(hearing, clip, one, index))
        said(hearing, clip[16_000:], other, index)
    lonely = Stream()
    alone = [said(hearing, clip, lonely, index) for index in range(25)]

    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_phones_change_the_mouth_and_a_window_alone_always_means_the_same(hearing, clip):
    first = said(hearing, clip, None, 30)
    said(hearing, clip, None, 50)

    np.testing.assert_allclose(said(hearing, clip, None, 30), first, atol=1e-6)
    start = 30 * FRAME_SAMPLES_16K
    plain = Hearing()
    network = plain.hear(clip[start : start + plain.window_samples]).shapes
    assert np.abs(first - network).max() > 0.01


def test_silence_stays_shut(hearing):
    stream = Stream()
    nothing = np.zeros(hearing.window_samples, np.float32)
    assert max(hearing.hear(nothing, index, 0, stream).shapes.max() for index in range(30)) < 0.05


def test_a_session_that_ends_takes_its_decoder_with_it(hearing, clip):
    stream = Stream()
    said(hearing, clip, stream, 0)
    kept = len(hearing._ears._of)
    del stream
    gc.collect()
    assert len(hearing._ears._of) == kept - 1
