"""The avatar page in Chromium against a real server: upload, report, preview, delete, and words for what goes wrong."""

from __future__ import annotations

import io
import json
import os
import re
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PORTRAITS = Path(__file__).parents[2] / "avatars/portraits"
FILM_WITHIN_MS = 120_000
SCREENSHOTS = os.environ.get("LIVEANCHOR_AVATAR_SCREENSHOTS")
"""A folder to keep pictures of the page in."""


@pytest.fixture
def name(request, server):
    """A name of this test alone; whatever was made under it is gone at the end."""
    made = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:48]
    yield made
    removal = urllib.request.Request(f"{server.url}api/avatars/{made}", method="DELETE")
    with suppress(urllib.error.HTTPError):  # most tests delete it themselves
        urllib.request.urlopen(removal).close()
    assert made not in avatar_ids(server)


@pytest_asyncio.fixture(loop_scope="session")
async def avatar_page(visit):
    async def open_page(**options):
        page = await visit("web/avatars.html", **options)
        await expect(page.locator(".card-picture img")).not_to_have_count(0)
        return page

    yield open_page


def avatar_ids(server):
    with urllib.request.urlopen(server.url + "api/avatars") as response:
        return [avatar["id"] for avatar in json.load(response)["avatars"]]


def portrait(title="blaze", width_px=None):
    """A bundled portrait as a file to upload, made smaller where wanted."""
    if width_px is None:
        content = (PORTRAITS / f"{title}.webp").read_bytes()
    else:
        with Image.open(PORTRAITS / f"{title}.webp") as picture:
            buffer = io.BytesIO()
            picture.resize((width_px, width_px * picture.height // picture.width)).save(buffer, "PNG")
            content = buffer.getvalue()
    return {"name": f"{title}.webp", "mimeType": "image/webp", "buffer": content}


def meadow():
    """A picture without a face: sky over grass."""
    rows = np.linspace(0, 1, 240)[:, None, None]
    sky, grass = np.array([150, 190, 230]), np.array([70, 130, 60])
    rgb = np.broadcast_to(np.where(rows < 0.5, sky, grass), (240, 320, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, "PNG")
    return {"name": "Meadow in May.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


async def shoot(page, title):
    if SCREENSHOTS:
        await page.screenshot(path=Path(SCREENSHOTS) / f"{title}.png", full_page=True)


async def upload(page, file, name):
    await page.locator("#picture").set_input_files(file)
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_role("button", name="Make the anchor").click()


async def test_portrait_is_uploaded_judged_previewed_and_deleted(avatar_page, server, name):
    page = await avatar_page(viewport={"width": 1440, "height": 900})
    await page.locator("#picture").set_input_files(portrait())
    await expect(page.get_by_label("Name", exact=True)).to_have_value("blaze")
    await expect(page.locator("#chosen-picture img")).to_have_js_property("complete", True)
    await shoot(page, "desktop-chosen")
    await upload(page, portrait(), name)
    card = page.locator(f'[data-avatar="{name}"]')
    await expect(card.locator(".grade")).to_have_text(re.compile("^[A-D]$"))
    await expect(card.locator(".measured")).to_contain_text(re.compile(r"Face\d+ × \d+ px"))
    await expect(page.locator("#spoken-status")).to_have_text(re.compile(rf"{name} is ready, grade [A-D]\."))
    await expect(card.locator("img")).to_have_js_property("complete", True)
    await expect(page.locator("#intake")).to_have_attribute("data-state", "empty")
    await shoot(page, "desktop-report")

    await card.get_by_role("button", name=re.compile("^Preview")).click()
    film = page.locator("#film")
    await expect(film).to_be_visible(timeout=FILM_WITHIN_MS)
    await film.evaluate(
        "film => new Promise((plays) => film.addEventListener('timeupdate', () => film.currentTime > 0.3 && plays()))"
    )
    assert await film.evaluate("film => film.videoWidth") >= 256
    assert await film.evaluate("film => film.webkitAudioDecodedByteCount") > 0
    assert not await film.evaluate("film => film.muted")
    await shoot(page, "desktop-film")
    await page.keyboard.press("Escape")
    await expect(film).to_be_hidden()

    await card.get_by_role("button", name=re.compile("^Delete")).click()
    await expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    await shoot(page, "desktop-delete")
    await page.keyboard.press("Enter")
    await expect(page.locator("#removal")).to_be_hidden()
    assert name in avatar_ids(server)
    await card.get_by_role("button", name=re.compile("^Delete")).click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(card).to_have_count(0)
    assert name not in avatar_ids(server)


async def test_report_gives_advice_and_the_stage_opens_with_the_new_face(avatar_page, name):
    page = await avatar_page()
    await upload(page, portrait("ruby", width_px=240), name)
    card = page.locator(f'[data-avatar="{name}"]')
    await expect(card.locator(".advice li").first).to_contain_text("The face is")
    await card.get_by_role("link", name=re.compile("^Try")).click()
    await expect(page.locator(f'#faces [data-avatar="{name}"] input')).to_be_checked()
    await page.get_by_role("link", name="Add or manage anchors").click()
    await expect(card).to_be_visible()


async def test_picture_without_a_face_says_what_would_work_and_leaves_no_trace(avatar_page, server, name):
    page = await avatar_page()
    await page.locator("#picture").set_input_files(meadow())
    await expect(page.get_by_label("Name", exact=True)).to_have_value("meadow-in-may")
    await upload(page, meadow(), name)
    await expect(page.locator("#trouble-title")).to_have_text("No face was found")
    await expect(page.locator("#trouble-advice li")).not_to_have_count(0)
    await expect(page.locator("#spoken-alert")).to_contain_text("No face was found")
    await shoot(page, "desktop-faceless")
    card = page.locator(f'[data-avatar="{name}"]')
    await card.get_by_role("button", name=re.compile("^Delete")).click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(card).to_have_count(0)
    assert name not in avatar_ids(server)


async def test_replaced_anchor_shows_its_new_picture(avatar_page, name):
    page = await avatar_page()
    await upload(page, portrait("ruby", width_px=320), name)
    card = page.locator(f'[data-avatar="{name}"]')
    await expect(card.locator("img")).to_have_js_property("naturalWidth", 320)
    await upload(page, portrait("mateo", width_px=300), name)
    await expect(page.locator("#question-words")).to_contain_text(f"already an anchor named “{name}”")
    await page.get_by_role("button", name="Replace it").click()
    await expect(card.locator("img")).to_have_js_property("naturalWidth", 300)


async def test_taken_or_impossible_names_send_nothing(avatar_page):
    page = await avatar_page()
    sent = []
    page.page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    await upload(page, portrait(), "Blaze & Co")
    await expect(page.locator("#name-note")).to_contain_text("small letters")
    await expect(page.get_by_label("Name", exact=True)).to_be_focused()
    await upload(page, portrait(), "blaze")
    await expect(page.locator("#question-words")).to_contain_text("already an anchor named “blaze”")
    await page.get_by_role("button", name="Another name").click()
    await expect(page.get_by_label("Name", exact=True)).to_be_focused()
    await page.locator("#picture").set_input_files({"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"})
    await expect(page.locator("#trouble-title")).to_have_text("This is neither a picture nor a clip")
    assert sent == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
async def test_phone_needs_no_sideways_scrolling(avatar_page, scheme, name):
    page = await avatar_page(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, color_scheme=scheme
    )
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) <= 0
    await page.locator("#picture").set_input_files(portrait("ruby", width_px=240) | {"name": "ruby" * 30 + ".webp"})
    await shoot(page, f"phone-chosen-{scheme}")
    assert await page.evaluate(overflow) <= 0
    await upload(page, portrait("ruby", width_px=240), name)
    await expect(page.locator(f'[data-avatar="{name}"] .grade')).to_be_visible()
    assert await page.evaluate(overflow) <= 0
    await shoot(page, f"phone-report-{scheme}")
    heights = "nodes => nodes.filter(n => n.offsetParent).map(n => n.getBoundingClientRect().height)"
    assert min(await page.locator("button, input, a").evaluate_all(heights)) >= 44


async def test_token_is_asked_for_and_a_file_too_large_is_named_so(visit, guarded):
    page = await visit("web/avatars.html", at=guarded.url)
    page.expects_refusals = True
    await expect(page.locator("#notice-title")).to_have_text("This server asks for a token")
    await page.get_by_label("Token").fill(guarded.token)
    await page.keyboard.press("Enter")
    await expect(page.locator(".card-picture img")).not_to_have_count(0)
    await expect(page.locator("#notice")).to_be_hidden()
    noise = np.random.default_rng(7).integers(0, 256, (300, 300, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    file = {"name": "noise.png", "mimeType": "image/png", "buffer": buffer.getvalue()}
    await upload(page, file, "noise")
    await expect(page.locator("#trouble-title")).to_have_text("This file is too large")
    await expect(page.locator("#trouble-detail")).to_contain_text("100 kB at most")
    await expect(page.get_by_role("button", name="Make the anchor")).to_be_enabled()
