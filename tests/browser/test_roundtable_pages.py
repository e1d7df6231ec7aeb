"""The viewer's, the participant's and the moderator's page, in Chromium, around one live room of four seats."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

SEATS = [
    {"seat": "ruby", "avatar": "ruby", "name": "Ruby", "role": "Anchor"},
    {"seat": "blaze", "avatar": "blaze", "name": "Blaze", "role": "Weather"},
    {"seat": "mateo", "avatar": "mateo", "name": "Mateo", "source": "mic"},
    {"seat": "guest", "avatar": "ruby", "name": "Guest", "source": "mic"},
]


async def test_room_is_watched_joined_and_moderated_from_its_pages(visit, server):
    page = await visit("web/watch.html")
    async with Room(page, {"seats": SEATS, "title": "Late desk", "floor": "moderated", "badge": "AI"}):
        viewer = await visit("web/watch.html?feed=pages")
        await expect(viewer.page.locator("#screen")).to_have_attribute("data-state", "live")
        size = await viewer.page.evaluate("[video.videoWidth, video.videoHeight]")
        assert size == [1280, 720]

        participant = await visit("web/join.html?room=pages&seat=guest&raw=1", permissions=["microphone"])
        await expect(participant.page.locator("#seats")).to_have_value("guest")
        await participant.page.get_by_role("button", name="Join with microphone").click()
        await expect(participant.page.locator("#screen")).to_have_attribute("data-state", "live")
        await participant.page.get_by_role("button", name="Raise hand").click()
        await expect(participant.page.locator("#floor")).to_have_text("Your hand is up, number 1.")

        desk = await visit("web/control.html?room=pages")
        await expect(desk.page.locator("#queue")).to_contain_text("guest raises a hand")
        guest = desk.page.locator(".seat", has_text="Guest")
        await guest.get_by_role("button", name="Give the floor").click()
        await expect(participant.page.locator("#floor")).to_have_text("You are speaking.")
        await expect(guest).to_have_attribute("data-speaking", "true")
        await guest.get_by_role("button", name="Mute", exact=True).click()
        await expect(participant.page.locator("#floor")).to_have_text("The moderator has muted you.")
        await desk.page.get_by_role("button", name="Focus", exact=True).first.click()
        await expect(desk.page.locator("#layouts [data-key=focus]")).to_have_attribute("aria-pressed", "true")
        await participant.page.get_by_role("button", name="Leave").click()
        await expect(guest).to_contain_text("nobody there")


class Room:
    """A room called `pages`, opened and ended by a page of the server."""

    def __init__(self, visit, description):
        self._page, self._description = visit.page, description

    async def __aenter__(self):
        status = await self._page.evaluate(
            """async (body) => {
                const options = { method: "POST", body: JSON.stringify(body) };
                return (await fetch("../api/rooms?room=pages", options)).status;
            }""",
            self._description,
        )
        assert status == 201

    async def __aexit__(self, *_):
        await self._page.evaluate("async () => { await fetch('../api/rooms/pages', {method: 'DELETE'}); }")
