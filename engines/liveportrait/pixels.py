"""Between pictures of bytes and tensors of numbers. Rounds where the published code truncates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engines.errors import EngineOutput

U8 = npt.NDArray[np.uint8]


def to_tensor(pictures: U8) -> Tensor:
    """(H, W, 3) or (B, H, W, 3) u8 RGB → (B, 3, H, W) f32 0..1."""
    batch = pictures if pictures.ndim == 4 else pictures[None]
    return torch.from_numpy(np.ascontiguousarray(batch.transpose(0, 3, 1, 2))).float() / 255.0


def to_pictures(tensor: Tensor) -> U8:
    """(B, 3, H, W) f32 → (B, H, W, 3) u8 RGB, clipped. Raises EngineOutput where a value is not finite."""
    values = tensor.detach().float()
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        raise EngineOutput("liveportrait", f"{bad} values of a picture are not finite")
    # Bytes are made where the tensor is: a quarter of the floats to carry.
    scaled = (values.clamp(0.0, 1.0) * 255.0).round().to(torch.uint8).permute(0, 2, 3, 1)
    return np.ascontiguousarray(scaled.cpu().numpy())
