"""How far a render is, stage by stage; what is left is measured, never promised before there is a measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamer.clock import NS_PER_S, Clock


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at a running render."""

    stage: str
    done: int
    total: int
    elapsed_s: float
    """In this stage."""
    remaining_s: float | None
    """Of this stage, at the rate measured so far in this run; None before the first unit is done."""


class Stopwatch:
    """Times the stages of a render and tells whoever listens."""

    def __init__(self, clock: Clock, listen: Callable[[Progress], None]) -> None:
        self._clock = clock
        self._listen = listen
        self._stage = ""
        self._began_ns = 0
        self._skipped = 0
        self.seconds: dict[str, float] = {}

    def begin(self, stage: str, total: int, skipped: int = 0) -> None:
        """A stage starts; `skipped` of its units were done by an earlier run and tell nothing of the rate."""
        self._stage, self._began_ns, self._skipped = stage, self._clock.now_ns(), skipped
        self.at(skipped, total)

    def at(self, done: int, total: int) -> None:
        """So much of the stage is done."""
        elapsed = (self._clock.now_ns() - self._began_ns) / NS_PER_S
        self.seconds[self._stage] = elapsed
        measured = done - self._skipped
        remaining = elapsed / measured * (total - done) if measured > 0 else None
        self._listen(Progress(self._stage, done, total, elapsed, remaining))
