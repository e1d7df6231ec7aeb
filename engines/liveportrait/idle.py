"""A face that waits: it sways, looks about and blinks, and after n frames is where it began."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from engines.liveportrait.openings import F32, eye_openings
from engines.liveportrait.portrait import LivePortrait, Portrait

_EYEBALLS = (11, 15)
_GAZE_X, _GAZE_Y = 0.0012, 0.001
"""How far the eyeball keypoints move per degree of gaze."""
_BLINK_SHAPE = (0.6, 0.15, 0.0, 0.1, 0.4, 0.75)
"""Share of the resting opening, frame by frame at 25 fps: shut quickly, open slowly."""


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """How lively. Angles in degrees."""

    yaw_deg: float = 1.6
    pitch_deg: float = 1.0
    roll_deg: float = 0.7
    breath: float = 0.004
    """Share by which the head grows and shrinks."""
    gaze_deg: float = 3.0
    blinks_per_min: float = 14.0
    seed: int = 0


def idle_keypoints(
    engine: LivePortrait, portrait: Portrait, landmarks: F32, frames: int, settings: IdleSettings | None = None
) -> Tensor:
    """(frames, 21, 3) keypoints of a loop without a seam: frame 0 follows the last as any frame follows another."""
    settings = settings or IdleSettings()
    own, resting = portrait.face.info, eye_openings(landmarks)
    rng = np.random.default_rng(settings.seed)
    phases = rng.uniform(0, 2 * math.pi, 6)
    shut = _lids(frames, settings, rng)
    gaze = _gaze(frames, settings, rng)
    found = []
    for i in range(frames):
        sway = [_wave(i / frames, phases[2 * k], phases[2 * k + 1]) for k in range(3)]
        exp = own.exp.clone()
        exp[:, _EYEBALLS, 0] += _GAZE_X * float(gaze[i, 0])
        exp[:, _EYEBALLS, 1] += _GAZE_Y * float(gaze[i, 1])
        motion = replace(
            own,
            yaw_deg=own.yaw_deg + settings.yaw_deg * sway[0],
            pitch_deg=own.pitch_deg + settings.pitch_deg * sway[1],
            roll_deg=own.roll_deg + settings.roll_deg * sway[2],
            scale=own.scale * (1.0 + settings.breath * math.sin(2 * math.pi * i / frames)),
            exp=exp,
        )
        points = motion.keypoints()
        if shut[i] < 1.0:
            points = points + engine.blink(portrait, landmarks, float(resting.mean() * shut[i]))
        if portrait.face.stitch is not None:
            points = portrait.face.stitch(portrait.face.keypoints, points)
        found.append(points)
    return torch.cat(found)


def _wave(share: float, phase: float, second: float) -> float:
    """-1..1, once and twice around per loop."""
    turn = 2 * math.pi * share
    return (math.sin(turn + phase) + 0.5 * math.sin(2 * turn + second)) / 1.5


def _lids(frames: int, settings: IdleSettings, rng: np.random.Generator) -> F32:
    """Share of the resting opening in each frame; no blink crosses the loop's end."""
    open_ = np.ones(frames, np.float32)
    spacing = 60 * 25 / max(settings.blinks_per_min, 1e-6)
    at = rng.uniform(0.3, 0.7) * spacing
    while at + len(_BLINK_SHAPE) < frames:
        start = int(at)
        open_[start : start + len(_BLINK_SHAPE)] = _BLINK_SHAPE
        at += spacing * rng.uniform(0.6, 1.4)
    return open_


def _gaze(frames: int, settings: IdleSettings, rng: np.random.Generator) -> F32:
    """(frames, 2) degrees: rests and quick moves (2 frames), back at 0 at both ends."""
    gaze = np.zeros((frames, 2), np.float32)
    at = int(rng.integers(20, 40))
    while at + 30 < frames:
        rest = int(rng.integers(15, 30))
        target = rng.uniform(-1, 1, 2) * (settings.gaze_deg, 0.5 * settings.gaze_deg)
        gaze[at : at + rest] = target
        gaze[at] = gaze[at + rest - 1] = 0.5 * target
        at += rest + int(rng.integers(20, 45))
    return gaze
