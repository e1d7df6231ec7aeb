"""The inference thread: one bad job is only its own failure, late jobs cost nothing, nothing waits for it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from avatars.geometry import Geometry
from avatars.packet import AvatarPacket
from engines.contract import EngineSpec, FaceJob, FacePatch
from engines.errors import EngineOutput
from streamer.clock import MonotonicClock
from streamer.inference import Inference

pytestmark = pytest.mark.unit

FAR_NS = 1 << 62
PLANES = np.zeros((24, 16), np.uint8)


class PlainCanvas:
    def blend(self, index, pixels, overlays=()):
        return PLANES


class ScriptedEngine:
    """Does what each job's index says; remembers its batches."""

    def __init__(self, bucket=4):
        self.spec = EngineSpec("scripted", 16, (1, bucket), 0, 0)
        self.batches = []
        self.gate = threading.Event()
        self.closed = False

    def warm_up(self):
        pass

    def infer(self, jobs):
        self.gate.wait(5)
        self.batches.append([job.index for job in jobs])
        if any(job.index < 0 for job in jobs):
            raise EngineOutput("scripted", "asked to fail")
        return [FacePatch(job.index, job.generation, np.arange(768, dtype=np.uint8).reshape(16, 16, 3)) for job in jobs]

    def close(self):
        self.closed = True


def job(index, deadline_ns=FAR_NS):
    return FaceJob(None, index, 0, deadline_ns, np.zeros(640, np.float32))


@pytest.fixture
async def running():
    engine = ScriptedEngine()
    inference = Inference(engine, MonotonicClock())
    inference.start(asyncio.get_running_loop())
    yield engine, inference
    engine.gate.set()
    inference.close()
    assert engine.closed


async def collect(inference, jobs, count, engine):
    done, event = [], asyncio.Event()

    def deliver(mouth):
        done.append(mouth)
        if len(done) >= count:
            event.set()

    session = inference.session(PlainCanvas())
    for one in jobs:
        session.submit(one, deliver)
    engine.gate.set()
    async with asyncio.timeout(5):
        await event.wait()
    return done


async def test_jobs_of_all_sessions_share_batches_up_to_the_largest_bucket(running):
    engine, inference = running
    done = await collect(inference, [job(i) for i in range(9)], 9, engine)
    assert [m.index for m in done] == list(range(9))
    assert max(len(batch) for batch in engine.batches) <= 4
    assert inference.counts.rendered == 9


async def test_one_failing_job_does_not_take_its_batch_with_it(running):
    engine, inference = running
    done = await collect(inference, [job(0), job(1), job(-7), job(3)], 4, engine)
    assert {m.index: m.planes is not None for m in done} == {0: True, 1: True, -7: False, 3: True}
    assert inference.counts.failed == 1


async def test_job_past_its_deadline_never_reaches_the_engine(running):
    engine, inference = running
    await collect(inference, [job(1), job(2, deadline_ns=1), job(3)], 2, engine)
    assert 2 not in [i for batch in engine.batches for i in batch]
    assert inference.counts.expired == 1


async def test_flood_drops_the_oldest_and_counts_them(running):
    engine, inference = running
    flood = [job(i) for i in range(inference.CAPACITY + 50)]
    done = await collect(inference, flood, inference.CAPACITY, engine)
    assert done[-1].index == flood[-1].index
    assert inference.counts.dropped >= 46


async def test_engine_that_cannot_warm_up_is_never_ready():
    class Broken(ScriptedEngine):
        def warm_up(self):
            raise EngineOutput("scripted", "no weights")

    inference = Inference(Broken(), MonotonicClock())
    inference.start(asyncio.get_running_loop())
    inference.close()
    assert not inference.ready


FACE_PIXELS = np.random.default_rng(0).integers(60, 200, (16, 16, 3)).astype(np.uint8)
"""The avatar's own face; patches of it are good."""
PACKET = AvatarPacket(
    avatar_id="noise",
    frames=FACE_PIXELS.transpose(2, 0, 1)[None],
    latents=None,
    masks=(np.ones((1, 16, 16), np.float32),),
    geometry=(Geometry(0, 0, 16, 16, 0, 0, 16, 16),),
    coords=((0, 0, 16, 16),),
)


class Unsteady(ScriptedEngine):
    """Gives blank boxes as `faults` says, {index: how many times}, and good faces else."""

    faults: dict

    def infer(self, jobs):
        return [self.patch(job) for job in jobs]

    def patch(self, job):
        blank = self.faults.get(job.index, 0) > 0
        if blank:
            self.faults[job.index] -= 1
        pixels = np.full((16, 16, 3), 128, np.uint8) if blank else FACE_PIXELS
        pixels = pixels.copy()
        pixels[0, 0] = 7
        return FacePatch(job.index, job.generation, pixels)


async def rendered(engine, jobs, count):
    done, event = [], asyncio.Event()
    inference = Inference(engine, MonotonicClock())
    inference.start(asyncio.get_running_loop())

    def deliver(mouth):
        done.append(mouth)
        if len(done) >= count:
            event.set()

    session = inference.session(PlainCanvas(), SimpleNamespace(packet=PACKET))
    for one in jobs:
        session.submit(one, deliver)
    async with asyncio.timeout(5):
        await event.wait()
    inference.close()
    return {m.index: m.planes is not None for m in done}, inference.counts


async def test_a_blank_box_is_rendered_once_more_and_then_not_shown():
    engine = Unsteady()
    engine.faults = {1: 1, 2: 2}
    shown, counts = await rendered(engine, [job(i) for i in range(4)], 4)
    assert shown == {0: True, 1: True, 2: False, 3: True}
    assert (counts.retried, counts.flat, counts.failed) == (2, 3, 1)


async def test_what_an_interrupted_session_waits_for_is_not_rendered(running):
    engine, inference = running
    session, done, event = inference.session(PlainCanvas()), [], asyncio.Event()

    def deliver(mouth):
        done.append(mouth.index)
        if mouth.index == 9:
            event.set()

    for index in range(9):
        session.submit(job(index), deliver)
    session.void(1)
    session.submit(FaceJob(None, 9, 1, FAR_NS, np.zeros(640, np.float32)), deliver)
    engine.gate.set()
    async with asyncio.timeout(5):
        await event.wait()
    assert inference.counts.unwanted >= 4
    assert len(done) + inference.counts.unwanted == 10
