"""Watches the engine's thread: a dead or hanging one is given up, and a fresh engine begins in its place.

The judgement is pure; `run` is its thin shell. Knows no session: `on_renewed` tells whoever holds an old face.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import StrEnum

from engines.contract import LipSyncEngine
from engines.errors import EngineError
from streamer.clock import NS_PER_S, Clock
from streamer.inference import Inference

logger = logging.getLogger(__name__)


class Failure(StrEnum):
    """What is wrong with an engine's thread."""

    DEAD = "dead"
    HUNG = "hung"
    COLD = "cold"
    """Still warming up after far too long."""


@dataclass(frozen=True, slots=True)
class WatchdogSettings:
    """When a thread counts as lost, and how often one is replaced."""

    look_ns: int = NS_PER_S // 4
    hung_ns: int = 2 * NS_PER_S
    """A batch takes milliseconds; a stall of the machine passes sooner."""
    cold_ns: int = 600 * NS_PER_S
    """Engines that build their plans need minutes."""
    first_wait_ns: int = NS_PER_S
    """Between two renewals; doubles with each, up to the longest, and starts anew after as long a time of health."""
    longest_wait_ns: int = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Health:
    """An engine's thread, as it stands."""

    alive: bool
    ready: bool
    busy_since_ns: int | None


class Watchdog:
    """`judge` says whether the engine is to be renewed now, and why."""

    def __init__(self, settings: WatchdogSettings, now_ns: int) -> None:
        self._settings = settings
        self._wait_ns = settings.first_wait_ns
        self._born_ns = now_ns
        self._renewed_ns: int | None = None

    def judge(self, health: Health, now_ns: int) -> Failure | None:
        """None while all is well, or while it is too early for another try."""
        failure = self._failure(health, now_ns)
        if failure is None:
            if self._renewed_ns is not None and now_ns - self._renewed_ns > self._settings.longest_wait_ns:
                self._wait_ns, self._renewed_ns = self._settings.first_wait_ns, None
            return None
        if self._renewed_ns is not None and now_ns - self._renewed_ns < self._wait_ns:
            return None
        if self._renewed_ns is not None:
            self._wait_ns = min(2 * self._wait_ns, self._settings.longest_wait_ns)
        self._renewed_ns = self._born_ns = now_ns
        return failure

    def _failure(self, health: Health, now_ns: int) -> Failure | None:
        if not health.alive:
            return Failure.DEAD
        if not health.ready:
            return Failure.COLD if now_ns - self._born_ns > self._settings.cold_ns else None
        busy_ns = 0 if health.busy_since_ns is None else now_ns - health.busy_since_ns
        return Failure.HUNG if busy_ns > self._settings.hung_ns else None


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """How an engine is replaced."""

    make: Callable[[], LipSyncEngine]
    """Blocking."""
    executor: Executor
    on_failure: Callable[[Failure], None]
    on_renewed: Callable[[LipSyncEngine], Awaitable[None]]
    """The new engine is there; faces of the old one may mean nothing to it."""


async def run(inference: Inference, replacement: Replacement, settings: WatchdogSettings, clock: Clock) -> None:
    """Watch for ever."""
    loop = asyncio.get_running_loop()
    watchdog = Watchdog(settings, clock.now_ns())
    while True:
        await clock.sleep_until(clock.now_ns() + settings.look_ns)
        health = Health(inference.alive, inference.ready, inference.busy_since_ns)
        failure = watchdog.judge(health, clock.now_ns())
        if failure is None:
            continue
        logger.error("engine_lost", extra={"reason": str(failure)})
        replacement.on_failure(failure)
        try:
            engine = await loop.run_in_executor(replacement.executor, replacement.make)
        except EngineError as error:
            logger.error("engine_not_made", extra={"reason": str(error)})  # noqa: TRY400 - our error says it all
            continue
        inference.renew(engine)
        await replacement.on_renewed(engine)
