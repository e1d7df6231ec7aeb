"""The event log: numbered, in order, once each, for every reader."""

from __future__ import annotations

import pytest

from streamer.channel import ChannelClosed
from streamer.events import KEPT_EVENTS, EventLog


def read(reader):
    found = []
    while (event := reader.get_nowait()) is not None:
        found.append(event["seq"])
    return found


@pytest.fixture
def log():
    return EventLog(lambda: 7)


def test_every_reader_gets_every_event_once_and_in_order(log):
    early = log.follow()
    for n in range(5):
        log.tell({"event": f"e{n}"})
    late = log.follow(after=2)
    log.tell({"event": "e5"})
    assert read(early) == [1, 2, 3, 4, 5, 6]
    assert read(late) == [3, 4, 5, 6]
    assert read(log.follow(after=6)) == []


def test_message_says_what_when_and_which(log):
    reader = log.follow()
    log.tell({"event": "barge_in"})
    assert reader.get_nowait() == {"type": "event", "seq": 1, "t_ms": 7, "event": "barge_in"}


async def test_readers_end_with_the_log_after_the_last_event(log):
    reader = log.follow()
    log.tell({"event": "draining"})
    log.close()
    log.tell({"event": "too late"})
    assert (await reader.get())["event"] == "draining"
    with pytest.raises(ChannelClosed):
        await reader.get()
    assert read(log.follow(after=0)) == [1]


async def test_reader_that_falls_behind_is_cut_off_without_a_hole(log):
    slow = log.follow()
    for _ in range(3 * KEPT_EVENTS):
        log.tell({"event": "progress"})
    seen = read(slow)
    assert seen == list(range(1, len(seen) + 1))
    assert slow.closed
    assert read(log.follow(after=0)) == list(range(2 * KEPT_EVENTS + 1, 3 * KEPT_EVENTS + 1))


def test_reader_that_has_left_gets_no_more(log):
    reader = log.follow()
    log.leave(reader)
    log.leave(reader)
    log.tell({"event": "late"})
    assert read(reader) == []
