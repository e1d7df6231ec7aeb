"""Face box, masks, blend and crops give MuseTalk's own numbers, bit for bit where that is meant."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from avatars.blend import blend_rgb
from avatars.clip import forward_backward
from avatars.facebox import official_face_box
from avatars.geometry import Geometry, compute_avatar_crop_geometry
from avatars.masks import CheekWidths, parse_region, place, region_to_crop, soften, unclamped_crop
from avatars.precompile import latent_crop

pytestmark = pytest.mark.contract

GOLDENS = Path(os.environ.get("LIVEANCHOR_GOLDENS", Path(__file__).parents[1] / "goldens")) / "musetalk"


def load(name):
    return dict(np.load(GOLDENS / name))


def box_of(values):
    return tuple(int(v) for v in values)


def official_mask(parse, box, mode="jaw", cheeks=None):
    crop = unclamped_crop(box)
    return soften(region_to_crop(parse_region(parse, mode, cheeks), crop[2] - crop[0]), crop, box)


def test_face_boxes_are_musetalks():
    golden = load("05_bbox.npz")
    for i, landmarks in enumerate(golden["landmarks"]):
        height, shift = int(golden["frame_hw"][i][0]), int(golden["bbox_shift"][i])
        box = official_face_box(landmarks, height, shift)
        boxed_v15 = official_face_box(landmarks, height, shift, margin_px=10)
        if golden["used_detector_fallback"][i]:
            assert box is None
            assert boxed_v15 is None
        else:
            assert box == box_of(golden["bbox"][i])
            assert boxed_v15 == box_of(golden["bbox_v15"][i])


def test_masks_are_musetalks():
    golden = load("06_parse_mask.npz")
    for i, box in enumerate(golden["bbox"]):
        box = box_of(box)
        cheeks = CheekWidths(int(golden["left_cheek"][i]), int(golden["right_cheek"][i]))
        mode = str(golden["mode"][i])
        assert unclamped_crop(box) == box_of(golden["crop_box"][i])
        assert np.array_equal(parse_region(golden[f"parse_{i}"], mode, cheeks), golden[f"region512_{i}"])
        assert np.array_equal(official_mask(golden[f"parse_{i}"], box, mode, cheeks), golden[f"mask_{i}"])


def test_placing_a_mask_moves_no_pixel_of_it():
    golden = load("06_parse_mask.npz")
    for i, (box, (height, width)) in enumerate(zip(golden["bbox"], golden["frame_hw"], strict=True)):
        geometry = compute_avatar_crop_geometry(*box_of(box), int(width), int(height))
        crop = box_of(golden["crop_box"][i])
        placed = place(golden[f"mask_{i}"], crop, geometry)
        whole = np.zeros((height, width), np.float32)
        whole[geometry.y_s : geometry.y_e, geometry.x_s : geometry.x_e] = placed[0]
        expected = np.zeros((height, width), np.float32)
        x1, y1, x2, y2 = max(0, crop[0]), max(0, crop[1]), min(width, crop[2]), min(height, crop[3])
        seen = golden[f"mask_{i}"][y1 - crop[1] : y2 - crop[1], x1 - crop[0] : x2 - crop[0]]
        expected[y1:y2, x1:x2] = seen / np.float32(255)
        assert np.array_equal(whole, expected)


def test_blending_is_musetalks_to_the_bit():
    golden = load("07_blend.npz")
    for i, box in enumerate(golden["bbox"]):
        box, (height, width) = box_of(box), golden["frame_hw"][i]
        frame, crop = golden[f"frame_{i}"], box_of(golden["crop_box"][i])
        geometry = compute_avatar_crop_geometry(*box, int(width), int(height))
        mask = place(golden[f"mask_{i}"], crop, geometry)
        before = frame.copy()
        blended = blend_rgb(frame, golden[f"mouth_{i}"], mask, box_of(geometry[:4]), box)
        expected = frame.copy()
        expected[box[1] : box[3], box[0] : box[2]] = golden[f"out_bbox_{i}"]
        assert np.array_equal(blended, expected)
        assert np.array_equal(frame, before), "the frame itself is left untouched"


def test_whole_preparation_is_musetalks():
    golden = load("10_avatar_prep.npz")
    frames = golden["frames"]
    height, width = frames.shape[1:3]
    count = len(frames)
    for i, frame in enumerate(frames):
        box = official_face_box(golden["landmarks"][i], height, margin_px=10)
        assert box == box_of(golden["coords_cycle"][i])
        assert unclamped_crop(box) == box_of(golden["crop_boxes_cycle"][i])
        crop_error = np.abs(latent_crop(frame, box).astype(int) - golden["crops256"][i])
        assert crop_error.max() <= 1
        mask_error = np.abs(official_mask(golden["parse"][i], box).astype(int) - golden[f"mask_{i}"])
        assert mask_error.max() <= 1
        assert mask_error.mean() <= 0.05
    # The official cycle shows both ends twice; ours is the same without the doubles.
    official = [*range(count), *range(count - 1, -1, -1)]
    doubles = {count, 2 * count - 1}
    assert forward_backward(count) == [frame for at, frame in enumerate(official) if at not in doubles]
    assert all(
        Geometry(*compute_avatar_crop_geometry(*box_of(b), width, height)).x_s >= 0 for b in golden["coords_cycle"]
    )
