"""The 70 numbers a frame of motion is made of, and the statistics that turn them into pose and expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engines.errors import EngineContract
from engines.liveportrait.keypoints import MotionInfo

_EXP, _SCALE, _T, _PITCH, _YAW, _ROLL = slice(0, 63), slice(63, 64), slice(64, 67), 67, 68, 69
MOTION_FEATURES = 70


@dataclass(frozen=True, slots=True, eq=False)
class MotionTemplate:
    """Statistics of the training motion: expression is standardised, the rest lies in 0..1 of its range."""

    mean_exp: Tensor
    std_exp: Tensor
    min_scale: Tensor
    max_scale: Tensor
    min_t: Tensor
    max_t: Tensor
    min_pitch: Tensor
    max_pitch: Tensor
    min_yaw: Tensor
    max_yaw: Tensor
    min_roll: Tensor
    max_roll: Tensor

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MotionTemplate:
        """From a dictionary of these names. Raises EngineContract where one is missing or not of its size."""
        sizes = {"exp": 63, "t": 3}
        found = {}
        for field in fields(cls):
            size = sizes.get(field.name.split("_", 1)[1], 1)
            array = np.asarray(values.get(field.name, ()), np.float32).reshape(-1)
            if array.size != size or not np.isfinite(array).all():
                raise EngineContract(
                    f"motion template: {field.name}", f"{size} finite numbers", f"{array.size} numbers"
                )
            found[field.name] = torch.from_numpy(array.copy())
        return cls(**found)

    @classmethod
    def neutral(cls) -> MotionTemplate:
        """Made-up statistics of plausible size, for seeded weights."""
        values: dict[str, Any] = {"mean_exp": np.zeros(63), "std_exp": np.full(63, 0.01)}
        for name, low, high in (("scale", 1.1, 1.5), ("pitch", -20, 20), ("yaw", -25, 25), ("roll", -12, 12)):
            values |= {f"min_{name}": [low], f"max_{name}": [high]}
        return cls.of(values | {"min_t": [-0.03, -0.1, 0.0], "max_t": [0.03, 0.1, 0.2]})


def motion_of(coefficients: Tensor, template: MotionTemplate, kp: Tensor) -> MotionInfo:
    """(n, 70) coefficients as motion of n frames; `kp` (1, 21, 3) are the canonical keypoints they will move."""

    def spread(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return values * (high - low) + low

    exp = coefficients[:, _EXP] * template.std_exp + template.mean_exp
    return MotionInfo(
        pitch_deg=spread(coefficients[:, _PITCH, None], template.min_pitch, template.max_pitch),
        yaw_deg=spread(coefficients[:, _YAW, None], template.min_yaw, template.max_yaw),
        roll_deg=spread(coefficients[:, _ROLL, None], template.min_roll, template.max_roll),
        t=spread(coefficients[:, _T], template.min_t, template.max_t),
        exp=exp.view(-1, 21, 3),
        scale=spread(coefficients[:, _SCALE], template.min_scale, template.max_scale),
        kp=kp.expand(len(coefficients), -1, -1),
    )


def smoothed(motion: MotionInfo, alpha: float) -> MotionInfo:
    """Pose, scale and shift drawn after by an exponential average that starts at frame 0; expression is left alone.

    0.01, the published value, follows over 100 frames: four seconds.
    """
    return replace(
        motion,
        pitch_deg=_trailing(motion.pitch_deg, alpha),
        yaw_deg=_trailing(motion.yaw_deg, alpha),
        roll_deg=_trailing(motion.roll_deg, alpha),
        t=_trailing(motion.t, alpha),
        scale=_trailing(motion.scale, alpha),
    )


def _trailing(values: Tensor, alpha: float) -> Tensor:
    out = values.clone()
    for i in range(1, len(values)):
        out[i] = alpha * values[i] + (1 - alpha) * out[i - 1]
    return out
