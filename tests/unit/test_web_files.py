"""The web files keep the house's size budget and the page's promises: nothing inline, nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

WEB = Path(__file__).parents[2] / "web"
SCRIPTS = sorted(WEB.rglob("*.js"))
TEXTS = sorted(p for p in WEB.rglob("*") if p.suffix in (".js", ".css", ".html", ".svg"))
NAMESPACES = ("http://www.w3.org/2000/svg",)
SCHEMES = ("https://", "http://localhost:")
"""Words of a remedy, not addresses that are called."""
EXAMPLE = "https://anchors.example/"


def name(path):
    return path.relative_to(WEB).as_posix()


class Markup(HTMLParser):
    """What a content security policy without 'unsafe-inline' would refuse, and what the page loads."""

    def __init__(self):
        super().__init__()
        self.inline = []
        self.loads = []
        self.ids = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.inline += [f"<{tag} {key}>" for key in given if key == "style" or key.startswith("on")]
        self.inline += ["<style>"] if tag == "style" else []
        self.inline += ["<script>"] if tag == "script" and "src" not in given else []
        self.loads += [value for key, value in attrs if key in ("src", "href") and not value.startswith("#")]
        self.ids += [given["id"]] if "id" in given else []


PAGES = {
    "index.html": (WEB.parent, "page"),
    "avatars.html": (WEB, "avatars"),
    "watch.html": (WEB, "watch"),
    "join.html": (WEB, "join"),
    "control.html": (WEB, "control"),
}
"""Each page with the folder its addresses start from, and what its scripts are called."""


@pytest.fixture(scope="module", params=PAGES)
def page(request):
    return request.param


@pytest.fixture(scope="module")
def markup(page):
    found = Markup()
    found.feed((WEB / page).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_file_is_short_and_names_nobody_else(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    addresses = re.findall(r"https?://[^\s\"'`)]*", text)
    assert [a for a in addresses if a not in (*NAMESPACES, EXAMPLE, *SCHEMES)] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_module_says_what_it_owns_and_imports_what_exists(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("/**")
    for target in re.findall(r"(?:from|import\()\s*\"([^\"]+)\"", text):
        assert target.startswith((".", "/web/")), f"{target} is not one of ours"
        assert (path.parent / target).resolve().is_file(), f"{target} is missing"


def test_page_has_nothing_inline_and_loads_only_files_that_exist(page, markup):
    base, _ = PAGES[page]
    assert markup.inline == []
    assert [load for load in markup.loads if load != "../" and not (base / load).is_file()] == []


def test_elements_the_scripts_look_for_are_on_the_page(page, markup):
    _, scripts = PAGES[page]
    assert len(markup.ids) == len(set(markup.ids))
    wanted = {
        wanted
        for path in (WEB / f"{scripts}.js", *sorted((WEB / scripts).glob("*.js")))
        for wanted in re.findall(r"element\(\"([\w-]+)\"", path.read_text(encoding="utf-8"))
    }
    assert wanted
    assert wanted - set(markup.ids) == set()
