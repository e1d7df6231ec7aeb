"""Blocks that several LivePortrait networks share. Attribute names are those of the published checkpoints."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH_NORM_EPS = 1e-5


class SameBlock2d(nn.Module):
    """Convolution, batch norm, rectifier; the picture keeps its size."""

    def __init__(self, channels_in: int, channels_out: int, leak: float = 0.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels_out, eps=BATCH_NORM_EPS)
        self._leak = leak

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) f32 → (B, C', H, W) f32."""
        out = self.norm(self.conv(x))
        return functional.leaky_relu(out, self._leak) if self._leak else functional.relu(out)


class DownBlock2d(nn.Module):
    """Convolution, batch norm, rectifier, then half the size."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels_out, eps=BATCH_NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) f32 → (B, C', H/2, W/2) f32."""
        return functional.avg_pool2d(functional.relu(self.norm(self.conv(x))), 2)


class ResBlock3d(nn.Module):
    """Two convolutions with norm and rectifier before each, added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv3d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm3d(channels, eps=BATCH_NORM_EPS)
        self.norm2 = nn.BatchNorm3d(channels, eps=BATCH_NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, D, H, W) f32 → the same shape."""
        out = self.conv1(functional.relu(self.norm1(x)))
        return x + self.conv2(functional.relu(self.norm2(out)))


class _DownBlock3d(nn.Module):
    """Halves height and width; depth stays."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm3d(channels_out, eps=BATCH_NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool3d(functional.relu(self.norm(self.conv(x))), (1, 2, 2))


class _UpBlock3d(nn.Module):
    """Doubles height and width by repetition, then convolves; depth stays."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm3d(channels_out, eps=BATCH_NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        larger = functional.interpolate(x, scale_factor=(1.0, 2.0, 2.0), mode="nearest")
        return functional.relu(self.norm(self.conv(larger)))


class _Encoder(nn.Module):
    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.down_blocks = nn.ModuleList(_DownBlock3d(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> list[Tensor]:
        levels = [x]
        for block in self.down_blocks:
            levels.append(block(levels[-1]))
        return levels


class _Decoder(nn.Module):
    def __init__(self, widths: list[int], last_width: int) -> None:
        super().__init__()
        ups = []
        for level in range(len(widths) - 1, 0, -1):
            skipped = 0 if level == len(widths) - 1 else widths[level]
            ups.append(_UpBlock3d(widths[level] + skipped, widths[level - 1] if level > 1 else last_width))
        self.up_blocks = nn.ModuleList(ups)
        self.out_channels = last_width + widths[0]
        self.conv = nn.Conv3d(self.out_channels, self.out_channels, 3, padding=1)
        self.norm = nn.BatchNorm3d(self.out_channels, eps=BATCH_NORM_EPS)

    def forward(self, levels: list[Tensor]) -> Tensor:
        out = levels[-1]
        for block, skipped in zip(self.up_blocks, reversed(levels[:-1]), strict=True):
            out = torch.cat([block(out), skipped], 1)
        return functional.relu(self.norm(self.conv(out)))


class Hourglass(nn.Module):
    """An encoder and a decoder with a bridge at every level; works on volumes, never shrinks depth."""

    def __init__(self, block_expansion: int, channels_in: int, num_blocks: int, max_features: int) -> None:
        super().__init__()
        widths = [channels_in] + [min(max_features, block_expansion * 2**i) for i in range(1, num_blocks + 1)]
        self.encoder = _Encoder(widths)
        self.decoder = _Decoder(widths, min(max_features, block_expansion))
        self.out_channels = self.decoder.out_channels

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, D, H, W) f32 → (B, out_channels, D, H, W) f32. H and W divide by 2 ** num_blocks."""
        out: Tensor = self.decoder(self.encoder(x))
        return out
