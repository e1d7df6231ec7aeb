"""The gallery offers every bundled portrait at once, made or not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from avatars.bundled import bundled_portraits
from avatars.errors import PacketMissing
from avatars.store import AvatarStore
from streamer.gallery import Gallery
from streamer.making import Making

pytestmark = pytest.mark.unit


@pytest.fixture
def gallery(tmp_path):
    with ThreadPoolExecutor(1) as executor:
        store = AvatarStore(tmp_path / "avatars")
        yield Gallery(store, Making(store, executor))


def test_bundled_portraits_can_be_chosen_and_seen_before_they_are_made(gallery):
    views = gallery.list()
    assert [view.id for view in views] == [portrait.id for portrait in bundled_portraits()]
    assert {view.state for view in views} == {"ready"}
    assert gallery.thumbnail(views[-1].id, 64)[:2] == b"\xff\xd8"
    assert gallery.report(views[-1]) == {}
    assert gallery.version(views[0].id) != gallery.version(views[1].id)


def test_who_is_neither_bundled_nor_made_is_missing(gallery):
    with pytest.raises(PacketMissing):
        gallery.thumbnail("nobody", 64)
    with pytest.raises(PacketMissing):
        gallery.version("nobody")
