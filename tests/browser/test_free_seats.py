"""How many seats are free, as the demo page tells a visitor: now, not when the page was opened."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SIT_DOWN = """async () => {
    const peer = new RTCPeerConnection();
    for (const kind of ["audio", "video"]) peer.addTransceiver(kind, { direction: "recvonly" });
    const { sdp } = await peer.createOffer();
    peer.close();
    const call = { method: "POST", body: sdp, headers: { "Content-Type": "application/sdp" } };
    const answer = await fetch("api/sessions?avatar=ruby&source=none", call);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.headers.get("Location");
}"""
"""Somebody else takes a seat; resolves with its address."""


async def limit_of(page):
    return (await page.evaluate("fetch('api/capabilities').then((answer) => answer.json())"))["sessions"]["limit"]


async def test_my_own_seat_is_not_free_while_i_sit_in_it(visit):
    page = await visit()
    limit, line = await limit_of(page), page.locator("#server-line")
    await expect(line).to_contain_text(f"{limit} of {limit} seats free")
    await page.locator("#start").click()
    await page.live()
    await expect(line).to_contain_text(f"{limit - 1} of {limit} seats free")
    await page.locator("#start").click()
    await expect(line).to_contain_text(f"{limit} of {limit} seats free")


async def test_seats_of_others_are_counted_while_i_only_look(visit):
    page = await visit()
    await page.clock.install()
    await page.reload()
    limit, line = await limit_of(page), page.locator("#server-line")
    await expect(line).to_contain_text(f"{limit} of {limit} seats free")
    taken = await page.evaluate(SIT_DOWN)
    await page.clock.run_for(5000)
    await expect(line).to_contain_text(f"{limit - 1} of {limit} seats free")
    await page.evaluate("path => fetch(path, { method: 'DELETE' })", taken)
    await page.clock.run_for(5000)
    await expect(line).to_contain_text(f"{limit} of {limit} seats free")
