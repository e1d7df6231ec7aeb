"""Bitrate and keyframes: a clean link is never dragged down, a full one is given way to, requests are merged."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.rtc.bitrate import BitrateControl, KeyframeGate, ResendBudget, nominal_bps

pytestmark = pytest.mark.unit

NOMINAL = 1_500_000


def reports(control: BitrateControl, seconds: range, loss: float, rtt_ms: float | None = 20.0, hint: int | None = None):
    """One report a second; returns the targets after each."""
    targets = []
    for second in seconds:
        if hint is not None:
            control.note_hint(hint, second * NS_PER_S)
        control.note_report(loss, rtt_ms, second * NS_PER_S)
        targets.append(control.target_bps)
    return targets


def test_nominal_rate_is_one_and_a_half_megabit_at_512_and_grows_slower_than_the_picture():
    assert nominal_bps((512, 512)) == NOMINAL
    assert nominal_bps((1024, 1024)) < 4 * NOMINAL
    assert 400_000 < nominal_bps((256, 256)) < 600_000


def test_low_estimates_on_a_clean_link_change_nothing():
    assert set(reports(BitrateControl(NOMINAL), range(1, 60), loss=0.0, hint=70_000)) == {NOMINAL}


def test_light_loss_without_a_lower_estimate_is_left_to_retransmission():
    assert set(reports(BitrateControl(NOMINAL), range(1, 60), loss=0.05)) == {NOMINAL}
    assert set(reports(BitrateControl(NOMINAL), range(1, 60), loss=0.05, hint=3_000_000)) == {NOMINAL}


def test_light_loss_makes_the_estimate_count():
    assert reports(BitrateControl(NOMINAL), range(1, 3), loss=0.05, hint=600_000)[0] == 600_000


def test_heavy_loss_lowers_the_rate_step_by_step_down_to_a_floor():
    targets = reports(BitrateControl(NOMINAL), range(1, 60), loss=0.4)
    assert targets == sorted(targets, reverse=True)
    assert targets[-1] == pytest.approx(100_000, rel=0.3)  # with the sound it fits through 300 kbit/s
    assert targets[-1] >= 100_000


def test_small_picture_keeps_its_share_of_bits_however_much_is_lost():
    assert reports(BitrateControl(400_000), range(1, 60), loss=0.4)[-1] >= 60_000


def test_loss_of_a_fifth_lowers_the_rate_even_without_an_estimate():
    assert reports(BitrateControl(NOMINAL), range(1, 6), loss=0.2)[-1] < 0.8 * NOMINAL


def test_growing_round_trip_counts_as_a_full_link():
    control = BitrateControl(NOMINAL)
    reports(control, range(1, 5), loss=0.0, rtt_ms=30.0)
    assert reports(control, range(5, 7), loss=0.0, rtt_ms=400.0, hint=500_000) == [NOMINAL, 500_000]


def test_raises_that_bring_trouble_are_tried_ever_more_rarely():
    control, raises = BitrateControl(NOMINAL), []
    reports(control, range(1, 4), loss=0.5)
    for second in range(4, 200):
        before = control.target_bps
        full = before > 300_000
        control.note_hint(250_000, second * NS_PER_S)
        control.note_report(0.2 if full else 0.0, 20.0, second * NS_PER_S)
        if control.target_bps > before:
            raises.append(second)
    waits = [b - a for a, b in pairwise(raises)]
    assert all(later > wait for wait, later in zip(waits, waits[2:6], strict=False))  # every other one brings trouble
    assert waits[-1] > 30


def test_other_picture_size_keeps_the_share_of_its_nominal_rate():
    control = BitrateControl(NOMINAL)
    reports(control, range(1, 3), loss=0.05, hint=750_000)
    control.resize(2 * NOMINAL)
    assert control.target_bps == NOMINAL
    assert reports(control, range(3, 6), loss=0.0) == [NOMINAL] * 3


def test_rate_never_changes_twice_within_two_seconds():
    control = BitrateControl(NOMINAL)
    changed_ns, last = [], NOMINAL
    for tick in range(3000):
        now_ns = tick * 100 * NS_PER_MS
        control.note_hint(300_000 + (tick * 7919) % 900_000, now_ns)
        control.note_report(0.2 if tick % 150 < 40 else 0.0, 20.0, now_ns)
        if control.target_bps != last:
            changed_ns.append(now_ns)
            last = control.target_bps
    assert len(changed_ns) > 4
    assert min(b - a for a, b in pairwise(changed_ns)) >= 2 * NS_PER_S


def test_rate_comes_back_in_few_steps_once_the_link_is_clean():
    control = BitrateControl(NOMINAL)
    reports(control, range(1, 10), loss=0.1, hint=400_000)
    assert control.target_bps == 400_000
    targets = reports(control, range(10, 60), loss=0.0, hint=80_000)
    assert targets[3] == 400_000
    assert targets[-1] == NOMINAL
    assert len(set(targets)) <= 5


def test_requests_for_keyframes_are_merged_and_rate_limited():
    gate = KeyframeGate()
    assert not gate.due(0)
    for _ in range(61):
        gate.request()
    assert gate.due(0)
    gate.note_keyframe(0)
    assert not gate.due(NS_PER_S)
    gate.request()
    assert gate.due(NS_PER_S)


def test_request_soon_after_a_keyframe_waits_and_is_not_forgotten():
    gate = KeyframeGate()
    gate.note_keyframe(0)
    gate.request()
    assert not gate.due(499 * NS_PER_MS)
    assert gate.due(500 * NS_PER_MS)


def test_lost_packet_is_sent_again_once_a_round_trip():
    budget = ResendBudget()
    assert budget.allow([5, 6, 5], NOMINAL, 0) == [5, 6]
    assert budget.allow([5, 6, 7], NOMINAL, 10 * NS_PER_MS) == [7]
    assert budget.allow([5, 6, 7], NOMINAL, 31 * NS_PER_MS) == [5, 6]
    assert budget.refused == 4


def test_storm_of_requests_costs_a_third_of_the_rate_at_most():
    budget, sent = ResendBudget(), 0
    for tick in range(1000):
        sent += len(budget.allow(range(tick, tick + 100), NOMINAL, tick * 10 * NS_PER_MS))
    assert sent * ResendBudget.PACKET_BITS <= NOMINAL * 10 / 3 + ResendBudget.BURST_PACKETS * ResendBudget.PACKET_BITS
    assert sent > 400
