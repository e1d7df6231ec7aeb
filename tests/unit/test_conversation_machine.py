"""Whatever is done to a session, in any order, its events tell one straight story."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamer.errors import SessionClosed, SpeechRejected

pytestmark = pytest.mark.unit

ORDER = {"speech_queued": 0, "playback_started": 1, "playback_progress": 2, "playback_finished": 3}
NOISE = np.random.default_rng(3).integers(1, 9000, 48_000 * 3).astype(np.int16)


class Conversation(RuleBasedStateMachine):
    """One session in virtual time, at the mercy of its users."""

    open_virtual_call = None

    @initialize()
    def begin(self):
        self.loop = asyncio.new_event_loop()
        self.ended, self.growing = False, None
        self.pushed_s: dict[str, float] = {}
        self.interrupts = 0
        started, self.stop = asyncio.Event(), asyncio.Event()

        async def host():
            async with type(self).open_virtual_call() as self.call:
                started.set()
                await self.stop.wait()

        self.host = self.loop.create_task(host())
        self.do(started.wait())

    def do(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    @property
    def session(self):
        return self.call.session

    @rule(seconds=st.floats(0.01, 1.2))
    def push(self, seconds):
        sound = NOISE[: int(seconds * 48_000)]
        try:
            speech = self.call.say(sound)
        except SessionClosed:
            assert self.ended
        else:
            self.pushed_s[speech] = len(sound) / 48_000

    @precondition(lambda self: self.growing is None and not self.ended)
    @rule()
    def open_growing(self):
        self.growing = self.session.open_speech()
        self.pushed_s[self.growing.speech_id] = 0.0

    @precondition(lambda self: self.growing is not None)
    @rule(seconds=st.floats(0.0, 0.8))
    def append(self, seconds):
        sound = NOISE[: int(seconds * 48_000)]
        self.session.append_speech(self.growing, sound)
        self.pushed_s[self.growing.speech_id] += len(sound) / 48_000

    @precondition(lambda self: self.growing is not None)
    @rule()
    def finish(self):
        self.session.finish_speech(self.growing)
        self.growing = None

    @precondition(lambda self: self.growing is not None)
    @rule()
    def cancel(self):
        self.session.cancel_speech(self.growing)
        self.growing = None

    @rule()
    def push_too_much(self):
        with pytest.raises((SpeechRejected, SessionClosed)):
            self.session.open_speech(10_000.0)

    @precondition(lambda self: not self.ended)
    @rule()
    def interrupt(self):
        self.session.interrupt()
        self.interrupts += 1

    @precondition(lambda self: not self.ended)
    @rule()
    def interrupt_by_data_channel(self):
        self.call.peer.control.put_nowait({"type": "interrupt"})
        self.do(self.call.wait(0.001))
        self.interrupts += 1

    @precondition(lambda self: not self.ended)
    @rule(side_px=st.sampled_from([16, 24, 32]), shade=st.integers(0, 60))
    def swap(self, side_px, shade):
        self.session.recast("another", self.call.cast((side_px, side_px), shade))

    @rule(failing=st.booleans())
    def break_engine(self, failing):
        self.call.engine.failing = failing

    @rule(ms=st.integers(1, 700))
    def wait(self, ms):
        self.do(self.call.wait(ms / 1000))

    @rule(ms=st.integers(60, 500))
    def stall(self, ms):
        """The whole process stands still."""
        self.call.clock._now_ns += ms * 1_000_000
        self.do(self.call.wait(0.1))

    @precondition(lambda self: not self.ended)
    @rule(politely=st.booleans())
    def disconnect(self, politely):
        if politely:
            self.session.close()
        else:
            self.call.peer.hang_up()
        self.ended = True
        self.do(self.call.wait(0.05))

    @property
    def told(self):
        """All events so far."""
        self.call.collect()
        return self.call.seen

    @invariant()
    def events_are_numbered_without_a_hole(self):
        assert [e["seq"] for e in self.told] == list(range(1, len(self.told) + 1))

    @invariant()
    def each_speech_is_queued_started_and_finished_once_in_this_order(self):
        for speech in self.pushed_s:
            told = [e for e in self.told if e.get("speech") == speech and e["event"] in ORDER]
            ranks = [ORDER[e["event"]] for e in told]
            assert ranks[0] == 0
            assert ranks == sorted(ranks)
            assert all(ranks.count(rank) <= 1 for rank in (0, 1, 3))
            positions = [e["position_s"] for e in told if "position_s" in e]
            assert positions == sorted(positions)
            assert all(0 <= p <= self.pushed_s[speech] + 1e-3 for p in positions)

    @invariant()
    def nobody_starts_before_the_one_in_front_is_finished(self):
        turns = [
            (e["event"], e["speech"]) for e in self.told if e["event"] in ("playback_started", "playback_finished")
        ]
        speaking = None
        for event, speech in turns:
            if event == "playback_started":
                assert speaking is None
                speaking = speech
            elif speech == speaking:
                speaking = None
        started = [int(speech[1:]) for event, speech in turns if event == "playback_started"]
        assert started == sorted(started)

    @invariant()
    def speech_that_was_not_interrupted_was_heard_whole(self):
        for event in self.told:
            if event["event"] == "playback_finished" and not event["interrupted"]:
                assert event["position_s"] == pytest.approx(self.pushed_s[event["speech"]], abs=1e-3)

    @invariant()
    def every_interrupt_is_told_once_and_pictures_never_go_back(self):
        assert sum(e["event"] == "interrupted" for e in self.told) == self.interrupts
        indices = [picture.index for _, picture in self.call.peer.shown]
        assert indices == sorted(set(indices))

    def teardown(self):
        self.stop.set()
        self.do(self.host)
        self.events_are_numbered_without_a_hole()
        self.each_speech_is_queued_started_and_finished_once_in_this_order()
        for speech in self.pushed_s:
            finished = [e for e in self.told if e["event"] == "playback_finished" and e["speech"] == speech]
            assert len(finished) == 1
        self.loop.close()


@pytest.mark.parametrize("stories", [40, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_events_tell_one_straight_story_whatever_happens(virtual_call, stories):
    Conversation.open_virtual_call = staticmethod(virtual_call)
    run = Conversation.TestCase()
    run.settings = settings(
        max_examples=stories, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run.runTest()
