"""Minutes in Chromium: sound and picture do not part, by the browser's own figures and by flashes and clicks.

A busy machine makes the browser's two buffers breathe, each on its own, by tens of milliseconds: getStats tells how
much, so what a click and its flash are apart is also judged without it.
LIVEANCHOR_DRIFT_MINUTES says how many (10 unless set; at least 2).
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from playwright.async_api import expect

from streamer.bench.bursts import burst_microphone
from streamer.bench.served import served
from streamer.media import SOUND_HZ
from streamer.pcm import wav_of

MINUTES = int(os.environ.get("LIVEANCHOR_DRIFT_MINUTES", "10"))
SETTLE_S = 60
"""The browser finds the size of its buffers first."""
MOST_DRIFT_MS = 20
PERIOD_SAMPLES = 51_024
"""1.063 s: clicks fall on all phases of the frame grid in turn, so a minute's mean is free of the grid."""
VOWEL = 1800
"""First sample of the vowel in a burst: where it starts with full voice."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(60 * MINUTES + 240),
    pytest.mark.asyncio(loop_scope="session"),
]

WATCH = """(seconds) => new Promise((resolve) => {
    const video = document.querySelector("#video");
    const picture = new OffscreenCanvas(64, 64).getContext("2d", { willReadFrequently: true });
    const context = new AudioContext({ latencyHint: "interactive" });
    const analyser = new AnalyserNode(context, { fftSize: 4096 });
    context.createMediaStreamSource(video.srcObject).connect(analyser);
    const samples = new Float32Array(4096), clicks = [], levels = [], stats = [], started = performance.now();
    let heardUntil = 0, quietSince = 0;
    window.liveanchor.client.addEventListener("stats", ({ detail }) => {
        if (detail.avOffsetMs !== null) stats.push([performance.now() - started, detail.avOffsetMs]);
    });
    const listen = setInterval(() => {
        analyser.getFloatTimeDomainData(samples);
        const now = performance.now(), until = context.currentTime;
        const first = until - samples.length / context.sampleRate;
        for (let i = 0; i < samples.length; i += 1) {
            const at = first + i / context.sampleRate;
            if (at <= heardUntil || Math.abs(samples[i]) < 0.04) continue;
            if (at - quietSince > 0.3) clicks.push(now - (until - at) * 1000 - started);
            quietSince = at;
        }
        heardUntil = until;
    }, 10);
    const look = (now, { expectedDisplayTime }) => {
        picture.drawImage(video, 0, 0, 64, 64);
        const pixels = picture.getImageData(16, 16, 32, 32).data;
        let sum = 0;
        for (let i = 1; i < pixels.length; i += 4) sum += pixels[i];
        levels.push([expectedDisplayTime - started, sum * 4 / pixels.length]);
        if (now - started < seconds * 1000) video.requestVideoFrameCallback(look);
        else { clearInterval(listen); context.close(); resolve({ clicks, levels, stats }); }
    };
    video.requestVideoFrameCallback(look);
})"""
"""Resolves to when clicks were heard, how bright the face was in each shown frame, and the client's A/V offset; ms."""


@pytest.fixture(scope="module")
def clicks_wav(tmp_path_factory):
    """A vowel with a sharp start, again and again, for a minute; the fake microphone repeats it."""
    click = burst_microphone(1, seed=0).burst[VOWEL:]
    sound = np.zeros(60 * PERIOD_SAMPLES, np.int16)
    for start in range(0, len(sound), PERIOD_SAMPLES):
        sound[start : start + len(click)] = click
    path = tmp_path_factory.mktemp("clicks") / "clicks.wav"
    path.write_bytes(wav_of(sound))
    return path


def apart_ms(clicks, levels):
    """(n, 2): when a click was heard, and how much later its flash was seen."""
    at_ms, level = np.array(levels).T
    white = level > (np.percentile(level, 1) + np.percentile(level, 99)) / 2
    flashes = at_ms[1:][white[1:] & ~white[:-1]]
    clicks = np.array(clicks)
    nearest = flashes[np.abs(flashes[None] - clicks[:, None]).argmin(axis=1)] - clicks
    known = np.abs(nearest) < 300
    return np.stack((clicks[known], nearest[known]), axis=1)


def by_minute(times_and_values):
    """The middle of each whole minute behind the settling; medians forgive a machine that stood still."""
    times_ms, values = np.array(times_and_values).T
    minutes = (times_ms / 1000 - SETTLE_S) // 60
    return [float(np.median(values[minutes == m])) for m in range(MINUTES)]


def without_buffers(flashes, stats):
    """Each flash and click with the reading of getStats next to it taken out; getStats counts the other way round."""
    nearest = np.abs(stats[:, 0][None] - flashes[:, 0][:, None]).argmin(axis=1)
    return np.stack((flashes[:, 0], flashes[:, 1] + stats[nearest, 1]), axis=1)


async def test_sound_and_picture_do_not_part(playwright, chromium, clicks_wav, avatars_dir):
    flags = (
        "--no-sandbox", "--disable-gpu", "--mute-audio", "--use-fake-device-for-media-stream",
        "--autoplay-policy=no-user-gesture-required", f"--use-file-for-fake-audio-capture={clicks_wav}",
    )  # fmt: skip
    with served([sys.executable, "-m", "streamer.bench.flash", str(avatars_dir)]) as server:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(flags))
        page = await (await browser.new_context(permissions=["microphone"])).new_page()
        await page.goto(f"{server.url}?raw=1&codec=vp8")
        await page.get_by_label("Your microphone").check()
        await page.locator("#start").click()
        await expect(page.locator("#frame")).to_have_attribute("data-picture", "true")
        found = await page.evaluate(WATCH, SETTLE_S + 60 * MINUTES)
        await browser.close()
    flashes, stats = apart_ms(found["clicks"], found["levels"]), np.array(found["stats"])
    print(f"{len(found['clicks'])} clicks, {len(flashes)} with a flash, {len(stats)} readings of getStats;", end=" ")
    print(f"load {os.getloadavg()[0]:.1f}")
    drift_ms = {}
    for name, readings in (
        ("flash behind click", flashes),
        ("picture behind sound by getStats", stats),
        ("flash behind click, less what getStats says of the buffers", without_buffers(flashes, stats)),
    ):
        minutes = by_minute(readings)
        drift_ms[name] = minutes[-1] - minutes[0]
        print(f"{name}: drift {drift_ms[name]:.1f} ms; by minute: {' '.join(f'{value:.1f}' for value in minutes)}")
    assert len(flashes) >= 0.9 * MINUTES * 60 * SOUND_HZ / PERIOD_SAMPLES
    assert abs(drift_ms.popitem()[1]) <= MOST_DRIFT_MS
    # On a machine that others use, these two hold the browser's breath; they are asked for where it is quiet.
    if os.getloadavg()[1] < (os.cpu_count() or 1):
        assert {name: ms for name, ms in drift_ms.items() if abs(ms) > MOST_DRIFT_MS} == {}
