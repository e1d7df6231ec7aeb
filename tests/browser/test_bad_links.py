"""Chromium behind a link that loses or chokes: by its own count nearly all pictures show, and the sound goes on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from streamer.clock import MonotonicClock
from streamer.soak.impairment import Impairment
from streamer.soak.relay import Relay

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

SECONDS = 30
KEEP_CONNECTIONS = """window.connections = [];
window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(...settings) {
        super(...settings);
        window.connections.push(this);
    }
};"""
INBOUND = """async () => {
    const report = await window.connections.at(-1).getStats();
    return [...report.values()].filter(({ type }) => type === "inbound-rtp");
}"""


@asynccontextmanager
async def behind(page, net):
    """The page's next call goes through a relay: its offer and the answer are rewritten, its candidates kept back."""
    relay = Relay(net, 5, MonotonicClock())
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
        moving = group.create_task(relay.run())

        async def call(route):
            request = route.request
            if request.method == "PATCH":
                return await route.fulfill(status=204)
            if request.method != "POST" or "/sessions?" not in request.url:
                return await route.continue_()
            location = []

            async def signal(offer):
                headers = {"Content-Type": "application/sdp"}
                async with http.post(request.url, data=offer, headers=headers) as response:
                    assert response.status == 201
                    location.append(dict(response.headers))
                    return await response.text()

            answer = await relay.over(signal)(request.post_data)
            keep = ("Location", "ETag", "Content-Type", "Link")
            headers = {name: value for name, value in location[0].items() if name in keep}
            await route.fulfill(status=201, headers=headers, body=answer)

        await page.route("**/api/sessions**", call)
        yield relay
        moving.cancel()
    relay.close()


@pytest.mark.parametrize(
    ("net", "shown"),
    [
        (Impairment(loss_percent=2), 0.98),
        (Impairment(loss_percent=5), 0.95),
        (Impairment(loss_percent=15), 0.85),
        (Impairment(rate_kbps=300), 0.5),
    ],
    ids=("loss 2 %", "loss 5 %", "loss 15 %", "300 kbit/s"),
)
async def test_viewer_behind_a_bad_link_sees_nearly_all_pictures_and_hears_all(visit, net, shown):
    page = await visit("?raw=1", permissions=["microphone"])
    await page.page.add_init_script(KEEP_CONNECTIONS)
    await page.page.reload()
    async with behind(page.page, net) as relay:
        await page.get_by_label("Your microphone").check()
        await page.locator("#start").click()
        await page.live()
        before = await counted(page)
        await page.page.wait_for_timeout(1000 * SECONDS)
        after = await counted(page)
        lost = relay.down.shaper.lost
        await page.page.goto("about:blank")
    pictures = after["framesDecoded"] - before["framesDecoded"]
    concealed = after["concealedSamples"] - before["concealedSamples"]
    heard = after["totalSamplesReceived"] - before["totalSamplesReceived"]
    print(
        f"loss {net.loss_percent} %, rate {net.rate_kbps} kbit/s: {pictures / (25 * SECONDS):.1%} shown, "
        f"{after['freezeCount']} freezes, {lost} datagrams lost, {concealed / heard:.1%} of the sound concealed"
    )
    assert lost > 0
    assert pictures >= shown * 25 * SECONDS
    assert concealed <= 0.35 * heard


async def counted(page):
    """What the browser has received so far, sound and picture in one dict."""
    found = {}
    for stream in await page.evaluate(INBOUND):
        found |= {name: value for name, value in stream.items() if name not in found}
    return found
