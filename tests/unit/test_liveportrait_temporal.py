"""Clips are judged in time: jumps, flicker, drift, lips that do not follow; keyframes are chosen and blends move."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from avatars.bundled import bundled_portraits  # noqa: E402
from engines.liveportrait.drive import EYE_POINTS, LIP_POINTS, Drive, DriveSettings, SourceFace, hull_volume  # noqa: E402
from engines.liveportrait.faults import Faults  # noqa: E402
from engines.liveportrait.idle import IdleSettings, idle_keypoints  # noqa: E402
from engines.liveportrait.joyvasa.coefficients import smoothed  # noqa: E402
from engines.liveportrait.keyframes import EVERY_FRAME, KeyframeSettings, between, choose_keyframes  # noqa: E402
from engines.liveportrait.keypoints import MotionInfo  # noqa: E402
from engines.liveportrait.temporal import (  # noqa: E402
    FrameGuard,
    TemporalLimits,
    clip_findings,
    counted,
    flicker_index,
    identity_finding,
    lip_motion,
    motion_finding,
    small_grey,
)
from engines.liveportrait.tracking import track  # noqa: E402

pytestmark = pytest.mark.unit
LIMITS = TemporalLimits()


@pytest.fixture(scope="module")
def face():
    picture = cv2.imread(str(bundled_portraits()[0].path))
    return cv2.cvtColor(cv2.resize(picture, (128, 128), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)


def shifted(picture, x, y=0.0):
    height, width = picture.shape[:2]
    return cv2.warpAffine(picture, np.float32([[1, 0, x], [0, 1, y]]), (width, height), borderMode=cv2.BORDER_REFLECT)


def points(seed=0):
    return np.random.default_rng(seed).uniform(-0.6, 0.6, (21, 3)).astype(np.float32)


# ---- motion ----


def test_a_head_that_jumps_is_found_and_one_that_turns_is_not():
    here = points()
    assert motion_finding(5, here, here + 0.05, LIMITS) is None
    found = motion_finding(5, here, here + 0.3, LIMITS)
    assert (found.frame, found.reason) == (5, "head_jump")


def test_lips_may_move_farther_than_the_head_but_not_any_distance():
    here = points()
    opened = here.copy()
    opened[list(LIP_POINTS), 1] += 0.2
    assert motion_finding(1, here, opened, LIMITS) is None
    opened[LIP_POINTS[0], 1] += 0.2
    assert motion_finding(1, here, opened, LIMITS).reason == "lip_jump"


def test_a_blink_is_no_jump():
    here = points()
    shut = here.copy()
    shut[list(EYE_POINTS), 1] += 0.3
    assert motion_finding(1, here, shut, LIMITS) is None


def test_keypoints_that_are_not_finite_are_found():
    bad = points()
    bad[3, 1] = np.inf
    assert motion_finding(2, points(), bad, LIMITS).reason == "not_finite"


def motion_at(yaw_deg):
    count = len(yaw_deg)
    zero = torch.zeros(count, 1)
    kp = torch.from_numpy(points()).expand(count, -1, -1)
    return MotionInfo(
        zero, torch.tensor(yaw_deg)[:, None], zero, torch.zeros(count, 3), torch.zeros(count, 21, 3), zero + 1, kp
    )


def drive_of(settings=None):
    info = motion_at([0.0])
    return Drive(SourceFace(info, info.keypoints()), settings or DriveSettings())


def test_a_jump_of_one_frame_is_held_and_the_next_frame_is_right():
    yaw = [0.0, 1.0, 2.0, 60.0, 4.0, 5.0]
    found = track(drive_of(), motion_at(yaw), LIMITS)
    assert counted(found.findings) == {"head_jump": 1}
    assert (found.retried, found.held) == (0, 1)
    assert np.array_equal(found.keypoints[3], found.keypoints[2])
    clean = track(drive_of(), motion_at([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), LIMITS)
    assert np.allclose(found.keypoints[4:], clean.keypoints[4:])


def test_a_passing_fault_is_computed_once_more():
    found = track(drive_of(), motion_at([0.0, 1.0, 2.0]), LIMITS, Faults(["jump@1"]))
    assert (found.retried, found.held) == (1, 0)
    assert np.allclose(found.keypoints, track(drive_of(), motion_at([0.0, 1.0, 2.0]), LIMITS).keypoints)


def test_a_cut_is_held_for_a_fifth_of_a_second_then_eased_into():
    yaw = [0.0] * 3 + [60.0] * 20
    found = track(drive_of(), motion_at(yaw), LIMITS)
    steps = np.linalg.norm(np.diff(found.keypoints, axis=0), axis=2).max(1)
    assert (steps[2:7] == 0).all()
    assert steps.max() <= 0.2
    assert np.allclose(found.keypoints[-1], drive_of_yaw(60.0), atol=1e-5)


def drive_of_yaw(yaw):
    drive = drive_of()
    drive.next(motion_at([0.0]))
    return drive.next(motion_at([yaw]))[0].numpy()


def test_smoothing_follows_slowly_and_leaves_expression_alone():
    motion = motion_at([0.0] + [10.0] * 50)
    slow = smoothed(motion, 0.1)
    assert slow.yaw_deg[1].item() == pytest.approx(1.0)
    assert 9.0 < slow.yaw_deg[-1].item() < 10.0
    assert torch.equal(slow.exp, motion.exp)


def test_hull_volume_is_that_of_a_cube_and_flat_points_have_none():
    cube = np.array([[x, y, z] for x in (0, 2) for y in (0, 3) for z in (0, 4)], float)
    inside = np.vstack([cube + np.random.default_rng(0).normal(0, 1e-9, cube.shape), [[1, 1, 1]]])
    assert hull_volume(inside) == pytest.approx(24.0, rel=1e-6)
    flat = np.column_stack([cube[:, :2], np.zeros(8)])
    assert hull_volume(flat) == pytest.approx(0.0, abs=1e-12)


# ---- frames ----


def guarded(face, count=12):
    """A guard that has seen a face drift steadily."""
    guard = FrameGuard(LIMITS)
    here = points()
    for i in range(count):
        picture = shifted(face, 0.5 * i)
        assert guard.check(i, picture, here + 0.005 * i) is None
        guard.accept(picture, here + 0.005 * i)
    return guard, here + 0.005 * count


def test_a_face_that_moves_steadily_passes(face):
    guarded(face, 40)


def test_a_flat_face_is_found(face):
    guard, here = guarded(face)
    assert guard.check(12, np.full_like(face, 120), here).reason == "flat"


def test_a_flash_is_found(face):
    guard, here = guarded(face)
    assert guard.check(12, np.clip(face.astype(int) + 60, 0, 255).astype(np.uint8), here).reason == "brightness"


def test_another_picture_in_between_flickers(face):
    guard, here = guarded(face)
    other = np.ascontiguousarray(face[::-1])
    assert guard.check(12, other, here).reason == "flicker"
    assert guard.check(12, shifted(face, 6.0), here) is None


def test_a_large_change_is_fine_where_the_keypoints_moved_as_much(face):
    guard, here = guarded(face)
    assert guard.check(12, np.ascontiguousarray(face[::-1]), here + 1.0) is None


def test_identity_is_the_canonical_keypoints():
    own = points()
    assert identity_finding(3, own, own + 0.01, LIMITS) is None
    assert identity_finding(3, own, points(1), LIMITS).reason == "identity"
    assert identity_finding(3, own, own * np.nan, LIMITS).reason == "not_finite"


def test_flicker_index_tells_alternation_from_motion(face):
    steady = np.stack([small_grey(shifted(face, float(i))) for i in range(8)])
    back_and_forth = np.stack([small_grey(shifted(face, 4.0 * (i % 2))) for i in range(8)])
    assert flicker_index(back_and_forth) == pytest.approx(1.0, abs=1e-3)
    assert flicker_index(steady) < 0.5
    assert flicker_index(steady[:2]) == 0.0


# ---- speech ----


def speaking(voiced, voiced_move=0.02, silent_move=0.0):
    rng = np.random.default_rng(4)
    clip = np.repeat(points()[None], len(voiced), 0)
    for i, speaks in enumerate(voiced):
        clip[i, list(LIP_POINTS), 1] += (voiced_move if speaks else silent_move) * rng.normal()
    return clip


def test_lips_that_follow_the_sound_pass():
    voiced = np.arange(60) % 30 < 15
    assert clip_findings(speaking(voiced), voiced, LIMITS) == []


def test_lips_that_stay_shut_in_speech_and_lips_that_move_in_silence_are_found():
    voiced = np.arange(60) % 30 < 15
    assert counted(clip_findings(speaking(voiced, 0.0), voiced, LIMITS)) == {"still_lips": 1}
    assert counted(clip_findings(speaking(voiced, 0.01, 0.03), voiced, LIMITS)) == {"restless_lips": 1}


def test_head_motion_is_not_lip_motion():
    clip = np.repeat(points()[None], 10, 0) + np.linspace(0, 1, 10, dtype=np.float32)[:, None, None]
    assert lip_motion(clip).max() < 1e-6


# ---- keyframes ----


def test_straight_motion_needs_few_keyframes_and_a_turn_needs_one_at_the_turn():
    line = points()[None] + np.linspace(0, 1, 17, dtype=np.float32)[:, None, None]
    assert choose_keyframes(line, KeyframeSettings(4, 0.01)) == [0, 4, 8, 12, 16]
    turned = line.copy()
    turned[6:] = 2 * turned[6] - turned[6:]
    assert 6 in choose_keyframes(turned, KeyframeSettings(8, 0.01))


def test_every_frame_means_every_frame_and_ends_are_always_in():
    clip = np.repeat(points()[None], 7, 0)
    assert choose_keyframes(clip, EVERY_FRAME) == list(range(7))
    assert choose_keyframes(clip, KeyframeSettings(4, 1.0)) == [0, 4, 6]
    assert choose_keyframes(clip[:1], KeyframeSettings(4, 1.0)) == [0]


def test_deviation_from_the_line_is_never_more_than_allowed():
    rng = np.random.default_rng(5)
    clip = points()[None] + np.cumsum(rng.normal(0, 0.01, (50, 21, 3)), 0).astype(np.float32)
    keys = choose_keyframes(clip, KeyframeSettings(6, 0.03))
    for a, b in itertools.pairwise(keys):
        share = np.linspace(0, 1, b - a + 1)[:, None, None]
        line = (1 - share) * clip[a] + share * clip[b]
        assert b == a + 1 or np.linalg.norm(clip[a : b + 1] - line, axis=2).max() <= 0.03 + 1e-6


def test_between_moves_the_face_instead_of_doubling_it(face):
    before, after, truth = face, shifted(face, 8.0), shifted(face, 4.0)
    found = between(before, after, 0.5)
    mixed = ((before.astype(int) + after) // 2).astype(np.uint8)
    inner = np.s_[16:-16, 16:-16]
    error = np.abs(found[inner].astype(int) - truth[inner]).mean()
    assert error < 0.5 * np.abs(mixed[inner].astype(int) - truth[inner]).mean()
    assert np.array_equal(between(before, after, 0.0), before)
    assert np.array_equal(between(before, after, 1.0), after)


# ---- idle ----


class Blinker:
    """Stands in for the eye network: pushes the eyes' keypoints down by how far they are to shut."""

    def blink(self, portrait, landmarks, opening):
        delta = torch.zeros(1, 21, 3)
        delta[:, list(EYE_POINTS), 1] = 0.05 - opening
        return delta


def test_an_idle_loop_sways_blinks_and_closes():
    info = motion_at([0.0])
    portrait = type("P", (), {"face": SourceFace(info, info.keypoints())})()
    mesh = np.random.default_rng(1).uniform(0, 100, (468, 2)).astype(np.float32)
    clip = idle_keypoints(Blinker(), portrait, mesh, 200, IdleSettings(seed=3)).numpy()
    assert clip.shape == (200, 21, 3)
    head = [i for i in range(21) if i not in EYE_POINTS]
    steps = np.linalg.norm(np.diff(clip[:, head], axis=0), axis=2).max(1)
    assert 0 < steps.max() < 0.02
    assert np.linalg.norm(clip[0, head] - clip[-1, head], axis=1).max() <= 1.5 * steps.max()
    lids = np.abs(np.diff(clip[:, EYE_POINTS[0], 1]))
    assert (lids > 0.02).sum() >= 2
    assert np.array_equal(clip, idle_keypoints(Blinker(), portrait, mesh, 200, IdleSettings(seed=3)).numpy())


@pytest.mark.parametrize("word", ["nan", "nan@", "fire@3", "nan@-1", "jump@2x"])
def test_faults_that_do_not_exist_are_refused(word):
    with pytest.raises(ValueError, match=word):
        Faults([word])
