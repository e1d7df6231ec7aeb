"""Runs a soak: worker processes with clients, readings of the server, and at the end whether anything was left."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import msgspec

from streamer.clock import NS_PER_S, MonotonicClock, wall_clock_s
from streamer.errors import StreamerError
from streamer.soak import findings
from streamer.soak.impairment import Impairment
from streamer.soak.machine import facts, load_average
from streamer.soak.plan import ClientSample, Plan, Profile, Seat, share_out
from streamer.soak.record import Record, Tally
from streamer.soak.watch import ServerSample, read_metrics

START_S, START_EACH_S = 3.0, 0.6
"""Processes import before their clients call."""
EMPTY_WITHIN_S = 20.0
SETTLE_S = 3.0
REHEARSAL_STAY_S = 3.0
LEAVE_S = 60.0
"""How long after its end a worker may take to leave."""
LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    avatar: str
    canvas_px: int
    profiles: dict[Profile, int]
    seconds: float
    ramp_s: float = 5.0
    cycles: int = 0
    """In all; shared by the joiners, who then set the end. 0: none."""
    stay_s: float = 1.0
    net: Impairment = field(default_factory=Impairment)
    decoded: int = 2
    processes: int = 8
    token: str | None = None
    cores: tuple[int, ...] = ()
    """For the clients."""
    limits: tuple[findings.Limit, ...] = ()
    rehearsed: bool = False
    """Two short calls come before the first reading: the first brings the avatar on stage, which then gets its idle
    frames, the second finds them. What the server holds from then on, it holds for all."""


class Soak:
    """One run against one server. `on_tick` is called about once a second."""

    def __init__(self, url: str, options: Options, on_tick: Callable[[Record, float], None]) -> None:
        self._url = url
        self._options = options
        self._on_tick = on_tick
        self._clock = MonotonicClock()
        self.record = Record()
        self._seats = share_out(options.profiles, options.ramp_s, options.decoded)
        self._start_ns = 0

    async def run(self) -> dict[str, Any]:
        """The report, JSON-ready. Raises StreamerError where a worker fails or the server cannot be read."""
        options, clock = self._options, self._clock
        headers = {"Authorization": f"Bearer {options.token}"} if options.token else {}
        load_before = load_average()
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=10)) as http:
            if options.rehearsed:
                await self._rehearse(http)
            self.record.note_server(await self._reading(http))
            groups = _share(self._seats, options.processes)
            self._start_ns = clock.now_ns() + int((START_S + START_EACH_S * len(groups)) * NS_PER_S)
            async with asyncio.TaskGroup() as group:
                watching = [
                    group.create_task(self._watch(http), name="watch"),
                    group.create_task(self._tick(), name="tick"),
                ]
                async with asyncio.TaskGroup() as workers:
                    for seats in groups:
                        work = self._work(self._plan(seats, options), self.record.note)
                        workers.create_task(work, name=f"worker-{seats[0].number}")
                for task in watching:
                    task.cancel()
            ended_s = min(self._now_s(), options.seconds) if not options.cycles else self._now_s()
            await self._until_empty(http)
            self.record.note_server(await self._reading(http))
        return self._report(ended_s, load_before)

    async def _rehearse(self, http: aiohttp.ClientSession) -> None:
        self._start_ns = self._clock.now_ns() + int(START_S * NS_PER_S)
        seats = share_out({Profile.JOINER: 1}, 0.0, 0)
        calls = replace(self._options, profiles={Profile.JOINER: 1}, cycles=2, stay_s=REHEARSAL_STAY_S)
        await self._work(self._plan(seats, calls), lambda sample: None)
        await self._until_empty(http)
        self._start_ns = 0

    async def _work(self, plan: Plan, note: Callable[[ClientSample], None]) -> None:
        """One worker process from its plan to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "streamer.soak.worker", stdin=PIPE, stdout=PIPE, limit=LINE_BYTES
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(plan))
            process.stdin.close()
            while line := await process.stdout.readline():
                note(msgspec.json.decode(line, type=ClientSample))
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code:
            raise StreamerError(f"a process of synthetic clients ended with code {code}")

    def _plan(self, seats: tuple[Seat, ...], options: Options) -> Plan:
        joiners = max(1, options.profiles.get(Profile.JOINER, 0))
        return Plan(
            url=self._url,
            token=options.token,
            avatar=options.avatar,
            canvas_px=options.canvas_px,
            seats=seats,
            start_ns=self._start_ns,
            seconds=options.seconds,
            cycles=-(-options.cycles // joiners),
            stay_s=options.stay_s,
            net=options.net,
            cores=options.cores,
        )

    async def _watch(self, http: aiohttp.ClientSession) -> None:
        """Read the server every one to five seconds; a reading that fails is left out."""
        clock = self._clock
        period_ns = int(min(5.0, max(1.0, self._options.seconds / 120)) * NS_PER_S)
        at_ns = self._start_ns
        while True:
            await clock.sleep_until(at_ns)
            at_ns = max(at_ns + period_ns, clock.now_ns())
            try:
                self.record.note_server(await self._reading(http))
            except (aiohttp.ClientError, TimeoutError, StreamerError):
                continue

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + NS_PER_S)
            self._on_tick(self.record, self._now_s())

    async def _until_empty(self, http: aiohttp.ClientSession) -> None:
        """Wait for the sessions to be gone and the server to settle: the next reading says what was left."""
        clock, end_ns = self._clock, self._clock.now_ns() + int(EMPTY_WITHIN_S * NS_PER_S)
        while (await self._reading(http)).values.get("sessions", 0) > 0 and clock.now_ns() < end_ns:
            await clock.sleep_until(clock.now_ns() + NS_PER_S // 4)
        await clock.sleep_until(clock.now_ns() + int(SETTLE_S * NS_PER_S))

    async def _reading(self, http: aiohttp.ClientSession) -> ServerSample:
        async with http.get(f"{self._url}metrics") as response:
            if response.status != 200:
                raise StreamerError(f"{self._url}metrics answers {response.status}; is --token right?")
            return read_metrics(await response.text(), self._now_s())

    def _now_s(self) -> float:
        return (self._clock.now_ns() - self._start_ns) / NS_PER_S if self._start_ns else 0.0

    def _report(self, seconds: float, load_before: float | None) -> dict[str, Any]:
        record, options = self.record, self._options
        slopes = findings.slopes_of(record, seconds)
        figures = findings.with_cycles(findings.figures_of(record, seconds), slopes, seconds)
        return {
            "report": "liveanchor soak",
            "version": 1,
            "ended_unix_s": round(wall_clock_s()),
            "seconds": round(seconds, 1),
            "asked": {
                "avatar": options.avatar,
                "canvas_px": options.canvas_px,
                "profiles": {str(name): count for name, count in options.profiles.items()},
                "cycles": options.cycles,
                "net": msgspec.to_builtins(options.net),
                "decoded": options.decoded,
            },
            "machine": facts() | {"load_before": load_before or 0.0, "load_after": load_average() or 0.0},
            "figures": figures,
            "slopes": slopes,
            "thirds": {
                name: {f"p{p:.0f}": findings.thirds(record.tracks[name], seconds, p) for p in findings.PERCENTS}
                for name in findings.LATENCIES
            },
            "stages_ms": findings.stages_of(record),
            "checks": findings.checks(options.limits, figures),
            "series": findings.series_of(record, seconds),
            "histograms": findings.histograms_of(record),
            "failures": [
                {"client": number, "t_s": t_s, "stage": failure.stage, "reason": failure.reason}
                for number, tally in sorted(record.clients.items())
                for t_s, failure in tally.failures
            ],
            "refusals": dict(record.refusals),
            "clients": [_client(number, tally) for number, tally in sorted(record.clients.items())],
        }  # fmt: skip


def _client(number: int, tally: Tally) -> dict[str, Any]:
    return {
        "client": number,
        "profile": tally.profile,
        "live_s": round(tally.live_s, 1),
        "calls": tally.calls,
        "frames": tally.frames,
        "pictures": tally.pictures,
        "refused": tally.refused,
        "failures": len(tally.failures),
    }


def _share(seats: tuple[Seat, ...], processes: int) -> list[tuple[Seat, ...]]:
    """Seats dealt out to at most so many processes."""
    count = max(1, min(processes, len(seats)))
    return [seats[i::count] for i in range(count)]
