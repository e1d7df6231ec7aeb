"""Clients that are not ours publish and play: whip-whep (npm) in Chromium, from a page of another origin.

They are fetched by npm, so this is a long test; without npm or a registry it is skipped and says so.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
from aiohttp import web

from streamer.bench.served import serve_command, served

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

PACKAGE = "whip-whep@1.2.0"
TOKEN = "a-token-for-foreign-clients"
PAGE = "<!doctype html><meta charset=utf-8><title>foreign</title><video id=video autoplay muted playsinline></video>"
PUBLISH = """async ([base, token]) => {
  const { WHIPClient } = await import("/whip.js");
  const media = await navigator.mediaDevices.getUserMedia({ audio: true, video: { width: 320, height: 240 } });
  const pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  for (const track of media.getTracks()) pc.addTransceiver(track, { direction: "sendonly" });
  window.publisher = new WHIPClient();
  await window.publisher.publish(pc, base + "whip/foreign?avatar=ruby", token);
  await new Promise((resolve, reject) => {
    pc.addEventListener("connectionstatechange", () => pc.connectionState === "connected" && resolve());
    setTimeout(() => reject(new Error(pc.connectionState)), 20000);
  });
}"""
PLAY = """async ([base, token]) => {
  const { WHEPClient } = await import("/whep.js");
  const video = document.getElementById("video");
  const watch = async () => {
    const pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
    pc.addTransceiver("audio", { direction: "recvonly" });
    pc.addTransceiver("video", { direction: "recvonly" });
    pc.addEventListener("track", ({ streams: [stream] }) => { video.srcObject = stream; });
    window.player = new WHEPClient();
    await window.player.view(pc, base + "whep/foreign", token);
    return pc;
  };
  let pc;
  for (let attempt = 0; !pc; attempt++) {  // 409 until the first picture; a client of theirs asks once in its life
    try { pc = await watch(); }
    catch (error) { if (attempt > 20) throw error; await new Promise((r) => setTimeout(r, 500)); }
  }
  const inbound = async (kind) => {
    const stats = [...(await pc.getStats()).values()];
    return stats.find((s) => s.type === "inbound-rtp" && s.kind === kind);
  };
  for (let i = 0; i < 100; i++) {
    await new Promise((r) => setTimeout(r, 200));
    const [picture, sound] = [await inbound("video"), await inbound("audio")];
    if (picture?.framesDecoded >= 75 && sound?.packetsReceived >= 150) break;
  }
  const [picture, sound] = [await inbound("video"), await inbound("audio")];
  return { frames: picture?.framesDecoded, width: picture?.frameWidth, packets: sound?.packetsReceived };
}"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Folder of the foreign clients' scripts."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here to fetch the foreign clients with")
    folder = tmp_path_factory.mktemp("foreign")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    if subprocess.run(command, capture_output=True, timeout=120).returncode != 0:
        pytest.skip(f"{PACKAGE} cannot be fetched here")
    return folder / "node_modules" / "whip-whep"


async def page_of_others(_):
    return web.Response(text=PAGE, content_type="text/html")


async def test_whip_and_whep_clients_of_others_publish_and_play(browser, scripts, avatars_dir, tmp_path):
    page_server = web.Application()
    page_server.router.add_get("/", page_of_others)
    page_server.router.add_static("/", scripts)
    runner = web.AppRunner(page_server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = tmp_path / "liveanchor.toml"
    settings.write_text(f'allowed_origins = ["{origin}"]\n')
    try:
        with served(serve_command(avatars_dir, ["--token", TOKEN, "--config", str(settings)])) as server:
            context = await browser.new_context(permissions=["microphone", "camera"])
            publisher, player = await context.new_page(), await context.new_page()
            for page in (publisher, player):
                await page.goto(origin + "/")
            await publisher.evaluate(PUBLISH, [server.url, TOKEN])
            seen = await player.evaluate(PLAY, [server.url, TOKEN])
            await player.evaluate("window.player.stop()")
            await publisher.evaluate("window.publisher.stop()")
            await context.close()
    finally:
        await runner.cleanup()
    print(f"whip-whep in Chromium: {seen}")
    assert seen["frames"] >= 75
    assert seen["width"] == 512
    assert seen["packets"] >= 150
