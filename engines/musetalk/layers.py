"""Building blocks of the UNet and the VAE. In half precision norms and softmax stay in float32: there it collapses."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

GROUPS = 32


class GroupNorm(nn.GroupNorm):
    """Statistics in float32 whatever comes in."""

    def __init__(self, channels: int, eps: float) -> None:
        super().__init__(GROUPS, channels, eps)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return super().forward(x)
        wide = functional.group_norm(x.float(), self.num_groups, self.weight.float(), self.bias.float(), self.eps)
        return wide.to(x.dtype)


class LayerNorm(nn.LayerNorm):
    """Statistics in float32 whatever comes in."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return super().forward(x)
        wide = functional.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps)
        return wide.to(x.dtype)


class ResnetBlock(nn.Module):
    """Two convolutions beside a short cut; `time` is the width of a time embedding, 0: none."""

    def __init__(self, channels_in: int, channels_out: int, eps: float, time: int = 0) -> None:
        super().__init__()
        self.norm1 = GroupNorm(channels_in, eps)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        if time:
            self.time_emb_proj = nn.Linear(time, channels_out)
        self.norm2 = GroupNorm(channels_out, eps)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        if channels_in != channels_out:
            self.conv_shortcut = nn.Conv2d(channels_in, channels_out, 1)

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        hidden = self.conv1(functional.silu(self.norm1(x)))
        if time is not None:
            hidden = hidden + self.time_emb_proj(functional.silu(time))[:, :, None, None]
        hidden = self.conv2(functional.silu(self.norm2(hidden)))
        short = self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x
        return short + hidden

    def fold_time(self, time: Tensor) -> None:
        """A constant time embedding becomes part of the first convolution's bias."""
        with torch.no_grad():
            self.conv1.bias += self.time_emb_proj(functional.silu(time))[0]
        del self.time_emb_proj


class Attention(nn.Module):
    """Scaled dot products; `context` (B, tokens, width) where keys and values come from elsewhere."""

    def __init__(self, width: int, heads: int, context: int | None = None, *, bias: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=bias)
        self.to_k = nn.Linear(context or width, width, bias=bias)
        self.to_v = nn.Linear(context or width, width, bias=bias)
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        other = x if context is None else context
        q, k, v = self._split(self.to_q(x)), self._split(self.to_k(other)), self._split(self.to_v(other))
        joined = attend(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = self.to_out[0](joined)
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(B, heads, tokens, width) each. In a graph the softmax is written out, in float32."""
    if not torch.compiler.is_exporting():
        return functional.scaled_dot_product_attention(q, k, v)
    logits = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    return logits.float().softmax(dim=-1).to(v.dtype) @ v


class Downsample(nn.Module):
    """Half the side. `shifted` pads right and below only, as the VAE's encoder does."""

    def __init__(self, channels: int, *, shifted: bool = False) -> None:
        super().__init__()
        self._shifted = shifted
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=0 if shifted else 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(functional.pad(x, (0, 1, 0, 1)) if self._shifted else x)
        return out


class Upsample(nn.Module):
    """Twice the side, nearest, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return out
