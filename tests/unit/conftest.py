"""A whole session in virtual time: everything is real but the peer, which keeps what it is shown, and the engine."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from engines.contract import EngineSpec
from streamer.casting import Cast
from streamer.channel import Channel, WhenFull
from streamer.clock import NS_PER_MS, NS_PER_S, ManualClock
from streamer.config import Config
from streamer.live import SessionParts
from streamer.media import Picture, RenderedMouth, Source
from streamer.session import Session
from streamer.telemetry.metrics import Metrics

SPEC = EngineSpec("virtual", 64, (1,), context_samples=640, lookahead_samples=840)


class FlatStage:
    """A canvas of one colour; a mouth is another colour."""

    def __init__(self, shade=0, size_px=(16, 16), cycle_frames=25):
        self.size_px = size_px
        self.cycle_frames = cycle_frames
        self._anchor = np.full((size_px[1] * 3 // 2, size_px[0]), shade, np.uint8)

    def anchor(self, index):
        return self._anchor

    def mix(self, a, b, weight, index):
        return np.rint(a * (1.0 - weight) + b * weight).astype(np.uint8)


class VirtualPeer:
    """Takes what a real peer takes."""

    def __init__(self, clock):
        self.shown: list[tuple[int, Picture]] = []
        self.told: list[dict] = []
        self.inbound = Channel("inbound", 64, WhenFull.DROP_OLDEST)
        self.control = Channel("control", 64, WhenFull.DROP_OLDEST)
        self.on_sent = None
        self.stats = SimpleNamespace(bytes_sent=0, rtt_ms=None)
        self._clock = clock
        self._gone = asyncio.Event()

    async def connected(self, timeout_ns):
        return

    async def run(self):
        await self._gone.wait()

    def show(self, picture):
        self.shown.append((self._clock.now_ns(), picture))

    def send_event(self, message):
        self.told.append(dict(message))

    def check_size(self, size_px):
        return

    def hang_up(self):
        self._gone.set()

    async def close(self):
        self._gone.set()


class VirtualEngine:
    """One thread's worth of engine: a job takes `job_ms`, one after the other; late ones are not begun."""

    def __init__(self, clock, job_ms):
        self.job_ms = job_ms
        self.failing = False
        self._clock = clock
        self._free_ns = 0
        self._done: Channel = Channel("done", 4096, WhenFull.DROP_OLDEST)

    def session(self, canvas, face=None):
        return SimpleNamespace(
            submit=lambda job, deliver: self._submit(canvas, job, deliver),
            void=lambda generation: None,
            leave=lambda: None,
        )

    def _submit(self, canvas, job, deliver):
        begins_ns = max(self._free_ns, self._clock.now_ns())
        if begins_ns >= job.deadline_ns:
            return
        self._free_ns = begins_ns + int(self.job_ms * NS_PER_MS)
        planes = None if self.failing else np.full_like(canvas.anchor(0), 200)
        self._done.put_nowait((deliver, RenderedMouth(job.index, job.generation, planes, self._free_ns)))

    async def run(self):
        while True:
            deliver, mouth = await self._done.get()
            await self._clock.sleep_until(mouth.rendered_ns)
            deliver(mouth)


@dataclass(eq=False)
class VirtualCall:
    """A running session: move time, look at what came out."""

    clock: ManualClock
    peer: VirtualPeer
    engine: VirtualEngine
    session: Session
    events: Channel
    seen: list[dict] = field(default_factory=list)

    async def wait(self, seconds):
        await self.clock.advance(int(seconds * NS_PER_S))
        self.collect()

    def collect(self):
        while (event := self.events.get_nowait()) is not None:
            self.seen.append(dict(event))

    def say(self, pcm48):
        """Queue a whole utterance; its id."""
        utterance = self.session.open_speech(len(pcm48) / 48_000)
        self.session.append_speech(utterance, pcm48)
        self.session.finish_speech(utterance)
        return utterance.speech_id

    def cast(self, size_px=(16, 16), shade=0):
        return Cast(None, object(), FlatStage(shade, size_px), max(size_px))

    def sound(self):
        """All that was heard so far, gaps of the index filled with silence: (n,) s16."""
        if not self.peer.shown:
            return np.zeros(0, np.int16)
        first = self.peer.shown[0][1].index
        heard = np.zeros((self.peer.shown[-1][1].index - first + 1, 1920), np.int16)
        for _, picture in self.peer.shown:
            heard[picture.index - first] = picture.pcm48
        return heard.reshape(-1)

    def names(self):
        return [event["event"] for event in self.seen]


@asynccontextmanager
async def open_virtual_call(source=Source.AGENT, config=None, job_ms=8.0):
    clock = ManualClock(NS_PER_S)
    peer, engine = VirtualPeer(clock), VirtualEngine(clock, job_ms)
    cast = Cast(None, object(), FlatStage(), 16)
    parts = SessionParts(
        peer=peer, cast=cast, source=source, spec=SPEC, config=config or Config(), inference=engine,
        metrics=Metrics(), clock=clock, loop_lag_ms=lambda: 0.0,
    )  # fmt: skip
    session = Session("f" * 32, "flat", parts)
    call = VirtualCall(clock, peer, engine, session, session.follow(0))
    async with asyncio.TaskGroup() as group:
        rendering = group.create_task(engine.run())
        running = group.create_task(session.run())
        await call.wait(0.2)
        try:
            yield call
        finally:
            session.close()
            await running
            rendering.cancel()
            call.collect()


@pytest.fixture
def virtual_call():
    """`async with virtual_call(...) as call`: a session in virtual time."""
    return open_virtual_call
