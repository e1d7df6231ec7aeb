"""Any stage of LivePortrait or JoyVASA by name, with published or made-up weights, as an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from engines.errors import EngineUnavailable
from engines.graphs.model import Graph
from engines.liveportrait.checkpoints import Weights
from engines.liveportrait.export import RENDERER, Exportable, export, exportables
from engines.liveportrait.joyvasa import checkpoint
from engines.liveportrait.joyvasa.audio import mapped
from engines.liveportrait.joyvasa.contracts import contracts
from engines.liveportrait.joyvasa.speech_encoder import SpeechEncoder
from engines.liveportrait.portrait import FULL
from engines.stage import StageContract

JOYVASA_STAGES = ("hubert", "audio_features", "denoiser")


class _Hubert(nn.Module):
    def __init__(self, encoder: SpeechEncoder, steps: int) -> None:
        super().__init__()
        self.encoder = encoder
        self._steps = steps

    def forward(self, audio: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(audio, self._steps)
        return hidden


class _Features(nn.Module):
    def __init__(self, audio_feature_map: nn.Module, frames: int) -> None:
        super().__init__()
        self.audio_feature_map = audio_feature_map
        self._frames = frames

    def forward(self, hidden: Tensor) -> Tensor:
        return mapped(self.audio_feature_map, hidden, self._frames)


def export_stage(stage: str, path: Path, weights: Weights) -> Graph:
    """Write one stage. Raises EngineUnavailable for an unknown stage or missing weights."""
    if stage in JOYVASA_STAGES:
        found = talker_exportables(weights.talker())
    else:
        found = exportables(weights.sizes, weights.networks())
    if stage not in found:
        known = [*JOYVASA_STAGES, RENDERER, *(c.stage for c in FULL.contracts())]
        raise EngineUnavailable("liveportrait", f"there is no stage {stage!r}", f"Choose one of: {', '.join(known)}.")
    return export(found[stage], path)


def talker_exportables(talker: checkpoint.Talker) -> dict[str, Exportable]:
    """JoyVASA's stages by name."""
    sizes = talker.generator.sizes
    by_name = {c.stage: c for c in contracts(sizes, talker.encoder.hubert.config.hidden_size)}
    made = {
        "hubert": _Hubert(talker.encoder, 2 * sizes.n_motions),
        "audio_features": _Features(talker.generator.audio_feature_map, sizes.n_motions),
        "denoiser": talker.generator.denoising_net,
    }
    return {name: Exportable(by_name[name], network, _inputs(by_name[name])) for name, network in made.items()}


def _inputs(contract: StageContract) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    def draw(generator: torch.Generator) -> tuple[Tensor, ...]:
        found = []
        for tensor in contract.inputs:
            shape = [1 if isinstance(size, str) else size for size in tensor.shape]
            if tensor.dtype == "int64":
                found.append(torch.randint(1, 51, shape, generator=generator))
            else:
                gain = 0.3 if contract.stage == "hubert" else 1.0
                found.append(gain * torch.randn(shape, generator=generator))
        return tuple(found)

    return draw
