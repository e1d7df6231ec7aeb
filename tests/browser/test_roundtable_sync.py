"""Each of four seats against its own sound, in the room's picture as Chromium shows it: flashes and clicks in turn.

The engine flashes with a seat's sound, so the seat's tile turns white when its click is heard. The seats' clicks follow
each other unevenly: only a seat's own clicks can be near its flashes in all four.
"""

from __future__ import annotations

import os
import sys

import aiohttp
import numpy as np
import pytest

from streamer.bench.bursts import burst_microphone
from streamer.bench.roundtable import AVATARS, SEATS, SIZE_PX
from streamer.bench.served import served
from streamer.media import SOUND_HZ
from streamer.pcm import wav_of
from streamer.roundtable.arrangement import Arrangement, arrange

CLICKS = 24
"""Of each seat."""
ROUND_SAMPLES = 118_464
"""2.468 s: a seat's clicks fall on all phases of the frame grid in turn, so their middle is free of the grid."""
OFFSETS = (0, 26_000, 56_500, 91_000)
LEAD_S = 3
SETTLE_ROUNDS = 8
"""The browser finds the size of its buffers first."""
MOST_APART_MS = 45
VOWEL = 1800
"""First sample of the vowel in a burst: where it starts with full voice."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
]

WATCH = """([seconds, tiles]) => new Promise((resolve) => {
    const video = document.querySelector("#video");
    const [width, height] = [320, 180];
    const picture = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    const context = new AudioContext({ latencyHint: "interactive" });
    const analyser = new AnalyserNode(context, { fftSize: 4096 });
    context.createMediaStreamSource(video.srcObject).connect(analyser);
    const samples = new Float32Array(4096), clicks = [], levels = [], stats = [], started = performance.now();
    let heardUntil = 0, quietSince = 0;
    const listen = setInterval(() => {
        analyser.getFloatTimeDomainData(samples);
        const now = performance.now(), until = context.currentTime;
        const first = until - samples.length / context.sampleRate;
        for (let i = 0; i < samples.length; i += 1) {
            const at = first + i / context.sampleRate;
            if (at <= heardUntil || Math.abs(samples[i]) < 0.04) continue;
            if (at - quietSince > 0.25) clicks.push(now - (until - at) * 1000 - started);
            quietSince = at;
        }
        heardUntil = until;
    }, 10);
    const count = setInterval(async () => {
        const figures = await window.liveanchor.screen.figures();
        if (figures && figures.avOffsetMs !== null) stats.push([performance.now() - started, figures.avOffsetMs]);
    }, 1000);
    const brightness = ([x, y, w, h]) => {
        const pixels = picture.getImageData(x * width, y * height, w * width, h * height).data;
        let sum = 0;
        for (let i = 1; i < pixels.length; i += 4) sum += pixels[i];
        return sum * 4 / pixels.length;
    };
    const look = (now, { expectedDisplayTime }) => {
        picture.drawImage(video, 0, 0, width, height);
        levels.push([expectedDisplayTime - started, ...tiles.map(brightness)]);
        if (now - started < seconds * 1000) return video.requestVideoFrameCallback(look);
        clearInterval(listen);
        clearInterval(count);
        context.close();
        resolve({ clicks, levels, stats, size: [video.videoWidth, video.videoHeight] });
    };
    video.requestVideoFrameCallback(look);
})"""
"""Resolves to when clicks were heard, how bright each seat's face was in each shown frame, and getStats' offset; ms."""


def clicking(offset):
    """The sound of one seat, at 48 kHz."""
    click = burst_microphone(1, seed=0).burst[VOWEL:]
    sound = np.zeros(LEAD_S * SOUND_HZ + (CLICKS + 1) * ROUND_SAMPLES, np.int16)
    for number in range(CLICKS):
        start = LEAD_S * SOUND_HZ + offset + number * ROUND_SAMPLES
        sound[start : start + len(click)] = click
    return wav_of(sound)


def faces():
    """The middle of each seat's tile, as shares of the picture: x, y, width, height."""
    found = []
    for place in arrange(Arrangement(), SEATS, SIZE_PX).values():
        x1, y1, x2, y2 = place.rect
        width, height = (x2 - x1) / 8, (y2 - y1) / 6
        middle = (x1 + x2 - width) / 2, (y1 + y2 - height) / 2
        found.append([middle[0] / SIZE_PX[0], middle[1] / SIZE_PX[1], width / SIZE_PX[0], height / SIZE_PX[1]])
    return found


def apart_ms(clicks, at_ms, level):
    """How much later than the nearest click each flash of a seat was seen."""
    white = level > (np.percentile(level, 1) + np.percentile(level, 99)) / 2
    flashes = at_ms[1:][white[1:] & ~white[:-1]]
    flashes = flashes[flashes > at_ms[0] + 1000 * (LEAD_S + SETTLE_ROUNDS * ROUND_SAMPLES / SOUND_HZ)]
    return flashes - clicks[np.abs(clicks[None] - flashes[:, None]).argmin(axis=1)]


async def test_every_seat_is_seen_when_it_is_heard(playwright, chromium, avatars_dir):
    flags = ("--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required")
    with served([sys.executable, "-m", "streamer.bench.flash", str(avatars_dir)]) as server:
        async with aiohttp.ClientSession(base_url=server.url) as http:
            seats = [{"seat": seat, "avatar": avatar} for seat, avatar in zip(SEATS, AVATARS, strict=True)]
            body = {"seats": seats, "width": SIZE_PX[0], "height": SIZE_PX[1], "badge": "AI"}
            async with http.post("/api/rooms?room=desk", json=body) as response:
                assert response.status == 201
            browser = await playwright.chromium.launch(executable_path=chromium, args=list(flags))
            page = await browser.new_page()
            await page.goto(f"{server.url}web/watch.html?feed=desk")
            await page.wait_for_selector("#screen[data-state=live]")
            for seat, offset in zip(SEATS, OFFSETS, strict=True):
                sound = {"data": clicking(offset), "headers": {"Content-Type": "audio/wav"}}
                async with http.post(f"/api/rooms/desk/seats/{seat}/speech", **sound) as response:
                    assert response.status == 202
            seconds = LEAD_S + (CLICKS + 1) * ROUND_SAMPLES / SOUND_HZ + 2
            found = await page.evaluate(WATCH, [seconds, faces()])
            await browser.close()
    assert found["size"] == list(SIZE_PX)
    at_ms, *levels = np.array(found["levels"]).T
    clicks, stats = np.array(found["clicks"]), np.array(found["stats"])
    fps = 1000 * (len(at_ms) - 1) / (at_ms[-1] - at_ms[0])
    print(f"{len(clicks)} clicks, {fps:.1f} frames a second shown, load {os.getloadavg()[0]:.1f};", end=" ")
    print(f"getStats: picture ahead of sound by {np.median(stats[:, 1]):.1f} ms")
    middles = {}
    for seat, level in zip(SEATS, levels, strict=True):
        lags = apart_ms(clicks, at_ms, level)
        middles[seat] = float(np.median(lags))
        least, most = np.percentile(lags, [5, 95])
        print(f"{seat}: {len(lags)} flashes, {middles[seat]:+.1f} ms behind their clicks ({least:.1f} to {most:.1f})")
        assert len(lags) >= CLICKS - SETTLE_ROUNDS - 2
    assert {seat: ms for seat, ms in middles.items() if abs(ms) > MOST_APART_MS} == {}
