"""One Chromium on one loop for all browser tests; every page reports what it says on the console and whom it calls.

Tests here run on the session's loop: `pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]`.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Page, async_playwright, expect

from streamer.bench.served import serve_command, served
from streamer.pcm import wav_of
from streamer.speech import decode_speech

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("LIVEANCHOR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--mute-audio",
    "--autoplay-policy=document-user-activation-required",
    "--host-resolver-rules=MAP anchors.test 127.0.0.1",
)
NETWORK_WORDS = re.compile(r"^error: Failed to load resource: (the server responded|net::ERR_)")
"""What Chromium itself writes for every refused or failed request: no page can keep it quiet."""

expect.set_options(timeout=15_000)


class Visit:
    """A page someone looks at."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.said: list[str] = []
        """Errors and warnings on the console, and uncaught exceptions."""
        self.foreign: list[str] = []
        """Requests to anybody but the server."""
        self.expects_refusals = False
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.said.append(f"pageerror: {error}"))
        page.on("request", lambda request: self._watch(request.url, origin))

    def _hear(self, message):
        words = f"{message.type}: {message.text}"
        if message.type in ("error", "warning") and not (self.expects_refusals and NETWORK_WORDS.match(words)):
            self.said.append(words)

    def _watch(self, url, origin):
        if urlsplit(url).scheme in ("http", "https", "ws", "wss") and not url.startswith(origin):
            self.foreign.append(url)

    def __getattr__(self, name):
        return getattr(self.page, name)

    async def state(self, state: str) -> None:
        """Wait until the stage shows a state of the client."""
        await expect(self.page.locator("#frame")).to_have_attribute("data-state", state)

    async def live(self) -> None:
        """Wait until a picture is on the stage."""
        await self.state("live")
        await expect(self.page.locator("#frame")).to_have_attribute("data-picture", "true")

    async def speaking(self, speaking: bool = True) -> None:
        await expect(self.page.locator("#frame")).to_have_attribute("data-speaking", str(speaking).lower())

    async def figures(self, condition: str) -> dict:
        """The first figures of the browser, as `it`, that fulfil a JavaScript condition."""
        return await self._first("stats", condition)

    async def snapshot(self, condition: str) -> dict:
        """The first telemetry snapshot, as `it`, that fulfils a JavaScript condition."""
        return await self._first("snapshot", condition)

    async def _first(self, event: str, condition: str) -> dict:
        return await self.page.evaluate(
            f"""() => new Promise((resolve, reject) => {{
                let last = null;
                const listener = ({{ detail: it }}) => {{
                    last = it;
                    if (!({condition})) return;
                    window.liveanchor.client.removeEventListener("{event}", listener);
                    resolve(it);
                }};
                window.liveanchor.client.addEventListener("{event}", listener);
                setTimeout(() => reject(new Error(`the last {event} was ${{JSON.stringify(last)}}`)), 60000);
            }})"""
        )


@pytest.fixture(scope="session")
def chromium():
    """Path of the browser; without one these tests are skipped and say why."""
    if not CHROMIUM:
        pytest.skip("no Chromium here: install it or set LIVEANCHOR_CHROMIUM")
    return CHROMIUM


@pytest.fixture(scope="session")
def guarded(avatars_dir, server, tmp_path_factory):
    """A server with a token (`guarded.token`) and a single seat that takes small uploads only.

    After the shared one, so that the avatars are prepared once.
    """
    settings, token = tmp_path_factory.mktemp("guarded") / "liveanchor.toml", "a-token-for-the-browser-tests"
    settings.write_text("[limits]\nupload_bytes = 100000\n")
    with served(
        serve_command(avatars_dir, ["--sessions", "1", "--token", token, "--config", str(settings)])
    ) as running:
        running.token = token
        yield running


@pytest.fixture(scope="session")
def microphone_wav(tmp_path_factory):
    """A spoken sample as 48 kHz mono WAV: what the fake microphone hears, over and over."""
    pcm48 = decode_speech((ROOT / "web/samples/evening-news.ogg").read_bytes(), "audio/ogg")
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    path.write_bytes(wav_of(pcm48))
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def playwright(chromium):
    async with async_playwright() as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(playwright, chromium, microphone_wav):
    """Chromium with a speaking fake microphone. Pages get it only with `permissions=["microphone"]`."""
    fake = ("--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={microphone_wav}")
    running = await playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *fake])
    yield running
    await running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def bare_browser(playwright, chromium):
    """Chromium on a machine without any microphone."""
    running = await playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
    yield running
    await running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def walled_browser(playwright, chromium):
    """Chromium behind a wall that lets no UDP through."""
    wall = "--webrtc-ip-handling-policy=disable_non_proxied_udp"
    running = await playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, wall])
    yield running
    await running.close()


@asynccontextmanager
async def _visited(browser, url, options):
    """A page in a context of its own. At the end: nothing said, nobody else called."""
    context = await browser.new_context(**options)
    try:
        page = await context.new_page()
        visit = Visit(page, f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/")
        await page.goto(url)
        yield visit
        await page.goto("about:blank")  # leaving hangs up, so that the next test finds every seat free
    finally:
        await context.close()
    assert visit.said == []
    assert visit.foreign == []


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser, server):
    """`await visit("?avatar=ada", permissions=["microphone"])`: the demo page of the shared server, closed at the end.

    `at` names another address, `using` another browser; the rest are Playwright's context options.
    """
    async with AsyncExitStack() as stack:

        async def open_page(query="", *, at=server.url, using=browser, **options):
            return await stack.enter_async_context(_visited(using, at + query, options))

        yield open_page


CLICKS_AND_FLASHES = """([seconds, tiles, apart, side]) => new Promise((resolve) => {
    const video = document.querySelector("#video");
    const [width, height] = side;
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
            if (at - quietSince > apart) clicks.push(now - (until - at) * 1000 - started);
            quietSince = at;
        }
        heardUntil = until;
    }, 10);
    const note = (figures) => {
        const offset = figures?.avOffsetMs ?? null;
        if (offset !== null) stats.push([performance.now() - started, offset]);
    };
    const { client, screen } = window.liveanchor;
    if (client) client.addEventListener("stats", ({ detail }) => note(detail));
    const count = client ? 0 : setInterval(async () => note(await screen.figures()), 1000);
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


@pytest.fixture(scope="session")
def watch_clicks():
    """`await watch_clicks(page, seconds, tiles, apart_s=0.3, side=(64, 64))`: what a page's viewer hears and sees.

    tiles: parts of the picture as shares of it, x, y, width, height. Gives a dict, times in ms: `clicks` (n,) when they
    were heard, `levels` (m, 1 + tiles) when a picture was shown and how bright each tile was in it, `stats` (k, 2) how
    far the picture is ahead of its sound by the browser's own count, and `size`, the picture's pixels.
    """

    async def watch(page, seconds, tiles, *, apart_s=0.3, side=(64, 64)):
        found = await page.evaluate(CLICKS_AND_FLASHES, [seconds, tiles, apart_s, side])
        return {name: np.array(values) for name, values in found.items()}

    return watch


@pytest.fixture(scope="session")
def without_buffers():
    """A function: (n, 2) flashes and how far behind their clicks, with the nearest reading of getStats taken out."""

    def corrected(flashes, stats):
        nearest = np.abs(stats[:, 0][None] - flashes[:, 0][:, None]).argmin(axis=1)
        return np.stack((flashes[:, 0], flashes[:, 1] + stats[nearest, 1]), axis=1)  # it counts the other way round

    return corrected
