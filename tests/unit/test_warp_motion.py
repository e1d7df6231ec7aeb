"""What the elements of a mouth shape add up to, and how a field is bent and inverted. No pictures."""

from __future__ import annotations

import numpy as np
import pytest

from engines.warp.fields import CELL_PX, Area, Fields, nodes, thin_plate
from engines.warp.life import Life
from engines.warp.motion import MOVES, weights
from engines.warp.pose import fit_pose, patch_points
from engines.warp.shape import MouthShape

pytestmark = pytest.mark.unit


def weight(name: str, shape: MouthShape) -> float:
    return float(weights(shape)[MOVES.index(name)])


def test_all_zero_is_the_mouth_at_rest():
    rest = dict(zip(MOVES, weights(MouthShape()), strict=True))
    assert rest.pop("close") == 1.0
    assert set(rest.values()) == {0.0}


def test_pressed_lips_shut_a_dropped_jaw():
    assert weight("open", MouthShape(open=1.0, press=1.0)) == 0.0
    assert weight("open", MouthShape(open=1.0, press=0.5)) < 0.55


def test_opening_grows_with_the_jaw_and_is_capped():
    opened = [weight("open", MouthShape(open=o)) for o in np.linspace(0, 1, 21)]
    assert np.all(np.diff(opened) > 0)
    assert opened[-1] < 0.95


def test_rounding_wins_over_spreading():
    assert weight("wide", MouthShape(wide=1.0, round=1.0)) < 0.25


def test_irregularities_stay_small_and_leave_a_mouth_at_rest_alone():
    for index in range(0, 3000, 7):
        sway, tilt = Life("ruby").at(index)
        assert abs(sway) <= 1.0
        assert abs(tilt) <= 1.01
        still = weights(MouthShape(), sway, tilt)
        assert np.array_equal(still, weights(MouthShape()))
    assert Life("ruby").at(5) == Life("ruby").at(5) != Life("blaze").at(5)


def test_a_thin_plate_passes_through_its_points_and_keeps_straight_things_straight():
    rng = np.random.default_rng(5)
    points = rng.uniform(0, 256, (60, 2))
    values = rng.normal(size=(60, 3))
    assert np.allclose(thin_plate(points, values, points, 0.0), values, atol=1e-3)
    plane = points @ np.array([[0.3], [-0.2]]) + 4.0
    ask = rng.uniform(0, 256, (50, 2))
    assert np.allclose(thin_plate(points, plane, ask, 1e-4), ask @ np.array([[0.3], [-0.2]]) + 4.0, atol=1e-2)


def test_a_field_is_inverted_to_a_fraction_of_a_pixel():
    area = Area(0, 0, 128, 128)
    at = nodes(area)
    bump = 9.0 * np.exp(-((at - 64) ** 2).sum(-1) / (2 * 24.0**2))
    (fields,) = Fields.of(area, np.stack([np.zeros_like(at), np.stack([0 * bump, bump], -1)]).astype(np.float32))
    source = fields.source(np.array([0.0, 1.0], np.float32))
    # a point that the field brings to the pixel (64, 64 + 9) came from the middle
    assert np.allclose(source[73, 64], (64, 64), atol=0.35)
    assert np.allclose(source[2, 2], (2, 2), atol=0.1)
    assert fields.forward.shape[1:3] == (128 // CELL_PX, 128 // CELL_PX)


@pytest.mark.parametrize("degrees", [-50, 0, 25, 90])
def test_the_face_axes_follow_a_rolled_head(degrees):
    upright = np.random.default_rng(2).uniform(-30, 30, (468, 2))
    upright[[33, 133, 362, 263]] = [(-45, -60), (-18, -60), (18, -60), (45, -60)]
    upright[10], upright[152] = (0, -100), (0, 50)
    upright[[61, 291]], upright[13], upright[14] = [(-25, 0), (25, 0)], (0, -1), (0, 1)
    a = np.radians(degrees)
    turned = (upright @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) + 200).astype(np.float32)
    box = (100, 90, 310, 330)
    pose = fit_pose(turned, box, 256)
    placed = pose.face(patch_points(turned, box, 256))
    assert np.allclose(placed[13], (0, -1 / (90 / 1.75)), atol=0.01)
    assert placed[152, 1] > 0.9
    assert abs(placed[152, 0]) < 0.01
    assert np.allclose(pose.patch(pose.face(np.array([[3.0, 250.0]]))), [[3.0, 250.0]])
