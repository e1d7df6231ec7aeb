"""MuseTalk's UNet: one pass from 8-channel latents and 50 sound tokens to the latents of the speaking face.

Parameter names are those of the published checkpoint (diffusers' UNet2DConditionModel). The time step is always 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from engines.musetalk.layers import Attention, Downsample, GroupNorm, LayerNorm, ResnetBlock, Upsample

_RESNET_EPS, _TRANSFORMER_EPS = 1e-5, 1e-6
_LAYERS = 2


@dataclass(frozen=True, slots=True)
class UnetSizes:
    """Widths of the four levels; the deepest has no attention."""

    channels: tuple[int, int, int, int] = (320, 640, 1280, 1280)
    heads: int = 8
    context: int = 384
    latent_in: int = 8
    latent_out: int = 4

    @property
    def time(self) -> int:
        return 4 * self.channels[0]


class TimeEmbedding(nn.Module):
    def __init__(self, channels: int, time: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(channels, time)
        self.linear_2 = nn.Linear(time, time)

    def at_zero(self) -> Tensor:
        """(1, time) of step 0: its sinusoids are ones (cosines first), then zeros."""
        weight = self.linear_1.weight
        waves = torch.zeros(1, weight.shape[1], dtype=weight.dtype, device=weight.device)
        waves[:, : weight.shape[1] // 2] = 1.0
        out: Tensor = self.linear_2(functional.silu(self.linear_1(waves)))
        return out


class GatedProjection(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 2 * inner)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * functional.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.ModuleList([GatedProjection(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net[2](self.net[0](x))
        return out


class TransformerBlock(nn.Module):
    def __init__(self, width: int, sizes: UnetSizes) -> None:
        super().__init__()
        self.norm1 = LayerNorm(width)
        self.attn1 = Attention(width, sizes.heads)
        self.norm2 = LayerNorm(width)
        self.attn2 = Attention(width, sizes.heads, sizes.context)
        self.norm3 = LayerNorm(width)
        self.ff = FeedForward(width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class Transformer(nn.Module):
    def __init__(self, width: int, sizes: UnetSizes) -> None:
        super().__init__()
        self.norm = GroupNorm(width, _TRANSFORMER_EPS)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(width, sizes)])
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        tokens = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        tokens = self.transformer_blocks[0](tokens, context)
        return x + self.proj_out(tokens.transpose(1, 2).unflatten(2, x.shape[2:]))


class Level(nn.Module):
    """Residual blocks with or without attention; what joins them differs on the way down and up."""

    def __init__(self, resnets: list[ResnetBlock], attentions: list[Transformer]) -> None:
        super().__init__()
        if attentions:
            self.attentions = nn.ModuleList(attentions)
        self.resnets = nn.ModuleList(resnets)

    def step(self, i: int, x: Tensor, context: Tensor, time: Tensor | None) -> Tensor:
        x = self.resnets[i](x, time)
        if hasattr(self, "attentions"):
            x = self.attentions[i](x, context)
        return x


class DownLevel(Level):
    def __init__(self, resnets: list[ResnetBlock], attentions: list[Transformer], width: int, *, last: bool) -> None:
        super().__init__(resnets, attentions)
        if not last:
            self.downsamplers = nn.ModuleList([Downsample(width)])

    def forward(self, x: Tensor, context: Tensor, time: Tensor | None) -> list[Tensor]:
        """What each step made, the level's result last."""
        made = []
        for i in range(len(self.resnets)):
            x = self.step(i, x, context, time)
            made.append(x)
        if hasattr(self, "downsamplers"):
            made.append(self.downsamplers[0](x))
        return made


class UpLevel(Level):
    def __init__(self, resnets: list[ResnetBlock], attentions: list[Transformer], width: int, *, last: bool) -> None:
        super().__init__(resnets, attentions)
        if not last:
            self.upsamplers = nn.ModuleList([Upsample(width)])

    def forward(self, x: Tensor, skips: list[Tensor], context: Tensor, time: Tensor | None) -> Tensor:
        for i in range(len(self.resnets)):
            x = self.step(i, torch.cat([x, skips.pop()], dim=1), context, time)
        return self.upsamplers[0](x) if hasattr(self, "upsamplers") else x


class MidLevel(nn.Module):
    def __init__(self, width: int, sizes: UnetSizes) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([Transformer(width, sizes)])
        self.resnets = nn.ModuleList([ResnetBlock(width, width, _RESNET_EPS, sizes.time) for _ in range(2)])

    def forward(self, x: Tensor, context: Tensor, time: Tensor | None) -> Tensor:
        x = self.attentions[0](self.resnets[0](x, time), context)
        out: Tensor = self.resnets[1](x, time)
        return out


class Unet(nn.Module):
    """(B, 8, 32, 32) and (B, 50, 384) to (B, 4, 32, 32)."""

    def __init__(self, sizes: UnetSizes) -> None:
        super().__init__()
        first, last = sizes.channels[0], sizes.channels[-1]
        self.conv_in = nn.Conv2d(sizes.latent_in, first, 3, padding=1)
        self.time_embedding = TimeEmbedding(first, sizes.time)
        self.down_blocks = nn.ModuleList(_down_levels(sizes))
        self.mid_block = MidLevel(last, sizes)
        self.up_blocks = nn.ModuleList(_up_levels(sizes))
        self.conv_norm_out = GroupNorm(first, _RESNET_EPS)
        self.conv_out = nn.Conv2d(first, sizes.latent_out, 3, padding=1)

    def forward(self, latent: Tensor, audio: Tensor) -> Tensor:
        time = self.time_embedding.at_zero() if hasattr(self, "time_embedding") else None
        x = self.conv_in(latent)
        skips = [x]
        for level in self.down_blocks:
            skips += level(x, audio, time)
            x = skips[-1]
        x = self.mid_block(x, audio, time)
        for level in self.up_blocks:
            x = level(x, skips, audio, time)
        out: Tensor = self.conv_out(functional.silu(self.conv_norm_out(x)))
        return out

    def fold_time(self) -> None:
        """Make the constant time step part of the weights. The checkpoint's names are no longer all there then."""
        time = self.time_embedding.at_zero()
        for module in self.modules():
            if isinstance(module, ResnetBlock):
                module.fold_time(time)
        del self.time_embedding


def _down_levels(sizes: UnetSizes) -> Iterator[DownLevel]:
    before = sizes.channels[0]
    for depth, width in enumerate(sizes.channels):
        last = depth == len(sizes.channels) - 1
        widths = [before, *[width] * (_LAYERS - 1)]
        resnets = [ResnetBlock(w, width, _RESNET_EPS, sizes.time) for w in widths]
        yield DownLevel(resnets, [] if last else [Transformer(width, sizes) for _ in widths], width, last=last)
        before = width


def _up_levels(sizes: UnetSizes) -> Iterator[UpLevel]:
    before = sizes.channels[-1]
    upwards = sizes.channels[::-1]
    for place, width in enumerate(upwards):
        below = upwards[min(place + 1, len(upwards) - 1)]
        skips = [*[width] * _LAYERS, below]
        widths = [before + skips[0], *[width + skip for skip in skips[1:]]]
        resnets = [ResnetBlock(w, width, _RESNET_EPS, sizes.time) for w in widths]
        attentions = [] if place == 0 else [Transformer(width, sizes) for _ in widths]
        yield UpLevel(resnets, attentions, width, last=place == len(upwards) - 1)
        before = width
