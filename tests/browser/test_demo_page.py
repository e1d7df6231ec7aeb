"""The demo page in Chromium against a real server: what a visitor sees, hears and can do."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.async_api import expect

from streamer.graphics.badge import Badge

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LOUDNESS = """() => new Promise((resolve, reject) => {
    const context = new AudioContext();
    const analyser = context.createAnalyser();
    context.createMediaStreamSource(window.liveanchor.client.stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const started = performance.now();
    const look = () => {
        analyser.getFloatTimeDomainData(samples);
        const rms = Math.sqrt(samples.reduce((sum, s) => sum + s * s, 0) / samples.length);
        if (rms > 0.01) { context.close(); resolve(rms); }
        else if (performance.now() - started > 10000) reject(new Error("silence"));
        else requestAnimationFrame(look);
    };
    look();
})"""
"""Resolves as soon as sound arrives from the server."""

MOUTH_MOVES = """() => new Promise((resolve, reject) => {
    const video = document.querySelector("#video");
    const canvas = new OffscreenCanvas(64, 64);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const started = performance.now();
    let before = null;
    const look = () => {
        context.drawImage(video, 0, 0, 64, 64);
        const now = context.getImageData(24, 28, 16, 16).data;
        before ??= now;
        const change = now.reduce((sum, value, i) => sum + Math.abs(value - before[i]), 0) / now.length;
        before = now;
        if (change > 2) resolve(change);
        else if (performance.now() - started > 10000) reject(new Error("the face stands still"));
        else video.requestVideoFrameCallback(look);
    };
    look();
})"""
"""Resolves when the middle of the face changes from one picture to the next as lips do and swaying heads do not."""

CORNER = """([x1, y1, x2, y2]) => {
    const video = document.querySelector("#video");
    const context = new OffscreenCanvas(video.videoWidth, video.videoHeight).getContext("2d");
    context.drawImage(video, 0, 0);
    return Array.from(context.getImageData(x1, y1, x2 - x1, y2 - y1).data).filter((_, i) => i % 4 === 1);
}"""
"""How green the pixels of a part of the shown frame are."""


def api(server, path):
    with urllib.request.urlopen(server.url + path) as response:
        return json.load(response)


async def nobody_is_live(page, server, within_ms=5000):
    """Wait until the server has no session left."""
    for _ in range(within_ms // 50):
        if not api(server, "api/sessions")["sessions"]:
            return
        await page.wait_for_timeout(50)
    pytest.fail("a session is still there")


async def test_picker_shows_every_avatar_with_its_face(visit, server):
    page = await visit()
    avatars = api(server, "api/avatars")["avatars"]
    await expect(page.locator(".face-name")).to_have_text([avatar["title"] for avatar in avatars])
    for image in await page.locator(".face-picture img").all():
        await expect(image).to_have_js_property("complete", True)
        assert await image.evaluate("image => image.naturalWidth") >= 128
    await expect(page.get_by_label(avatars[0]["title"], exact=True)).to_be_checked()
    await expect(page.locator("#lower-title")).to_have_text(avatars[0]["title"])


async def test_one_click_on_a_sample_and_the_face_speaks_it_aloud(visit, server):
    page = await visit()
    sample = page.locator("#samples button").first
    await sample.click()
    await page.live()
    await page.speaking()
    await expect(sample).to_have_attribute("aria-current", "true")
    assert await page.evaluate(LOUDNESS) > 0.01
    assert await page.evaluate(MOUTH_MOVES) > 2
    assert not await page.locator("#video").evaluate("video => video.muted")
    figures = await page.figures("it.framesDecoded > 50")
    assert figures["bitrateKbps"] > 50
    session = await page.evaluate("window.liveanchor.session")
    assert session["source"] == "agent"
    assert session["firstFrameMs"] > 0
    assert session["firstSpeechMs"] > 0


@pytest.mark.parametrize(("query", "shown"), [("?badge=AI", True), pytest.param("", False, marks=pytest.mark.long)])
async def test_badge_of_the_address_is_in_the_corner_of_a_speaking_face(visit, tmp_path, query, shown):
    page = await visit(query)
    await page.get_by_role("button", name="Play a sample").click()
    await page.live()
    await page.speaking()
    assert await page.evaluate(MOUTH_MOVES) > 2
    corner = np.array(await page.evaluate(CORNER, Badge("AI").rect((512, 512))))
    assert (corner.max() > 180 and np.median(corner) < 90) == shown
    await page.screenshot(path=tmp_path / "stage.png")  # of the last runs, for who wants to look


async def test_start_plays_a_sample_and_stop_frees_the_seat(visit, server):
    page = await visit()
    await page.get_by_role("button", name="Play a sample").click()
    await page.live()
    await page.speaking()
    assert len(api(server, "api/sessions")["sessions"]) == 1
    await page.get_by_role("button", name="Stop", exact=True).click()
    await page.state("idle")
    await expect(page.locator("#poster")).to_be_visible()
    await expect(page.locator("#video")).to_be_hidden()
    await nobody_is_live(page, server)
    assert await page.evaluate("window.liveanchor.state") == "idle"


async def test_leaving_the_page_frees_the_seat(visit, server):
    page = await visit()
    await page.locator("#start").click()
    await page.live()
    await page.goto("about:blank")
    await nobody_is_live(page, server)


async def test_typed_text_is_spoken_and_can_be_interrupted(visit, server):
    if not api(server, "api/capabilities")["tts"]:
        pytest.skip("no speech synthesiser here: install flite or espeak-ng")
    page = await visit()
    await page.get_by_label("Say something").fill("One two three four five six seven eight nine ten. " * 4)
    await page.keyboard.press("Enter")
    await page.live()
    await page.speaking()
    assert await page.evaluate(LOUDNESS) > 0.01
    await page.get_by_role("button", name="Interrupt").click()
    await page.speaking(False)
    await expect(page.locator("#interrupt")).to_be_hidden()
    assert await page.evaluate("window.liveanchor.state") == "live"


async def test_another_line_replaces_the_one_being_spoken(visit):
    page = await visit()
    samples = page.locator("#samples button")
    await samples.nth(0).click()
    await page.speaking()
    await samples.nth(1).click()
    await expect(samples.nth(1)).to_have_attribute("aria-current", "true")
    await expect(samples.nth(0)).to_have_attribute("aria-current", "false")
    await page.speaking()


async def test_microphone_drives_the_face_and_is_not_heard_unless_wanted(visit):
    page = await visit("?raw=1", permissions=["microphone"])
    await page.get_by_label("Your microphone").check()
    await page.get_by_role("button", name="Start talking").click()
    await page.live()
    await page.snapshot("it.frames.voiced > 5")
    assert await page.evaluate(LOUDNESS) > 0.01
    assert await page.evaluate(MOUTH_MOVES) > 2
    assert await page.locator("#meter").get_attribute("aria-valuenow") != "-60"
    assert await page.locator("#device option").count() >= 1
    assert await page.locator("#video").evaluate("video => video.muted")
    await page.get_by_label("Hear myself").check()
    assert not await page.locator("#video").evaluate("video => video.muted")


async def test_mute_silences_the_microphone(visit):
    page = await visit("?raw=1", permissions=["microphone"])
    await page.get_by_label("Your microphone").check()
    await page.locator("#start").click()
    await page.live()
    await page.snapshot("it.frames.voiced > 5")
    await page.get_by_role("button", name="Mute").click()
    await expect(page.locator("#mute")).to_have_attribute("aria-pressed", "true")
    await page.evaluate("window.idleBefore = 0")
    muted = await page.snapshot("(window.idleBefore ||= it.frames.idle) && it.frames.idle > window.idleBefore + 20")
    still = await page.snapshot("true")
    assert still["frames"]["voiced"] - muted["frames"]["voiced"] < 15


async def test_keyboard_alone_runs_the_show(visit):
    page = await visit("?raw=1", permissions=["microphone"])
    await expect(page.locator("#start")).to_be_enabled()
    await page.keyboard.press("Space")
    await page.live()
    await page.keyboard.press("i")
    await page.speaking(False)
    await page.keyboard.press("p")
    await expect(page.locator("#fold")).to_have_attribute("aria-expanded", "false")
    await page.keyboard.press("Space")
    await page.state("idle")
    await page.get_by_label("Samples and text").focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Space")
    await page.live()
    await page.keyboard.press("m")
    await expect(page.locator("#mute")).to_have_attribute("aria-pressed", "true")
    await page.get_by_label("Ruby").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.locator("#lower-title")).to_have_text("Blaze")


async def test_typing_a_space_does_not_start_the_show(visit, server):
    if not api(server, "api/capabilities")["tts"]:
        pytest.skip("no speech synthesiser here: install flite or espeak-ng")
    page = await visit()
    await page.get_by_label("Say something").press_sequentially("a m i p")
    await expect(page.get_by_label("Say something")).to_have_value("a m i p")
    await page.state("idle")


async def test_another_face_takes_the_stage_while_live(visit, server):
    page = await visit()
    avatars = api(server, "api/avatars")["avatars"]
    await page.locator("#start").click()
    await page.live()
    await page.speaking()
    before = await page.evaluate("window.liveanchor.session.id")
    await page.evaluate(
        """() => { window.again = new Promise((resolve) => window.liveanchor.client.addEventListener(
            "state", ({ detail }) => detail.state === "live" && resolve())); }"""
    )
    await page.get_by_label(avatars[1]["title"], exact=True).check()
    await page.evaluate("window.again")
    await page.live()
    session = await page.evaluate("window.liveanchor.session")
    assert session["avatar"] == avatars[1]["id"]
    assert session["id"] != before
    await page.speaking()  # the line that was being said is begun again


@pytest.mark.parametrize("codec", [pytest.param("vp8", marks=pytest.mark.long), "h264"])
async def test_address_chooses_codec_canvas_and_avatar(visit, server, codec):
    avatar = api(server, "api/avatars")["avatars"][-1]
    page = await visit(f"?codec={codec}&canvas=256&avatar={avatar['id']}")
    await expect(page.locator("#lower-title")).to_have_text(avatar["title"])
    await page.locator("#start").click()
    await page.live()
    figures = await page.figures("it.codec && it.framesDecoded > 10")
    assert figures["codec"].lower() == codec
    assert await page.locator("#video").evaluate("video => Math.max(video.videoWidth, video.videoHeight)") == 256


async def test_live_panel_fills_with_figures(visit):
    page = await visit()
    await page.locator("#start").click()
    await page.snapshot("it.mic_to_lip_ms && it.stages_ms.queue_render")
    await expect(page.locator("#panel-brief")).to_have_text(re.compile(r"Sound to lip \d+ ms, \d+ pictures a second"))
    await expect(page.locator(".kinds li").first).to_have_text(re.compile(r"speaking [1-9]\d*"))
    drawn = (
        "canvas => new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer)"
    )
    for chart in ("#lane", "#timeline"):
        colours = await page.locator(chart).evaluate(f"canvas => new Set(({drawn})(canvas)).size")
        assert colours > 20
    await page.locator("#fold").click()
    await expect(page.locator("#panel-body")).to_be_hidden()


async def test_captions_show_the_words_while_they_are_spoken(visit, server):
    sample = api(server, "api/capabilities")["samples"][0]
    page = await visit()
    await page.keyboard.press("c")
    await expect(page.get_by_role("button", name="Captions")).to_have_attribute("aria-pressed", "true")
    await page.locator("#samples button").first.click()
    await page.speaking()
    caption = page.locator("#caption")
    await expect(caption).to_be_visible()
    assert await caption.inner_text() in sample["text"]
    await page.locator("#interrupt").click()
    await expect(caption).to_be_hidden()


async def test_captions_give_every_phrase_its_share_of_the_time(visit):
    page = await visit()
    phrases = await page.evaluate(
        """async () => {
            const { phrases } = await import("/web/page/captions.js");
            const long = "and " + "word after word ".repeat(12) + "until it ends.";
            return phrases(`Good evening. Here  is\nthe news! ${long}`, 20);
        }"""
    )
    texts = [phrase["text"] for phrase in phrases]
    times = [phrase["untilS"] for phrase in phrases]
    assert texts[:2] == ["Good evening.", "Here is the news!"]
    assert max(map(len, texts)) <= 80
    assert " ".join(texts[2:]).startswith("and word after word")
    assert times == sorted(times)
    assert times[-1] == pytest.approx(20)


async def test_page_can_be_shown_to_people(visit, tmp_path):
    """The picture in the README: LIVEANCHOR_SCREENSHOT names a file to keep it in."""
    page = await visit(viewport={"width": 1440, "height": 900})
    await page.locator("#samples button").first.click()
    await page.speaking()
    kept = Path(os.environ.get("LIVEANCHOR_SCREENSHOT") or tmp_path / "page.png")
    await page.snapshot(f"it.mic_to_lip_ms && it.uptime_s >= {2 if kept.parent == tmp_path else 6}")
    await page.screenshot(path=kept)
    with Image.open(kept) as picture:
        assert picture.size == (1440, 900)
        assert len(picture.convert("RGB").resize((96, 60)).getcolors(6000)) > 400


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
async def test_phone_needs_no_sideways_scrolling_and_gives_fingers_room(visit, scheme):
    page = await visit(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, color_scheme=scheme,
        permissions=["microphone"],
    )  # fmt: skip
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    await expect(page.locator("#panel-body")).to_be_hidden()
    await page.locator("#samples button").first.tap()
    await page.live()
    await page.speaking()
    assert await page.evaluate(overflow) <= 0
    await page.locator("#fold").tap()
    assert await page.evaluate(overflow) <= 0
    await page.get_by_label("Your microphone").check()
    await page.live()
    assert await page.evaluate(overflow) <= 0
    heights = "nodes => nodes.filter(n => n.offsetParent).map(n => n.getBoundingClientRect().height)"
    assert min(await page.locator("button, select").evaluate_all(heights)) >= 44
    ground = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")


async def test_reduced_motion_stops_animations(visit):
    page = await visit(reduced_motion="reduce")
    moving = "[...document.querySelectorAll('*')].filter(n => parseFloat(getComputedStyle(n).transitionDuration) > 0)"
    assert await page.evaluate(f"{moving}.length") == 0


async def test_sound_held_back_by_the_browser_waits_for_a_tap(visit, server):
    page = await visit()
    # Until play() has been refused nothing may look into the page: Chromium takes that for a visitor's gesture.
    async with page.expect_response(lambda response: response.request.method == "PATCH"):
        await page.goto(server.url + "?start=1")
    await page.live()
    hear = page.get_by_role("button", name="Tap to hear")
    await expect(hear).to_be_visible()
    assert await page.locator("#video").evaluate("video => video.muted")
    await hear.click()
    await expect(hear).to_be_hidden()
    assert not await page.locator("#video").evaluate("video => video.muted")


async def test_unknown_avatar_is_named_and_the_others_stay_available(visit):
    page = await visit("?avatar=nobody")
    await expect(page.locator("#lower-title")).to_have_text("There is no anchor named “nobody”")
    await expect(page.locator("#spoken-alert")).to_contain_text("nobody")
    await expect(page.locator("#start")).to_be_enabled()


async def test_refused_microphone_is_explained(visit):
    page = await visit(permissions=[])
    await page.get_by_label("Your microphone").check()
    await page.locator("#start").click()
    await page.state("failed")
    await expect(page.locator("#lower-title")).to_have_text("The microphone is blocked")
    await expect(page.locator("#lower-detail")).to_contain_text("address bar")
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    await page.get_by_label("Samples and text").check()
    await page.locator("#samples button").first.click()
    await page.live()


async def test_missing_microphone_is_explained(bare_browser, visit):
    page = await visit(using=bare_browser, permissions=["microphone"])
    await page.get_by_label("Your microphone").check()
    await page.locator("#start").click()
    await expect(page.locator("#lower-title")).to_have_text("No microphone found")


async def test_recording_that_is_no_sound_is_refused_in_words(visit):
    page = await visit()
    page.expects_refusals = True
    await page.locator("#start").click()
    await page.live()
    await page.locator("#file").set_input_files(
        {"name": "note.wav", "mimeType": "audio/wav", "buffer": b"this is no sound at all"}
    )
    await expect(page.locator("#toast")).to_contain_text("That could not be spoken")
    assert await page.evaluate("window.liveanchor.state") == "live"
