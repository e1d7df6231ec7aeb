"""The client's parts by themselves, as modules in Chromium: backoff, watchdog, trickle fragments, the class alone."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_backoff_doubles_up_to_eight_seconds_and_spreads(visit):
    page = await visit()
    delays = await page.evaluate(
        """async () => {
            const { backoffMs } = await import("/web/client/backoff.js");
            return [0, 1, 2, 3, 4, 9].map((attempt) => [0, 0.5, 1].map((spread) => backoffMs(attempt, spread)));
        }"""
    )
    assert [middle for _, middle, _ in delays] == [500, 1000, 2000, 4000, 8000, 8000]
    assert all(low == middle * 0.75 and high == middle * 1.25 for low, middle, high in delays)


async def test_watchdog_barks_after_two_seconds_without_frames_but_not_after_sleep(visit):
    page = await visit()
    verdicts = await page.evaluate(
        """async () => {
            const { FrameWatchdog } = await import("/web/client/watchdog.js");
            const dog = new FrameWatchdog(2000);
            dog.reset(0);
            const looks = [[10, 500], [20, 1000], [20, 1500], [20, 2000], [20, 2500], [20, 3000], [21, 3500],
                           [21, 60000], [21, 60500], [21, 61000], [21, 61500], [21, 62000]];
            return looks.map(([frames, nowMs]) => dog.stalled(frames, nowMs));
        }"""
    )
    assert verdicts == [False] * 5 + [True] + [False] * 5 + [True]


async def test_trickle_fragment_follows_rfc_8840(visit):
    page = await visit()
    credentials = "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n"
    sdp = (
        "v=0\r\ns=-\r\na=group:BUNDLE 0 1\r\n"
        f"m=audio 54321 UDP/TLS/RTP/SAVPF 111 63\r\n{credentials}a=mid:0\r\n"
        f"m=video 9 UDP/TLS/RTP/SAVPF 96\r\n{credentials}a=mid:1\r\n"
    )
    candidate = "candidate:1 1 udp 2130706431 192.0.2.2 50000 typ host"
    fragments = await page.evaluate(
        """async ([sdp, candidate]) => {
            const { candidateFragment } = await import("/web/client/fragment.js");
            const candidates = [{ sdpMid: "0", candidate }];
            return [candidateFragment(sdp, candidates, false), candidateFragment(sdp, [], true)];
        }""",
        [sdp, candidate],
    )
    media = "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n"
    assert fragments == [f"{credentials}{media}a={candidate}\r\n", f"{credentials}{media}a=end-of-candidates\r\n"]


async def test_client_class_works_without_the_page(visit, server):
    page = await visit()
    page.expects_refusals = True  # a session that is only shown may not be given speech
    found = await page.evaluate(
        """async (server) => {
            const { LiveAnchorClient, Failure } = await import("/web/client.js");
            const client = new LiveAnchorClient({ server });
            const states = [];
            client.addEventListener("state", ({ detail }) => states.push(detail.state));
            const [avatar] = await client.api.avatars();
            const next = (name, find) => new Promise((resolve) => {
                client.addEventListener(name, ({ detail }) => find(detail) && resolve(find(detail)));
            });
            const streamed = next("stream", (stream) => stream);
            const id = await client.connect({ avatar: avatar.id, source: "none" });
            const kinds = (await streamed).getTracks().map(({ kind }) => kind).sort();
            const frames = await next("stats", ({ framesReceived }) => framesReceived > 10 && framesReceived);
            const refused = await client.speech("hello").catch((error) => error instanceof Failure && error.code);
            client.close();
            return { id, kinds, frames, states, refused };
        }""",
        server.url,
    )
    assert len(found["id"]) == 32
    assert found["kinds"] == ["audio", "video"]
    assert found["frames"] > 10
    assert found["states"] == ["connecting", "live", "idle"]
    assert found["refused"] == "speech-refused"
