"""From pose, scale, shift and expression to keypoints. Angles in degrees; rotations act on row vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engines.errors import EngineContract
from engines.liveportrait.motion import POSE_BINS

_BIN_DEG = 3.0
_FIRST_BIN_DEG = -97.5


@dataclass(frozen=True, slots=True, eq=False)
class MotionInfo:
    """What stage M, or a motion generator, says about B faces. All f32."""

    pitch_deg: Tensor
    """(B, 1)"""
    yaw_deg: Tensor
    """(B, 1)"""
    roll_deg: Tensor
    """(B, 1)"""
    t: Tensor
    """(B, 3) shift x, y, z; z is not used."""
    exp: Tensor
    """(B, 21, 3) what the expression adds to the turned keypoints."""
    scale: Tensor
    """(B, 1)"""
    kp: Tensor
    """(B, 21, 3) canonical keypoints: the face at rest, looking ahead."""

    @property
    def rotation(self) -> Tensor:
        """(B, 3, 3), to be applied as `points @ rotation`."""
        return rotation(self.pitch_deg, self.yaw_deg, self.roll_deg)

    def keypoints(self) -> Tensor:
        """(B, 21, 3): the keypoints as they lie in the picture."""
        return placed(self.kp @ self.rotation + self.exp, self.scale, self.t)

    def row(self, index: int) -> MotionInfo:
        """One face of the batch, as a batch of one."""
        part = slice(index, index + 1)
        return replace(
            self, pitch_deg=self.pitch_deg[part], yaw_deg=self.yaw_deg[part], roll_deg=self.roll_deg[part],
            t=self.t[part], exp=self.exp[part], scale=self.scale[part], kp=self.kp[part],
        )  # fmt: skip


def motion_info(heads: dict[str, Tensor]) -> MotionInfo:
    """The raw heads of stage M made into angles and points. Raises EngineContract where a head is not of its size."""
    return MotionInfo(
        pitch_deg=degrees(heads["pitch"]),
        yaw_deg=degrees(heads["yaw"]),
        roll_deg=degrees(heads["roll"]),
        t=heads["t"],
        exp=heads["exp"].view(heads["exp"].shape[0], -1, 3),
        scale=heads["scale"],
        kp=heads["kp"].view(heads["kp"].shape[0], -1, 3),
    )


def degrees(logits: Tensor) -> Tensor:
    """(B, 66) logits → (B, 1) expected angle. Anything but 66 bins is refused, not passed through."""
    if logits.dim() != 2 or logits.shape[1] != POSE_BINS:
        raise EngineContract("pose logits", f"(B, {POSE_BINS})", str(tuple(logits.shape)))
    index = torch.arange(POSE_BINS, dtype=logits.dtype, device=logits.device)
    return (torch.softmax(logits, 1) * index).sum(1, keepdim=True) * _BIN_DEG + _FIRST_BIN_DEG


def rotation(pitch_deg: Tensor, yaw_deg: Tensor, roll_deg: Tensor) -> Tensor:
    """(B, 1) each → (B, 3, 3) for row vectors: the transpose of Rz Ry Rx."""
    sin_x, cos_x = _sin_cos(pitch_deg)
    sin_y, cos_y = _sin_cos(yaw_deg)
    sin_z, cos_z = _sin_cos(roll_deg)
    one, zero = torch.ones_like(cos_x), torch.zeros_like(cos_x)
    about_x = _matrix(one, zero, zero, zero, cos_x, sin_x, zero, -sin_x, cos_x)
    about_y = _matrix(cos_y, zero, -sin_y, zero, one, zero, sin_y, zero, cos_y)
    about_z = _matrix(cos_z, sin_z, zero, -sin_z, cos_z, zero, zero, zero, one)
    return about_x @ about_y @ about_z


def placed(points: Tensor, scale: Tensor, t: Tensor) -> Tensor:
    """Scale (B, 21, 3) turned keypoints by (B, 1) and shift them by (B, 3); the shift in depth is left out."""
    shift = torch.cat([t[:, :2], torch.zeros_like(t[:, :1])], 1)
    return points * scale[:, :, None] + shift[:, None]


def _sin_cos(angle_deg: Tensor) -> tuple[Tensor, Tensor]:
    angle = torch.deg2rad(angle_deg)
    return torch.sin(angle), torch.cos(angle)


def _matrix(*entries: Tensor) -> Tensor:
    return torch.cat(entries, 1).view(-1, 3, 3)
