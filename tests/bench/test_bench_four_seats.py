"""Prints what Chromium decodes of a live room of four speaking seats at 1280 x 720, and its A/V offset."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from playwright.async_api import async_playwright

from streamer.bench.roundtable import AVATARS, SEATS, SIZE_PX
from streamer.bench.served import serve_command, served

ROOT = Path(__file__).parents[2]
SECONDS = 20
PICTURES = os.environ.get("LIVEANCHOR_ROOM_SCREENSHOTS")
"""A folder to keep pictures of the pages in."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required",
         "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")  # fmt: skip


@pytest.mark.timeout(180)
async def test_print_four_seats_in_chromium(avatars_dir):
    chromium = os.environ.get("LIVEANCHOR_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("no Chromium here")
    with served(serve_command(avatars_dir)) as server:
        async with aiohttp.ClientSession(base_url=server.url) as http, async_playwright() as playwright:
            await open_room(http)
            browser = await playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            page = await browser.new_page(viewport={"width": 1360, "height": 900})
            await page.goto(server.url + "web/watch.html?feed=bench")
            await page.wait_for_selector("#screen[data-state=live]")
            sound = (ROOT / "web/samples/evening-news.ogg").read_bytes()
            for seat in SEATS:
                for _ in range(4):
                    await http.post(f"/api/rooms/bench/seats/{seat}/speech", data=sound)
            await asyncio.sleep(2)  # noqa: TID251 - a bench
            figures, cpu_s = [await page.evaluate("window.liveanchor.screen.figures()")], server.read().cpu_s
            for _ in range(SECONDS):
                await asyncio.sleep(1)  # noqa: TID251 - a bench
                figures.append(await page.evaluate("window.liveanchor.screen.figures()"))
            cpu = (server.read().cpu_s - cpu_s) / SECONDS
            await keep(page, "watch")
            for seat in SEATS[:1]:
                await http.post(f"/api/rooms/bench/seats/{seat}/speech", data=sound)
            await page.goto(server.url + "web/control.html?room=bench")
            await page.wait_for_selector(".seat")
            await keep(page, "control")
            await page.goto(server.url + "web/join.html?room=bench")
            await keep(page, "join")
            await browser.close()
    seconds = (figures[-1]["t_ms"] - figures[0]["t_ms"]) / 1000
    decoded = (figures[-1]["framesDecoded"] - figures[0]["framesDecoded"]) / seconds
    offsets = [f["avOffsetMs"] for f in figures if f["avOffsetMs"] is not None]
    print(
        f"four seats, {SIZE_PX[0]} x {SIZE_PX[1]}: {decoded:.2f} fps decoded, {figures[-1]['freezeCount']} freezes, "
        f"{figures[-1]['framesDropped']} dropped, server {100 * cpu:.0f} % of a core, "
        f"A/V median {np.median(offsets):.1f} ms, worst {max(map(abs, offsets)):.1f} ms"
    )
    assert decoded > 0


async def open_room(http):
    seats = [{"seat": s, "avatar": a, "name": s.title(), "role": "Bench"} for s, a in zip(SEATS, AVATARS, strict=True)]
    body = {"seats": seats, "width": SIZE_PX[0], "height": SIZE_PX[1], "badge": "AI", "title": "The evening desk"}
    async with http.post("/api/rooms?room=bench", json=body) as response:
        assert response.status == 201


async def keep(page, name):
    if PICTURES:
        await page.wait_for_timeout(1500)
        await page.screenshot(path=f"{PICTURES}/{name}.png")
