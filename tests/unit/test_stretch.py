"""Stretching a patch: as OpenCV resizes, whichever library does it, and nothing of the switch for it stays behind."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from avatars.stretch import PatchPlan, Workspace, plan_planes, resize_linear

pytestmark = pytest.mark.unit


def picture(height, width, seed=1):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 2.0)


@pytest.mark.parametrize(
    ("size", "other"), [((131, 77), (178, 118)), ((256, 160), (250, 235)), ((256, 143), (124, 105))]
)
def test_resizing_is_exact_to_one_level(size, other):
    for pixels in (picture(*size[::-1]), picture(*size[::-1])[:, :, 1]):
        exact = cv2.resize(pixels.astype(np.float64), other, interpolation=cv2.INTER_LINEAR)
        into = np.zeros((other[1], other[0], *pixels.shape[2:]), np.uint8)
        assert np.abs(resize_linear(pixels, other, into) - exact).max() < 1.0
        assert np.array_equal(into, resize_linear(pixels, other))
    assert not cv2.ipp.useIPP_NotExact()


@pytest.mark.parametrize(
    ("face_box", "direct"),
    [
        ((40, 30, 290, 406), True),
        ((40, 30, 500, 500), True),
        ((40, 30, 220, 300), False),
        ((41.3, 30.7, 300, 410), True),
    ],
)
def test_a_workspace_forgets_the_patch_before(face_box, direct):
    left, top, right, bottom = (int(edge) for edge in face_box)
    rect = ((left + 20) & ~1, (top + bottom) // 2 & ~1, (right - 20) & ~1, (bottom - 4) & ~1)
    plan: PatchPlan = plan_planes(face_box, rect, 256)
    assert (plan.chroma is not None) is direct
    workspace = Workspace(plan)
    first, second = picture(256, 256, 1), picture(256, 256, 2)
    expected = [plane.copy() for plane in Workspace(plan).planes(first)]
    workspace.planes(second)
    found = workspace.planes(first)
    assert found.luma.shape == (rect[3] - rect[1], rect[2] - rect[0])
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
