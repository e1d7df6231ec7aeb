"""What a soak is made of: a bad network is as bad as asked for, figures mean what they say, reports stand alone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.errors import ConfigError, SignalingError
from streamer.media import SOUND_HZ, SoundBlock
from streamer.soak import findings, report
from streamer.soak.client import ReportStamp, RtpStamp, SentStamp
from streamer.soak.impairment import Impairment, Shaper, read_impairment
from streamer.soak.observer import MediaLog
from streamer.soak.plan import ClientSample, Profile, mixed, read_profiles, share_out
from streamer.soak.record import Record
from streamer.soak.relay import address_in, named
from streamer.soak.trend import parts, slope
from streamer.soak.voice import EarTimer, SilenceTimer, voice_of
from streamer.soak.watch import Counts, read_metrics
from streamer.telemetry.metrics import Metrics

PACKET_NS = 10 * NS_PER_MS


def passed(impairment, count=4000, size=1000):
    shaper = Shaper(impairment, 7, 0)
    return [(i * PACKET_NS, shaper.admit(size, i * PACKET_NS)) for i in range(count)]


def test_asked_share_of_datagrams_is_lost():
    lost = [out for _, out in passed(Impairment(loss_percent=5)) if out is None]
    assert 0.04 * 4000 < len(lost) < 0.06 * 4000


def test_delay_varies_as_asked_and_order_is_kept():
    waits = [out - at for at, out in passed(Impairment(delay_ms=50, jitter_ms=8))]
    assert min(waits) >= 42 * NS_PER_MS
    assert max(waits) <= 58 * NS_PER_MS
    outs = [out for _, out in passed(Impairment(delay_ms=50, jitter_ms=8))]
    assert outs == sorted(outs)


def test_reordered_datagrams_come_behind_later_ones():
    outs = [out for _, out in passed(Impairment(reorder_percent=3))]
    overtaken = sum(1 for a, b in pairwise(outs) if b < a)
    assert 0.015 * 4000 < overtaken < 0.04 * 4000


def test_nothing_passes_a_blackout_and_all_after_it():
    rows = passed(Impairment(blackouts_s=((10, 5),)))
    assert {at // NS_PER_S for at, out in rows if out is None} == {10, 11, 12, 13, 14}


def test_narrow_link_delivers_its_rate_and_drops_the_rest():
    rows = passed(Impairment(rate_kbps=400))  # 800 kbit/s are offered
    through = [out for _, out in rows if out is not None]
    assert 0.45 * 4000 < len(through) < 0.55 * 4000
    assert max(out - at for at, out in rows if out is not None) < 330 * NS_PER_MS


@pytest.mark.parametrize("text", ["loss", "loss=x", "loss=101", "speed=3", "blackout=3", "delay=-1", "delay=1e9"])
def test_unreadable_network_is_refused(text):
    with pytest.raises(ConfigError):
        read_impairment(text)


def test_network_is_read_as_written():
    found = read_impairment("loss=5, delay=50,jitter=5,reorder=1,rate=300,blackout=20:5,blackout=60:40")
    assert found == Impairment(5, 50, 5, 1, 300, ((20, 5), (60, 40)))


SDP = (
    "v=0\r\nm=audio 5 UDP/TLS/RTP/SAVPF 96\r\na=candidate:1 1 tcp 9 10.0.0.1 9 typ host\r\n"
    "a=candidate:2 1 udp 9 fd00::1 4000 typ host\r\na=candidate:3 1 udp 9 10.0.0.1 4001 typ host\r\n"
    "a=candidate:4 1 udp 9 127.0.0.1 4002 typ host\r\na=end-of-candidates\r\na=mid:0\r\n"
)


def test_relay_names_itself_and_nobody_else():
    assert address_in(SDP) == ("127.0.0.1", 4002)
    rewritten = named(SDP, ("127.0.0.1", 5))
    assert re.findall("candidate.*", rewritten) == ["candidate:1 1 udp 2130706431 127.0.0.1 5 typ host\r"]
    assert "a=mid:0\r\n" in rewritten
    with pytest.raises(SignalingError):
        address_in("v=0\r\n")


def test_slope_of_a_leak_is_found_and_a_flat_line_is_flat():
    t = np.arange(0, 1800, 5.0)
    noise = np.random.default_rng(1).normal(0, 3, len(t))
    leak = slope(t, 200 + 40 * t / 3600 + noise)
    assert leak.low < 40 < leak.high
    assert leak.low > 25
    flat = slope(t, 200 + noise)
    assert flat.low < 0 < flat.high
    assert slope([1, 2], [1, 2]) is None


def test_thirds_hold_every_value_once():
    first, second, last = parts([0, 9, 10, 25, 31], [1, 2, 3, 4, 5], 30)
    assert ([*first], [*second], [*last]) == ([1, 2], [3], [4, 5])


def rtp(kind, index, arrived_ms):
    ticks = {"video": 3600, "audio": 1920}[kind]
    return RtpStamp(kind, (4_000_000_000 + index * ticks) & 0xFFFFFFFF, int(arrived_ms * NS_PER_MS))


def test_gaps_count_pictures_not_packets_and_offset_is_between_the_media_clocks():
    log = MediaLog()
    for kind in ("video", "audio"):
        log.note_report(ReportStamp(kind, 1000 << 32, rtp(kind, 0, 0).timestamp))
    for index in range(30):
        late_ms = 60 if index == 20 else 0
        for part in range(3):
            log.note_rtp(rtp("video", index, 40 * index + late_ms + part + 15))
        log.note_rtp(rtp("audio", index, 40 * index))
    news = log.take(30 * 40 * NS_PER_MS)
    assert (news.frames, news.sounds) == (30, 30)
    assert max(news.gaps_ms) == 100
    assert sorted(news.gaps_ms)[1:-1] == [40] * 27
    assert news.av_offset_ms == 17  # the last packet of a picture makes it whole
    log.note_rtp(rtp("video", 25, 1500))
    assert log.take(2000 * NS_PER_MS).frames == 0  # sent again: no new picture


def test_report_from_before_the_first_packet_is_not_believed():
    log = MediaLog()
    log.note_report(ReportStamp("video", 1000 << 32, 0))
    log.note_report(ReportStamp("audio", 1000 << 32, rtp("audio", 0, 0).timestamp))
    for index in range(5):
        log.note_rtp(rtp("video", index, 40 * index))
        log.note_rtp(rtp("audio", index, 40 * index))
    assert log.take(200 * NS_PER_MS).av_offset_ms is None


def test_sound_that_has_stopped_counts_as_long_as_it_is_silent():
    log = MediaLog()
    log.note_rtp(rtp("audio", 0, 0))
    assert log.take(700 * NS_PER_MS).sound_gap_ms == 700


@pytest.fixture(scope="module")
def speech():
    t = np.arange(12 * SOUND_HZ)
    draw = np.random.default_rng(3)
    tone = np.sin(2 * np.pi * np.cumsum(draw.uniform(90, 900, len(t) // 2400).repeat(2400)) / SOUND_HZ)
    return (9000 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * 1.3 * t / SOUND_HZ))).astype(np.int16)


def test_ear_times_what_comes_back_and_misses_what_does_not(speech):
    voice = voice_of(speech, 12.0)
    assert len(voice.marks) > 5
    ear, delay_ns = EarTimer(voice), 150 * NS_PER_MS
    for number in range(len(voice.pcm48) // 960):
        sent_ns = number * 20 * NS_PER_MS
        ear.spoken(SentStamp(number * 960, sent_ns))
        pcm = voice.pcm48[number * 960 : (number + 1) * 960]
        ear.heard(SoundBlock(pcm if number < 300 else pcm * 0, number * 960, sent_ns + delay_ns))
        if number % 50 == 0:
            assert all(time == 150 for time in ear.take(sent_ns))
    assert ear.missed >= 3


def test_silence_after_an_interrupt_is_timed_to_the_last_loud_packet():
    timer, loud, quiet = SilenceTimer(), np.full(960, 4000, np.int16), np.zeros(960, np.int16)
    timer.interrupted(0)
    for number in range(60):
        timer.heard(SoundBlock(loud if number < 6 else quiet, 0, number * 20 * NS_PER_MS))
    assert timer.take(NS_PER_S // 2) == []
    assert timer.take(2 * NS_PER_S) == [100]
    assert timer.take(3 * NS_PER_S) == []


def test_server_page_is_read_whole():
    metrics = Metrics()
    metrics.tasks.set(12)
    metrics.loop_lag.observe(0.004)
    metrics.stage_latency.labels(stage="queue_render").observe(0.003)
    sample = read_metrics(metrics.text().decode(), 1.0)
    assert sample.values["tasks"] == 12
    assert sample.values["rss_bytes"] > 1e6
    assert sample.frames == {"voiced": 0, "idle": 0, "held": 0, "late": 0}
    assert 2.5 < sample.histograms["loop_lag"].quantile_ms(0.99) <= 5
    assert "stage:queue_render" in sample.histograms


def test_quantiles_of_a_span_forget_what_was_before():
    before = Counts((0.01, 0.1, float("inf")), (100, 100, 100))
    after = Counts((0.01, 0.1, float("inf")), (100, 200, 200))
    assert after.quantile_ms(0.25) < 10
    assert 50 < after.since(before).quantile_ms(0.5) < 60
    assert after.since(after).quantile_ms(0.5) is None


def test_limits_are_met_missed_or_unknown():
    limits = [findings.read_limit(text) for text in ("a_ms<=10", "b >= 3", "c<=1")]
    found = findings.checks(limits, {"a_ms": 10.0, "b": 2.0})
    assert [check["passed"] for check in found] == [True, False, False]
    with pytest.raises(ConfigError):
        findings.read_limit("a=10")


def test_profiles_are_a_mix_or_as_written():
    assert sum(mixed(8).values()) == 8
    assert read_profiles("talker=3,joiner", 0) == {Profile.TALKER: 3, Profile.JOINER: 1}
    with pytest.raises(ConfigError):
        read_profiles("dancer=1", 0)
    seats = share_out({Profile.TALKER: 3, Profile.PROBE: 1}, 6.0, 1)
    assert [(seat.start_s, seat.decodes) for seat in seats] == [(0, True), (2, False), (4, False), (6, True)]


def soaked(latency_ms=150.0):
    record, metrics = Record(), Metrics()
    for second in range(60):
        metrics.tasks.set(10)
        record.note_server(read_metrics(metrics.text().decode(), float(second)))
        gaps = (40.0,) * 25
        record.note(
            ClientSample(
                0, Profile.TALKER, float(second), 1.0, True, 25, 25, 50, gaps, 21.0, 3.0, (latency_ms + second % 5,)
            )
        )
    figures = findings.figures_of(record, 60)
    return {
        "report": "liveanchor soak", "version": 1, "seconds": 60.0, "figures": figures,
        "asked": {"avatar": "<ruby>", "canvas_px": 256, "profiles": {"talker": 1}, "net": {}},
        "machine": {"machine": "x", "cpus": 2.0, "load_before": 1.0, "load_after": 1.0},
        "slopes": findings.slopes_of(record, 60), "stages_ms": findings.stages_of(record),
        "thirds": {"mic_to_ear_ms": {"p99": findings.thirds(record.tracks["mic_to_ear_ms"], 60, 99)}},
        "checks": findings.checks([findings.read_limit("frames_shown_percent>=98")], figures),
        "series": findings.series_of(record, 60), "histograms": findings.histograms_of(record), "clients": [],
    }  # fmt: skip


class Outside(HTMLParser):
    """Everything a page would fetch, and whether its tags close."""

    def __init__(self):
        super().__init__()
        self.fetched, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_report_has_its_figures_and_needs_nothing_else():
    found = soaked()
    assert found["figures"]["frames_shown_percent"] == 100
    assert found["figures"]["mic_to_ear_p50_ms"] == 152
    assert found["slopes"]["mic_to_ear_ms"]["low"] <= 0 <= found["slopes"]["mic_to_ear_ms"]["high"]
    html = report.page(json.loads(json.dumps(found)))
    page = Outside()
    page.feed(html)
    assert page.fetched == []
    assert "url(" not in html
    assert "all 1 thresholds met" in html
    assert html.count("<svg") >= 6
    assert "<ruby>" not in html


def test_two_reports_are_compared_figure_by_figure():
    old, new = soaked(150.0), soaked(180.0)
    rows = {name: (was, now, percent) for name, was, now, percent in report.changes(old, new)}
    assert rows["mic_to_ear_p50_ms"] == (152, 182, 19.7)
    assert "19.7" in report.comparison(old, new)


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"report":"other"}', b"[" * 100_000, b'{"version":1}'])
def test_what_is_no_report_is_refused(body):
    with pytest.raises(ConfigError):
        report.read_report(body, "x.json")
