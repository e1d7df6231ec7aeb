"""A motion as keypoints for every frame, with jumps held: what the renderer is asked to show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engines.liveportrait.drive import Drive
from engines.liveportrait.faults import Faults
from engines.liveportrait.keypoints import MotionInfo
from engines.liveportrait.temporal import F32, Finding, TemporalLimits, motion_finding

_HELD_FRAMES = 5
"""200 ms: after that a jump is taken for a move, and eased into."""


@dataclass(slots=True)
class Track:
    """Keypoints of a clip and what was abnormal about them."""

    keypoints: F32
    """(n, 21, 3)"""
    findings: list[Finding] = field(default_factory=list)
    retried: int = 0
    """Frames whose motion was abnormal and, computed once more, was not."""
    held: int = 0
    """Frames that hold, or ease from, the last valid keypoints."""


def track(drive: Drive, motion: MotionInfo, limits: TemporalLimits, faults: Faults | None = None) -> Track:
    """Keypoints for every frame of a motion. An abnormal one is computed once more, then the last valid one is held."""
    faults = faults or Faults()
    rows: list[F32] = []
    found = Track(np.zeros((0, 21, 3), np.float32))
    held = 0
    for index in range(len(motion.exp)):
        points = _points(drive, motion, index, faults)
        finding = motion_finding(index, rows[-1], points, limits) if rows else None
        if finding is not None:
            found.findings.append(finding)
            points = _points(drive, motion, index, faults)
            finding = motion_finding(index, rows[-1], points, limits)
            if finding is None:
                found.retried += 1
        if finding is not None:
            found.held += 1
            held += 1
            points = (
                rows[-1] if held <= _HELD_FRAMES or not np.isfinite(points).all() else _eased(rows[-1], points, limits)
            )
        else:
            held = 0
        rows.append(points)
    found.keypoints = np.stack(rows) if rows else found.keypoints
    return found


def of_keypoints(keypoints: Tensor, limits: TemporalLimits) -> Track:
    """A track of keypoints (n, 21, 3) that are known already, such as an idle loop's."""
    rows = keypoints.detach().cpu().numpy().astype(np.float32)
    findings = [motion_finding(i, rows[i - 1], rows[i], limits) for i in range(1, len(rows))]
    return Track(rows, [f for f in findings if f is not None])


def _points(drive: Drive, motion: MotionInfo, index: int, faults: Faults) -> F32:
    with torch.inference_mode():
        points = faults.spoil_motion(index, drive.next(motion.row(index)))
    found: F32 = points[0].float().cpu().numpy()
    return found


def _eased(before: F32, now: F32, limits: TemporalLimits) -> F32:
    """As far towards the new place as one frame may go."""
    step = float(np.linalg.norm(now - before, axis=1).max())
    share = min(1.0, 0.8 * min(limits.head_jump, limits.lip_jump) / step) if step > 0 else 1.0
    eased: F32 = (before + share * (now - before)).astype(np.float32)
    return eased
