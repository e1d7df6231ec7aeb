"""Sender reports: both tracks on one line, whatever the wall clock and the encoder do; round trips from echoes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.rtc.reports import MediaClock, ReportClock

pytestmark = pytest.mark.unit

NTP_SECOND = 1 << 32


def test_nothing_is_said_before_the_first_picture_and_packet():
    media = MediaClock()
    reports = ReportClock(media, 90_000)
    assert reports.report(5) is None
    media.anchor(0, 0, 1000.0)
    assert reports.report(5) is None
    reports.learn(77, 0)
    assert reports.report(0) is not None


@given(
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 10_000),
    st.lists(st.integers(0, 600 * NS_PER_S), min_size=2, max_size=2),
)
def test_sound_and_picture_of_one_moment_get_the_same_wall_time(video_origin, audio_origin, index, offsets_ns):
    media = MediaClock()
    start_ns = 3_000 * NS_PER_S
    media.anchor(index, start_ns, 1.8e9)
    video, audio = ReportClock(media, 90_000), ReportClock(media, 48_000)
    video.learn(video_origin, 0)
    audio.learn(audio_origin, 0)
    walls = []
    for reports, origin, rate_hz, offset_ns in (
        (video, video_origin, 90_000, offsets_ns[0]),
        (audio, audio_origin, 48_000, offsets_ns[1]),
    ):
        ntp, rtp = reports.report(start_ns + offset_ns)
        media_s = ((rtp - origin) & 0xFFFFFFFF) / rate_hz
        walls.append(ntp / NTP_SECOND - media_s)
    assert walls[0] == pytest.approx(walls[1], abs=1e-4)


def test_anchor_stands_though_later_pictures_are_late_and_the_wall_clock_jumps():
    media = MediaClock()
    media.anchor(10, 10 * NS_PER_S, 5000.0)
    before = media.ntp(11 * NS_PER_S), media.pts(11 * NS_PER_S, 90_000)
    media.anchor(11, 12 * NS_PER_S, 9999.0)
    assert (media.ntp(11 * NS_PER_S), media.pts(11 * NS_PER_S, 90_000)) == before
    assert media.pts(10 * NS_PER_S, 90_000) == 10 * 3600


def test_round_trip_is_read_from_the_echo_of_a_report():
    media = MediaClock()
    media.anchor(0, 0, 5000.0)
    reports = ReportClock(media, 90_000)
    reports.learn(0, 0)
    ntp, _ = reports.report(NS_PER_S)
    echo = (ntp >> 16) & 0xFFFFFFFF
    assert reports.rtt_ms(echo, int(0.5 * 65536), NS_PER_S + 535 * NS_PER_MS) == pytest.approx(35.0, abs=0.1)
    assert reports.rtt_ms(echo ^ 1, 0, 2 * NS_PER_S) is None
