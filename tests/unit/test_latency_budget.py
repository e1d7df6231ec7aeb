"""The latency budget: how much slack a session keeps, and when it changes its mind."""

from __future__ import annotations

from itertools import pairwise

from streamer.budget import FIRST_FRAMES, LatencyBudget
from streamer.clock import NS_PER_MS, NS_PER_S


def settled(need_ms, *, jobs=500, slack_ms=25, seconds=20):
    """A budget after some idle seconds in which mouths took `need_ms`; the frames it had each second."""
    budget, frames = LatencyBudget(slack_ms * NS_PER_MS), []
    for _ in range(jobs):
        budget.note(int(need_ms * NS_PER_MS), int(need_ms * NS_PER_MS))
    for second in range(seconds):
        budget.step(second * NS_PER_S, idle=True)
        frames.append(budget.frames)
    return budget, frames


def test_quick_engine_keeps_the_least_budget():
    _, frames = settled(10)
    assert set(frames) == {2}


def test_slow_engine_gets_what_it_needs_one_frame_a_second():
    _, frames = settled(100)
    assert frames[:4] == [3, 4, 4, 4]
    assert len(set(frames[3:])) == 1


def test_budget_ends_at_eight_frames():
    _, frames = settled(900)
    assert frames[-1] == 8
    assert [b - a for a, b in pairwise(frames) if b != a] == [1] * 5


def test_nothing_changes_while_somebody_speaks():
    budget, _ = settled(100, seconds=0)
    assert [budget.step(second * NS_PER_S, idle=False) for second in range(5)] == [0] * 5


def test_few_figures_change_nothing():
    _, frames = settled(100, jobs=20)
    assert set(frames) == {2}


def test_budget_comes_back_when_the_engine_is_quick_again_and_does_not_swing():
    budget, frames = settled(100)
    top = frames[-1]
    for _ in range(500):
        budget.note(5 * NS_PER_MS, 5 * NS_PER_MS)
    changes = [budget.step((30 + second) * NS_PER_S, idle=True) for second in range(20)]
    assert [c for c in changes if c] == [-1] * (top - 2)


def test_frames_without_a_mouth_ask_for_one_frame_more():
    budget = LatencyBudget(25 * NS_PER_MS)
    for _ in range(100):
        budget.note_missing(asked=True)
    assert [budget.step(second * NS_PER_S, idle=True) for second in range(4)] == [1, 0, 0, 0]


def speech(budget, misses_of_ten, seconds, from_s=0):
    """Frames of a budget second by second, while somebody speaks and so many mouths of ten are missing."""
    frames = []
    for second in range(from_s, from_s + seconds):
        for frame in range(25):
            if frame * misses_of_ten % 10 < misses_of_ten:
                budget.note_missing(asked=True)
            else:
                budget.note(10 * NS_PER_MS, 5 * NS_PER_MS)
            budget.step(second * NS_PER_S + frame * 40 * NS_PER_MS, idle=False)
        frames.append(budget.frames)
    return frames


def test_many_missing_mouths_get_a_frame_more_in_the_middle_of_speech():
    budget = LatencyBudget(25 * NS_PER_MS)
    frames = speech(budget, misses_of_ten=4, seconds=6)
    assert frames[0] == 3
    assert all(b - a <= 1 for a, b in pairwise(frames))
    assert speech(budget, misses_of_ten=0, seconds=10, from_s=20)[-1] == budget.frames, "it shrinks in silence only"


def test_a_stall_is_one_failure_however_many_mouths_it_takes():
    budget = LatencyBudget(25 * NS_PER_MS)
    for second in range(6):
        for frame in range(25):
            if frame < 7:
                budget.note_missing(asked=True)
            else:
                budget.note(10 * NS_PER_MS, 5 * NS_PER_MS)
            assert budget.step(second * NS_PER_S + frame * 40 * NS_PER_MS, idle=False) == 0


def test_a_missing_mouth_now_and_then_is_no_reason_for_a_gap_in_speech():
    assert speech(LatencyBudget(25 * NS_PER_MS), misses_of_ten=1, seconds=10)[-1] == 2


def test_three_lost_packets_in_a_hundred_cost_held_mouths_not_everybody_a_frame():
    budget = LatencyBudget(25 * NS_PER_MS)
    for frame in range(500):
        if frame % 33 == 0:
            budget.note_missing(asked=False)
        else:
            budget.note(8 * NS_PER_MS, 4 * NS_PER_MS)
    assert [budget.step(second * NS_PER_S, idle=True) for second in range(4)] == [0] * 4


def first_seconds(lateness_ms, seconds=6):
    """Frames each second of a new visitor who keeps silent while packets come so late."""
    budget, frames = LatencyBudget(25 * NS_PER_MS, FIRST_FRAMES), []
    late_ns = [int(ms * NS_PER_MS) for ms in lateness_ms]
    for second in range(seconds):
        budget.step(second * NS_PER_S, idle=True)
        frames.append(budget.frames)
        budget.arrivals_ns = late_ns[: 50 * (second + 1)]
    return frames


def test_a_new_visitor_on_a_quick_path_gets_the_least_budget_before_the_first_word():
    assert first_seconds([2.0] * 300) == [4, 3, 2, 2, 2, 2]


def test_a_new_visitor_on_a_shaky_path_keeps_what_the_path_takes():
    assert first_seconds([1.0, 3.0, 40.0, 0.5] * 100)[-1] == 3
    assert first_seconds([1.0, 3.0, 90.0, 0.5] * 100)[-1] == 4
