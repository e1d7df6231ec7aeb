"""The encoder of whisper-tiny with all of its hidden states, over the full 30 s or over what sound there is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from engines.musetalk.layers import LayerNorm, attend

STEPS = 1500
"""Encoder steps in 30 s, 20 ms each."""
MEL_FRAMES = 2 * STEPS


@dataclass(frozen=True, slots=True)
class WhisperSizes:
    width: int = 384
    heads: int = 6
    layers: int = 4
    bands: int = 80


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            p(x).unflatten(2, (self._heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        out: Tensor = self.out_proj(attend(q, k, v).transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    def __init__(self, sizes: WhisperSizes) -> None:
        super().__init__()
        self.self_attn = SelfAttention(sizes.width, sizes.heads)
        self.self_attn_layer_norm = LayerNorm(sizes.width)
        self.fc1 = nn.Linear(sizes.width, 4 * sizes.width)
        self.fc2 = nn.Linear(4 * sizes.width, sizes.width)
        self.final_layer_norm = LayerNorm(sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.fc2(functional.gelu(self.fc1(self.final_layer_norm(x))))


class WhisperEncoder(nn.Module):
    """Log-mel (B, 80, 2 n) to (B, n, 5, 384): embedding, three layers, the last one normalised. n is 1500 at most."""

    def __init__(self, sizes: WhisperSizes) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(sizes.bands, sizes.width, 3, padding=1)
        self.conv2 = nn.Conv1d(sizes.width, sizes.width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(STEPS, sizes.width)
        self.layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.layer_norm = LayerNorm(sizes.width)
        with torch.no_grad():
            self.embed_positions.weight.copy_(sinusoids(STEPS, sizes.width))

    def forward(self, mel: Tensor) -> Tensor:
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(mel)))).transpose(1, 2)
        x = x + self.embed_positions.weight[: x.shape[1]]
        states = [x]
        for layer in self.layers:
            x = layer(x)
            states.append(x)
        states[-1] = self.layer_norm(x)
        return torch.stack(states, dim=2)


def sinusoids(steps: int, width: int) -> Tensor:
    """(steps, width): sines, then cosines, of wavelengths that grow geometrically up to 10,000 steps; single precision,
    as the published table."""
    half = width // 2
    rates = torch.exp(torch.arange(half) * (-math.log(1e4) / (half - 1)))
    angles = torch.arange(steps)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
