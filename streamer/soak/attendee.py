"""One synthetic client: makes its calls as its profile says and reports once a second. Runs in a worker process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec

from streamer.clock import NS_PER_MS, NS_PER_S, Clock
from streamer.errors import SignalingError, StreamerError
from streamer.soak.client import Signal, Visit, Visitor
from streamer.soak.lipwatch import LipWatch
from streamer.soak.observer import MediaLog
from streamer.soak.plan import ClientSample, Failure, Plan, Profile, Seat
from streamer.soak.relay import Relay
from streamer.soak.voice import EarTimer, SilenceTimer, Voice

CONNECT_WITHIN_S = 20.0
COME_AGAIN_S = 2.0
"""After a call that failed or ended by itself."""
HEARS_BEFORE_S = 3.0
"""An interrupter listens so long, then cuts short."""
SOURCES = {Profile.LISTENER: "agent", Profile.INTERRUPTER: "agent"}


@dataclass(frozen=True, slots=True, eq=False)
class Desk:
    """What all clients of a worker share."""

    plan: Plan
    http: aiohttp.ClientSession
    voice: Voice
    speech: bytes
    """A sound file that is pushed to agent sessions."""
    clock: Clock
    emit: Callable[[ClientSample], None]


class Attendee:
    """`run` from its start to the soak's end."""

    def __init__(self, seat: Seat, desk: Desk) -> None:
        self._seat = seat
        self._desk = desk
        self._log = MediaLog()
        self._ear = EarTimer(desk.voice)
        self._silence = SilenceTimer()
        self._lips = LipWatch() if seat.profile is Profile.PROBE else None
        self._visitor: Visitor | None = None
        self._decoded_before = 0
        self._calls = 0
        self._setup_ms: list[float] = []
        self._failures: list[Failure] = []
        self._stage = ""
        """Of the call: offering, connecting, live, leaving."""
        self._reported_ns = desk.clock.now_ns()

    async def run(self) -> None:
        plan, clock = self._desk.plan, self._desk.clock
        await clock.sleep_until(plan.start_ns + int(self._seat.start_s * NS_PER_S))
        end_ns = plan.start_ns + int(plan.seconds * NS_PER_S)
        self._reported_ns = clock.now_ns()
        try:
            async with asyncio.TaskGroup() as group:
                reporting = group.create_task(self._report(), name="report")
                await self._attend(end_ns)
                reporting.cancel()
        finally:
            if self._lips is not None:
                self._lips.close()
        self._desk.emit(self._sample())

    async def _attend(self, end_ns: int) -> None:
        """Call after call until the end; a failed call is reported and tried again."""
        plan, clock = self._desk.plan, self._desk.clock
        joins = self._seat.profile is Profile.JOINER
        while clock.now_ns() < end_ns and not (joins and plan.cycles and self._calls >= plan.cycles):
            stay_ns = min(end_ns, clock.now_ns() + int(plan.stay_s * NS_PER_S)) if joins else end_ns
            try:
                await self._call(stay_ns if joins else end_ns, plan.stay_s if joins else None)
            except* (StreamerError, TimeoutError, aiohttp.ClientError, OSError) as errors:
                self._failures.append(_failure(self._stage, errors))
                await clock.sleep_until(clock.now_ns() + int(COME_AGAIN_S * NS_PER_S))

    async def _call(self, end_ns: int, stay_s: float | None) -> None:
        clock = self._desk.clock
        asked_ns = clock.now_ns()
        self._stage = "offering"
        async with self._connected() as session:
            self._stage = "live"
            self._calls += 1
            self._setup_ms.append(round((clock.now_ns() - asked_ns) / NS_PER_MS, 1))
            if stay_s is not None:
                end_ns = clock.now_ns() + int(stay_s * NS_PER_S)
            visitor = self._visitor
            assert visitor is not None
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._listen(visitor), name="telemetry")]
                if self._seat.profile in SOURCES:
                    tasks.append(group.create_task(self._converse(session), name="converse"))
                try:
                    async with asyncio.timeout(max(0.01, (end_ns - clock.now_ns()) / NS_PER_S)):
                        await visitor.gone.wait()
                    raise SignalingError("the session ended by itself", 408)
                except TimeoutError:
                    self._stage = "leaving"
                finally:
                    for task in tasks:
                        task.cancel()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[str]:
        """A running call; gives the path of its session. Hangs up at the end."""
        desk = self._desk
        visitor = self._visitor = Visitor(self._visit(), desk.clock)
        self._decoded_before = 0
        self._log.begin()
        location: list[str] = []
        relay = None if desk.plan.net.perfect else Relay(desk.plan.net, self._seat.number, desk.clock)
        signal = self._signal(location)
        try:
            async with asyncio.TaskGroup() as group:
                tasks: list[asyncio.Task[None]] = []
                if relay is not None:
                    signal = relay.over(signal)
                    tasks.append(group.create_task(relay.run(), name="relay"))
                async with asyncio.timeout(CONNECT_WITHIN_S):
                    await visitor.connect(signal)
                    tasks.append(group.create_task(visitor.run(), name="visitor"))
                    await visitor.ready.wait()
                try:
                    yield location[0]
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self._visitor = None
            if location:
                async with desk.http.delete(location[0]):
                    pass
            await visitor.close()
            if relay is not None:
                relay.close()

    def _signal(self, location: list[str]) -> Signal:
        plan, profile = self._desk.plan, self._seat.profile
        query = {"avatar": plan.avatar, "source": SOURCES.get(profile, "mirror"), "canvas": plan.canvas_px}
        url = f"{plan.url}api/sessions?{urlencode(query)}"

        async def signal(offer: str) -> str:
            async with self._desk.http.post(url, data=offer, headers={"Content-Type": "application/sdp"}) as response:
                if response.status != 201:
                    raise SignalingError(f"{response.status}: {await _detail(response)}", response.status)
                self._stage = "connecting"
                location.append(plan.url.rstrip("/") + response.headers["Location"])
                return await response.text()

        return signal

    def _visit(self) -> Visit:
        lips, profile = self._lips, self._seat.profile
        talks = profile in (Profile.TALKER, Profile.JOINER)
        if lips is not None:
            return Visit(
                lips.microphone, endless=True, on_picture=lips.seen, on_spoken=lips.spoken,
                on_rtp=self._log.note_rtp, on_report=self._log.note_report,
            )  # fmt: skip
        return Visit(
            self._desk.voice.pcm48 if talks else None,
            endless=True,
            decodes=self._seat.decodes,
            on_spoken=self._ear.spoken if talks else None,
            on_sound=self._silence.heard if profile is Profile.INTERRUPTER else self._ear.heard if talks else None,
            on_rtp=self._log.note_rtp,
            on_report=self._log.note_report,
        )

    async def _listen(self, visitor: Visitor) -> None:
        """Snapshots of the server, for the probe."""
        while True:
            message = await visitor.telemetry.get()
            if self._lips is not None and message.get("type") == "snapshot":
                self._lips.told(message)

    async def _converse(self, session: str) -> None:
        """Have speech pushed without end; an interrupter cuts each one short."""
        desk, clock = self._desk, self._desk.clock
        cuts = self._seat.profile is Profile.INTERRUPTER
        while True:
            async with desk.http.post(
                f"{session}/speech", data=desk.speech, headers={"Content-Type": "audio/ogg"}
            ) as response:
                if response.status != 202:
                    raise SignalingError(f"speech refused with {response.status}", response.status)
                seconds = float((await response.json())["seconds"])
            await clock.sleep_until(clock.now_ns() + int((HEARS_BEFORE_S if cuts else seconds) * NS_PER_S))
            if cuts and self._visitor is not None:
                self._silence.interrupted(clock.now_ns())
                self._visitor.tell({"type": "interrupt"})
                await clock.sleep_until(clock.now_ns() + 2 * NS_PER_S)

    async def _report(self) -> None:
        clock = self._desk.clock
        while True:
            await clock.sleep_until(clock.now_ns() + NS_PER_S)
            self._desk.emit(self._sample())

    def _sample(self) -> ClientSample:
        clock, plan = self._desk.clock, self._desk.plan
        now_ns, visitor = clock.now_ns(), self._visitor
        span_ns, self._reported_ns = now_ns - self._reported_ns, now_ns
        decoded = visitor.counts.pictures if visitor is not None else self._decoded_before
        pictures, self._decoded_before = decoded - self._decoded_before, decoded
        setup_ms, self._setup_ms = self._setup_ms, []
        failures, self._failures = self._failures, []
        media = self._log.take(now_ns)
        to_lip_ms, residual_ms = self._lips.take(now_ns) if self._lips is not None else ([], None)
        return ClientSample(
            client=self._seat.number,
            profile=self._seat.profile,
            t_s=round((now_ns - plan.start_ns) / NS_PER_S, 3),
            span_s=round(span_ns / NS_PER_S, 3),
            live=visitor is not None and visitor.ready.is_set(),
            frames=media.frames,
            pictures=pictures,
            sounds=media.sounds,
            gaps_ms=media.gaps_ms,
            sound_gap_ms=media.sound_gap_ms,
            av_offset_ms=media.av_offset_ms,
            to_ear_ms=tuple(self._ear.take(now_ns)),
            to_lip_ms=tuple(to_lip_ms),
            residual_ms=residual_ms,
            silence_ms=tuple(self._silence.take(now_ns)),
            calls=self._calls,
            setup_ms=tuple(setup_ms),
            failures=tuple(failures),
        )


async def _detail(response: aiohttp.ClientResponse) -> str:
    """What a refusal says (RFC 9457), without its numbers: the same words for the same cause."""
    try:
        found = msgspec.json.decode(await response.read(), type=dict[str, Any])
    except msgspec.DecodeError:
        return response.reason or ""
    return re.sub(r"\d+", "#", str(found.get("detail", found.get("title", ""))))


def _failure(stage: str, error: BaseException) -> Failure:
    """What went wrong; task groups wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = str(error) or f"not within {CONNECT_WITHIN_S:.0f} s" * isinstance(error, TimeoutError)
    name = "" if isinstance(error, SignalingError) else type(error).__name__
    full = isinstance(error, SignalingError) and error.status in (429, 503)
    return Failure(stage, ": ".join(filter(None, (name, said))), full)
