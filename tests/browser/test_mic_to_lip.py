"""The browser's own mic-to-lip, from a burst at its microphone to its shown frame, beside that of a visitor."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from playwright.async_api import async_playwright, expect

from streamer.bench.bursts import burst_microphone, to_lip_ms
from streamer.bench.call import BurstCall, measure
from streamer.bench.witness import Reading
from streamer.media import SOUND_HZ
from streamer.pcm import wav_of

pytestmark = [pytest.mark.browser, pytest.mark.bench, pytest.mark.timeout(240)]

BURSTS = 32
LOUD = 0.02

KEEP_MICROPHONE = """(() => {
    const media = navigator.mediaDevices, ask = media.getUserMedia.bind(media);
    media.getUserMedia = async (wanted) => (window.microphone = await ask(wanted));
})();"""

WATCH = """(seconds) => new Promise((resolve) => {
    const video = document.querySelector("#video");
    const picture = new OffscreenCanvas(64, 64).getContext("2d", { willReadFrequently: true });
    const context = new AudioContext({ latencyHint: "interactive" });
    const analyser = new AnalyserNode(context, { fftSize: 2048 });
    context.createMediaStreamSource(window.microphone).connect(analyser);
    const samples = new Float32Array(2048), onsets = [], mouths = [], started = performance.now();
    let rest = null, heardUntil = 0, quietSince = 0;
    const listen = setInterval(() => {
        analyser.getFloatTimeDomainData(samples);
        const first = context.currentTime - samples.length / context.sampleRate, now = performance.now();
        for (let i = 0; i < samples.length; i += 1) {
            const at = first + i / context.sampleRate;
            if (at <= heardUntil || Math.abs(samples[i]) < LOUD) continue;
            if (at - quietSince > 0.25) onsets.push(now - (context.currentTime - at) * 1000);
            quietSince = heardUntil = at;
        }
        heardUntil = context.currentTime;
    }, 5);
    const look = (now) => {
        picture.drawImage(video, 0, 0, 64, 64);
        const pixels = picture.getImageData(26, 33, 12, 9).data;
        rest ??= pixels;
        mouths.push([now, pixels.reduce((sum, value, i) => sum + Math.abs(value - rest[i]), 0) / pixels.length]);
        if (now - started < seconds * 1000) video.requestVideoFrameCallback(look);
        else { clearInterval(listen); context.close(); resolve({ onsets, mouths }); }
    };
    video.requestVideoFrameCallback(look);
})""".replace("LOUD", str(LOUD))
"""Resolves to when bursts began at the microphone and how far the mouth was from rest in each shown frame, ms."""


async def in_browser(chromium, url, wav, seconds):
    flags = (
        "--no-sandbox", "--disable-gpu", "--mute-audio", "--use-fake-device-for-media-stream",
        "--autoplay-policy=no-user-gesture-required", f"--use-file-for-fake-audio-capture={wav}%noloop",
    )  # fmt: skip
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(flags))
        context = await browser.new_context(permissions=["microphone"])
        page = await context.new_page()
        await page.add_init_script(KEEP_MICROPHONE)
        await page.goto(f"{url}?raw=1&codec=vp8")
        await page.get_by_label("Your microphone").check()
        await page.locator("#start").click()
        await expect(page.locator("#frame")).to_have_attribute("data-picture", "true")
        found = await page.evaluate(WATCH, seconds)
        await browser.close()
    return found


def test_browser_figure_is_printed_beside_that_of_the_visitor(chromium, server, tmp_path):
    bursts = burst_microphone(BURSTS, seed=7)
    wav = tmp_path / "bursts.wav"
    wav.write_bytes(wav_of(bursts.pcm48))
    found = asyncio.run(in_browser(chromium, server.url, wav, len(bursts.pcm48) / SOUND_HZ))
    readings = [Reading(int(at_ms * 1e6), 0, moved) for at_ms, moved in found["mouths"]]
    onsets = [int(at_ms * 1e6) for at_ms in found["onsets"]]
    seen = [ms for ms in to_lip_ms(onsets, readings) if ms is not None]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        call = BurstCall(f"{server.url}api/sessions?avatar=ruby&source=mirror", square=False, bursts=BURSTS, seed=7)
        beside = [ms for ms in pool.submit(measure, call).result().to_lip_ms if ms is not None]
    print(f"browser_mic_to_lip_median_ms {np.median(seen):.1f} of {len(seen)} bursts;", end=" ")
    print(f"mic_to_lip_median_ms {np.median(beside):.1f} of {len(beside)}")
    assert len(seen) > BURSTS / 2
