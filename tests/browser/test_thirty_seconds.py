"""Half a minute of a speaking visitor, as the browser saw it: nothing freezes, hardly anything is missing."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("codec", ["vp8", "h264"])
async def test_thirty_seconds_of_speech_run_without_a_freeze(visit, codec):
    page = await visit(f"?raw=1&codec={codec}", permissions=["microphone"])
    await page.get_by_label("Your microphone").check()
    await page.locator("#start").click()
    await page.live()
    await page.snapshot("it.frames.voiced > 0")
    talking_ms = await page.evaluate("performance.now() - window.liveanchor.session.startedMs")
    last = await page.snapshot("it.uptime_s >= 30")
    figures = await page.evaluate("window.liveanchor.client.figures")
    frames = last["frames"]
    print(f"{codec}: talking after {talking_ms:.0f} ms; {frames}; {figures}")
    assert talking_ms <= 3000 + 1000, "a snapshot comes once a second"
    assert figures["codec"].lower() == codec
    assert figures["freezeCount"] == 0
    assert figures["framesDecoded"] >= 0.98 * sum(frames.values()) - 15, "figures are up to half a second older"
    assert frames["held"] + frames["late"] <= 0.01 * frames["voiced"]
    assert await page.evaluate("window.liveanchor.session.reconnects") == 0
