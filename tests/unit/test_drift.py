"""Eight hours with a source whose crystal is not ours: sound stays in its place, by leaning, never by a jump."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.clock import NS_PER_S
from streamer.media import FRAME_NS, SOUND_HZ
from streamer.pipeline.drift import DriftFollower

pytestmark = pytest.mark.unit

HOURS_8_S = 8 * 3600


def source_hours(ppm, packet_ms, jitter_ms=0.0, seconds=HOURS_8_S):
    """Seconds of a source; for each packet how late its end is against the grid, ms, and what was begun anew."""
    follower, draw = DriftFollower(), np.random.default_rng(int(abs(ppm) + packet_ms))
    packet = packet_ms * SOUND_HZ // 1000
    packets = seconds * 1000 // packet_ms
    jitter_ns = (draw.exponential(jitter_ms, packets) * 1e6).astype(np.int64) if jitter_ms else np.zeros(packets, int)
    sent_ns = ((np.arange(packets) + 1) * packet * NS_PER_S / (SOUND_HZ * (1 + ppm * 1e-6))).astype(np.int64)
    end, lateness, anchored = 0.0, np.zeros(packets), []
    for number in range(packets):
        end += packet * (1.0 + follower.lean_ppm * 1e-6)  # what the resampler makes of the packet
        place_ns = int(end * NS_PER_S / SOUND_HZ)
        arrived_ns = int(sent_ns[number] + jitter_ns[number])
        found = follower.follow(arrived_ns, arrived_ns - place_ns, lost=False)
        lateness[number] = (sent_ns[number] - place_ns) / 1e6
        if found is not None:
            anchored.append(found)
    return lateness, anchored


@pytest.mark.parametrize(
    ("ppm", "packet_ms"),
    [(200.0, 60), pytest.param(-200.0, 10, marks=pytest.mark.long), pytest.param(-200.0, 40, marks=pytest.mark.long)],
)
def test_eight_hours_of_drift_stay_within_a_frame_without_a_jump(ppm, packet_ms):
    """Sound and picture share an index, so the offset between them is that of the sound's place on the grid."""
    lateness_ms, anchored = source_hours(ppm, packet_ms)
    assert anchored == []
    assert np.abs(lateness_ms).max() <= FRAME_NS / 1e6
    hours = lateness_ms.reshape(8, -1)
    assert np.ptp([hour.max() for hour in hours[1:]]) < 1.0
    assert np.ptp([hour.min() for hour in hours[1:]]) < 1.0
    assert np.abs(np.diff(lateness_ms)).max() < 0.2


@pytest.mark.parametrize("ppm", [200.0, -200.0])
def test_jitter_does_not_hide_the_drift(ppm):
    lateness_ms, anchored = source_hours(ppm, 20, jitter_ms=4.0, seconds=1800)
    assert anchored == []
    assert np.abs(lateness_ms).max() <= FRAME_NS / 1e6
