"""The portraits that come along: few enough bytes, all usable, no two alike, and their mouths do what they are told."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from PIL import Image

from avatars.bundled import bundled_portraits
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from avatars.sources import EYES, PARTS, SIDECAR, sources_of
from engines.warp.engine import WarpEngine
from engines.warp.shape import MouthShape
from engines.warp.visemes import finished

pytestmark = pytest.mark.contract

PORTRAITS = bundled_portraits()


def test_they_are_square_listed_once_and_small_enough_to_ship():
    assert len({portrait.id for portrait in PORTRAITS}) == len(PORTRAITS)
    assert {path.stem for path in PORTRAITS[0].path.parent.glob("*.webp")} == {portrait.id for portrait in PORTRAITS}
    for portrait in PORTRAITS:
        with Image.open(portrait.path) as picture:
            assert picture.size == (portrait.side_px, portrait.side_px)
    pictures = [*PORTRAITS[0].path.parent.rglob("*.webp")]
    assert sum(path.stat().st_size for path in pictures) <= 12_000_000


def test_what_they_hide_lies_inside_the_frame_where_mouth_and_eyes_are():
    hiding = [portrait for portrait in PORTRAITS if portrait.rects]
    assert {path.stem for path in PORTRAITS[0].path.parent.glob("sources/*.webp")} == {p.id for p in hiding}
    for portrait in hiding:
        found = sources_of({SIDECAR: portrait.sources()})
        assert set(found) == set(PARTS), portrait.id
        for part, (rgba, (x1, y1, x2, y2)) in found.items():
            assert 0 <= x1 < x2 <= portrait.side_px, (portrait.id, part)
            assert 0 <= y1 < y2 <= portrait.side_px, (portrait.id, part)
            assert rgba[..., 3].max() == 255, (portrait.id, part)
            assert part == EYES or rgba[..., 3].min() == 0, (portrait.id, part)


@pytest.mark.long
def test_each_is_graded_best_and_follows_opening_and_width():
    mesh, engine = FaceMesh(), WarpEngine()
    found = {}
    for portrait in PORTRAITS:
        packet = precompile_portrait(load_picture(portrait.path), portrait.id, mesh)
        face = engine.attach(packet)
        told = np.linspace(0, 1, 10)
        opened = [_mouth(mesh, finished(face, MouthShape(open=o, wide=0.2)))[0] for o in told]
        wider = np.linspace(-1, 1, 10)
        shapes = [MouthShape(open=0.3, wide=max(0.0, w), round=max(0.0, -w)) for w in wider]
        width = [_mouth(mesh, finished(face, shape))[1] for shape in shapes]
        r_open, r_width = np.corrcoef(told, opened)[0, 1], np.corrcoef(wider, width)[0, 1]
        found[portrait.id] = (packet.info["report"]["grade"], round(float(r_open), 3), round(float(r_width), 3))
    print(found)
    assert all(grade == "A" and r_open >= 0.95 and r_width >= 0.85 for grade, r_open, r_width in found.values())


@pytest.mark.long
def test_no_two_are_the_same_person():
    mesh = FaceMesh()
    shapes = {}
    for portrait in PORTRAITS:
        rgb = load_picture(portrait.path)
        points = mesh.find(rgb)[0].points
        across = points[263] - points[33]
        centred = points - (points[33] + points[263]) / 2
        shape = np.stack([centred @ across, centred @ np.array([-across[1], across[0]])], -1) / (across @ across)
        x, y = points[50].astype(int)
        shapes[portrait.id] = shape, rgb[y - 4 : y + 5, x - 4 : x + 5].reshape(-1, 3).mean(0)
    for a, b in itertools.combinations(shapes, 2):
        (shape_a, skin_a), (shape_b, skin_b) = shapes[a], shapes[b]
        apart = np.sqrt(((shape_a - shape_b) ** 2).sum(1).mean())
        assert apart >= 0.014 or np.abs(skin_a - skin_b).mean() >= 18, (a, b)


def _mouth(mesh, rgb):
    """(lip gap, mouth width), shares of the distance between the eyes."""
    points = mesh.find(rgb)[0].points
    eyes = np.linalg.norm(points[33] - points[263])
    return np.linalg.norm(points[14] - points[13]) / eyes, np.linalg.norm(points[291] - points[61]) / eyes
