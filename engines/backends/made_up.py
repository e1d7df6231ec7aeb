"""Made-up weights, a function of a parameter's name and shape alone: for parity and tests, whatever the network."""

from __future__ import annotations

import math
import zlib

import torch
from torch import Tensor

_TABLES = {"embed_positions", "pe"}
"""Sinusoid tables are architecture, not weights."""


def made_up(name: str, entry: Tensor) -> Tensor | None:
    """The value of one entry of a network's state, drawn by its full name; None: it stays as constructed."""
    leaf, rank = name.rsplit(".", 1)[-1], entry.dim()
    if not entry.is_floating_point():
        return torch.zeros_like(entry) if leaf == "num_batches_tracked" else None
    if _TABLES & set(name.split(".")):
        return None
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if leaf == "running_var":
        return 0.5 + torch.rand(entry.shape, generator=generator)
    normal = torch.randn(entry.shape, generator=generator)
    if leaf == "running_mean":
        return 0.1 * normal
    if leaf in ("weight_u", "weight_v") and rank == 1:
        return normal / normal.norm()
    if leaf.endswith("bias"):
        return 0.05 * normal
    if "weight" in leaf and rank == 1:
        return 1.0 + 0.1 * normal
    return normal / math.sqrt(entry.numel() / entry.shape[0]) if rank >= 2 else None
