"""The JavaScript client drives a conversation: speech while it is being made, events, another avatar."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TALK = """async () => {
    const { LiveAnchorClient } = await import("/web/client.js");
    const client = new LiveAnchorClient({ server: location.href });
    const told = [];
    const finished = new Promise((resolve) => {
        client.addEventListener("event", ({ detail }) => {
            told.push(detail);
            if (detail.event === "playback_finished") resolve();
        });
    });
    await client.connect({ avatar: "ruby", source: "agent" });
    const stream = client.speechStream({ rate: 16000 });
    const bySocket = [];
    stream.addEventListener("event", ({ detail }) => bySocket.push(detail));
    for (let piece = 0; piece < 10; piece += 1) {
        const at = (n) => 9000 * Math.sin((piece * 1600 + n) * 0.06) * Math.sin((piece * 1600 + n) * 0.002);
        await stream.write(Int16Array.from({ length: 1600 }, (_, n) => at(n)));
    }
    stream.end();
    await finished;
    await client.recast({ avatar: "mateo", canvas: 256 });
    const { avatar, canvas } = await (await fetch(`/api/sessions/${client.sessionId}`)).json();
    stream.close();
    client.close();
    return { told, bySocket, avatar, canvas };
}"""


async def test_speech_is_streamed_from_a_page_and_told_on_both_ways(visit):
    page = await visit()
    found = await page.evaluate(TALK)
    names = [e["event"] for e in found["told"] if e["event"] not in ("held", "late", "degraded")]
    assert names == ["speech_queued", "playback_started", "playback_progress", "playback_finished"]
    (finished,) = [e for e in found["told"] if e["event"] == "playback_finished"]
    assert finished["position_s"] == pytest.approx(1.0, abs=0.001)
    both = min(len(found["bySocket"]), len(found["told"]))
    assert both >= 4
    assert found["bySocket"][:both] == found["told"][:both]
    assert (found["avatar"], found["canvas"]) == ("mateo", 256)
