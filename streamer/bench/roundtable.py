"""`liveanchor bench roundtable`: a live room of four speaking seats at 1280 x 720, seen by one decoding viewer.

What it costs by stage (threads of the server's process), what the viewer decodes, and how far each seat's mouth is from
its sound.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from streamer.app import web_folder
from streamer.bench.bursts import OPEN_SHARE, burst_microphone
from streamer.bench.lips import LipReader
from streamer.bench.served import Served, serve_command, served
from streamer.bench.witness import Witness
from streamer.clock import NS_PER_S, MonotonicClock
from streamer.errors import StreamerError
from streamer.media import SOUND_HZ, U8
from streamer.pcm import wav_of
from streamer.roundtable.arrangement import Arrangement, Place, arrange
from streamer.soak.client import Visit, Visitor, over_http

SEATS = ("ruby", "blaze", "mateo", "guest")
AVATARS = ("ruby", "blaze", "mateo", "ruby")
SIZE_PX = (1280, 720)
WINDOW_S = 15.0
BURSTS = 8
STAGES = {"inference-warp": "mouths", "pictures": "encode", "sound": "sound_coding", "loop": "loop"}
CLOCK = MonotonicClock()


def run() -> dict[str, float]:
    """All figures. About a minute and a half."""
    import uvloop

    with tempfile.TemporaryDirectory() as store, served(serve_command(Path(store))) as server:
        return uvloop.run(_measure(server))


async def _measure(server: Served) -> dict[str, float]:
    async with aiohttp.ClientSession(base_url=server.url) as http:
        seats = [
            {"seat": seat, "avatar": avatar, "name": seat.title(), "role": "Bench"}
            for seat, avatar in zip(SEATS, AVATARS, strict=True)
        ]
        body = {"seats": seats, "width": SIZE_PX[0], "height": SIZE_PX[1], "badge": "AI"}
        async with http.post("/api/rooms?room=bench", json=body) as response:
            response.raise_for_status()
        await _wait(1.0)
        figures = await _load(server, http)
        await _wait(1.0)
        for seat in SEATS:
            figures[f"av_offset_{seat}_ms"] = await _offset_ms(http, seat)
    figures["av_offset_abs_max_ms"] = max(abs(v) for k, v in figures.items() if k.startswith("av_offset_"))
    return figures


async def _load(server: Served, http: aiohttp.ClientSession) -> dict[str, float]:
    """All four speak at once for the whole window."""
    sound = (web_folder() / "samples" / "evening-news.ogg").read_bytes()
    visitor = Visitor(Visit(on_picture=lambda picture: None), CLOCK)
    await visitor.connect(over_http(http, "/whep/bench"))
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(visitor.run(), name="viewer")
            await visitor.ready.wait()
            for seat in SEATS:
                for _ in range(3):
                    await _say(http, seat, sound, "audio/ogg")
            await _wait(2.0)
            before, cpu_before, seen, room_before = (
                await _threads(http),
                server.read().cpu_s,
                *await _seen(http, visitor),
            )
            since_ns = CLOCK.now_ns()
            await _wait(WINDOW_S)
            after, cpu_after, seen_after, room_after = (
                await _threads(http),
                server.read().cpu_s,
                *await _seen(http, visitor),
            )
            seconds = (CLOCK.now_ns() - since_ns) / NS_PER_S
            running.cancel()
    finally:
        await visitor.close()
    for seat in SEATS:
        async with http.post(f"/api/rooms/bench/seats/{seat}/interrupt"):
            pass
    frames = room_after["frames"] - room_before["frames"]
    lay_ms = room_after["lay_ms"] * room_after["frames"] - room_before["lay_ms"] * room_before["frames"]
    draw = 100.0 * lay_ms / 1000 / seconds
    stages = {name: 100.0 * (after[thread] - before[thread]) / seconds for thread, name in STAGES.items()}
    return {
        "decoded_fps": (seen_after - seen) / seconds,
        "room_fps": frames / seconds,
        "cpu_percent_total": 100.0 * (cpu_after - cpu_before) / seconds,
        "cpu_percent_mouths": stages["mouths"],
        "cpu_percent_draw_and_mix": draw,
        "cpu_percent_encode": stages["encode"],
        "cpu_percent_sound_coding": stages["sound_coding"],
        "cpu_percent_rest_of_loop": stages["loop"] - draw,
        "draw_and_mix_ms": lay_ms / max(1, frames),
        "pictures_late": float(sum(s["repeated"] for s in room_after["seats"])),
    }


async def _offset_ms(http: aiohttp.ClientSession, seat: str) -> float:
    """Median time from the sound of a burst to its mouth, on the server's clock; negative: the mouth is first."""
    microphone = burst_microphone(BURSTS, seed=5)
    place = arrange(Arrangement(), SEATS, SIZE_PX)[seat]
    with Witness(_TileReader(place)) as witness:
        visitor = Visitor(witness.plan(None), CLOCK)
        await visitor.connect(over_http(http, "/whep/bench"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(visitor.run(), name="viewer")
            await visitor.ready.wait()
            await _wait(1.0)
            await _say(http, seat, wav_of(microphone.pcm48), "audio/wav")
            await _wait(len(microphone.pcm48) / SOUND_HZ + 1.5)
            running.cancel()
        await visitor.close()
        return _lag_ms(witness)


def _lag_ms(witness: Witness) -> float:
    sound = np.abs(witness.sound().astype(np.float32))
    loud = np.flatnonzero(sound > 0.15 * sound.max(initial=1.0))
    onsets = loud[np.flatnonzero(np.diff(loud, prepend=-SOUND_HZ) > 0.25 * SOUND_HZ)]
    readings = witness.readings()
    shown_s = np.array([witness.shown_s(reading.pts) for reading in readings])
    gaps = np.array([reading.gap for reading in readings])
    rest, usual = float(np.percentile(gaps, 20)), float(np.percentile(gaps, 98))
    is_open = gaps > rest + OPEN_SHARE * (usual - rest)
    parting = shown_s[is_open & ~np.concatenate(([True], is_open[:-1]))]
    lags = []
    for onset in onsets:
        heard_s = witness.heard_s(int(onset))
        near = parting[np.abs(parting - heard_s) < 0.3]
        if len(near):
            lags.append(1000.0 * float(near[np.abs(near - heard_s).argmin()] - heard_s))
    if len(lags) < BURSTS // 2:
        raise StreamerError("too few bursts came through: the machine is too busy to measure anything")
    return float(np.median(lags))


class _TileReader:
    """The mouth in one tile of the room's picture."""

    def __init__(self, place: Place) -> None:
        self._rect = place.rect
        self._lips = LipReader()

    def gap(self, planes: U8) -> float:
        x1, y1, x2, y2 = self._rect
        height, width = planes.shape[0] * 2 // 3, planes.shape[1]
        chroma = planes[height:].reshape(2, height // 2, width // 2)[:, y1 // 2 : y2 // 2, x1 // 2 : x2 // 2]
        luma = planes[y1:y2, x1:x2]
        tile = np.concatenate([luma.reshape(-1), chroma.reshape(-1)]).reshape(-1, x2 - x1)
        return self._lips.gap(np.ascontiguousarray(tile))


async def _say(http: aiohttp.ClientSession, seat: str, body: bytes, kind: str) -> None:
    async with http.post(
        f"/api/rooms/bench/seats/{seat}/speech", data=body, headers={"Content-Type": kind}
    ) as response:
        response.raise_for_status()


async def _seen(http: aiohttp.ClientSession, visitor: Visitor) -> tuple[int, dict[str, Any]]:
    async with http.get("/api/rooms/bench") as response:
        room: dict[str, Any] = await response.json()
    return visitor.counts.pictures, room


async def _threads(http: aiohttp.ClientSession) -> dict[str, float]:
    async with http.get("/metrics") as response:
        text = await response.text()
    found = re.findall(r'^avatar_thread_cpu_seconds\{thread="([^"]+)"\} (\S+)$', text, re.MULTILINE)
    return {name: 0.0 for name in STAGES} | {name: float(value) for name, value in found}


async def _wait(seconds: float) -> None:
    await CLOCK.sleep_until(CLOCK.now_ns() + int(seconds * NS_PER_S))
