"""MuseTalk's two live stages as networks ready for a graph: positions and the time step are part of the first one,
scaling, clamping and the cast to u8 RGB rows part of the second."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from engines.contract import TensorContract
from engines.musetalk.tiny import TinyDecoder
from engines.musetalk.unet import Unet, UnetSizes
from engines.musetalk.vae import SCALING, Vae, VaeSizes
from engines.musetalk.whisper import WhisperEncoder, WhisperSizes
from engines.musetalk.windows import TOKENS, WIDTH, positions
from engines.stage import StageContract


@dataclass(frozen=True, slots=True)
class MuseTalkSizes:
    """The published widths, or small ones that keep every part."""

    unet: UnetSizes
    vae: VaeSizes
    whisper: WhisperSizes


FULL = MuseTalkSizes(UnetSizes(), VaeSizes(), WhisperSizes())
REDUCED = MuseTalkSizes(UnetSizes((32, 32, 32, 32)), VaeSizes((32, 32, 32, 32), layers=1), WhisperSizes())

MEL = TensorContract(
    "mel", ("B", 80, "T"), "float32", "batch, band, 10 ms frame", "any", "caller; CPU to device once a batch"
)
STATES = TensorContract(
    "states", ("B", "S", 5, 384), "float32", "batch, 20 ms step, hidden state, feature", "any", "features"
)
LATENT = TensorContract(
    "latent", ("B", 8, 32, 32), "float32", "batch, channel: 0..3 masked, 4..7 reference, row, column", "any",
    "avatar; stays on the device",
)  # fmt: skip
AUDIO = TensorContract(
    "audio",
    ("B", TOKENS, WIDTH),
    "float32",
    "batch, token: 10 steps x 5 states, feature",
    "any",
    "features; stays on the device",
)
DENOISED = TensorContract(
    "denoised", ("B", 4, 32, 32), "float32", "batch, channel, row, column", "any", "unet; stays on the device"
)
FACES = TensorContract(
    "faces", ("B", 256, 256, 3), "uint8", "batch, row, column, R G B", "0..255", "decoder; device to CPU once a batch"
)
LEVEL = TensorContract(
    "level", ("B",), "float32", "batch", "any", "decoder; mean absolute value before the clamp, not finite where any is"
)

CONTRACTS = (
    StageContract("features", (MEL,), (STATES,)),
    StageContract("unet", (LATENT, AUDIO), (DENOISED,)),
    StageContract("decoder", (DENOISED,), (FACES, LEVEL)),
)


class UnetStage(nn.Module):
    """latent (B, 8, 32, 32), audio (B, 50, 384) without positions, to denoised (B, 4, 32, 32)."""

    def __init__(self, unet: Unet) -> None:
        super().__init__()
        self.unet = unet
        self.register_buffer("positions", torch.from_numpy(positions())[None], persistent=False)

    def forward(self, latent: Tensor, audio: Tensor) -> Tensor:
        denoised: Tensor = self.unet(latent, audio + self.positions)
        return denoised


class DecoderStage(nn.Module):
    """denoised (B, 4, h, w) to faces (B, 8 h, 8 w, 3) u8 RGB and level (B,) f32.

    With probes also what the middle block gives, and the picture before it is cast, both f32: half precision collapses
    in the former first.
    """

    def __init__(self, vae: Vae, *, probes: bool = False) -> None:
        super().__init__()
        self.decoder = vae.decoder
        self.post_quant_conv = vae.post_quant_conv
        self._probes = probes

    def forward(self, denoised: Tensor) -> tuple[Tensor, ...]:
        mid = self.decoder.middle(self.post_quant_conv(denoised / SCALING))
        picture = self.decoder.picture(mid).float()
        return (*finished(picture), mid.float(), picture) if self._probes else finished(picture)


class TinyDecoderStage(nn.Module):
    """The same with the small decoder; its only probe is the picture."""

    def __init__(self, tiny: TinyDecoder, *, probes: bool = False) -> None:
        super().__init__()
        self.tiny = tiny
        self._probes = probes

    def forward(self, denoised: Tensor) -> tuple[Tensor, ...]:
        picture = self.tiny(denoised).float()
        return (*finished(picture), picture) if self._probes else finished(picture)


def finished(picture: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 3, H, W) f32 around -1..1 to (B, H, W, 3) u8 and the mean absolute value (B,)."""
    scaled = (picture * 127.5 + 127.5).clamp(0.0, 255.0).round()
    faces = scaled.permute(0, 2, 3, 1).contiguous().to(torch.uint8)  # TensorRT knows bytes at its border only
    return faces, picture.abs().mean(dim=(1, 2, 3))


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """What one MuseTalk is made of."""

    unet: Unet
    vae: Vae
    whisper: WhisperEncoder
    tiny: TinyDecoder | None = None
    """Only where its weights were asked for."""


PARTS = frozenset({"unet", "vae", "whisper"})
"""What can be had alone: nobody needs four gigabytes to export a decoder."""
_Part = TypeVar("_Part", bound=nn.Module)


def networks(sizes: MuseTalkSizes, real: Collection[str] = PARTS) -> Networks:
    """Those named in `real` with whatever weights torch starts with; the others have shapes and no weights."""

    def made(part: str, build: Callable[[], _Part]) -> _Part:
        with torch.device("cpu" if part in real else "meta"):
            return build()

    return Networks(
        made("unet", lambda: Unet(sizes.unet)),
        made("vae", lambda: Vae(sizes.vae)),
        made("whisper", lambda: WhisperEncoder(sizes.whisper)),
    )
