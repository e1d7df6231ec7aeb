"""Stage W: move the appearance volume to the driving keypoints and flatten it to a feature picture."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.nn import functional

from engines.contract import TensorContract
from engines.liveportrait.dense_motion import DenseMotion, DenseMotionSizes
from engines.liveportrait.layers import SameBlock2d
from engines.stage import StageContract

_LEAK = 0.01


@dataclass(frozen=True, slots=True)
class WarpingSizes:
    """Widths of stage W, named as in the published model description."""

    num_kp: int = 21
    block_expansion: int = 64
    max_features: int = 512
    num_down_blocks: int = 2
    reshape_channel: int = 32
    estimate_occlusion_map: bool = True
    dense_motion: DenseMotionSizes = field(default_factory=DenseMotionSizes)

    @property
    def flat_channels(self) -> int:
        """Channels of the feature picture."""
        return self.block_expansion << self.num_down_blocks


class Warping(nn.Module):
    """Dense motion, sampling of the volume, two convolutions, occlusion."""

    def __init__(self, sizes: WarpingSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.dense_motion_network = DenseMotion(sizes.dense_motion, sizes.num_kp, sizes.reshape_channel)
        self.third = SameBlock2d(sizes.max_features, sizes.flat_channels, leak=_LEAK)
        self.fourth = nn.Conv2d(sizes.flat_channels, sizes.flat_channels, 1)

    def forward(self, feature_3d: Tensor, kp_driving: Tensor, kp_source: Tensor) -> dict[str, Tensor]:
        """out (B, C, H, W), occlusion_map (B, 1, H, W) 0..1, deformation (B, D, H, W, 3), all f32."""
        deformation, occlusion = self.dense_motion_network(feature_3d, kp_driving, kp_source)
        moved = functional.grid_sample(feature_3d, deformation, align_corners=False)
        flat = self.fourth(self.third(moved.view(moved.shape[0], -1, *moved.shape[3:])))
        if self.sizes.estimate_occlusion_map:
            flat = flat * occlusion
        return {"out": flat, "occlusion_map": occlusion, "deformation": deformation}


def contract(sizes: WarpingSizes, height: int = 64, width: int = 64) -> StageContract:
    """Stage W for a feature volume of this height and width."""
    depth = sizes.dense_motion.reshape_depth
    keypoints = ("B", sizes.num_kp, 3)
    return StageContract(
        "warping",
        (
            TensorContract(
                "feature_3d", ("B", sizes.reshape_channel, depth, height, width), "float32",
                "batch, channel, depth, height, width", "any", "avatar; stays on the device for all frames",
            ),
            TensorContract(
                "kp_driving", keypoints, "float32", "batch, keypoint, x y z", "any", "caller; CPU to device each frame"
            ),
            TensorContract(
                "kp_source", keypoints, "float32", "batch, keypoint, x y z", "any", "avatar; stays on the device"
            ),
        ),
        (
            TensorContract(
                "out", ("B", sizes.flat_channels, height, width), "float32", "batch, channel, row, column", "any",
                "warping; stays on the device",
            ),
            TensorContract(
                "occlusion_map", ("B", 1, height, width), "float32", "batch, one, row, column", "0..1",
                "warping; stays on the device",
            ),
            TensorContract(
                "deformation", ("B", depth, height, width, 3), "float32",
                "batch, depth, height, width, source x y z in volume widths", "any", "warping; stays on the device",
            ),
        ),
    )  # fmt: skip
