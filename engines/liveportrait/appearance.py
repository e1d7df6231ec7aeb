"""Stage F: a portrait to its appearance volume, once per avatar. The volume stays on the device between frames."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from engines.contract import TensorContract
from engines.liveportrait.layers import DownBlock2d, ResBlock3d, SameBlock2d
from engines.stage import StageContract


@dataclass(frozen=True, slots=True)
class AppearanceSizes:
    """Widths of stage F, named as in the published model description."""

    image_channel: int = 3
    block_expansion: int = 64
    num_down_blocks: int = 2
    max_features: int = 512
    reshape_channel: int = 32
    reshape_depth: int = 16
    num_resblocks: int = 6


class AppearanceExtractor(nn.Module):
    """Convolves a picture down by 2 ** num_down_blocks and reads its channels as a volume of features."""

    def __init__(self, sizes: AppearanceSizes) -> None:
        super().__init__()
        self.sizes = sizes
        widths = [min(sizes.max_features, sizes.block_expansion * 2**i) for i in range(sizes.num_down_blocks + 1)]
        self.first = SameBlock2d(sizes.image_channel, sizes.block_expansion)
        self.down_blocks = nn.ModuleList(DownBlock2d(a, b) for a, b in pairwise(widths))
        self.second = nn.Conv2d(widths[-1], sizes.max_features, 1)
        self.resblocks_3d = nn.Sequential()
        for i in range(sizes.num_resblocks):
            self.resblocks_3d.add_module(f"3dr{i}", ResBlock3d(sizes.reshape_channel))

    def forward(self, image: Tensor) -> Tensor:
        """(B, 3, H, W) f32 RGB 0..1 → (B, C, D, H/4, W/4) f32 feature volume."""
        out = self.first(image)
        for block in self.down_blocks:
            out = block(out)
        out = self.second(out)
        volume = out.view(-1, self.sizes.reshape_channel, self.sizes.reshape_depth, *out.shape[2:])
        features: Tensor = self.resblocks_3d(volume)
        return features


def contract(sizes: AppearanceSizes, height_px: int = 256, width_px: int = 256) -> StageContract:
    """Stage F for pictures of this size."""
    height, width = height_px // 2**sizes.num_down_blocks, width_px // 2**sizes.num_down_blocks
    return StageContract(
        "appearance",
        (
            TensorContract(
                "image", ("B", sizes.image_channel, height_px, width_px), "float32",
                "batch, channel R G B, row, column", "0..1", "caller; CPU to device once per avatar",
            ),
        ),
        (
            TensorContract(
                "feature_3d", ("B", sizes.reshape_channel, sizes.reshape_depth, height, width),
                "float32", "batch, channel, depth, height, width", "any", "avatar; stays on the device for all frames",
            ),
        ),
    )  # fmt: skip
