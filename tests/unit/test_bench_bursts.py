"""How the latency bench reads its stamps: bursts, mouths that part, sound that returns, histograms of lag."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.bench.bursts import burst_microphone, sent_ns, to_ear_ms, to_lip_ms
from streamer.bench.cost import read_lag
from streamer.bench.lipsync import find_in, lip_sync
from streamer.bench.witness import Reading
from streamer.clock import NS_PER_MS
from streamer.errors import StreamerError
from streamer.media import CHUNK_SAMPLES, FRAME_NS, SOUND_HZ, SoundBlock
from streamer.soak.client import SentStamp

pytestmark = pytest.mark.unit

CHUNK_NS = 20 * NS_PER_MS


def stamps(pcm48):
    """Packets that leave the moment they are full."""
    return [SentStamp(k * CHUNK_SAMPLES, (k + 1) * CHUNK_NS) for k in range(len(pcm48) // CHUNK_SAMPLES)]


def mouths(onsets, late_ms, lost=()):
    """Pictures every 40 ms of a mouth that parts so long after each onset and closes 200 ms later."""
    spans = [(o / SOUND_HZ * 1e9 + late_ms * NS_PER_MS) for i, o in enumerate(onsets) if i not in lost]
    times = np.arange(0, int(onsets[-1] / SOUND_HZ * 1e9) + 2_000_000_000, FRAME_NS)
    return [
        Reading(int(t), 0, 9.0 if any(s <= t < s + 200 * NS_PER_MS for s in spans) else 1.0 + 0.05 * (i % 2))
        for i, t in enumerate(times)
    ]


def test_bursts_fall_on_all_phases_of_the_frame_grid():
    microphone = burst_microphone(64, seed=1)
    phases = np.array(microphone.onsets) % 1920
    assert len(microphone.onsets) == 64
    assert np.ptp(phases) > 1700
    assert np.abs(microphone.pcm48[: microphone.onsets[0]]).max() == 0
    assert np.abs(microphone.burst).max() > 3000


def test_lip_times_run_from_the_packet_to_the_first_picture_past_the_threshold():
    microphone = burst_microphone(8, seed=2)
    sent = sent_ns(microphone.onsets, stamps(microphone.pcm48))
    times_ms = to_lip_ms(sent, mouths(microphone.onsets, late_ms=150))
    assert all(150 - 20 <= t <= 150 + 40 for t in times_ms)


def test_burst_that_never_shows_is_none_and_no_other_burst_stands_in_for_it():
    microphone = burst_microphone(6, seed=3)
    sent = sent_ns(microphone.onsets, stamps(microphone.pcm48))
    times_ms = to_lip_ms(sent, mouths(microphone.onsets, late_ms=150, lost={2}))
    assert [t is None for t in times_ms] == [False, False, True, False, False, False]


def test_ear_times_run_to_the_packet_that_brings_the_burst_back():
    microphone = burst_microphone(5, seed=4)
    sent = sent_ns(microphone.onsets, stamps(microphone.pcm48))
    pieces = microphone.pcm48[: len(microphone.pcm48) // CHUNK_SAMPLES * CHUNK_SAMPLES].reshape(-1, CHUNK_SAMPLES)
    blocks = [SoundBlock(p // 2, k * CHUNK_SAMPLES, (k + 1) * CHUNK_NS + 60 * NS_PER_MS) for k, p in enumerate(pieces)]
    assert to_ear_ms(sent, blocks, microphone.burst) == [None] * 5, "half as loud is no copy"
    blocks = [SoundBlock(p, b.source_sample, b.arrived_ns) for p, b in zip(pieces, blocks, strict=True)]
    assert to_ear_ms(sent, blocks, microphone.burst) == [60.0] * 5


def test_visit_that_ended_early_is_no_measurement():
    microphone = burst_microphone(3, seed=5)
    with pytest.raises(StreamerError):
        sent_ns(microphone.onsets, stamps(microphone.pcm48[: microphone.onsets[-1] - 2000]))


def test_lag_is_found_between_gaps_and_openness():
    times_s = np.arange(0, 8, 0.04)

    def openness(t):
        return np.sin(5 * t) ** 2 * (np.sin(1.3 * t) > 0)

    found = lip_sync(times_s, 1 + 8 * openness(times_s + 0.02 - 0.06), openness)
    assert found.r > 0.99
    assert found.lag_s == pytest.approx(0.06, abs=0.005)


def test_clip_is_found_where_it_begins():
    noise = np.random.default_rng(0).normal(0, 1000, SOUND_HZ).astype(np.int16)
    sound = np.concatenate((np.zeros(3333, np.int16), noise, np.zeros(500, np.int16)))
    at, match = find_in(sound, noise)
    assert at == 3333
    assert match == pytest.approx(1.0)


def test_quantiles_of_lag_come_from_the_probes_in_between():
    def page(counts):
        head = "# TYPE avatar_event_loop_lag_seconds histogram\n"
        edges = ("0.001", "0.01", "0.1", "+Inf")
        return head + "".join(
            f'avatar_event_loop_lag_seconds_bucket{{le="{e}"}} {c}\n' for e, c in zip(edges, counts, strict=True)
        )

    between = read_lag(page((190, 300, 300, 300))).since(read_lag(page((100, 200, 200, 200))))
    assert between.counts == (90, 100, 100, 100)
    assert between.quantile_ms(0.5) == pytest.approx(50 / 90)
    assert between.quantile_ms(0.99) == pytest.approx(1 + 9 * 0.9)
    assert between.quantile_ms(1.0) == pytest.approx(10.0)
