"""The inference thread: the one thread of an engine. It renders and blends the queued frames of all sessions.

Jobs come from the event loop and finished planes go back to it; nothing else crosses. Which jobs make the next batch
is the planner's word. Knows no session and no transport.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from engines.contract import Face, FaceJob, FaceOverlay, FacePatch, LipSyncEngine, stage_of
from engines.errors import EngineError, EngineOutput
from streamer import patches
from streamer.batching import Batch, BatchPlanner, Ticket
from streamer.clock import Clock
from streamer.guard import PatchGuard
from streamer.media import U8, RenderedMouth
from streamer.threads import FRAMES, give_way

logger = logging.getLogger(__name__)


class Blender(Protocol):
    """The canvas of a session, as the inference thread sees it."""

    def blend(self, index: int, pixels: U8, overlays: Iterable[FaceOverlay] = ()) -> U8:
        """New I420 planes: the patch (p, p, 3) u8 RGB blended into the anchor frame of `index`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    job: FaceJob
    blender: Blender
    guard: PatchGuard | None
    deliver: Callable[[RenderedMouth], None]


@dataclass(frozen=True, slots=True)
class InferenceCounts:
    """Jobs by what became of them."""

    rendered: int = 0
    failed: int = 0
    expired: int = 0
    """Past their deadline before the engine was free."""
    dropped: int = 0
    """Pushed out of a full queue."""
    unwanted: int = 0
    """Their session was interrupted, changed its avatar or ended."""
    retried: int = 0
    """Unusable at first; asked for once more."""
    flat: int = 0
    """Unusable: a box without a face in it."""
    colour: int = 0
    """Unusable: far from the colour of the avatar's own face."""
    jump: int = 0
    """Unusable: unlike the frame before."""


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """How long a batch took, by part."""

    mouths: int
    waited_ns: int
    """The one that waited longest, from being queued to the batch's start."""
    infer_ns: int
    blend_ns: int


@dataclass(slots=True, eq=False)
class _Life:
    """One thread with its engine, from its start until it ends or is given up."""

    engine: LipSyncEngine
    ready: threading.Event = field(default_factory=threading.Event)
    busy_since_ns: int | None = None
    given_up: bool = False
    """Whatever it still brings is not wanted: another life has taken its place."""


class SessionRenderer:
    """One session's way to the thread: the same queue, its own canvas."""

    def __init__(self, inference: Inference, blender: Blender, guard: PatchGuard | None) -> None:
        self._inference = inference
        self._blender = blender
        self._guard = guard

    def submit(self, job: FaceJob, deliver: Callable[[RenderedMouth], None]) -> None:
        """Queue a job; `deliver` runs on the event loop unless the job expires or is dropped."""
        self._inference.submit(self, _Order(job, self._blender, self._guard, deliver))

    def void(self, generation: int) -> None:
        """Drop what waits and is older."""
        self._inference.void(self, generation)

    def leave(self) -> None:
        """Drop all that waits; the session goes, or goes on with another canvas."""
        self._inference.leave(self)


class Inference:
    """Owns the engine's thread. `start`, `renew` and `close` from the event loop."""

    CAPACITY = 256

    def __init__(self, engine: LipSyncEngine, clock: Clock) -> None:
        self.on_batch: Callable[[BatchTiming], None] | None = None
        """Told of every batch, from the engine's thread."""
        self._clock = clock
        self._planner: BatchPlanner[_Order] = BatchPlanner(engine.spec.buckets, self.CAPACITY)
        self._wake = threading.Condition()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life, self._thread = self._born(engine)
        self._rendered = self._retried = self._failed = 0
        self._faults: Counter[str] = Counter()

    @property
    def counts(self) -> InferenceCounts:
        plan = self._planner.counts
        reached = (self._rendered, self._failed, plan.expired, plan.dropped, plan.unwanted, self._retried)
        return InferenceCounts(*reached, **self._faults)

    @property
    def ready(self) -> bool:
        """Warm and alive."""
        return self._life.ready.is_set() and self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """The thread runs, warm or warming up."""
        return self._thread.is_alive()

    @property
    def engine(self) -> LipSyncEngine:
        """The one that renders now."""
        return self._life.engine

    @property
    def queued_jobs(self) -> int:
        return len(self._planner)

    @property
    def queue_wait_p99_ms(self) -> float:
        """Of the jobs rendered lately: from being queued to the start of their batch."""
        with self._wake:
            return self._planner.queue_wait_p99_ms

    @property
    def resident_bytes(self) -> int:
        """What avatars have on the engine's device; 0 where it has none of its own."""
        return int(getattr(self._life.engine, "resident_bytes", 0))

    def admits(self, sessions: int) -> bool:
        """Whether the engine, at its measured pace, has time for so many sessions."""
        with self._wake:
            return self._planner.admits(sessions)

    @property
    def busy_since_ns(self) -> int | None:
        """When the batch now running began; None between batches. A watchdog's food."""
        return self._life.busy_since_ns

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; it warms the engine up first, then says `ready`."""
        self._loop = loop
        self._thread.start()

    def renew(self, engine: LipSyncEngine) -> None:
        """Give up the thread that is dead or hangs and begin again with a fresh engine of the same kind.

        A hanging thread cannot be ended: it stays, its results are dropped, and if it ever comes back it closes its
        engine and ends. What is queued waits for the new one, as long as it is worth it.
        """
        with self._wake:
            if self._closing:
                return
            self._life.given_up = True
            self._wake.notify_all()
        self._life, self._thread = self._born(engine)
        self._thread.start()

    def session(self, blender: Blender, face: Face | None = None) -> SessionRenderer:
        """face: whose patches must look like the avatar's own; None: anything is shown."""
        if face is None or not self._life.engine.spec.shows_faces:
            return SessionRenderer(self, blender, None)
        return SessionRenderer(self, blender, PatchGuard(stage_of(face)))

    def submit(self, session: SessionRenderer, order: _Order) -> None:
        """Queue an order."""
        job, now_ns = order.job, self._clock.now_ns()
        with self._wake:
            self._planner.add(Ticket(session, job.generation, job.deadline_ns, now_ns, order))
            self._wake.notify()

    def void(self, session: SessionRenderer, generation: int) -> None:
        """Drop a session's orders that are older than a generation."""
        with self._wake:
            self._planner.void(session, generation)

    def leave(self, session: SessionRenderer) -> None:
        """Drop all of a session's orders."""
        with self._wake:
            self._planner.leave(session)

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop after the batch that runs. Idempotent."""
        with self._wake:
            self._closing = True
            self._planner.clear()
            self._wake.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _born(self, engine: LipSyncEngine) -> tuple[_Life, threading.Thread]:
        life = _Life(engine)
        name = f"inference-{engine.spec.name}"
        return life, threading.Thread(target=self._work, args=(life,), name=name, daemon=True)

    def _work(self, life: _Life) -> None:
        give_way(FRAMES)
        try:
            life.engine.warm_up()
        except EngineError:
            logger.exception("engine_warm_up_failed", extra={"engine": life.engine.spec.name})
            return
        life.ready.set()
        while (batch := self._take(life)) is not None:
            began_ns = life.busy_since_ns = self._clock.now_ns()
            orders = [ticket.work for ticket in batch.tickets]
            rendered = self._infer(life, orders)
            rendered_ns = self._clock.now_ns()
            for order, patch in zip(orders, rendered, strict=True):
                self._finish(life, order, patch)
            life.busy_since_ns, ended_ns = None, self._clock.now_ns()
            if not life.given_up:
                with self._wake:
                    self._planner.times.note(batch.bucket, ended_ns - began_ns)
                waited_ns = began_ns - min(ticket.queued_ns for ticket in batch.tickets)
                if self.on_batch is not None:
                    self.on_batch(BatchTiming(len(orders), waited_ns, rendered_ns - began_ns, ended_ns - rendered_ns))
        life.engine.close()

    def _take(self, life: _Life) -> Batch[_Order] | None:
        """The next batch, or None when closing or given up."""
        with self._wake:
            while not (self._closing or life.given_up):
                batch = self._planner.take(self._clock.now_ns())
                if batch is not None:
                    return batch
                self._wake.wait()
            return None

    def _infer(self, life: _Life, batch: list[_Order]) -> list[FacePatch | None]:
        """Patches in order; where a batch fails, each job alone, so that one bad job is only its own failure."""
        try:
            return list(life.engine.infer([order.job for order in batch]))
        except Exception as error:  # noqa: BLE001 - one of the five borders: a job's failure is that job's EngineError
            self._note_failure(life, error)
            if len(batch) == 1:
                return [None]
            return [self._infer(life, [order])[0] for order in batch]

    def _finish(self, life: _Life, order: _Order, patch: FacePatch | None) -> None:
        planes = self._blended(life, order, patch)
        if planes is None and patch is not None and order.job.deadline_ns > self._clock.now_ns():
            self._retried += 1
            planes = self._blended(life, order, self._infer(life, [order])[0])
        if life.given_up:
            return
        if planes is None:
            self._failed += 1
        else:
            self._rendered += 1
        mouth = RenderedMouth(order.job.index, order.job.generation, planes, self._clock.now_ns())
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(order.deliver, mouth)

    def _blended(self, life: _Life, order: _Order, patch: FacePatch | None) -> U8 | None:
        """The picture of a patch; None where there is none, or it cannot be shown."""
        if patch is None:
            return None
        try:
            patches.check(patch, life.engine.spec)
            fault = order.guard.check(patch) if order.guard is not None else None
            if fault is not None:
                self._faults[fault] += 1
                raise EngineOutput(life.engine.spec.name, fault)
            return order.blender.blend(patch.index, patch.pixels, patch.overlays)
        except Exception as error:  # noqa: BLE001 - the same border: a picture that cannot be blended is one lost mouth
            self._note_failure(life, error)
            return None

    def _note_failure(self, life: _Life, error: Exception) -> None:
        known = isinstance(error, EngineOutput)
        logger.warning(
            "engine_job_failed",
            extra={"engine": life.engine.spec.name, "error": type(error).__name__},
            exc_info=None if known else error,
        )
