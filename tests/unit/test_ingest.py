"""Ingest: what a listener would notice of gaps, drift and late sound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import CHUNK_SAMPLES, SoundBlock
from streamer.pipeline.ingest import Ingest
from streamer.pipeline.resample import Decimator, LeaningResampler

pytestmark = pytest.mark.unit


def tone(count, first=0, hz=440.0, rate=48_000.0):
    t = (first + np.arange(count)) / rate
    return np.rint(12_000 * np.sin(2 * np.pi * hz * t)).astype(np.int16)


def blocks(seconds, *, ppm=0.0, packet=CHUNK_SAMPLES, delay_ns=0, start_ns=0):
    """A source whose crystal runs fast by `ppm`, as (arrival, block)."""
    position = 0
    while position < seconds * 48_000:
        arrived = start_ns + delay_ns + int((position + packet) * NS_PER_S / (48_000 * (1 + ppm * 1e-6)))
        yield SoundBlock(tone(packet, position), position, arrived)
        position += packet


def play(ingest, source):
    """Push blocks at their arrival and fill in between, as the two tasks do."""
    chunks = []
    for block in source:
        while ingest.next_fill_ns < block.arrived_ns:
            chunks += ingest.fill(ingest.next_fill_ns)
        chunks += ingest.push(block, block.arrived_ns)
    return chunks


def test_clean_source_reaches_playout_bit_for_bit_and_without_a_hole():
    ingest = Ingest(0)
    chunks = play(ingest, blocks(2.0))
    assert [c.first_sample for c in chunks] == [i * CHUNK_SAMPLES for i in range(len(chunks))]
    heard = np.concatenate([c.pcm48 for c in chunks])
    assert np.array_equal(heard, tone(len(heard)))
    assert ingest.counts.filled_samples == 0


@pytest.mark.parametrize("ppm", [-200.0, 200.0])
def test_drifting_source_is_followed_without_a_click_or_a_hole(ppm):
    ingest = Ingest(0)
    chunks = play(ingest, blocks(60.0, ppm=ppm))
    heard = np.concatenate([c.pcm48 for c in chunks]).astype(np.float64)
    assert ingest.counts.late_samples == 0
    assert ingest.counts.filled_samples <= CHUNK_SAMPLES
    assert ingest.counts.anchors == 1
    steady = heard[4800:-4800]
    assert np.abs(np.diff(steady, 2)).max() < 60  # a sine's curvature; a click is hundreds
    assert abs(len(heard) / 48_000 - 60.0) < 0.1


def test_sound_that_comes_too_late_is_dropped_and_the_rest_keeps_its_place():
    ingest = Ingest(0)
    source = list(blocks(2.0))
    late = SoundBlock(source[50].pcm48, source[50].source_sample, source[50].arrived_ns + 200 * NS_PER_MS)
    chunks = play(ingest, source[:50])
    while ingest.next_fill_ns < late.arrived_ns:
        chunks += ingest.fill(ingest.next_fill_ns)
    chunks += ingest.push(late, late.arrived_ns)
    for block in source[51:60]:
        chunks += ingest.push(block, late.arrived_ns)
    chunks += play(ingest, source[60:])
    heard = np.concatenate([c.pcm48 for c in chunks])
    expected = tone(len(heard))
    assert np.array_equal(heard[: 50 * CHUNK_SAMPLES], expected[: 50 * CHUNK_SAMPLES])
    assert np.array_equal(heard[65 * CHUNK_SAMPLES :], expected[65 * CHUNK_SAMPLES :])
    assert ingest.counts.anchors == 1


def test_lasting_longer_path_is_anchored_anew_within_300_ms():
    ingest = Ingest(0)
    chunks = play(ingest, blocks(1.0))
    after = [SoundBlock(b.pcm48, b.source_sample, b.arrived_ns + NS_PER_S + 150 * NS_PER_MS) for b in blocks(2.0)]
    chunks += play(ingest, after)
    heard = np.concatenate([c.pcm48 for c in chunks])
    resumed = np.flatnonzero(np.abs(heard[48_000:]) > 1000)[0] / 48_000
    quiet = np.abs(heard[48_000 + int(0.5 * 48_000) :]).reshape(-1, 480).max(axis=1)
    assert ingest.counts.anchors == 2
    assert resumed < 0.4
    assert (quiet > 5_000).all()


def test_path_that_becomes_shorter_again_is_followed_without_lasting_delay():
    """A burst after a stall must not leave the sound half a second early or late for ever."""
    ingest = Ingest(0)
    play(ingest, blocks(1.0))
    slow = [SoundBlock(b.pcm48, 0, b.arrived_ns + NS_PER_S + 400 * NS_PER_MS) for b in blocks(1.0)]
    play(ingest, slow)
    fast = [SoundBlock(b.pcm48, 0, max(b.arrived_ns + 2 * NS_PER_S, slow[-1].arrived_ns)) for b in blocks(6.0)]
    chunks = play(ingest, fast)
    last = chunks[-1]
    assert abs((last.first_sample + CHUNK_SAMPLES) / 48_000 - fast[-1].arrived_ns / NS_PER_S) < 0.03


def test_silent_source_still_gives_contiguous_chunks():
    ingest = Ingest(0)
    chunks = ingest.fill(NS_PER_S)
    assert len(chunks) == 48  # one second less the margin
    assert not any(c.pcm48.any() for c in chunks)


@given(st.lists(st.integers(0, 120), min_size=1, max_size=60), st.sampled_from([480, 960, 1920, 2880]))
def test_chunks_are_contiguous_whatever_the_network_does(jitters, packet):
    ingest = Ingest(0)
    arrived, chunks = 0, []
    for i, jitter in enumerate(jitters):
        arrived = max(arrived, (i + 1) * packet * NS_PER_S // 48_000 + jitter * NS_PER_MS)
        while ingest.next_fill_ns < arrived:
            chunks += ingest.fill(ingest.next_fill_ns)
        chunks += ingest.push(SoundBlock(tone(packet, i * packet), i * packet, arrived), arrived)
    assert [c.first_sample for c in chunks] == [i * CHUNK_SAMPLES for i in range(len(chunks))]
    assert all(len(c.pcm48) == 960 and len(c.samples16) == 320 for c in chunks)


def test_decimator_gives_the_same_samples_whole_and_chunked():
    sound = tone(48_000).astype(np.float32) / 32768
    whole = Decimator().push(sound)
    chunked = Decimator()
    parts = np.concatenate([chunked.push(sound[i : i + 960]) for i in range(0, 48_000, 960)])
    assert np.abs(whole - parts).max() < 1e-6


def test_leaning_resampler_keeps_a_tone_clean():
    resampler = LeaningResampler()
    sound = tone(96_000, hz=1000.0).astype(np.float32)
    out = [resampler.push(sound[:9600], 1.0)]
    out += [resampler.push(sound[i : i + 960], 1.001) for i in range(9600, 96_000, 960)]
    leaned = np.concatenate(out)[12_000:80_000].astype(np.float64)
    t = np.arange(len(leaned))
    w = 2 * np.pi * 1000.0 / 48_000 / 1.001
    basis = np.stack([np.sin(w * t), np.cos(w * t)], axis=1)
    fit = basis @ np.linalg.lstsq(basis, leaned, rcond=None)[0]
    assert 20 * np.log10(np.std(leaned - fit) / np.std(leaned)) < -70
