"""The engine fails in every way it can; the viewer goes on seeing a face and hearing the sound."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager

import aiohttp
import numpy as np
import pytest
import pytest_asyncio

from engines import catalog
from engines.contract import FacePatch
from engines.errors import EngineOutput
from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config, LimitsConfig, check
from streamer.media import CHUNK_SAMPLES, SOUND_HZ
from streamer.soak.client import Visit, Visitor, over_http

pytestmark = [pytest.mark.loopback, pytest.mark.asyncio(loop_scope="module")]

CLOCK = MonotonicClock()


class Fault:
    """What the engines of this server do: `ok`, `raise`, `memory`, `flat`, `hang`, `die`."""

    def __init__(self):
        self.mode = "ok"
        self.made = 0
        self.freed = threading.Event()


class FaultyEngine:
    """The embedded engine, with a fault."""

    def __init__(self, fault):
        self._engine, self._fault = catalog.create("warp"), fault
        self.spec, self.attach = self._engine.spec, self._engine.attach
        self.warm_up, self.close = self._engine.warm_up, self._engine.close
        fault.made += 1
        if fault.mode == "hang":
            fault.mode = "ok"

    def infer(self, jobs):
        match self._fault.mode:
            case "raise":
                raise EngineOutput("faulty", "out of memory")
            case "memory":
                raise MemoryError
            case "hang":
                self._fault.freed.wait(30)
            case "die":
                self._fault.mode = "ok"
                raise SystemExit
            case "flat":
                px = self.spec.mouth_px
                return [FacePatch(j.index, j.generation, np.full((px, px, 3), 200, np.uint8)) for j in jobs]
        return self._engine.infer(jobs)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(avatars_dir):
    """A server whose engine fails on demand: (server, its URL, the fault)."""
    fault = Fault()
    config = Config(port=0, avatars=str(avatars_dir), canvas_px=256, limits=LimitsConfig(offers_burst=1000))
    server = Server(check(config), lambda: FaultyEngine(fault))
    async with served_here(server) as url:
        yield server, url, fault
        fault.freed.set()


async def until(condition):
    """Look every 20 ms; the test's own timeout is the limit."""
    while not condition():
        await CLOCK.sleep_until(CLOCK.now_ns() + 20 * NS_PER_MS)


def voice():
    t = np.arange(4 * SOUND_HZ // CHUNK_SAMPLES * CHUNK_SAMPLES)
    return (9000 * np.sin(2 * np.pi * 140 * t / SOUND_HZ) * (1 + np.sin(2 * np.pi * 3 * t / SOUND_HZ)) / 2).astype(
        np.int16
    )


@asynccontextmanager
async def speaking(house):
    """A visitor who speaks without end, once mouths are being rendered."""
    server, url, fault = house
    fault.mode = "ok"
    visitor = Visitor(Visit(voice(), endless=True), CLOCK)
    rendered = server.inference.counts.rendered
    try:
        async with aiohttp.ClientSession() as http:
            await visitor.connect(over_http(http, f"{url}api/sessions?avatar=ruby&source=mirror"))
        async with asyncio.TaskGroup() as group:
            group.create_task(visitor.run())
            await until(lambda: server.inference.counts.rendered > rendered + 10)
            yield visitor
            visitor.gone.set()
    finally:
        await visitor.close()


async def goes_on(visitor):
    """A second of pictures and sound more."""
    pictures, samples = visitor.counts.pictures, visitor.counts.sound_samples
    await until(lambda: visitor.counts.pictures > pictures + 20 and visitor.counts.sound_samples > samples + SOUND_HZ)


async def metric(url, name):
    async with aiohttp.ClientSession() as http, http.get(f"{url}metrics") as response:
        lines = (await response.text()).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("mode", [pytest.param("raise", marks=pytest.mark.long), "memory", "flat"])
async def test_viewer_sees_the_face_at_rest_and_hears_on_while_every_mouth_fails(house, mode):
    server, url, fault = house
    async with speaking(house) as visitor:
        failed = server.inference.counts.failed
        fault.mode = mode
        await goes_on(visitor)
        assert server.inference.counts.failed > failed + 5
        assert await metric(url, 'avatar_engine_errors{reason="failed"}') > failed
        assert await metric(url, 'avatar_frames_total{kind="late"}') > 0
        assert server.inference.ready
        rendered = server.inference.counts.rendered
        fault.mode = "ok"
        await until(lambda: server.inference.counts.rendered > rendered + 10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_viewer_keeps_face_and_sound_when_the_engine_dies_and_lips_move_again(house):
    server, url, fault = house
    async with speaking(house) as visitor:
        made = fault.made
        fault.mode = "die"
        await until(lambda: fault.made > made and server.inference.ready)
        rendered = server.inference.counts.rendered
        await goes_on(visitor)
        await until(lambda: server.inference.counts.rendered > rendered + 10)
        assert await metric(url, 'avatar_engine_restarts_total{reason="dead"}') == 1
        assert not visitor.gone.is_set()


async def test_viewer_keeps_face_and_sound_when_the_engine_hangs_and_lips_move_again(house):
    server, url, fault = house
    async with speaking(house) as visitor:
        made = fault.made
        fault.mode = "hang"
        await goes_on(visitor)
        await until(lambda: fault.made > made)
        await until(lambda: server.inference.ready)
        rendered = server.inference.counts.rendered
        await until(lambda: server.inference.counts.rendered > rendered + 10)
        assert await metric(url, 'avatar_engine_restarts_total{reason="hung"}') == 1
        assert not visitor.gone.is_set()
        fault.freed.set()


async def test_page_of_readiness_says_so_while_there_is_no_engine(house):
    server, url, _ = house

    class Cold(FaultyEngine):
        def __init__(self, fault):
            super().__init__(fault)
            self.gate = threading.Event()
            self.warm_up = lambda: self.gate.wait(30)

    cold = Cold(Fault())
    server.inference.renew(cold)
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{url}readyz") as response:
            assert (response.status, (await response.json())["status"]) == (503, "engine is not ready")
        cold.gate.set()
        await until(lambda: server.inference.ready)
        async with http.get(f"{url}readyz") as response:
            assert response.status == 200


async def test_viewer_is_not_disturbed_by_a_full_default_executor(house):
    """Whatever a library throws at asyncio's own threads: nothing of ours runs there."""
    loop, gate = asyncio.get_running_loop(), threading.Event()
    async with speaking(house) as visitor:
        blocked = [loop.run_in_executor(None, gate.wait, 30) for _ in range(64)]
        try:
            await goes_on(visitor)
        finally:
            gate.set()
            await asyncio.gather(*blocked)
