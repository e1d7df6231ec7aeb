"""Lips and sound as a visitor gets them: the mouth of decoded pictures against the true times of the phones said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from engines.warp.phones import mouth_curves, phones_from_psdur, read_alignment
from streamer.bench.call import visit
from streamer.bench.lips import LipReader
from streamer.bench.lipsync import find_in, lip_sync
from streamer.bench.witness import Witness
from streamer.clock import MonotonicClock
from streamer.media import SOUND_HZ

pytestmark = pytest.mark.loopback

DATA = Path(__file__).parents[1] / "data"
LEAD_S, TAIL_S = 1.5, 1.2
SPOKEN = {
    "flite": ("flite_rms_evening.flac", "flite_rms_evening.psdur"),
    "librivox": ("librivox_austen_0890.flac", "librivox_austen_0890.phone.json"),
}


def said(name):
    """A recording at 48 kHz with its phones: true times of a synthesiser, or an alignment of a human reader."""
    sound, times = (DATA / file for file in SPOKEN[name])
    samples, rate_hz = soundfile.read(sound, dtype="float32")
    pcm48 = np.clip(soxr.resample(samples, rate_hz, SOUND_HZ) * 32767, -32768, 32767).astype(np.int16)
    phones = read_alignment(times) if times.suffix == ".json" else phones_from_psdur(times.read_text())
    return pcm48, phones


@pytest.fixture(
    scope="module",
    params=[("flite", "VP8"), pytest.param(("librivox", "H264"), marks=pytest.mark.long)],
    ids=lambda param: "-".join(param),
)
def watched(request, server):
    """When each decoded picture was to be seen, from the clip's first sample as heard, and its lip gap; the phones."""
    name, codec = request.param
    clip, phones = said(name)
    quiet = (np.zeros(int(s * SOUND_HZ), np.int16) for s in (LEAD_S, TAIL_S))
    microphone = np.concatenate((next(quiet), clip, next(quiet)))
    with Witness(LipReader()) as witness:
        url = f"{server.url}api/sessions?avatar=ruby&source=mirror"
        seconds = len(microphone) / SOUND_HZ + 0.5
        asyncio.run(visit(url, witness.plan(microphone, codec), MonotonicClock(), seconds))
        readings = witness.readings()
    at, match = find_in(witness.sound(), clip)
    assert match > 0.5, "the visitor did not hear what was said"
    zero_s = witness.heard_s(at)
    shown_s = np.array([witness.shown_s(reading.pts) - zero_s for reading in readings])
    return shown_s, np.array([reading.gap for reading in readings]), phones


def test_lips_follow_the_phones_in_step_with_the_sound(watched):
    shown_s, gaps, phones = watched
    found = lip_sync(shown_s, gaps, lambda times_s: mouth_curves(phones, times_s)[:, 0])
    print(f"r {found.r:.2f}, lag {1000 * found.lag_s:.0f} ms")
    assert found.r >= 0.6
    assert abs(found.lag_s) <= 0.045


def test_mouth_is_shut_in_silence(watched):
    shown_s, gaps, phones = watched
    spoken = [phone for phone in phones if phone.name not in ("pau", "sil")]
    before = gaps[(shown_s > 0.3 - LEAD_S) & (shown_s < spoken[0].start_s - 0.2)]
    after = gaps[shown_s > spoken[-1].end_s + 0.4]
    rest, wide = np.median(before), np.percentile(gaps, 95)
    assert len(before) > 10
    assert len(after) > 10
    assert wide > 2 * rest
    for silence in (before, after):
        assert silence.max() < rest + 0.1 * (wide - rest)
