"""The demo page when the server asks for a token, is full, or goes away: the words, and the way back."""

from __future__ import annotations

import os
import re
import signal
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import expect

from streamer.bench.served import serve_command, served

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

INSECURE_HOST = "anchors.test"
"""Resolved to this machine by the browser of these tests, which trusts it less than localhost."""


@pytest_asyncio.fixture(loop_scope="session")
async def guarded_visit(visit, guarded):
    async def open_page(query=f"?token={guarded.token}", **options):
        return await visit(query, at=guarded.url, **options)

    yield open_page


async def test_token_is_asked_for_and_opens_the_page(guarded_visit, guarded):
    page = await guarded_visit("")
    page.expects_refusals = True
    await expect(page.locator("#lower-title")).to_have_text("This server asks for a token")
    await expect(page.locator("#start")).to_be_disabled()
    await page.get_by_label("Token").fill("not-the-right-one-at-all")
    await page.keyboard.press("Enter")
    await expect(page.locator("#lower-title")).to_have_text("This server asks for a token")
    await page.get_by_label("Token").fill(guarded.token)
    await page.keyboard.press("Enter")
    await expect(page.locator(".face-picture img").first).to_have_js_property("complete", True)
    await expect(page.locator("#start")).to_be_enabled()
    await page.locator("#samples button").first.click()
    await page.live()
    await page.speaking()


async def test_token_in_the_address_is_taken_out_of_it_and_survives_a_reload(guarded_visit):
    page = await guarded_visit()
    await expect(page.locator("#start")).to_be_enabled()
    assert "token" not in page.url
    await page.reload()
    await expect(page.locator("#start")).to_be_enabled()


async def test_full_server_counts_down_and_lets_the_next_one_in(guarded_visit):
    first = await guarded_visit()
    await first.locator("#start").click()
    await first.live()
    second = await guarded_visit()
    second.expects_refusals = True
    await second.locator("#start").click()
    await second.state("reconnecting")
    await expect(second.locator("#lower-title")).to_have_text("Every seat is taken")
    await expect(second.locator("#lower-detail")).to_have_text(re.compile(r"Next try in \d+ s\.$"))
    await expect(second.locator("#spoken-alert")).to_contain_text("Every seat is taken")
    await first.locator("#start").click()
    await first.state("idle")
    await second.get_by_role("button", name="Try now").click()
    await second.live()
    await second.speaking()


async def test_waiting_for_a_seat_can_be_given_up(guarded_visit):
    first = await guarded_visit()
    await first.locator("#start").click()
    await first.live()
    second = await guarded_visit()
    second.expects_refusals = True
    await second.locator("#start").click()
    await second.state("reconnecting")
    await second.keyboard.press("Space")
    await second.state("idle")
    assert await second.evaluate("window.liveanchor.state") == "idle"


async def test_insecure_address_is_explained(visit, guarded):
    page = await visit(f"?token={guarded.token}", at=guarded.url.replace("127.0.0.1", INSECURE_HOST))
    await page.get_by_label("Your microphone").check()
    await page.locator("#start").click()
    await expect(page.locator("#lower-title")).to_have_text("The microphone needs a secure address")


@pytest.mark.long
async def test_wall_that_stops_media_is_explained(walled_browser, visit):
    page = await visit(using=walled_browser)
    await page.locator("#start").click()
    await page.state("connecting")
    await expect(page.locator("#lower-title")).to_have_text("No path for picture and sound", timeout=30_000)
    await expect(page.locator("#lower-detail")).to_contain_text("firewall")
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()


@pytest.mark.long
async def test_server_that_goes_away_is_told_and_the_show_goes_on_when_it_is_back(guarded_visit, guarded, avatars_dir):
    page = await guarded_visit()
    page.expects_refusals = True
    await page.locator("#start").click()
    await page.live()
    os.kill(guarded.pid, signal.SIGTERM)
    await page.state("reconnecting")
    await expect(page.locator("#lower-title")).to_have_text("The server does not answer")
    await expect(page.locator("#tally-words")).to_have_text("Reconnecting")
    port = str(urlsplit(guarded.url).port)
    with served(serve_command(avatars_dir, ["--port", port, "--token", guarded.token])):
        await page.live()
        session = await page.evaluate("window.liveanchor.session")
        assert session["reconnects"] >= 1
        await page.goto("about:blank")
