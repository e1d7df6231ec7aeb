"""The output guard: a face is shown, a blank box, a foreign colour or a sudden other picture is not."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from avatars.bundled import bundled_portraits
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import latent_crop, precompile_portrait
from engines.contract import FacePatch
from engines.warp.engine import WarpEngine
from engines.warp.shape import MouthShape
from streamer.guard import PatchGuard

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def packet():
    return precompile_portrait(load_picture(bundled_portraits()[0].path), "first", FaceMesh())


@pytest.fixture(scope="module")
def face(packet):
    rgb = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0))
    return latent_crop(rgb, packet.coords[0])


def verdicts(packet, pictures):
    guard = PatchGuard(packet)
    return [guard.check(FacePatch(i, 0, np.ascontiguousarray(p))) for i, p in enumerate(pictures)]


def test_every_mouth_of_the_embedded_engine_may_be_shown(packet):
    attached = WarpEngine().attach(packet)
    shapes = [MouthShape(), MouthShape(open=1.0), MouthShape(), MouthShape(open=1.0, round=1.0), MouthShape(press=1.0)]
    assert verdicts(packet, [attached.render(shape) for shape in shapes]) == [None] * len(shapes)


@pytest.mark.parametrize("value", [0, 128, 255])
def test_a_blank_box_is_never_shown(packet, face, value):
    assert verdicts(packet, [face, np.full_like(face, value)])[1] == "flat"


def test_a_collapsed_decoder_is_never_shown(packet, face):
    beige = np.clip(150 + 0.05 * (face.astype(np.float32) - 128), 0, 255).astype(np.uint8)
    assert verdicts(packet, [beige]) == ["flat"]


def test_swapped_or_foreign_colours_are_not_shown(packet, face):
    assert verdicts(packet, [255 - face, np.clip(face.astype(int) + 70, 0, 255).astype(np.uint8)]) == ["colour"] * 2


def test_noise_in_the_colours_of_the_face_is_a_jump(packet, face):
    shuffled = np.random.default_rng(0).permutation(face.reshape(-1, 3)).reshape(face.shape)
    assert verdicts(packet, [face, shuffled]) == [None, "jump"]


def test_the_same_jump_asked_for_again_is_still_one(packet, face):
    turned = cv2.rotate(face, cv2.ROTATE_180)
    guard = PatchGuard(packet)
    pictures = [(0, face), (1, turned), (1, turned), (2, face)]
    found = [guard.check(FacePatch(i, 0, np.ascontiguousarray(p))) for i, p in pictures]
    assert found[1] == found[2]
    assert (found[0], found[3]) == (None, None)


def test_a_change_that_stays_is_taken_for_a_new_picture(packet, face):
    turned = cv2.rotate(face, cv2.ROTATE_180)
    found = verdicts(packet, [face, turned, turned])
    assert found[0] is None
    assert found[2] is None
