"""Where LivePortrait's and JoyVASA's weights come from: a folder of published files, or made up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from engines.errors import EngineUnavailable
from engines.liveportrait.joyvasa import checkpoint
from engines.liveportrait.joyvasa.denoiser import DenoiserSizes
from engines.liveportrait.portrait import FULL, REDUCED, PortraitSizes, seeded_networks
from engines.liveportrait.weights import load_networks


@dataclass(frozen=True, slots=True)
class Weights:
    """Which weights are wanted."""

    models: Path | None = None
    """Folder with liveportrait/ and joyvasa/ in it."""
    seeded: bool = False
    """Made up: the whole chain runs, faces it makes none."""
    reduced: bool = False
    """Small widths; made up only."""

    @property
    def sizes(self) -> PortraitSizes:
        """Of the portrait's stages."""
        return REDUCED if self.reduced else FULL

    def networks(self) -> dict[str, nn.Module]:
        """LivePortrait's stages by name. Raises EngineUnavailable, EngineContract."""
        return seeded_networks(self.sizes) if self.seeded else load_networks(self._folder("liveportrait"), self.sizes)

    def talker(self) -> checkpoint.Talker:
        """JoyVASA. Raises EngineUnavailable, EngineContract."""
        if not self.seeded:
            return checkpoint.load(self._folder("joyvasa"))
        if self.reduced:
            return checkpoint.seeded()
        return checkpoint.seeded(DenoiserSizes(), hubert={"hidden_size": 768})

    def _folder(self, engine: str) -> Path:
        if self.models is None:
            remedy = f"Give --models DIR (see `liveanchor models pull {engine}`), or --seeded for made-up weights."
            raise EngineUnavailable(engine, "no weights were named", remedy)
        return self.models / engine


def require_device(device: str) -> None:
    """Raises EngineUnavailable where torch cannot compute on it."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = f"torch has no device {device!r} here"
        raise EngineUnavailable("liveportrait", reason, "Take --device cpu, or torch with its driver.") from error
