"""The only place that reads or waits on time. Everything else takes `now_ns`."""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import Protocol

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """Monotonic nanoseconds and a way to wait for them."""

    def now_ns(self) -> int: ...

    async def sleep_until(self, deadline_ns: int) -> None: ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return at or after `deadline_ns`; yields at least once, so a late loop cannot starve others."""
        await asyncio.sleep(max(0.0, (deadline_ns - time.monotonic_ns()) / NS_PER_S))


class ManualClock:
    """A clock that moves only when a test says so; sleepers wake in deadline order."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._order = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        if deadline_ns <= self._now_ns:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (deadline_ns, self._order, future))
        await future

    async def advance(self, by_ns: int) -> None:
        """Move time forward, waking each sleeper at its own deadline and letting it run until it waits again."""
        target = self._now_ns + by_ns
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            deadline_ns, _, future = heapq.heappop(self._sleepers)
            self._now_ns = max(self._now_ns, deadline_ns)
            if not future.done():
                future.set_result(None)
            await self._settle()
        self._now_ns = target
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def wall_clock_s() -> float:
    """Seconds since the epoch: for sender reports, logs and file stamps only, never for pacing."""
    return time.time()


def cpu_ns() -> int:
    """CPU nanoseconds this process has used, all threads: for accounts and benches, where wall time means little."""
    return time.process_time_ns()


def thread_cpu_ns() -> int:
    """CPU nanoseconds this thread has used."""
    return time.thread_time_ns()
