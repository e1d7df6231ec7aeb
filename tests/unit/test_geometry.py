"""The protocol document's crop geometry: its results bit for bit, and what every caller relies on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatars.errors import PortraitRejected
from avatars.geometry import compute_avatar_crop_geometry
from avatars.masks import mesh_region, place, soften, unclamped_crop
from avatars.precompile import FaceSettings, frame_face

pytestmark = pytest.mark.unit


def the_documents_rule(x1, y1, x2, y2, width, height, expand=1.5):
    """The document's text, step by step: centre, half side, shift into the frame, clamp, face box inside."""
    centre_x, centre_y = (x1 + x2) // 2, (y1 + y2) // 2
    half = int(max(x2 - x1, y2 - y1) // 2 * expand)
    left, top, right, bottom = centre_x - half, centre_y - half, centre_x + half, centre_y + half
    if left < 0:
        left, right = 0, min(width, right - left)
    if top < 0:
        top, bottom = 0, min(height, bottom - top)
    if right > width:
        left, right = max(0, left - (right - width)), width
    if bottom > height:
        top, bottom = max(0, top - (bottom - height)), height
    left, top = max(0, min(left, width - 1)), max(0, min(top, height - 1))
    right, bottom = max(left + 1, min(right, width)), max(top + 1, min(bottom, height))
    rel_x, rel_y = max(0, x1 - left), max(0, y1 - top)
    rel_w = max(1, min(x2 - x1, right - left - rel_x))
    rel_h = max(1, min(y2 - y1, bottom - top - rel_y))
    return left, top, right, bottom, rel_x, rel_y, rel_w, rel_h


@st.composite
def boxes(draw, *, inside):
    """A frame's size and a face box, inside it or anywhere."""
    width, height = draw(st.integers(1, 2000)), draw(st.integers(1, 2000))
    low, high_x, high_y = (0, width, height) if inside else (-500, width + 500, height + 500)
    x1, x2 = sorted(draw(st.lists(st.integers(low, high_x), min_size=2, max_size=2)))
    y1, y2 = sorted(draw(st.lists(st.integers(low, high_y), min_size=2, max_size=2)))
    return (x1, y1, x2, y2), (width, height)


@given(boxes(inside=False), st.sampled_from([1.0, 1.2, 1.5, 2.0]))
def test_every_result_is_the_documents(case, expand):
    box, size = case
    assert tuple(compute_avatar_crop_geometry(*box, *size, expand)) == the_documents_rule(*box, *size, expand)


@given(boxes(inside=False))
def test_the_crop_is_never_empty_and_never_leaves_the_frame(case):
    box, (width, height) = case
    g = compute_avatar_crop_geometry(*box, width, height)
    assert 0 <= g.x_s < g.x_e <= width
    assert 0 <= g.y_s < g.y_e <= height
    assert g.rel_w >= 1
    assert g.rel_h >= 1


@given(boxes(inside=True))
def test_a_box_inside_the_frame_lies_whole_inside_its_crop(case):
    (x1, y1, x2, y2), (width, height) = case
    if x1 == x2 or y1 == y2:
        return
    g = compute_avatar_crop_geometry(x1, y1, x2, y2, width, height)
    if int(max(x2 - x1, y2 - y1) // 2 * 1.5) < max(x2 - x1, y2 - y1) / 2:
        return  # a box of one or three pixels, whose expanded half rounds to less than it has
    assert (g.x_s + g.rel_x, g.y_s + g.rel_y) == (x1, y1)
    assert (g.rel_w, g.rel_h) == (x2 - x1, y2 - y1)


def test_the_documents_example_does_not_slice_backwards():
    g = compute_avatar_crop_geometry(330, 20, 690, 480, 1024, 1024)
    canvas = np.zeros((1024, 1024))
    assert g.y_s == 0
    assert canvas[g.y_s : g.y_e, g.x_s : g.x_e].size == g.crop_width_px * g.crop_height_px > 0


def oval_mesh(box, chin_y):
    """A face outline around a box, all other points in its middle."""
    x1, y1, x2, _ = box
    mesh = np.full((468, 2), ((x1 + x2) / 2, (y1 + chin_y) / 2), dtype=np.float32)
    outline = (10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152, 148, 176)
    outline += (149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109)
    for k, i in enumerate(outline):
        angle = 2 * math.pi * k / len(outline)
        mesh[i] += ((x2 - x1) / 2 * math.sin(angle), -(chin_y - y1) / 2 * math.cos(angle))
    return mesh


@pytest.mark.parametrize("offset", [(0, 0), (-250, 0), (330, 0), (0, -140), (0, 250), (-250, -140), (330, 250)])
def test_the_split_line_stays_put_when_the_face_nears_an_edge(offset):
    """Made on the clamped crop, the mask's top would move up the lip by up to a quarter of the face."""
    size = (1024, 1024)
    centred = (330, 150, 690, 610)
    box = (centred[0] + offset[0], centred[1] + offset[1], centred[2] + offset[0], centred[3] + offset[1])
    mesh = oval_mesh(box, box[3] - 60)
    crop = unclamped_crop(box)
    g = compute_avatar_crop_geometry(*box, *size)
    mask = place(soften(mesh_region(mesh, crop, box), crop, box), crop, g)
    rows = np.flatnonzero(mask[0].max(axis=1) > 0.5)
    assert abs(g.y_s + rows[0] - (box[1] + box[3]) // 2) <= 1


@pytest.mark.parametrize("where", [(-400, 0), (1100, 0), (0, -500), (0, 1200)])
def test_a_face_outside_the_frame_is_refused(where):
    mesh = oval_mesh((100, 100, 300, 360), 330) + np.array(where, dtype=np.float32)
    with pytest.raises(PortraitRejected, match="outside the picture"):
        frame_face(np.zeros((1024, 1024, 3), np.uint8), mesh, FaceSettings(), None, "photo.jpg")
