"""A portrait that brings pictures of its teeth, tongue and shut eyes shows those; others are drawn as ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatars.bundled import bundled_portraits
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from avatars.sources import EYES, PARTS, SIDECAR, sources_of
from avatars.store import AvatarStore
from engines.warp.engine import WarpEngine
from engines.warp.glances import Eyes
from engines.warp.shape import MouthShape

pytestmark = pytest.mark.unit

PORTRAIT = bundled_portraits()[0]
GREEN, BLUE = (0, 255, 0, 255), (0, 0, 255, 255)


@pytest.fixture(scope="module")
def plain():
    return precompile_portrait(load_picture(PORTRAIT.path), PORTRAIT.id, FaceMesh())


@pytest.fixture(scope="module")
def painted(plain):
    """The same with a green mouth and blue lids."""
    x1, y1, x2, y2 = plain.coords[0]
    rgba = {part: np.full((y2 - y1, x2 - x1, 4), BLUE if part == EYES else GREEN, np.uint8) for part in PARTS}
    rects = {f"{part}.rect": np.array(plain.coords[0], np.int32) for part in PARTS}
    return replace(plain, sidecars={SIDECAR: rgba | rects})


def test_an_open_mouth_shows_the_portrait_s_own_teeth_and_tongue(plain, painted):
    engine = WarpEngine()
    drawn, own = (engine.attach(packet).render(MouthShape(open=0.8)).astype(int) for packet in (plain, painted))
    changed = np.abs(own - drawn).max(-1) > 8
    assert changed.any()
    assert (own[changed][:, 1] > drawn[changed][:, 1]).all()
    shut = (engine.attach(packet).render(MouthShape()) for packet in (plain, painted))
    assert np.array_equal(*shut)


def test_shut_lids_are_the_portrait_s_own_and_half_shut_ones_leave_the_eye(painted):
    face = WarpEngine().attach(painted)
    lids = face._lids
    for overlay in lids.overlays(Eyes(1.0)):
        blue = (overlay.pixels == BLUE[:3]).all(-1)
        assert blue.mean() > 0.6
        assert (overlay.pixels <= BLUE[:3]).all(), "the rest is its own, darker where lashes are"
    for overlay in lids.overlays(Eyes(0.5)):
        blue = (overlay.pixels == BLUE[:3]).all(-1)
        assert 0.1 < blue.mean() < 0.9


def test_sources_that_are_not_whole_are_left_alone(painted):
    kept = dict(painted.sidecars[SIDECAR])
    assert set(sources_of({SIDECAR: kept})) == set(PARTS)
    assert sources_of({SIDECAR: {k: v for k, v in kept.items() if k != EYES}}) == {}
    assert sources_of({SIDECAR: kept | {"eyes.rect": np.array([0, 0, 1, 1], np.int32)}}) == {}
    assert sources_of({}) == {}


@pytest.mark.skipif(not PORTRAIT.rects, reason="nothing was taken of it")
def test_a_bundled_portrait_s_packet_keeps_its_sources(tmp_path):
    store = AvatarStore(tmp_path)
    assert store.make_bundled(PORTRAIT.id)
    found = sources_of(store.open(PORTRAIT.id).sidecars)
    assert {part: source.rect for part, source in found.items()} == PORTRAIT.rects
