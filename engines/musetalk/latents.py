"""The latent encoder of packets for MuseTalk: the VAE's mode of the face, its lower half masked, and whole."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engines.errors import EngineOutput
from engines.musetalk.vae import SCALING, Vae

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]

NAME = "sd-vae-ft-mse"
_CHUNK = 4
"""Pictures at once: a clip has thousands."""


def prepared(crops: U8) -> tuple[Tensor, Tensor]:
    """(B, 256, 256, 3) u8 RGB to two (B, 3, 256, 256) f32 in -1..1: lower half zeroed before the scaling, and whole."""
    pictures = torch.from_numpy(np.ascontiguousarray(crops.transpose(0, 3, 1, 2))).float() / 255.0
    masked = pictures.clone()
    masked[:, :, pictures.shape[2] // 2 :] = 0.0
    return masked * 2.0 - 1.0, pictures * 2.0 - 1.0


class VaeLatents:
    """Implements avatars.precompile.LatentEncoder."""

    def __init__(self, vae: Vae, revision: str, device: str = "cpu") -> None:
        """revision: of the weights; see weights.revision_of."""
        self._vae = vae.eval().to(device)
        self._device = torch.device(device)
        self._revision = revision

    @property
    def name(self) -> str:
        return NAME

    @property
    def revision(self) -> str:
        return self._revision

    def encode(self, crops: U8) -> F16:
        """Raises EngineOutput where the weights give values that are not finite in half precision."""
        chunks = [self._encode(crops[first : first + _CHUNK]) for first in range(0, len(crops), _CHUNK)]
        return np.concatenate(chunks)

    def _encode(self, crops: U8) -> F16:
        with torch.inference_mode():
            dtype = next(self._vae.parameters()).dtype
            halves = [self._vae.mode(part.to(self._device, dtype)) * SCALING for part in prepared(crops)]
            found = torch.cat(halves, dim=1).to(torch.float16)
        if not bool(torch.isfinite(found).all()):
            raise EngineOutput(NAME, "latents are not finite")
        return np.asarray(found.cpu().numpy())
