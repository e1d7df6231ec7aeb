"""Predicts clean motion from noisy motion and sound: a transformer in which frame i hears frame i only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

_TIME_TABLE, _POSITION_TABLE = 501, 600


@dataclass(frozen=True, slots=True)
class DenoiserSizes:
    """Widths of the denoiser. The published checkpoint says which of 256 and 512 `feature_dim` is."""

    n_motions: int = 100
    """L: frames of one window."""
    n_prev_motions: int = 25
    """P: frames of context before it."""
    feature_dim: int = 256
    motion_feat_dim: int = 70
    n_layers: int = 8
    n_heads: int = 8
    mlp_ratio: int = 4


class PositionTable(nn.Module):
    """Sines and cosines of frame numbers, or of diffusion steps."""

    pe: Tensor

    def __init__(self, features: int, length: int) -> None:
        super().__init__()
        position = torch.arange(length, dtype=torch.float32)[:, None]
        rate = torch.exp(torch.arange(0, features, 2, dtype=torch.float32) * (-math.log(10000.0) / features))
        table = torch.stack([torch.sin(position * rate), torch.cos(position * rate)], 2).flatten(1)
        self.register_buffer("pe", table[None])


class _Attention(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.zeros(3 * features, features))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * features))
        self.out_proj = nn.Linear(features, features)
        self._heads = heads

    def among(self, x: Tensor) -> Tensor:
        """Every position looks at every position, both ways in time. (N, T, F) → (N, T, F)."""
        batch, length, features = x.shape
        packed = functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = packed.view(batch, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.out_proj(seen.transpose(1, 2).reshape(batch, length, features))
        return out

    def at_same_place(self, memory: Tensor) -> Tensor:
        """Position i looks at memory i alone, so the weights are all 1: what is left are the values. Exact."""
        features = memory.shape[-1]
        values = functional.linear(memory, self.in_proj_weight[2 * features :], self.in_proj_bias[2 * features :])
        out: Tensor = self.out_proj(values)
        return out


class _Layer(nn.Module):
    """Attention, sound, perceptron; a norm after each."""

    def __init__(self, sizes: DenoiserSizes) -> None:
        super().__init__()
        features = sizes.feature_dim
        self.self_attn = _Attention(features, sizes.n_heads)
        self.multihead_attn = _Attention(features, sizes.n_heads)
        self.linear1 = nn.Linear(features, sizes.mlp_ratio * features)
        self.linear2 = nn.Linear(sizes.mlp_ratio * features, features)
        self.norm1 = nn.LayerNorm(features)
        self.norm2 = nn.LayerNorm(features)
        self.norm3 = nn.LayerNorm(features)

    def forward(self, x: Tensor, audio: Tensor) -> Tensor:
        x = self.norm1(x + self.self_attn.among(x))
        x = self.norm2(x + self.multihead_attn.at_same_place(audio))
        out: Tensor = self.norm3(x + self.linear2(functional.gelu(self.linear1(x))))
        return out


class _Layers(nn.Module):
    def __init__(self, sizes: DenoiserSizes) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(sizes) for _ in range(sizes.n_layers))

    def forward(self, x: Tensor, audio: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, audio)
        return x


class Denoiser(nn.Module):
    """Clean motion of P + L frames; the caller keeps the last L."""

    alignment_mask: Tensor

    def __init__(self, sizes: DenoiserSizes) -> None:
        super().__init__()
        self.sizes = sizes
        features, frames = sizes.feature_dim, sizes.n_prev_motions + sizes.n_motions
        self.register_buffer("alignment_mask", alignment_mask(frames))
        self.TE = PositionTable(features, _TIME_TABLE)
        self.diff_step_map = nn.Sequential(nn.Linear(features, features), nn.GELU(), nn.Linear(features, features))
        self.PE = PositionTable(features, _POSITION_TABLE)
        self.feature_proj = nn.Linear(sizes.motion_feat_dim, features)
        self.transformer = _Layers(sizes)
        self.motion_dec = nn.Sequential(
            nn.Linear(features, features // 2), nn.GELU(), nn.Linear(features // 2, sizes.motion_feat_dim)
        )

    def forward(self, motion: Tensor, audio: Tensor, prev_motion: Tensor, prev_audio: Tensor, step: Tensor) -> Tensor:
        """Noisy motion (N, L, 70), audio (N, L, F), context (N, P, 70) and (N, P, F), step (N,) i64 → (N, P+L, 70)."""
        time = self.diff_step_map(self.TE.pe[0, step])[:, None]
        x = self.feature_proj(torch.cat([prev_motion, motion], 1))
        x = x + self.PE.pe[:, : x.shape[1]] + time
        heard = torch.cat([prev_audio, audio], 1)
        clean: Tensor = self.motion_dec(self.transformer(x, heard))
        return clean


def alignment_mask(frames: int, width: int = 0) -> Tensor:
    """(frames, frames) bool, True where frame i may not hear frame j: everywhere but within `width` of the diagonal."""
    index = torch.arange(frames)
    return (index[:, None] - index[None, :]).abs() > width
