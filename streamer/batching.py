"""Which queued mouths an engine renders next, of all sessions together. Pure: takes work and `now_ns`, gives batches.

Work-conserving: it never waits for a fuller batch. Knows no thread, no engine and no picture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import FPS

T = TypeVar("T")

TIMES_KEPT = 33
"""Batches of one size whose median says how long the next one takes."""
WAITS_KEPT = 2000
WAIT_LIMIT_NS = 20 * NS_PER_MS
"""Half a frame: what a mouth may have to wait for the batch that runs, where admission decides."""
RESERVE = 0.1
"""Share of the engine's time that admission leaves free."""
MISS_CREDIT_NS = 16 * NS_PER_MS
"""A session goes first by so much for every mouth it lost lately."""
MOST_CREDIT_NS = NS_PER_S
FORGIVES = 0.95
"""What is left of a session's losses after each mouth it got."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket(Generic[T]):
    """One mouth that somebody wants."""

    session: Hashable
    generation: int
    deadline_ns: int
    queued_ns: int
    work: T


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Generic[T]):
    """Mouths to render at once."""

    tickets: tuple[Ticket[T], ...]
    bucket: int
    """The engine's batch size that they fit; what is missing is padding."""


@dataclass(slots=True)
class PlanCounts:
    """Mouths that never reached the engine, by reason."""

    expired: int = 0
    """Past their deadline before the engine was free for them."""
    dropped: int = 0
    """Pushed out of a full queue."""
    unwanted: int = 0
    """Their session was interrupted, changed its avatar or ended."""


class BatchTimes:
    """How long batches of each size take, from what they took."""

    def __init__(self, buckets: Sequence[int]) -> None:
        self._buckets = tuple(buckets)
        self._took_ns: dict[int, deque[int]] = {bucket: deque(maxlen=TIMES_KEPT) for bucket in buckets}
        self._median_ns: dict[int, int] = {}

    def note(self, bucket: int, took_ns: int) -> None:
        """A batch of this size took so long, blending included."""
        took = self._took_ns[bucket]
        took.append(took_ns)
        self._median_ns[bucket] = sorted(took)[len(took) // 2]

    def of(self, bucket: int) -> int:
        """Expected ns; a size never run is taken from the nearest one that was, 0 where nothing is known."""
        known = self._median_ns
        if bucket in known or not known:
            return known.get(bucket, 0)
        nearest = min(known, key=lambda b: (abs(b - bucket), b))
        return known[nearest] * max(1, bucket // nearest)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(bucket, expected ns), ascending."""
        return ((bucket, self.of(bucket)) for bucket in self._buckets)


class BatchPlanner(Generic[T]):
    """Earliest deadline first, in the size that gets most mouths done in time for the engine's time."""

    def __init__(self, buckets: Sequence[int], capacity: int = 256) -> None:
        self.times = BatchTimes(buckets)
        self.counts = PlanCounts()
        self.waits_ns: deque[int] = deque(maxlen=WAITS_KEPT)
        self._buckets = tuple(buckets)
        self._capacity = capacity
        self._queues: dict[Hashable, deque[Ticket[T]]] = {}
        self._losses: dict[Hashable, float] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def queue_wait_p99_ms(self) -> float:
        """Of the mouths rendered lately: from being wanted to the start of their batch."""
        return float(np.percentile(self.waits_ns, 99)) / NS_PER_MS if self.waits_ns else 0.0

    def add(self, ticket: Ticket[T]) -> None:
        """Queue a mouth. A full queue gives up the oldest of the session that has most in it."""
        if self._size >= self._capacity:
            largest = max(self._queues.values(), key=len)
            self._lose(largest.popleft())
            self.counts.dropped += 1
        self._queues.setdefault(ticket.session, deque()).append(ticket)
        self._size += 1

    def void(self, session: Hashable, generation: int) -> None:
        """A session wants nothing older than this generation any more."""
        queue = self._queues.get(session, deque())
        kept = [ticket for ticket in queue if ticket.generation >= generation]
        self._count_unwanted(len(queue) - len(kept))
        if kept:
            self._queues[session] = deque(kept)
        else:
            self._queues.pop(session, None)

    def leave(self, session: Hashable) -> None:
        """A session has ended: nothing of it is wanted, and nothing remembered."""
        self._count_unwanted(len(self._queues.pop(session, ())))
        self._losses.pop(session, None)

    def clear(self) -> None:
        """Forget all that waits."""
        self._queues.clear()
        self._size = 0

    def take(self, now_ns: int) -> Batch[T] | None:
        """The next batch, or None where nothing is worth rendering. Expired mouths are dropped and counted."""
        self._expire(now_ns)
        if not self._size:
            return None
        waiting = sorted((t for queue in self._queues.values() for t in queue), key=self._urgency)
        bucket, chosen = self._fit(waiting, now_ns)
        self._remove(chosen)
        for ticket in chosen:
            self.waits_ns.append(now_ns - ticket.queued_ns)
            losses = self._losses.get(ticket.session)
            if losses:
                self._losses[ticket.session] = losses * FORGIVES
        return Batch(tuple(chosen), bucket)

    def admits(self, sessions: int) -> bool:
        """Whether so many sessions, all speaking at once, would get their mouths without waiting for long.

        True while nothing was measured; one session always gets what there is.
        """
        if sessions <= 1:
            return True
        frames_per_ns = sessions * FPS * (1 + RESERVE) / NS_PER_S
        for bucket, took_ns in self.times:
            if frames_per_ns * took_ns <= bucket:
                return took_ns <= WAIT_LIMIT_NS
        return False

    def _urgency(self, ticket: Ticket[T]) -> int:
        """Deadline; a session that lost mouths lately goes first, so that all degrade alike."""
        losses = self._losses.get(ticket.session)
        credit_ns = min(MOST_CREDIT_NS, int(losses * MISS_CREDIT_NS)) if losses else 0
        return ticket.deadline_ns - credit_ns

    def _fit(self, waiting: list[Ticket[T]], now_ns: int) -> tuple[int, list[Ticket[T]]]:
        """The bucket that finishes most mouths in time for its own time, and the mouths."""
        best: tuple[float, int, list[Ticket[T]]] | None = None
        for bucket, took_ns in self.times:
            in_time = [t for t in waiting if t.deadline_ns >= now_ns + took_ns][:bucket]
            rate = len(in_time) / took_ns if took_ns else float(len(in_time))
            if in_time and (best is None or rate > best[0]):
                best = (rate, bucket, in_time)
            if bucket >= len(waiting):
                break
        if best is not None:
            return best[1], best[2]
        # By what was measured none would be ready in time. What was measured may be out of date: try the likeliest.
        return self._buckets[0], [max(waiting, key=lambda ticket: ticket.deadline_ns)]

    def _expire(self, now_ns: int) -> None:
        for session in [s for s, queue in self._queues.items() if any(t.deadline_ns <= now_ns for t in queue)]:
            kept: deque[Ticket[T]] = deque()
            for ticket in self._queues[session]:
                if ticket.deadline_ns > now_ns:
                    kept.append(ticket)
                else:
                    self._lose(ticket)
                    self.counts.expired += 1
            self._keep(session, kept)

    def _lose(self, ticket: Ticket[T]) -> None:
        self._size -= 1
        self._losses[ticket.session] = self._losses.get(ticket.session, 0.0) + 1

    def _remove(self, chosen: Iterable[Ticket[T]]) -> None:
        for ticket in chosen:
            queue = self._queues[ticket.session]
            queue.remove(ticket)
            self._size -= 1
            self._keep(ticket.session, queue)

    def _keep(self, session: Hashable, queue: deque[Ticket[T]]) -> None:
        if queue:
            self._queues[session] = queue
        else:
            self._queues.pop(session, None)

    def _count_unwanted(self, count: int) -> None:
        self.counts.unwanted += count
        self._size -= count
