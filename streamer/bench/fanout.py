"""`liveanchor bench fanout`: one feed, one to fifty viewers. What each costs, how soon it sees, who is disturbed.

The server is a process of its own; its CPU time is what the system counts. Viewers take packets and decode the first
picture only, fifty in this process.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import numpy as np

from streamer.app import web_folder
from streamer.bench.served import Served, serve_command, served
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from streamer.errors import StreamerError
from streamer.soak.watcher import Watcher

AVATAR, CANVAS_PX, FEED = "ruby", 512, "desk"
VIEWERS = 50
WINDOW_S = 12.0
JOINS = 40
STALL_S = 6.0
FLOOD_S = 1.0
SPEECHES = 12
OPEN_DOORS = "[limits]\noffers_per_s = 1000\noffers_burst = 1000\n"
"""All viewers come from one address here."""

CLOCK = MonotonicClock()


@dataclass(frozen=True, slots=True)
class _Reading:
    cpu_s: float
    at_ns: int
    encoder_calls: float
    keyframes: float

    def share(self, before: _Reading) -> float:
        """Percent of a core since a reading."""
        return 100.0 * (self.cpu_s - before.cpu_s) * NS_PER_S / (self.at_ns - before.at_ns)

    def calls_per_s(self, before: _Reading) -> float:
        return (self.encoder_calls - before.encoder_calls) * NS_PER_S / (self.at_ns - before.at_ns)


def run() -> dict[str, float]:
    """All figures. About a minute and a half."""
    import uvloop

    with tempfile.TemporaryDirectory() as store:
        settings = Path(store) / "open.toml"
        settings.write_text(OPEN_DOORS, encoding="utf-8")
        with served(serve_command(Path(store) / "avatars", ("--config", str(settings)))) as server:
            return uvloop.run(_measure(server))


async def _measure(server: Served) -> dict[str, float]:
    async with aiohttp.ClientSession(base_url=server.url) as http, _on_air(http):
        one = [await _join(http)]
        alone = await _window(server, http)
        joins = await _joins(http)
        crowd = one + [await _join(http) for _ in range(VIEWERS - 1)]
        full = await _window(server, http)
        since_ns = full[0].at_ns
        quiet_gaps = [gap for watcher in crowd for gap in watcher.gaps_ms(since_ns)]
        flood = await _flood(server, http, crowd)
        gaps = await _stall(crowd)
        cpu_alone, cpu_full = alone[1].share(alone[0]), full[1].share(full[0])
        for watcher in crowd[:-1]:
            await watcher.close(http)
        await crowd[-1].close()
    joined = [(w.first_picture_ns - w.joined_ns) / NS_PER_MS for w in joins if w.first_picture_ns and w.joined_ns]
    called = [(w.first_picture_ns - w.called_ns) / NS_PER_MS for w in joins if w.first_picture_ns]
    if not joined or not gaps:
        raise StreamerError("nothing came through: the machine is too busy to measure anything")
    return {
        "viewers": VIEWERS,
        "cpu_percent_1_viewer": cpu_alone,
        "cpu_percent_50_viewers": cpu_full,
        "cpu_percent_per_viewer": (cpu_full - cpu_alone) / (VIEWERS - 1),
        "encoder_calls_per_s_1": alone[1].calls_per_s(alone[0]),
        "encoder_calls_per_s_50": full[1].calls_per_s(full[0]),
        "encoder_calls_ratio_50_over_1": full[1].calls_per_s(full[0]) / alone[1].calls_per_s(alone[0]),
        "join_first_frame_p50_ms": _percentile(joined, 50),
        "join_first_frame_p95_ms": _percentile(joined, 95),
        "offer_first_frame_p95_ms": _percentile(called, 95),
        "keyframe_requests": VIEWERS,
        "keyframes_in_their_second": flood,
        "frame_gap_p99_ms": _percentile(quiet_gaps, 99),
        "frame_gap_p99_worst_viewer_while_one_stalls_ms": max(_percentile(g, 99) for g in gaps),
        "frame_gap_p99_while_one_stalls_ms": _percentile([gap for g in gaps for gap in g], 99),
    }


@asynccontextmanager
async def _on_air(http: aiohttp.ClientSession) -> AsyncIterator[None]:
    """A session that speaks for as long as all this takes, and may be watched."""
    owner = Watcher(CLOCK)
    await owner.connect(http, f"/api/sessions?avatar={AVATAR}&source=agent&canvas={CANVAS_PX}&feed={FEED}")
    sound = (web_folder() / "samples" / "evening-news.ogg").read_bytes()
    for _ in range(SPEECHES):
        async with http.post(f"{owner.location}/speech", data=sound, headers={"Content-Type": "audio/ogg"}) as response:
            response.raise_for_status()
    await _wait(2.0)
    yield
    await owner.close(http)


async def _join(http: aiohttp.ClientSession) -> Watcher:
    watcher = Watcher(CLOCK)
    await watcher.connect(http, f"/whep/{FEED}")
    async with asyncio.timeout(20):
        await watcher.seen.wait()
    return watcher


async def _joins(http: aiohttp.ClientSession) -> list[Watcher]:
    """Viewers who come at odd moments and go again."""
    draw, joined = random.Random(8), []
    for _ in range(JOINS):
        watcher = await _join(http)
        joined.append(watcher)
        await watcher.close(http)
        await _wait(draw.uniform(0.0, 0.6))
    return joined


async def _window(server: Served, http: aiohttp.ClientSession) -> tuple[_Reading, _Reading]:
    await _wait(1.5)
    before = await _read(server, http)
    await _wait(WINDOW_S)
    return before, await _read(server, http)


async def _flood(server: Served, http: aiohttp.ClientSession, crowd: list[Watcher]) -> float:
    """Every viewer loses the picture once, all within a second; how many keyframes that makes, to its last answer."""
    await _wait(1.5)
    before = await _read(server, http)
    for watcher in crowd:
        await watcher.ask_for_picture()
        await _wait(FLOOD_S / len(crowd))
    after = await _read(server, http)
    return after.keyframes - before.keyframes


async def _stall(crowd: list[Watcher]) -> list[list[float]]:
    """The last viewer stands still; the gaps between pictures of all others meanwhile."""
    crowd[-1].stall()
    since_ns = CLOCK.now_ns()
    await _wait(STALL_S)
    return [watcher.gaps_ms(since_ns) for watcher in crowd[:-1]]


async def _read(server: Served, http: aiohttp.ClientSession) -> _Reading:
    async with http.get("/metrics") as response:
        text = await response.text()

    def value(name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    calls, keyframes = value("avatar_feed_encoder_calls"), value("avatar_feed_keyframes")
    return _Reading(server.read().cpu_s, CLOCK.now_ns(), calls, keyframes)


async def _wait(seconds: float) -> None:
    await CLOCK.sleep_until(CLOCK.now_ns() + int(seconds * NS_PER_S))


def _percentile(values: list[float], percent: float) -> float:
    return float(np.percentile(values, percent))
