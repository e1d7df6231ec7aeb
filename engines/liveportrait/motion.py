"""Stage M: a portrait to head pose, scale, shift, expression and canonical keypoints. ConvNeXt V2 with seven heads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.contract import TensorContract
from engines.stage import StageContract

_EPS = 1e-6
POSE_BINS = 66
"""Each angle is a distribution over 66 bins of 3 degrees, the first at -97.5."""


@dataclass(frozen=True, slots=True)
class MotionSizes:
    """Widths of stage M; the published one is the "tiny" backbone."""

    num_kp: int = 21
    depths: tuple[int, ...] = (3, 3, 9, 3)
    widths: tuple[int, ...] = (96, 192, 384, 768)


class _ChannelNorm(nn.Module):
    """Layer norm over the channels of (B, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        scaled = centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + _EPS)
        return self.weight[:, None, None] * scaled + self.bias[:, None, None]


class _ResponseNorm(nn.Module):
    """Global response normalisation: each channel against the mean energy of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, channels))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, W, C) f32 → the same shape."""
        energy = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        share = energy / (energy.mean(-1, keepdim=True) + _EPS)
        return self.gamma * (x * share) + self.beta + x


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=_EPS)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.grn = _ResponseNorm(4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        out = self.pwconv2(self.grn(functional.gelu(self.pwconv1(out))))
        return x + out.permute(0, 3, 1, 2)


class _Backbone(nn.Module):
    def __init__(self, sizes: MotionSizes) -> None:
        super().__init__()
        widths, kp_values = sizes.widths, 3 * sizes.num_kp
        stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, stride=4), _ChannelNorm(widths[0]))
        steps = [nn.Sequential(_ChannelNorm(a), nn.Conv2d(a, b, 2, stride=2)) for a, b in pairwise(widths)]
        self.downsample_layers = nn.ModuleList([stem, *steps])
        self.stages = nn.ModuleList(
            nn.Sequential(*(_Block(width) for _ in range(depth)))
            for depth, width in zip(sizes.depths, widths, strict=True)
        )
        self.norm = nn.LayerNorm(widths[-1], eps=_EPS)
        self.fc_kp = nn.Linear(widths[-1], kp_values)
        self.fc_scale = nn.Linear(widths[-1], 1)
        self.fc_pitch = nn.Linear(widths[-1], POSE_BINS)
        self.fc_yaw = nn.Linear(widths[-1], POSE_BINS)
        self.fc_roll = nn.Linear(widths[-1], POSE_BINS)
        self.fc_t = nn.Linear(widths[-1], 3)
        self.fc_exp = nn.Linear(widths[-1], kp_values)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        out = image
        for shrink, stage in zip(self.downsample_layers, self.stages, strict=True):
            out = stage(shrink(out))
        seen = self.norm(out.mean((2, 3)))
        heads = ("pitch", "yaw", "roll", "t", "exp", "scale", "kp")
        return {head: getattr(self, f"fc_{head}")(seen) for head in heads}


class MotionExtractor(nn.Module):
    """The seven raw heads; `keypoints.motion_info` makes angles and points of them."""

    def __init__(self, sizes: MotionSizes) -> None:
        super().__init__()
        self.detector = _Backbone(sizes)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W) f32 RGB 0..1 → pitch, yaw, roll (B, 66), t (B, 3), exp and kp (B, 3 * num_kp), scale (B, 1)."""
        heads: dict[str, Tensor] = self.detector(image)
        return heads


def contract(sizes: MotionSizes, height_px: int = 256, width_px: int = 256) -> StageContract:
    """Stage M for pictures of this size."""
    points = 3 * sizes.num_kp
    point_axes = "batch, keypoint major x y z minor"
    return StageContract(
        "motion",
        (
            TensorContract(
                "image", ("B", 3, height_px, width_px), "float32", "batch, channel R G B, row, column", "0..1",
                "caller; CPU to device once per picture",
            ),
        ),
        (
            *(
                TensorContract(
                    name, ("B", POSE_BINS), "float32", "batch, bin of 3 degrees from -97.5", "logits",
                    "motion; to the CPU",
                )
                for name in ("pitch", "yaw", "roll")
            ),
            TensorContract("t", ("B", 3), "float32", "batch, x y z", "any", "motion; to the CPU"),
            TensorContract("exp", ("B", points), "float32", point_axes, "any", "motion; to the CPU"),
            TensorContract("scale", ("B", 1), "float32", "batch, factor", "any", "motion; to the CPU"),
            TensorContract("kp", ("B", points), "float32", point_axes, "any", "motion; to the CPU"),
        ),
    )  # fmt: skip
