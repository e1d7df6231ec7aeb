"""A visit from outside: calls a server, talks for a while, keeps what it saw. Runs in a process of its own."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

import aiohttp

from streamer.bench.bursts import burst_microphone, sent_ns, to_ear_ms, to_lip_ms
from streamer.bench.lips import LipReader, SquareReader
from streamer.bench.witness import Witness
from streamer.clock import NS_PER_S, Clock, MonotonicClock
from streamer.media import S16, SOUND_HZ
from streamer.rtc.control import Message
from streamer.soak.client import Visit, Visitor, over_http

CONNECT_WITHIN_S = 20.0
AFTER_S = 0.5
"""How long a visitor stays after the last of its sound."""


@dataclass(frozen=True, slots=True)
class BurstCall:
    """A visit that measures bursts."""

    url: str
    """Where the offer is posted."""
    square: bool
    """The mouth is the echo's square and not a face."""
    bursts: int
    seed: int
    uplink_loss: float = 0.0
    """Share of microphone packets lost on their way, 0..1."""


@dataclass(frozen=True, slots=True)
class BurstTimes:
    """What a burst visit found."""

    to_lip_ms: list[float | None]
    """One a burst, in order; None where the mouth did not move in time."""
    to_ear_ms: list[float | None]
    snapshot: Message
    """The last of the telemetry channel; empty where the server has none."""


async def visit(url: str, plan: Visit, clock: Clock, seconds: float) -> Visitor:
    """Call, stay for so long after media flows, hang up. Raises SignalingError, TimeoutError."""
    visitor = Visitor(plan, clock)
    try:
        async with aiohttp.ClientSession() as http, asyncio.timeout(CONNECT_WITHIN_S):
            await visitor.connect(over_http(http, url))
        async with asyncio.TaskGroup() as group:
            group.create_task(visitor.run(), name="visitor")
            async with asyncio.timeout(CONNECT_WITHIN_S):
                await visitor.ready.wait()
            await clock.sleep_until(clock.now_ns() + int(seconds * NS_PER_S))
            visitor.gone.set()
    finally:
        await visitor.close()
    return visitor


def measure(call: BurstCall) -> BurstTimes:
    """Say bursts into a session and time them. Runs an event loop of its own."""
    return asyncio.run(_measure(call))


async def _measure(call: BurstCall) -> BurstTimes:
    clock = MonotonicClock()
    microphone = burst_microphone(call.bursts, call.seed)
    with Witness(SquareReader() if call.square else LipReader()) as witness:
        plan = witness.plan(microphone.pcm48, lose_uplink=_loss(call))
        visitor = await visit(call.url, plan, clock, len(microphone.pcm48) / SOUND_HZ + AFTER_S)
        readings = witness.readings()
    sent = sent_ns(microphone.onsets, visitor.counts.sent)
    return BurstTimes(to_lip_ms(sent, readings), to_ear_ms(sent, witness.blocks, microphone.burst), _last(visitor))


def talk(urls: list[str], pcm48: S16, seconds: float) -> None:
    """Let one visitor for each URL talk at once, so that the server has something to do."""

    async def all_of_them() -> None:
        clock = MonotonicClock()
        async with asyncio.TaskGroup() as group:
            for url in urls:
                group.create_task(visit(url, Visit(pcm48), clock, seconds), name="talker")

    asyncio.run(all_of_them())


def pin(cores: Collection[int]) -> None:
    """Keep this process on some cores, where the system can."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def _loss(call: BurstCall) -> Callable[[], bool] | None:
    if not call.uplink_loss:
        return None
    draw = random.Random(call.seed)
    return lambda: draw.random() < call.uplink_loss


def _last(visitor: Visitor) -> Message:
    last: Message = {}
    while (message := visitor.telemetry.get_nowait()) is not None:
        if message.get("type") == "snapshot":
            last = message
    return last
