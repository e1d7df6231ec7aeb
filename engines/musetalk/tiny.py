"""A small distilled picture decoder (TAESD): a seventeenth of the work, softer detail, latents as the UNet gives them.

Parameter names are those of the published autoencoder, of which the decoder alone is kept.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

WIDTH = 64
BLOCKS = (3, 3, 3, 1)
"""Blocks at each side, from 32 pixels up."""
PREFIX = "decoder."


class Block(nn.Module):
    """Three convolutions beside a short cut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.conv(x) + x)


class TinyDecoder(nn.Module):
    """(B, 4, h, w) scaled latents to (B, 3, 8 h, 8 w) in -1..1, not clamped."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(4, width, 3, padding=1), nn.ReLU()]
        for level, count in enumerate(BLOCKS):
            last = level == len(BLOCKS) - 1
            layers += [Block(width) for _ in range(count)]
            if not last:
                layers.append(nn.Upsample(scale_factor=2))
            layers.append(nn.Conv2d(width, 3 if last else width, 3, padding=1, bias=last))
        self.layers = nn.Sequential(*layers)

    def forward(self, latent: Tensor) -> Tensor:
        picture: Tensor = self.layers(torch.tanh(latent / 3.0) * 3.0)
        return picture * 2.0 - 1.0
