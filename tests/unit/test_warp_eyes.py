"""Blinks and glances: seen on the finished frame, irregular, the same for idle and speaking pictures."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
import skimage.data

from avatars.bundled import FIRST, bundled_portraits
from avatars.canvas import Canvas
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from engines.contract import FPS
from engines.warp.engine import WarpEngine
from engines.warp.glances import CYCLE_FRAMES, EyeLife, Eyes
from engines.warp.lids import LidPainter
from engines.warp.mesh import EYE_LIDS
from engines.warp.pose import patch_points
from streamer.casting import staged

pytestmark = pytest.mark.unit

PORTRAITS = bundled_portraits()[:FIRST]
AT_REST = 18
"""What one byte of a mouth at rest may differ from the portrait's."""
UPPER, LOWER, CORNERS = (159, 386), (145, 374), ((33, 133), (362, 263))


@pytest.fixture(scope="module")
def mesh():
    return FaceMesh()


@pytest.fixture(scope="module")
def packets(mesh):
    pictures = {p.id: load_picture(p.path) for p in PORTRAITS} | {"astronaut": skimage.data.astronaut()}
    return {name: precompile_portrait(rgb, name, mesh) for name, rgb in pictures.items()}


def eyes_open(mesh, rgb):
    """Mean lid gap, a share of the eyes' width."""
    points = mesh.find(rgb)[0].points
    width = np.mean([np.linalg.norm(points[a] - points[b]) for a, b in CORNERS])
    return np.mean([np.linalg.norm(points[u] - points[d]) for u, d in zip(UPPER, LOWER, strict=True)]) / width


def with_eyes(packet, eyes):
    """The first frame, (H, W, 3) u8, its eyes as told."""
    x1, y1, x2, y2 = packet.coords[0]
    side = 4 * max(64, (x2 - x1) // 4)
    frame = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0))
    patch = cv2.resize(frame[y1:y2, x1:x2], (side, side), interpolation=cv2.INTER_AREA)
    painter = LidPainter(patch, patch_points(packet.landmarks[0], packet.coords[0], side))
    shown = patch.astype(np.float32)
    for overlay in painter.overlays(eyes):
        left, top, right, bottom = overlay.rect
        part, mask = shown[top:bottom, left:right], overlay.mask[..., None]
        shown[top:bottom, left:right] = part + (overlay.pixels - part) * mask
    frame[y1:y2, x1:x2] = cv2.resize(np.rint(shown).astype(np.uint8), (x2 - x1, y2 - y1))
    return frame


@pytest.mark.parametrize("name", [*(p.id for p in PORTRAITS), "astronaut"])
def test_shut_lids_are_seen_shut_and_half_shut_ones_between(name, packets, mesh):
    gaps = [eyes_open(mesh, with_eyes(packets[name], Eyes(shut))) for shut in (0.0, 0.5, 1.0)]
    assert gaps[2] < 0.72 * gaps[0]
    assert gaps[2] <= gaps[1] <= 1.02 * gaps[0]


def test_a_glance_moves_the_irises_and_leaves_the_lids(packets):
    packet = packets[PORTRAITS[0].id]
    left, ahead, right = (with_eyes(packet, Eyes(0, gaze)).astype(int) for gaze in (-1, 0, 1))
    changed = np.abs(left - right).max(2) > 12
    assert 20 < changed.sum() < 0.02 * changed.size
    assert np.abs(left - ahead).max() > 12


def test_blinks_are_irregular_and_as_frequent_as_people_s():
    for avatar_id in ("ruby", "blaze", "somebody"):
        shut = np.array([EyeLife(avatar_id).at(index).shut for index in range(CYCLE_FRAMES)])
        begins = np.flatnonzero((shut[1:] > 0) & (shut[:-1] == 0))
        per_minute = len(begins) / (CYCLE_FRAMES / FPS / 60)
        between = np.diff(begins)
        assert 9 <= per_minute <= 30
        assert between.std() > 0.3 * between.mean()
        assert (shut > 0).mean() < 0.15


def test_two_people_do_not_blink_together():
    both = [{i for i in range(CYCLE_FRAMES) if EyeLife(name).at(i).shut == 1.0} for name in ("ruby", "blaze")]
    assert len(both[0] & both[1]) < 0.3 * len(both[0])


def test_who_is_idle_blinks_and_costs_a_reference(packets):
    engine, packet = WarpEngine(), packets[PORTRAITS[0].id]
    face = engine.attach(packet)
    canvas, still = staged(face, 512), Canvas(packet, 512)
    indices = range(60 * FPS)
    frames = {id(canvas.anchor(index)): canvas.anchor(index) for index in indices}
    assert 6 <= len(frames) <= 20
    for index in indices:
        alive = bool(face.overlays(index))
        assert np.array_equal(canvas.anchor(index), still.anchor(index)) is not alive


def test_speaking_and_idle_pictures_blink_alike(packets):
    engine, packet = WarpEngine(), packets[PORTRAITS[0].id]
    face = engine.attach(packet)
    canvas = staged(face, 512)
    blink = next(i for i in itertools.count() if face.overlays(i) and not face.overlays(i - 1))
    for index in (blink - 1, blink, blink + 1, blink + 8):
        spoken = canvas.blend(index, face.neutral, face.overlays(index)).astype(int)
        assert np.abs(spoken - canvas.anchor(index)).max() <= AT_REST
    after = canvas.blend(blink + 8, face.neutral)
    assert np.abs(after.astype(int) - Canvas(packet, 512).anchor(0)).max() <= AT_REST  # no lid stays behind


def test_shut_or_tiny_eyes_are_left_alone(packets):
    packet = packets[PORTRAITS[0].id]
    points = patch_points(np.array(packet.landmarks[0]), packet.coords[0], 256)
    patch = np.zeros((256, 256, 3), np.uint8)
    assert LidPainter(patch, points * 0.05).overlays(Eyes(1.0)) == ()
    for upper, lower in EYE_LIDS:
        points[upper] = points[lower] - np.array([0, 1])
    assert LidPainter(patch, points).overlays(Eyes(1.0)) == ()
