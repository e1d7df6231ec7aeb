"""The batch planner under a crowd, in virtual time: talk spurts of many sessions against a device of known speed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from streamer.batching import BatchPlanner, Ticket
from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import FRAME_NS

BUCKETS = (1, 2, 4, 8, 16, 32)
SPURT_S = 3.0
VOICED_SHARE = 0.6
PLAYOUT_DELAY_MS = 120.0
_EXPIRED = -1


@dataclass(frozen=True, slots=True)
class Device:
    """An engine's pace: a batch of b mouths takes `fixed_ms + b * frame_ms`."""

    name: str
    fixed_ms: float
    frame_ms: float
    buckets: tuple[int, ...] = BUCKETS

    def took_ns(self, bucket: int) -> int:
        return int((self.fixed_ms + bucket * self.frame_ms) * NS_PER_MS)


ISSUE = Device("350 frames/s at batch 32", 5.0, 2.7)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who speaks: sessions with random phases and exponential talk spurts; silent frames are never asked for."""

    sessions: int
    seconds: float
    voiced_share: float = VOICED_SHARE
    playout_delay_ms: float = PLAYOUT_DELAY_MS
    """From a frame's first sample to its release, its own 40 ms included, an engine's look-ahead not."""
    seed: int = 1

    @property
    def room_ns(self) -> int:
        """What is left of the delay when a frame's sound is whole."""
        return int(self.playout_delay_ms * NS_PER_MS) - FRAME_NS

    def arrivals(self) -> Iterator[tuple[int, int]]:
        """(ns, session) of every voiced frame, in order of time."""
        chance = np.random.default_rng(self.seed)
        quiet_s = SPURT_S * (1 - self.voiced_share) / self.voiced_share
        talks = [_Talker(chance, quiet_s) for _ in range(self.sessions)]
        heap = [(talk.next_ns(0), i) for i, talk in enumerate(talks)]
        heapq.heapify(heap)
        end_ns = int(self.seconds * NS_PER_S)
        while heap[0][0] < end_ns:
            at_ns, i = heap[0]
            yield at_ns, i
            heapq.heapreplace(heap, (talks[i].next_ns(at_ns), i))


class _Talker:
    """One session's voice on its own frame grid."""

    def __init__(self, chance: np.random.Generator, quiet_s: float) -> None:
        self._chance = chance
        self._quiet_s = quiet_s
        self._phase_ns = int(chance.integers(FRAME_NS))
        self._until_ns = 0

    def next_ns(self, at_ns: int) -> int:
        """The next voiced frame after one at `at_ns`."""
        at_ns += FRAME_NS
        if at_ns >= self._until_ns:
            if self._quiet_s > 0:
                at_ns = max(at_ns, self._until_ns) + self._drawn_ns(self._quiet_s)
            self._until_ns = at_ns + self._drawn_ns(SPURT_S)
        return at_ns + (self._phase_ns - at_ns) % FRAME_NS

    def _drawn_ns(self, mean_s: float) -> int:
        return int(self._chance.exponential(mean_s) * NS_PER_S)


@dataclass(slots=True)
class Outcome:
    """What became of every mouth."""

    waits_ns: list[int] = field(default_factory=list)
    """Of the mouths that were rendered: from being wanted to the start of their batch."""
    done_ns: list[int] = field(default_factory=list)
    """From being wanted to being ready; -1 where it never was."""
    batches: int = 0
    asked: dict[int, int] = field(default_factory=dict)
    missed: dict[int, int] = field(default_factory=dict)
    admits: bool = True
    """What admission, with these batch times, says to the same number of sessions."""

    @property
    def miss_ratio(self) -> float:
        return sum(self.missed.values()) / max(1, sum(self.asked.values()))

    @property
    def miss_ratios(self) -> list[float]:
        """One a session."""
        return [self.missed.get(i, 0) / count for i, count in sorted(self.asked.items())]

    def wait_ms(self, percent: float) -> float:
        return float(np.percentile(self.waits_ns, percent)) / NS_PER_MS if self.waits_ns else 0.0


def simulate(device: Device, crowd: Crowd) -> Outcome:
    """Run the planner against a device until the crowd's time is over."""
    planner: BatchPlanner[int] = BatchPlanner(device.buckets)
    for bucket in device.buckets:
        planner.times.note(bucket, device.took_ns(bucket))
    run = _Run(planner, device)
    for at_ns, session in crowd.arrivals():
        run.until(at_ns)
        run.outcome.asked[session] = run.outcome.asked.get(session, 0) + 1
        planner.add(Ticket(session, 0, at_ns + crowd.room_ns, at_ns, session))
    run.until(int(crowd.seconds * NS_PER_S) + FRAME_NS)
    run.outcome.admits = planner.admits(crowd.sessions)
    run.count_lost()
    return run.outcome


class _Run:
    """The device at work: whenever it is free it takes what is there."""

    def __init__(self, planner: BatchPlanner[int], device: Device) -> None:
        self.outcome = Outcome()
        self._planner = planner
        self._device = device
        self._free_ns = 0
        self._in_time: dict[int, int] = {}

    def until(self, at_ns: int) -> None:
        """Everything that begins before `at_ns`; the queue holds only what was wanted before."""
        while self._free_ns <= at_ns and len(self._planner):
            batch = self._planner.take(self._free_ns)
            if batch is None:
                break
            began_ns = self._free_ns
            self._free_ns = began_ns + self._device.took_ns(batch.bucket)
            self.outcome.batches += 1
            for ticket in batch.tickets:
                self.outcome.waits_ns.append(began_ns - ticket.queued_ns)
                self.outcome.done_ns.append(self._free_ns - ticket.queued_ns)
                if self._free_ns <= ticket.deadline_ns:
                    self._in_time[ticket.work] = self._in_time.get(ticket.work, 0) + 1
        self._free_ns = max(self._free_ns, at_ns)

    def count_lost(self) -> None:
        for session, asked in self.outcome.asked.items():
            self.outcome.missed[session] = asked - self._in_time.get(session, 0)
