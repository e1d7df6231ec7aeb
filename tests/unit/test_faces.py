"""Faces are found, whole and in place, however the picture is turned, scaled or cut."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
import skimage.data

from avatars.faces import FaceLandmarks, FaceMesh

pytestmark = pytest.mark.unit

NOSE_TIP, CHIN, EYE_RIGHT, EYE_LEFT, LIP_TOP, LIP_BOTTOM, CORNER_RIGHT = 1, 152, 33, 263, 13, 14, 61


@pytest.fixture(scope="module")
def mesh() -> FaceMesh:
    return FaceMesh()


@pytest.fixture(scope="module")
def portrait() -> np.ndarray:
    return skimage.data.astronaut()


@pytest.fixture(scope="module")
def reference(mesh, portrait) -> FaceLandmarks:
    (face,) = mesh.find(portrait)
    return face


def error_share(face: FaceLandmarks, reference: FaceLandmarks, to_picture: np.ndarray) -> float:
    """Mean distance of the points from where they should be, as a share of the face."""
    expected = reference.points @ to_picture[:, :2].T + to_picture[:, 2]
    return float(np.linalg.norm(face.points - expected, axis=1).mean() / np.ptp(expected, axis=0).max())


def test_the_mesh_lies_on_the_astronauts_features(reference):
    read_off_by_eye = {
        NOSE_TIP: (223, 128),
        CHIN: (222, 177),
        EYE_RIGHT: (193, 101),
        EYE_LEFT: (259, 103),
        LIP_TOP: (223, 141),
        LIP_BOTTOM: (223, 149),
        CORNER_RIGHT: (203, 140),
    }
    for point, place in read_off_by_eye.items():
        assert np.hypot(*(reference.points[point] - place)) < 4, point
    assert reference.points.shape == (468, 2)
    assert reference.depth.shape == (468,)
    assert reference.depth[NOSE_TIP] < reference.depth[EYE_RIGHT]
    assert 0.8 < reference.score <= 1.0


@pytest.mark.parametrize("degrees", [-90, -60, -30, 30, 60, 90, 135, 180])
def test_a_rolled_head_is_found_upright(mesh, portrait, reference, degrees):
    height, width = portrait.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 0.75)
    faces = mesh.find(cv2.warpAffine(portrait, turn, (width, height)))
    assert len(faces) == 1
    assert error_share(faces[0], reference, turn) < 0.015


@pytest.mark.parametrize(("scale", "bound"), [(0.18, 0.03), (0.5, 0.01), (4.0, 0.01)])
def test_size_of_the_picture_does_not_matter(mesh, portrait, reference, scale, bound):
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    faces = mesh.find(cv2.resize(portrait, None, fx=scale, fy=scale, interpolation=interpolation))
    assert len(faces) == 1
    to_picture = np.array([[scale, 0, (scale - 1) / 2], [0, scale, (scale - 1) / 2]])
    assert error_share(faces[0], reference, to_picture) < bound


@pytest.mark.parametrize(
    ("left", "top", "right", "bottom"), [(178, 69, 271, 177), (190, 0, 512, 512), (0, 0, 262, 512), (0, 0, 512, 168)]
)
def test_a_face_cut_by_the_edge_keeps_its_place(mesh, portrait, reference, left, top, right, bottom):
    (face,) = mesh.find(np.ascontiguousarray(portrait[top:bottom, left:right]))
    assert error_share(face, reference, np.array([[1, 0, -left], [0, 1, -top]], float)) < 0.03


def test_several_faces_come_largest_first(mesh, portrait):
    canvas = np.full((700, 1200, 3), 128, np.uint8)
    for x, side in ((20, 200), (260, 512), (800, 320)):
        canvas[60 : 60 + side, x : x + side] = cv2.resize(portrait, (side, side), interpolation=cv2.INTER_AREA)
    faces = mesh.find(canvas)
    assert len(faces) == 3
    assert [int(f.box[0]) // 100 for f in faces] == [4, 9, 0]


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 900, 3), (240, 320, 3), (2, 40000, 3), (40000, 30, 3)])
def test_no_face_in_a_plain_or_noisy_picture(mesh, shape):
    assert mesh.find(np.full(shape, 200, np.uint8)) == []
    assert mesh.find(np.random.default_rng(3).integers(0, 255, shape, dtype=np.uint8)) == []


def test_a_thin_strip_costs_no_more_looks_than_a_picture(mesh, monkeypatch):
    looks = []
    detect = FaceMesh._detect
    monkeypatch.setattr(FaceMesh, "_detect", lambda self, *args: looks.append(args) or detect(self, *args))
    mesh.find(np.full((3, 900, 3), 90, np.uint8))
    assert len(looks) < 60


def test_a_face_is_followed_in_a_picture_longer_than_opencv_warps(mesh, portrait, reference):
    long = np.full((512, 33_000, 3), 128, np.uint8)
    long[:, 20_000:20_512] = portrait
    face = mesh.follow(long, replace(reference, points=reference.points + np.float32([20_000, 0])))
    assert face is not None
    assert error_share(face, reference, np.array([[1.0, 0, 20_000], [0, 1, 0]])) < 0.01


def test_a_followed_face_moves_with_the_picture(mesh, portrait, reference):
    shift = np.array([[1.0, 0, 6], [0, 1, -4]])
    moved = cv2.warpAffine(portrait, shift, (512, 512))
    face = mesh.follow(moved, reference)
    assert face is not None
    assert error_share(face, reference, shift) < 0.01
    assert mesh.follow(np.full_like(portrait, 90), reference) is None


def test_the_same_picture_gives_the_same_points(mesh, portrait, reference):
    assert np.array_equal(mesh.find(portrait)[0].points, reference.points)
    with pytest.raises(ValueError, match="read-only"):
        reference.points[0] = 0
