"""The doctor's page in Chromium against a real server: every line is there; what is wrong has its remedy."""

from __future__ import annotations

import os

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SCREENSHOTS = os.environ.get("LIVEANCHOR_DOCTOR_SCREENSHOTS")
"""A folder to keep a picture of the page in."""
LINES = ("address", "codecs", "microphone", "speaker", "server", "candidates", "connection", "pair", "picture")


async def examined(browser, url, **options):
    """(page, verdict, found and remedy by check) once everything was looked at."""
    context = await browser.new_context(**options)
    page = await context.new_page()
    await page.goto(f"{url}web/doctor.html")
    await expect(page.locator("html")).to_have_attribute("data-examined", "good", timeout=40_000)
    rows = await page.locator("#findings li").evaluate_all(
        "rows => rows.map(row => [row.dataset.check, row.className, row.querySelector('.found').textContent,"
        " row.querySelector('.remedy')?.textContent ?? ''])"
    )
    return context, page, {check: (verdict, found, remedy) for check, verdict, found, remedy in rows}


async def test_everything_is_looked_at_and_said_in_one_line_each(browser, server):
    context, page, lines = await examined(browser, server.url, permissions=["microphone"])
    assert set(LINES) <= set(lines)
    assert lines["microphone"][0] == "good"
    assert "VP8" in lines["codecs"][1]
    assert "host" in lines["pair"][1]
    assert all(remedy for verdict, _, remedy in lines.values() if verdict != "good")
    if SCREENSHOTS:
        await page.screenshot(path=f"{SCREENSHOTS}/doctor.png", full_page=True)
    await context.close()


@pytest.mark.long
async def test_missing_microphone_is_said_with_what_to_do(browser, server):
    context, _, lines = await examined(browser, server.url, permissions=[])
    verdict, found, remedy = lines["microphone"]
    assert (verdict, found) == ("warn", "none (NotAllowedError)")
    assert "allow the microphone" in remedy
    await context.close()
