"""The picture autoencoder of Stable Diffusion 1 as MuseTalk uses it, with the present names of its parameters.

The encoder gives the mode of its distribution, never a sample: the same picture has the same latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from engines.musetalk.layers import Attention, Downsample, GroupNorm, ResnetBlock, Upsample

SCALING = 0.18215
_EPS = 1e-6
_OLD_NAMES = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}


@dataclass(frozen=True, slots=True)
class VaeSizes:
    """Widths of the four levels, from the picture inwards."""

    channels: tuple[int, ...] = (128, 256, 512, 512)
    latent: int = 4
    layers: int = 2


class SelfAttention(Attention):
    """One head over all places, its own norm before and a short cut around."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 1, bias=True)
        self.group_norm = GroupNorm(width, _EPS)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        tokens = self.group_norm(x).flatten(2).transpose(1, 2)
        return x + super().forward(tokens).transpose(1, 2).unflatten(2, x.shape[2:])


class MidBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([SelfAttention(width)])
        self.resnets = nn.ModuleList([ResnetBlock(width, width, _EPS) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.resnets[1](self.attentions[0](self.resnets[0](x)))
        return out


class Level(nn.Module):
    """Residual blocks, then half or twice the side."""

    def __init__(self, widths: list[int], resize: str | None) -> None:
        super().__init__()
        self.resnets = nn.ModuleList([ResnetBlock(before, after, _EPS) for before, after in pairwise(widths)])
        if resize == "down":
            self.downsamplers = nn.ModuleList([Downsample(widths[-1], shifted=True)])
        elif resize == "up":
            self.upsamplers = nn.ModuleList([Upsample(widths[-1])])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.resnets:
            x = block(x)
        for name in ("downsamplers", "upsamplers"):
            if hasattr(self, name):
                x = getattr(self, name)[0](x)
        return x


class Encoder(nn.Module):
    def __init__(self, sizes: VaeSizes) -> None:
        super().__init__()
        first, last = sizes.channels[0], sizes.channels[-1]
        self.conv_in = nn.Conv2d(3, first, 3, padding=1)
        befores = (first, *sizes.channels[:-1])
        resizes = [*["down"] * (len(sizes.channels) - 1), None]
        self.down_blocks = nn.ModuleList(
            [
                Level([before, *[width] * sizes.layers], resize)
                for before, width, resize in zip(befores, sizes.channels, resizes, strict=True)
            ]
        )
        self.mid_block = MidBlock(last)
        self.conv_norm_out = GroupNorm(last, _EPS)
        self.conv_out = nn.Conv2d(last, 2 * sizes.latent, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for level in self.down_blocks:
            x = level(x)
        out: Tensor = self.conv_out(functional.silu(self.conv_norm_out(self.mid_block(x))))
        return out


class Decoder(nn.Module):
    def __init__(self, sizes: VaeSizes) -> None:
        super().__init__()
        upwards = sizes.channels[::-1]
        self.conv_in = nn.Conv2d(sizes.latent, upwards[0], 3, padding=1)
        befores = (upwards[0], *upwards[:-1])
        resizes = [*["up"] * (len(upwards) - 1), None]
        self.up_blocks = nn.ModuleList(
            [
                Level([before, *[width] * (sizes.layers + 1)], resize)
                for before, width, resize in zip(befores, upwards, resizes, strict=True)
            ]
        )
        self.mid_block = MidBlock(upwards[0])
        self.conv_norm_out = GroupNorm(upwards[-1], _EPS)
        self.conv_out = nn.Conv2d(upwards[-1], 3, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        return self.picture(self.middle(z))

    def middle(self, z: Tensor) -> Tensor:
        """Up to the middle block's result."""
        mid: Tensor = self.mid_block(self.conv_in(z))
        return mid

    def picture(self, x: Tensor) -> Tensor:
        """From there to the picture."""
        for level in self.up_blocks:
            x = level(x)
        out: Tensor = self.conv_out(functional.silu(self.conv_norm_out(x)))
        return out


class Vae(nn.Module):
    """Pictures (B, 3, 256, 256) in -1..1 to latents (B, 4, 32, 32) and back."""

    def __init__(self, sizes: VaeSizes) -> None:
        super().__init__()
        self.encoder = Encoder(sizes)
        self.decoder = Decoder(sizes)
        self.quant_conv = nn.Conv2d(2 * sizes.latent, 2 * sizes.latent, 1)
        self.post_quant_conv = nn.Conv2d(sizes.latent, sizes.latent, 1)

    def mode(self, pictures: Tensor) -> Tensor:
        """(B, 4, h / 8, w / 8), not yet scaled."""
        means: Tensor = self.quant_conv(self.encoder(pictures)).chunk(2, dim=1)[0]
        return means

    def decode(self, latent: Tensor) -> Tensor:
        """Unscaled latents to pictures, not yet clamped."""
        picture: Tensor = self.decoder(self.post_quant_conv(latent))
        return picture


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A published state with the attention names that this network has; older files have others, and 1 x 1 kernels."""
    found = {}
    for name, value in state.items():
        parts = name.split(".")
        if "attentions" in parts and parts[-2] in _OLD_NAMES:
            name = ".".join([*parts[:-2], _OLD_NAMES[parts[-2]], parts[-1]])
        is_linear = "attentions" in parts and value.dim() == 4 and value.shape[2:] == torch.Size([1, 1])
        found[name] = value[:, :, 0, 0] if is_linear else value
    return found
