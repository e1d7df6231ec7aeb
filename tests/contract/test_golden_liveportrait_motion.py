"""Pose, keypoints, retargeting, the drive, and the crop and its way back give the official numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from engines.errors import EngineContract  # noqa: E402
from engines.liveportrait import crop, drive, keypoints, openings, retargeting  # noqa: E402
from engines.liveportrait.seeded import seed  # noqa: E402

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def parts():
    return {part: seed("", retargeting.Retargeting(part)) for part in retargeting.INPUTS}


def info(stored, prefix, kp, rows=slice(None)):
    """A MotionInfo of arrays named PREFIX_exp and so on; driving arrays carry a batch axis of one after the first."""

    def tensor(name):
        array = stored[f"{prefix}_{name}"][rows]
        return torch.as_tensor(array.reshape(-1, *array.shape[-2 if name == "exp" else -1 :]))

    return keypoints.MotionInfo(
        tensor("pitch"), tensor("yaw"), tensor("roll"), tensor("t"), tensor("exp"), tensor("scale"), kp
    )


def test_angles_rotations_and_keypoints(liveportrait_goldens):
    stored = liveportrait_goldens.load("09_pose_keypoints.npz")
    logits = torch.as_tensor(stored["logits"])
    assert liveportrait_goldens.error(stored, "degrees", keypoints.degrees(logits)[:, 0]) <= 1e-4
    angles = torch.as_tensor(stored["angles_deg_pitch_yaw_roll"])
    found = keypoints.rotation(angles[:, :1], angles[:, 1:2], angles[:, 2:])
    assert liveportrait_goldens.error(stored, "R", found) <= 5e-6
    kp = torch.as_tensor(stored["in_kp"])
    given = info(stored, "in", kp)
    assert liveportrait_goldens.error(stored, "kp_transformed", given.keypoints()) <= 5e-6
    heads = {"pitch": logits[0:4], "yaw": logits[1:5], "roll": logits[2:6], "t": given.t, "scale": given.scale}
    heads |= {"exp": given.exp.flatten(1), "kp": kp.flatten(1)}
    found = keypoints.motion_info(heads).keypoints()
    assert liveportrait_goldens.error(stored, "kp_transformed_from_logits", found) <= 5e-6


def test_pose_logits_of_another_width_are_refused():
    with pytest.raises(EngineContract, match="66"):
        keypoints.degrees(torch.zeros(1, 65))


def test_stitching_and_retargeting(liveportrait_goldens, parts):
    stored = liveportrait_goldens.load("10_stitch_retarget.npz")
    source, driving = torch.as_tensor(stored["kp_source"]), torch.as_tensor(stored["kp_driving"])
    with torch.inference_mode():
        delta = parts["stitching"](torch.as_tensor(stored["stitch_feature"]))
        out = retargeting.stitched(parts["stitching"], source, driving)
        eyes = retargeting.retargeted(parts["eye"], source[:1], torch.as_tensor(stored["combined_eye"]))
        lips = retargeting.retargeted(parts["lip"], source[:1], torch.as_tensor(stored["combined_lip"]))
        shut = retargeting.retargeted(parts["lip"], source[:1], torch.as_tensor(stored["combined_lip_zero"]))
    assert liveportrait_goldens.error(stored, "stitch_delta", delta) <= 2e-6
    assert liveportrait_goldens.error(stored, "stitching_out", out) <= 2e-6
    assert liveportrait_goldens.error(stored, "eye_delta", eyes) <= 2e-6
    assert liveportrait_goldens.error(stored, "lip_delta", lips) <= 2e-6
    assert liveportrait_goldens.error(stored, "lip_delta_zero", shut) <= 2e-6


def test_openings_of_eyes_and_lips(liveportrait_goldens):
    stored = liveportrait_goldens.load("10_stitch_retarget.npz")
    for who in ("source", "driving"):
        points = stored[f"lmk_{who}"]
        assert liveportrait_goldens.error(stored, f"eye_ratio_{who}", openings.eye_openings(points)) <= 1e-5
        assert liveportrait_goldens.error(stored, f"lip_ratio_{who}", openings.lip_opening(points)) <= 1e-5
    eyes = openings.wanted_eyes(stored["lmk_source"], float(stored["eye_ratio_driving"][0, 0]))
    lips = openings.wanted_lips(stored["lmk_source"], float(stored["lip_ratio_driving"][0, 0]))
    assert liveportrait_goldens.error(stored, "combined_eye", eyes) <= 1e-5
    assert liveportrait_goldens.error(stored, "combined_lip", lips) <= 1e-5
    found = drive.motion_gain(torch.as_tensor(stored["kp_source"][:1]), torch.as_tensor(stored["kp_driving"][:1]))
    assert found == pytest.approx(float(stored["motion_multiplier"]), abs=1e-5)


def test_flat_keypoints_scale_nothing_instead_of_failing():
    flat = torch.cat([torch.randn(1, 21, 2), torch.zeros(1, 21, 1)], 2)
    assert drive.motion_gain(flat, flat) == 1.0


def driven(stored, case, parts, *, joyvasa):
    """The driving loop of one golden case, (frames, 21, 3)."""
    flags = json.loads(str(stored[f"{case}_flags"]))
    kp = torch.as_tensor(stored["source_kp"])
    own = info(stored, "source", kp)
    source_points = own.keypoints()
    landmarks = stored[f"lmk_{stored[f'{case}_lmk']}"]
    resting = None
    opening = openings.lip_opening(landmarks)[0, 0]
    if flags["flag_normalize_lip"] and flags["flag_relative_motion"] and opening >= flags["lip_normalize_threshold"]:
        ratios = torch.as_tensor(openings.wanted_lips(landmarks, 0.0))
        resting = retargeting.retargeted(parts["lip"], source_points, ratios)
    settings = drive.DriveSettings(
        relative=flags["flag_relative_motion"],
        region=drive.Region(flags["animation_region"]),
        expression_friendly=flags["driving_option"] == "expression-friendly",
        multiplier=flags["driving_multiplier"],
        lips_absolute=joyvasa,
        region_keeps_place=not joyvasa,
    )
    stitch = (lambda s, d: retargeting.stitched(parts["stitching"], s, d)) if flags["flag_stitching"] else None
    play = drive.Drive(drive.SourceFace(own, source_points, stitch, resting), settings)
    frames = []
    for i in range(len(stored["driving_exp"])):
        delta = None
        if flags["flag_eye_retargeting"] and flags["flag_lip_retargeting"]:
            eyes = openings.wanted_eyes(landmarks, float(stored["driving_eye_ratios"][i, 0, 0]))
            lips = openings.wanted_lips(landmarks, float(stored["driving_lip_ratios"][i, 0, 0]))
            delta = retargeting.retargeted(parts["eye"], source_points, torch.as_tensor(eyes))
            delta = delta + retargeting.retargeted(parts["lip"], source_points, torch.as_tensor(lips))
        frames.append(play.next(info(stored, "driving", kp, slice(i, i + 1)), delta))
    assert liveportrait_goldens_error(stored, "x_s", source_points) <= 1e-5
    return torch.cat(frames)


def liveportrait_goldens_error(stored, name, found):
    return float(np.abs(found.numpy() - stored[name]).max())


@pytest.mark.parametrize("name", ["13_liveportrait_drive.npz", "25_joyvasa_drive.npz"])
def test_drive_in_every_mode(liveportrait_goldens, parts, name):
    stored = liveportrait_goldens.load(name)
    cases = [key.removesuffix("_x_d") for key in stored.files if key.endswith("_x_d")]
    assert cases
    with torch.inference_mode():
        errors = {
            case: liveportrait_goldens.error(
                stored, f"{case}_x_d", driven(stored, case, parts, joyvasa="joyvasa" in name)
            )
            for case in cases
        }
    assert {case: e for case, e in errors.items() if e > 1e-5} == {}


def rule_mask(feather_px=24):
    near = np.arange(512)
    edge = np.minimum(near, 511 - near)
    plane = np.floor(255 * np.clip(np.minimum(edge[:, None], edge[None, :]) / feather_px, 0, 1)).astype(np.uint8)
    return np.repeat(plane[:, :, None], 3, 2)


@pytest.mark.parametrize("case", ["p203", "p106", "p106_norot", "p203_tight"])
def test_crop_and_its_way_back(liveportrait_goldens, case):
    stored = liveportrait_goldens.load("11_crop_paste.npz")
    arguments = json.loads(str(stored[f"{case}_args"]))
    points = stored[f"{case}_pts"]
    found = crop.find_crop(
        points, arguments["scale"], arguments["vy_ratio"], upright=arguments.get("flag_do_rot", True)
    )
    assert liveportrait_goldens.error(stored, f"{case}_M_o2c", found.to_crop) <= 2e-3
    assert liveportrait_goldens.error(stored, f"{case}_M_c2o", found.to_picture) <= 2e-3
    # The pixels are compared under the official matrix, which is float32.
    official = crop.FaceCrop(
        stored[f"{case}_M_o2c"], stored[f"{case}_M_c2o"], found.centre_px, found.side_px, found.angle
    )
    image = stored["image"]
    cut = official.cut(image)
    assert liveportrait_goldens.error(stored, f"{case}_crop", cut) <= 4
    assert liveportrait_goldens.error(stored, f"{case}_crop256_area", official.cut(image, 256)) <= 4
    height, width = image.shape[:2]
    mask = official.mask(rule_mask(), width, height)
    assert liveportrait_goldens.error(stored, f"{case}_mask_ori", mask) <= 1 / 255 + 1e-6
    face = np.repeat(np.repeat(stored["generated_small"], 8, 0), 8, 1)
    assert liveportrait_goldens.error(stored, f"{case}_paste", official.paste(face, image, mask)) <= 2
    x, y, w, h, angle = stored[f"{case}_center_size_angle"]
    assert (found.centre_px, found.side_px) == (pytest.approx((x, y), abs=2e-3), pytest.approx(w, abs=2e-3))
    assert w == h
    assert found.angle == pytest.approx(angle, abs=1e-5)


def test_own_mask_is_the_same_at_all_four_edges():
    mask = crop.feathered_mask()[:, :, 0]
    assert np.array_equal(mask, mask[::-1])
    assert np.array_equal(mask, mask.T)
    assert mask[256, 256] == 255
    assert mask[0].max() < 10
