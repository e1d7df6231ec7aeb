"""What is wrong with a clip though each frame looks fine: jumps, flicker, drift, a mouth that does not follow."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.liveportrait.drive import EYE_POINTS, LIP_POINTS

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
_HEAD_POINTS = tuple(i for i in range(21) if i not in LIP_POINTS and i not in EYE_POINTS)
_RECENT_FRAMES = 12


@dataclass(frozen=True, slots=True)
class TemporalLimits:
    """From where on something is abnormal. Frames follow each other by 40 ms; keypoints live in -1..1."""

    head_jump: float = 0.15
    """Largest move of the head's keypoints in one frame: a sixth of half the picture."""
    lip_jump: float = 0.25
    flat_levels: float = 4.0
    """A face with less spread of grey levels is no face."""
    brightness_jump_levels: float = 18.0
    change_ratio: float = 8.0
    """A frame that changes this many times as much as the recent ones, for no larger motion, flickers."""
    change_floor_levels: float = 6.0
    identity_drift: float = 0.12
    """Root-mean-square move of the canonical keypoints, which pose and expression do not touch."""
    voiced_lip_motion: float = 1e-3
    """Mean move of a lip keypoint per voiced frame, below which nobody would say that the face speaks."""
    silent_share: float = 0.8
    """Lips may move this much of their voiced motion while nobody speaks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One abnormal frame or stretch."""

    frame: int
    """-1: the whole clip."""
    reason: str
    """not_finite, flat, flicker, brightness, head_jump, lip_jump, identity, still_lips or restless_lips."""
    value: float | None
    limit: float | None
    """None where there is no number to compare."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        value = None if self.value is None else round(self.value, 6)
        return {"frame": self.frame, "reason": self.reason, "value": value, "limit": self.limit}


def motion_finding(frame: int, before: F32, now: F32, limits: TemporalLimits) -> Finding | None:
    """Whether keypoints (21, 3) of two frames in a row are too far apart, or not finite."""
    if not np.isfinite(now).all():
        return Finding(frame, "not_finite", None, None)
    moved = np.linalg.norm(now - before, axis=1)
    for reason, points, limit in (
        ("head_jump", _HEAD_POINTS, limits.head_jump),
        ("lip_jump", LIP_POINTS, limits.lip_jump),
    ):
        found = float(np.median(moved[list(points)]) if reason == "head_jump" else moved[list(points)].max())
        if found > limit:
            return Finding(frame, reason, found, limit)
    return None


def identity_finding(frame: int, source_kp: F32, found_kp: F32, limits: TemporalLimits) -> Finding | None:
    """Whether the canonical keypoints (21, 3) that are seen in a rendered face have left the source's."""
    if not np.isfinite(found_kp).all():
        return Finding(frame, "not_finite", None, None)
    drift = float(np.sqrt(np.mean(np.sum((found_kp - source_kp) ** 2, axis=1))))
    return Finding(frame, "identity", drift, limits.identity_drift) if drift > limits.identity_drift else None


@dataclass(slots=True)
class _Previous:
    picture: F32
    keypoints: F32


@dataclass(slots=True)
class FrameGuard:
    """Judges rendered faces in order. `accept` what is shown, be it the face that `check` saw or an older one."""

    limits: TemporalLimits = field(default_factory=TemporalLimits)
    _previous: _Previous | None = None
    _changes: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT_FRAMES))
    """Recent changes of picture per unit of keypoint motion."""

    def check(self, frame: int, face: U8, keypoints: F32) -> Finding | None:
        """What is abnormal about a face (H, W, 3) u8 shown after the one accepted last; None where nothing is."""
        limits, grey = self.limits, _small_grey(face)
        spread = float(grey.std())
        if spread < limits.flat_levels:
            return Finding(frame, "flat", spread, limits.flat_levels)
        if self._previous is None:
            return None
        brighter = abs(float(grey.mean() - self._previous.picture.mean()))
        if brighter > limits.brightness_jump_levels:
            return Finding(frame, "brightness", brighter, limits.brightness_jump_levels)
        change = float(np.abs(grey - self._previous.picture).mean())
        if len(self._changes) < _RECENT_FRAMES // 2 or change < limits.change_floor_levels:
            return None
        usual = float(np.median(self._changes)) * _path(self._previous.keypoints, keypoints)
        allowed = max(limits.change_floor_levels, limits.change_ratio * usual)
        return Finding(frame, "flicker", change, allowed) if change > allowed else None

    def accept(self, face: U8, keypoints: F32) -> None:
        """This face is what the viewer sees now."""
        grey = _small_grey(face)
        if self._previous is not None:
            change = float(np.abs(grey - self._previous.picture).mean())
            self._changes.append(change / _path(self._previous.keypoints, keypoints))
        self._previous = _Previous(grey, keypoints)


def clip_findings(keypoints: F32, voiced: npt.NDArray[np.bool_], limits: TemporalLimits) -> list[Finding]:
    """Whether lips follow the sound. keypoints (n, 21, 3) as rendered, voiced (n,): somebody speaks in this frame."""
    motion = lip_motion(keypoints)
    spoken, silent = voiced[1:], ~voiced[1:]
    found = []
    if spoken.sum() >= _RECENT_FRAMES:
        loud = float(motion[spoken].mean())
        if loud < limits.voiced_lip_motion:
            found.append(Finding(-1, "still_lips", loud, limits.voiced_lip_motion))
        if silent.sum() >= _RECENT_FRAMES:
            quiet, allowed = float(motion[silent].mean()), limits.silent_share * loud
            if quiet > max(allowed, limits.voiced_lip_motion):
                found.append(Finding(-1, "restless_lips", quiet, allowed))
    return found


def lip_motion(keypoints: F32) -> F32:
    """(n - 1,) f32: how far the lip keypoints move against the head, from frame to frame."""
    lips = keypoints[:, list(LIP_POINTS)] - keypoints[:, list(_HEAD_POINTS)].mean(1, keepdims=True)
    moved: F32 = np.linalg.norm(np.diff(lips, axis=0), axis=2).mean(1).astype(np.float32)
    return moved


def flicker_index(greys: F32) -> float:
    """Share of a clip's change that goes back and forth: 0 for steady motion, 1 for frames that alternate.

    greys (n, h, w): frames in grey, small.
    """
    if len(greys) < 3:
        return 0.0
    first = np.diff(greys, axis=0)
    back = np.abs(first[1:] + first[:-1]).mean()
    total = np.abs(first[1:]).mean() + np.abs(first[:-1]).mean()
    return float(1.0 - back / total) if total > 0 else 0.0


def counted(findings: list[Finding]) -> dict[str, int]:
    """How many of each reason."""
    return dict(sorted(Counter(f.reason for f in findings).items()))


def small_grey(face: U8) -> F32:
    """(32, 32) f32 grey levels of a face: what the guards compare."""
    return _small_grey(face)


def _small_grey(face: U8) -> F32:
    grey = face.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    height, width = grey.shape
    rows, columns = height - height % 32, width - width % 32
    tiles = grey[:rows, :columns].reshape(32, rows // 32, 32, columns // 32)
    small: F32 = tiles.mean((1, 3))
    return small


def _path(before: F32, now: F32) -> float:
    """How far keypoints moved, never nothing: rendering is never quite still."""
    return 0.01 + float(np.linalg.norm(now - before, axis=1).mean())
