"""The engine's watchdog: what is lost is replaced, once, in time, and not in a frenzy; what is slow is left alone."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import numpy as np
import pytest

from engines.contract import EngineSpec, FaceJob, FacePatch
from engines.errors import EngineOutput
from streamer import watchdog
from streamer.admission import OfferGate
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from streamer.inference import Inference
from streamer.patches import check
from streamer.watchdog import Failure, Health, Watchdog, WatchdogSettings

WELL = Health(alive=True, ready=True, busy_since_ns=None)
DEAD = Health(alive=False, ready=True, busy_since_ns=None)
COLD = Health(alive=True, ready=False, busy_since_ns=None)
SPEC = EngineSpec("scripted", 16, (1,), 0, 0)
PLANES = np.zeros((24, 16), np.uint8)


def hung(since_ns):
    return Health(alive=True, ready=True, busy_since_ns=since_ns)


def test_dead_thread_is_replaced_at_once_and_a_hanging_one_after_two_seconds():
    dog = Watchdog(WatchdogSettings(), 0)
    assert dog.judge(WELL, 1) is None
    assert dog.judge(DEAD, 2) is Failure.DEAD
    dog = Watchdog(WatchdogSettings(), 0)
    assert dog.judge(hung(0), NS_PER_S) is None
    assert dog.judge(hung(0), 2 * NS_PER_S + 1) is Failure.HUNG


def test_engine_that_warms_up_is_given_its_time():
    dog = Watchdog(WatchdogSettings(), 0)
    assert dog.judge(COLD, 599 * NS_PER_S) is None
    assert dog.judge(COLD, 601 * NS_PER_S) is Failure.COLD


def test_engine_that_keeps_dying_is_tried_more_and_more_rarely():
    dog = Watchdog(WatchdogSettings(), 0)
    tries = [now for now in range(0, 400 * NS_PER_S, NS_PER_S // 4) if dog.judge(DEAD, now)]
    gaps_s = [(b - a) / NS_PER_S for a, b in pairwise(tries)]
    assert gaps_s[:6] == [1, 2, 4, 8, 16, 32]
    assert set(gaps_s[6:]) == {60}


def test_long_health_makes_the_next_failure_the_first_again():
    dog = Watchdog(WatchdogSettings(), 0)
    for now in (0, 1, 3):
        assert dog.judge(DEAD, now * NS_PER_S) is Failure.DEAD
    assert dog.judge(WELL, 70 * NS_PER_S) is None
    assert dog.judge(DEAD, 71 * NS_PER_S) is Failure.DEAD
    assert dog.judge(DEAD, 72 * NS_PER_S) is Failure.DEAD


class Engine:
    """Renders a chequered patch; `gate` shut: hangs; `dies`: takes its thread with it."""

    spec = SPEC

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.dies = self.closed = False
        self.patches = []

    def warm_up(self): ...

    def attach(self, packet): ...

    def infer(self, jobs):
        self.gate.wait(20)
        if self.dies:
            raise SystemExit
        pixels = self.patches.pop(0) if self.patches else np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
        return [FacePatch(job.index, job.generation, pixels) for job in jobs]

    def close(self):
        self.closed = True


class Canvas:
    def blend(self, index, pixels, overlays=()):
        return PLANES


class Stage:
    """An inference thread and what it delivers."""

    def __init__(self, engine):
        self.inference = Inference(engine, MonotonicClock())
        self.inference.start(asyncio.get_running_loop())
        self.mouths: list = []
        self.news = asyncio.Event()

    def ask(self, index):
        job = FaceJob(None, index, 0, 1 << 62, np.zeros(640, np.float32))
        self.inference.session(Canvas()).submit(job, self._take)

    def _take(self, mouth):
        self.mouths.append(mouth)
        self.news.set()

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
                self.news.clear()
                try:
                    async with asyncio.timeout(0.02):
                        await self.news.wait()
                except TimeoutError:
                    continue


async def test_what_a_hanging_engine_brings_later_is_dropped_and_it_is_closed():
    first, second = Engine(), Engine()
    stage = Stage(first)
    await stage.until(lambda: stage.inference.ready)
    first.gate.clear()
    stage.ask(1)
    await stage.until(lambda: stage.inference.busy_since_ns is not None)
    stage.inference.renew(second)
    stage.ask(2)
    await stage.until(lambda: stage.mouths)
    first.gate.set()
    await stage.until(lambda: first.closed)
    assert [mouth.index for mouth in stage.mouths] == [2]
    assert stage.inference.engine is second
    stage.inference.close()
    assert second.closed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_watchdog_brings_a_dead_engine_back_and_tells_who_holds_its_faces():
    first, second, told, failures = Engine(), Engine(), [], []
    stage, settings = Stage(first), WatchdogSettings(look_ns=5 * NS_PER_MS)

    async def renewed(engine):
        told.append(engine)

    replacement = watchdog.Replacement(lambda: second, None, failures.append, renewed)
    await stage.until(lambda: stage.inference.ready)
    async with asyncio.TaskGroup() as group:
        guard = group.create_task(watchdog.run(stage.inference, replacement, settings, MonotonicClock()))
        first.dies = True
        stage.ask(1)
        await stage.until(lambda: told and stage.inference.ready)
        stage.ask(2)
        await stage.until(lambda: stage.mouths)
        guard.cancel()
    assert (told, failures) == ([second], [Failure.DEAD])
    assert [mouth.index for mouth in stage.mouths] == [2]
    stage.inference.close()


def patch(pixels):
    return FacePatch(0, 0, pixels)


@pytest.mark.parametrize(
    "pixels",
    [np.full((16, 16, 3), 93, np.uint8), np.zeros((16, 15, 3), np.uint8), np.zeros((16, 16, 3), np.float32)],
    ids=["one colour", "wrong shape", "wrong type"],
)
async def test_unusable_patch_is_asked_for_once_more_and_the_second_is_shown(pixels):
    with pytest.raises(EngineOutput):
        check(patch(pixels), SPEC)
    engine = Engine()
    engine.patches = [pixels]
    stage = Stage(engine)
    stage.ask(1)
    await stage.until(lambda: stage.mouths)
    assert stage.mouths[0].planes is PLANES
    assert (stage.inference.counts.retried, stage.inference.counts.failed) == (1, 0)
    engine.patches = [pixels, pixels]
    stage.ask(2)
    await stage.until(lambda: len(stage.mouths) == 2)
    assert stage.mouths[1].planes is None
    assert stage.inference.counts.failed == 1
    stage.inference.close()


def test_gate_lets_a_burst_in_then_a_steady_few_and_says_when_to_come_back():
    gate = OfferGate(5, 20)
    let_in = [gate.wait_s("a", i * NS_PER_S // 100) for i in range(1000)]
    assert let_in[:20] == [None] * 20
    assert sum(wait is None for wait in let_in) == pytest.approx(20 + 5 * 10, abs=2)
    wait_s = next(wait for wait in let_in if wait is not None)
    assert 0 < wait_s <= 0.2
    assert gate.wait_s("b", 5 * NS_PER_S) is None
    assert gate.wait_s("a", 30 * NS_PER_S) is None
