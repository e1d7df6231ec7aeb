"""Where every voxel of the feature volume comes from: sparse keypoint shifts, weighed by a network. Half of stage W."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.liveportrait.layers import BATCH_NORM_EPS, Hourglass

_KEYPOINT_VARIANCE = 0.01


@dataclass(frozen=True, slots=True)
class DenseMotionSizes:
    """Widths of the dense-motion network."""

    block_expansion: int = 32
    max_features: int = 1024
    num_blocks: int = 5
    reshape_depth: int = 16
    compress: int = 4


class DenseMotion(nn.Module):
    """One candidate flow per keypoint and one that stays; a softmax mixes them. Also the map of what is uncovered."""

    def __init__(self, sizes: DenseMotionSizes, num_kp: int, feature_channel: int) -> None:
        super().__init__()
        flows = num_kp + 1
        self.hourglass = Hourglass(
            sizes.block_expansion, flows * (sizes.compress + 1), sizes.num_blocks, sizes.max_features
        )
        volume_channels = self.hourglass.out_channels
        self.mask = nn.Conv3d(volume_channels, flows, 7, padding=3)
        self.compress = nn.Conv3d(feature_channel, sizes.compress, 1)
        self.norm = nn.BatchNorm3d(sizes.compress, eps=BATCH_NORM_EPS)
        self.occlusion = nn.Conv2d(volume_channels * sizes.reshape_depth, 1, 7, padding=3)

    def forward(self, feature_3d: Tensor, kp_driving: Tensor, kp_source: Tensor) -> tuple[Tensor, Tensor]:
        """Deformation (B, D, H, W, 3) as sampling grid x, y, z, and occlusion (B, 1, H, W) f32 0..1."""
        steps = self.steps(feature_3d, kp_driving, kp_source)
        return steps["deformation"], steps["occlusion_map"]

    def steps(self, feature_3d: Tensor, kp_driving: Tensor, kp_source: Tensor) -> dict[str, Tensor]:
        """Every intermediate by name, so that an error can be placed. K = num_kp + 1, C' = compress.

        compressed (B, C', D, H, W), sparse_motion (B, K, D, H, W, 3), deformed (B, K, C', D, H, W),
        heatmap (B, K, 1, D, H, W), hourglass_in and hourglass_out (B, ., D, H, W), mask (B, K, D, H, W).
        """
        compressed = functional.relu(self.norm(self.compress(feature_3d)))
        batch, channels, depth, height, width = compressed.shape
        sparse = sparse_motion(kp_driving, kp_source, depth, height, width)
        flows = sparse.shape[1]
        repeated = compressed.unsqueeze(1).expand(-1, flows, -1, -1, -1, -1)
        deformed = functional.grid_sample(
            repeated.reshape(batch * flows, channels, depth, height, width),
            sparse.reshape(batch * flows, depth, height, width, 3),
            align_corners=False,
        ).view(batch, flows, channels, depth, height, width)
        heatmap = keypoint_heatmap(kp_driving, kp_source, depth, height, width)
        hourglass_in = torch.cat([heatmap, deformed], 2).view(batch, -1, depth, height, width)
        hourglass_out = self.hourglass(hourglass_in)
        mask = functional.softmax(self.mask(hourglass_out), 1)
        candidates = sparse.permute(0, 1, 5, 2, 3, 4)  # (B, K, 3, D, H, W)
        deformation = (candidates * mask.unsqueeze(2)).sum(1).permute(0, 2, 3, 4, 1)
        occlusion = torch.sigmoid(self.occlusion(hourglass_out.view(batch, -1, height, width)))
        return {
            "compressed": compressed, "sparse_motion": sparse, "deformed": deformed, "heatmap": heatmap,
            "hourglass_in": hourglass_in, "hourglass_out": hourglass_out, "mask": mask,
            "deformation": deformation, "occlusion_map": occlusion,
        }  # fmt: skip


def identity_grid(depth: int, height: int, width: int, like: Tensor) -> Tensor:
    """(D, H, W, 3) f32 x, y, z from -1 to 1 inclusive.

    The ends are voxel centres here though sampling takes them for voxel edges: the checkpoints were trained so.
    """
    z = torch.linspace(-1, 1, depth, dtype=like.dtype, device=like.device)
    y = torch.linspace(-1, 1, height, dtype=like.dtype, device=like.device)
    x = torch.linspace(-1, 1, width, dtype=like.dtype, device=like.device)
    across_z, across_y, across_x = torch.meshgrid(z, y, x, indexing="ij")
    return torch.stack([across_x, across_y, across_z], -1)


def sparse_motion(kp_driving: Tensor, kp_source: Tensor, depth: int, height: int, width: int) -> Tensor:
    """(B, 1 + num_kp, D, H, W, 3) f32: where each flow samples from; flow 0 stays where it is."""
    identity = identity_grid(depth, height, width, kp_driving)
    moved = identity - _spread(kp_driving) + _spread(kp_source)
    return torch.cat([identity.expand(moved.shape[0], 1, -1, -1, -1, -1), moved], 1)


def keypoint_heatmap(kp_driving: Tensor, kp_source: Tensor, depth: int, height: int, width: int) -> Tensor:
    """(B, 1 + num_kp, 1, D, H, W) f32: a bump at each driving keypoint less one at its source; flow 0 is empty."""
    grid = identity_grid(depth, height, width, kp_driving)

    def bumps(points: Tensor) -> Tensor:
        offset = grid - _spread(points)
        return torch.exp(-0.5 * offset.square().sum(-1) / _KEYPOINT_VARIANCE)

    difference = bumps(kp_driving) - bumps(kp_source)
    return torch.cat([torch.zeros_like(difference[:, :1]), difference], 1).unsqueeze(2)


def _spread(points: Tensor) -> Tensor:
    """(B, num_kp, 3) → (B, num_kp, 1, 1, 1, 3), to meet a grid."""
    return points.view(points.shape[0], points.shape[1], 1, 1, 1, 3)
