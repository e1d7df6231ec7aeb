"""A visitor of a server whose engine works over 8-channel latents: the whole line, with the contract network."""

from __future__ import annotations

import asyncio
import json
import urllib.request

import pytest

from streamer.bench.served import serve_command, served

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MOUTHS = 25
"""A second's worth: this asks whether the way is whole, other tests how smooth it is."""


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


async def test_face_made_from_latents_talks_in_the_browser(visit, tmp_path):
    with served([*serve_command(tmp_path), "--engine", "contract_net"]) as running:
        page = await visit("?raw=1", at=running.url, permissions=["microphone"])
        await page.get_by_label("Your microphone").check()
        await page.get_by_role("button", name="Start").click()
        await page.live()
        await page.snapshot(f"it.frames.voiced >= {MOUTHS}")
        said = await asyncio.to_thread(fetch, f"{running.url}api/capabilities")
        metrics = await asyncio.to_thread(fetch, f"{running.url}metrics")
        await page.goto("about:blank")  # hang up before the server goes
    assert json.loads(said)["engine"]["name"] == "contract_net"
    lost = {
        line.split()[0]: float(line.split()[1])
        for line in metrics.splitlines()
        if line.startswith("avatar_engine_errors")
    }
    assert lost['avatar_engine_errors{reason="failed"}'] == 0
    assert lost['avatar_engine_errors{reason="flat"}'] == lost['avatar_engine_errors{reason="colour"}'] == 0
