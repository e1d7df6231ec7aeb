"""Stage G: a warped feature picture to an RGB face, by spatially adaptive normalisation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.contract import TensorContract
from engines.stage import StageContract

_LEAK = 0.2
_HIDDEN = 128
_MIDDLE_BLOCKS = 6
_LAST_CHANNELS = 64
"""Not scaled with the rest: the published code has it fixed."""


@dataclass(frozen=True, slots=True)
class GeneratorSizes:
    """Widths of stage G. `upscale` 2 makes pictures of 8 times the feature's side, 1 of 4 times, at the same cost."""

    upscale: int = 2
    block_expansion: int = 64
    max_features: int = 512
    num_down_blocks: int = 2

    @property
    def feature_channels(self) -> int:
        """Channels of the feature picture."""
        return min(self.max_features, self.block_expansion << self.num_down_blocks)


class _SpectralConv2d(nn.Module):
    """A convolution whose weight is divided by its largest singular value, as u and v of the checkpoint give it."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, *, bias: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels_out)) if bias else None
        self.weight_orig = nn.Parameter(torch.zeros(channels_out, channels_in, kernel, kernel))
        self.register_buffer("weight_u", torch.ones(channels_out))
        self.register_buffer("weight_v", torch.ones(channels_in * kernel * kernel))
        self._folded: Tensor | None = None
        self._padding = kernel // 2

    def sigma(self) -> Tensor:
        """The largest singular value, a scalar."""
        return torch.dot(self.weight_u, self.weight_orig.flatten(1) @ self.weight_v)

    def fold(self) -> None:
        """Divide once instead of in every frame, and leave no trace of it in an exported graph."""
        self._folded = (self.weight_orig / self.sigma()).detach()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight_orig / self.sigma() if self._folded is None else self._folded
        return functional.conv2d(x, weight, self.bias, padding=self._padding)


class _Spade(nn.Module):
    """Instance norm, then scale and shift drawn from the feature picture."""

    def __init__(self, channels: int, feature_channels: int) -> None:
        super().__init__()
        self.mlp_shared = nn.Sequential(nn.Conv2d(feature_channels, _HIDDEN, 3, padding=1), nn.ReLU())
        self.mlp_gamma = nn.Conv2d(_HIDDEN, channels, 3, padding=1)
        self.mlp_beta = nn.Conv2d(_HIDDEN, channels, 3, padding=1)

    def forward(self, x: Tensor, feature: Tensor) -> Tensor:
        normalised = functional.instance_norm(x)
        hidden = self.mlp_shared(functional.interpolate(feature, size=x.shape[2:], mode="nearest"))
        return normalised * (1 + self.mlp_gamma(hidden)) + self.mlp_beta(hidden)


class _SpadeBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, feature_channels: int) -> None:
        super().__init__()
        self._shortcut = channels_in != channels_out
        middle = min(channels_in, channels_out)
        self.conv_0 = _SpectralConv2d(channels_in, middle, 3, bias=True)
        self.conv_1 = _SpectralConv2d(middle, channels_out, 3, bias=True)
        if self._shortcut:
            self.conv_s = _SpectralConv2d(channels_in, channels_out, 1, bias=False)
        self.norm_0 = _Spade(channels_in, feature_channels)
        self.norm_1 = _Spade(middle, feature_channels)
        if self._shortcut:
            self.norm_s = _Spade(channels_in, feature_channels)

    def forward(self, x: Tensor, feature: Tensor) -> Tensor:
        straight: Tensor = self.conv_s(self.norm_s(x, feature)) if self._shortcut else x
        out = self.conv_0(functional.leaky_relu(self.norm_0(x, feature), _LEAK))
        out = self.conv_1(functional.leaky_relu(self.norm_1(out, feature), _LEAK))
        return straight + out


class SpadeGenerator(nn.Module):
    """Six blocks at the feature's size, two that double it, a last one that makes pixels."""

    def __init__(self, sizes: GeneratorSizes) -> None:
        super().__init__()
        features, wide = sizes.feature_channels, 2 * sizes.feature_channels
        self.fc = nn.Conv2d(features, wide, 3, padding=1)
        for i in range(_MIDDLE_BLOCKS):
            self.add_module(f"G_middle_{i}", _SpadeBlock(wide, wide, features))
        self.up_0 = _SpadeBlock(wide, features, features)
        self.up_1 = _SpadeBlock(features, _LAST_CHANNELS, features)
        if sizes.upscale > 1:
            pixels = nn.Conv2d(_LAST_CHANNELS, 3 * sizes.upscale**2, 3, padding=1)
            self.conv_img: nn.Module = nn.Sequential(pixels, nn.PixelShuffle(sizes.upscale))
        else:
            self.conv_img = nn.Conv2d(_LAST_CHANNELS, 3, 3, padding=1)

    def fold(self) -> SpadeGenerator:
        """Fix the spectral norms to the loaded weights. Loading other weights afterwards needs another fold."""
        for module in self.modules():
            if isinstance(module, _SpectralConv2d):
                module.fold()
        return self

    def forward(self, feature: Tensor) -> Tensor:
        """(B, C, H, W) f32 → (B, 3, 4 * upscale * H, 4 * upscale * W) f32 RGB 0..1."""
        out = self.fc(feature)
        for i in range(_MIDDLE_BLOCKS):
            out = getattr(self, f"G_middle_{i}")(out, feature)
        for block in (self.up_0, self.up_1):
            out = block(functional.interpolate(out, scale_factor=2.0, mode="nearest"), feature)
        return torch.sigmoid(self.conv_img(functional.leaky_relu(out, _LEAK)))


def contract(sizes: GeneratorSizes, height: int = 64, width: int = 64) -> StageContract:
    """Stage G for a feature picture of this height and width."""
    scale = 4 * sizes.upscale
    return StageContract(
        "generator",
        (
            TensorContract(
                "feature", ("B", sizes.feature_channels, height, width), "float32",
                "batch, channel, row, column", "any", "warping; stays on the device",
            ),
        ),
        (
            TensorContract(
                "picture", ("B", 3, height * scale, width * scale), "float32", "batch, channel R G B, row, column",
                "0..1", "generator; device to CPU once per frame, for encoding",
            ),
        ),
    )  # fmt: skip
