"""The batch planner: what is urgent goes first, nothing waits for company, and a crowd degrades alike."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.batching import BatchPlanner, Ticket
from streamer.bench.batch import admitted_sessions
from streamer.bench.simulation import BUCKETS, ISSUE, Crowd, Device, simulate
from streamer.clock import NS_PER_MS

pytestmark = pytest.mark.unit

FAR_NS = 1 << 60


def ticket(session, number=0, deadline_ms=None, generation=0):
    deadline_ns = FAR_NS if deadline_ms is None else int(deadline_ms * NS_PER_MS)
    return Ticket(session, generation, deadline_ns, 0, (session, number))


def planner_of(device=ISSUE, **options):
    planner = BatchPlanner(device.buckets, **options)
    for bucket in device.buckets:
        planner.times.note(bucket, device.took_ns(bucket))
    return planner


def works(batch):
    return [t.work for t in batch.tickets]


def test_what_is_due_first_is_rendered_first_whoever_wants_it():
    planner = planner_of(Device("one at a time", 1.0, 1.0, (1,)))
    planner.add(ticket("late", deadline_ms=90))
    planner.add(ticket("soon", deadline_ms=30))
    assert works(planner.take(0)) == [("soon", 0)]


def test_a_lone_mouth_does_not_wait_for_company():
    planner = planner_of()
    planner.add(ticket("a"))
    batch = planner.take(0)
    assert (works(batch), batch.bucket) == ([("a", 0)], 1)


def test_a_batch_is_not_padded_where_that_would_waste_the_engine():
    planner = planner_of()
    for session in range(17):
        planner.add(ticket(session))
    assert planner.take(0).bucket == 16
    assert planner.take(0).bucket == 1


def test_a_mouth_that_would_be_late_in_a_large_batch_goes_in_a_small_one():
    planner = planner_of()
    for session in range(8):
        planner.add(ticket(session, deadline_ms=12))
    batch = planner.take(0)
    assert batch.bucket == 2
    assert len(batch.tickets) == 2


def test_mouths_past_their_deadline_cost_the_engine_nothing():
    planner = planner_of()
    planner.add(ticket("a", 0, deadline_ms=5))
    planner.add(ticket("a", 1, deadline_ms=50))
    assert works(planner.take(6 * NS_PER_MS)) == [("a", 1)]
    assert planner.counts.expired == 1


def test_a_wrong_idea_of_the_engines_pace_heals():
    planner = planner_of(Device("was slow once", 500.0, 1.0))
    planner.add(ticket("a", deadline_ms=80))
    assert works(planner.take(0)) == [("a", 0)]


def test_an_interrupted_session_gets_nothing_it_no_longer_wants():
    planner = planner_of()
    for number in range(3):
        planner.add(ticket("a", number, generation=0))
    planner.add(ticket("b", 0))
    planner.add(ticket("a", 3, generation=1))
    planner.void("a", 1)
    assert sorted(works(planner.take(0))) == [("a", 3), ("b", 0)]
    assert planner.counts.unwanted == 3


def test_a_session_that_has_left_leaves_nothing_behind():
    planner = planner_of()
    planner.add(ticket("a"))
    planner.leave("a")
    assert planner.take(0) is None
    assert len(planner) == 0


def test_a_flood_of_one_session_pushes_out_its_own_mouths_only():
    planner = planner_of(capacity=10)
    planner.add(ticket("quiet"))
    for number in range(30):
        planner.add(ticket("flood", number))
    assert len(planner) == 10
    assert ("quiet", 0) in works(planner.take(0)) + works(planner.take(0))
    assert planner.counts.dropped == 21


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 200), st.sampled_from(["add", "add", "add", "take", "void"])),
        max_size=60,
    )
)
def test_every_mouth_is_rendered_or_counted_once(steps):
    planner = planner_of(capacity=12)
    given_, done = 0, 0
    for at, (session, deadline_ms, step) in enumerate(steps):
        now_ns = at * 3 * NS_PER_MS
        if step == "add":
            planner.add(ticket(session, at, deadline_ms=deadline_ms, generation=at))
            given_ += 1
        elif step == "void":
            planner.void(session, at)
        elif (batch := planner.take(now_ns)) is not None:
            assert 0 < len(batch.tickets) <= batch.bucket
            assert batch.bucket in BUCKETS
            assert all(t.deadline_ns > now_ns for t in batch.tickets)
            done += len(batch.tickets)
    counts = planner.counts
    assert given_ == done + len(planner) + counts.expired + counts.dropped + counts.unwanted


def test_nine_talking_sessions_wait_little_and_lose_nothing():
    crowd = simulate(ISSUE, Crowd(9, 300))
    assert crowd.admits
    assert crowd.wait_ms(99) <= 20
    assert crowd.miss_ratio <= 0.001


def test_admission_stops_at_nine_on_a_device_of_350_frames_a_second():
    assert admitted_sessions(ISSUE) == 9


def test_nine_sessions_that_all_speak_at_once_keep_their_mouths():
    crowd = simulate(ISSUE, Crowd(9, 120, voiced_share=1.0))
    assert crowd.miss_ratio <= 0.001
    assert crowd.wait_ms(99) <= 20


@pytest.mark.parametrize("sessions", [18, 28])
def test_twice_too_many_lose_mouths_alike(sessions):
    crowd = simulate(ISSUE, Crowd(sessions, 60, voiced_share=1.0))
    assert crowd.miss_ratio > 0.2
    assert max(crowd.miss_ratios) - min(crowd.miss_ratios) <= 0.03


def test_one_session_is_never_slower_than_without_batches():
    alone = simulate(ISSUE, Crowd(1, 120))
    unbatched = simulate(Device("one at a time", ISSUE.fixed_ms, ISSUE.frame_ms, (1,)), Crowd(1, 120))
    assert alone.done_ns == unbatched.done_ns


def test_unmeasured_engine_admits_and_a_slow_one_keeps_to_one_session():
    assert BatchPlanner(BUCKETS).admits(8)
    slow = planner_of(Device("slow", 60.0, 1.0))
    assert slow.admits(1)
    assert not slow.admits(2)
