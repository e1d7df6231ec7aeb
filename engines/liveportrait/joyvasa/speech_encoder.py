"""HuBERT as the published motion generator uses it: hidden states at a step count that the caller names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from engines.errors import EngineUnavailable
from engines.liveportrait.joyvasa.audio import resampled

_RENAMED = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}
"""Weight norm of the positional convolution, as older checkpoints call it."""


class SpeechEncoder(nn.Module):
    """transformers' HuBERT with the interpolation between its convolutions and its transformer."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        try:
            from transformers import HubertConfig, HubertModel
        except ImportError as error:
            remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
            raise EngineUnavailable("joyvasa", "its speech encoder needs transformers", remedy) from error
        self.hubert = HubertModel(HubertConfig(**(config or {}), attn_implementation="sdpa"))

    def forward(self, audio: Tensor, steps: int) -> Tensor:
        """Padded sound (N, samples) f32 at 16 kHz → (N, steps, hidden) f32; steps at 50 Hz."""
        return self.contextual(self.convolved(audio), steps)

    def convolved(self, audio: Tensor) -> Tensor:
        """(N, channels, steps as the convolutions make them)."""
        features: Tensor = self.hubert.feature_extractor(audio)
        return features

    def contextual(self, features: Tensor, steps: int) -> Tensor:
        """Convolution features → hidden states (N, steps, hidden)."""
        projected = self.hubert.feature_projection(resampled(features, steps).transpose(1, 2))
        if isinstance(projected, tuple):
            projected = projected[0]
        hidden: Tensor = self.hubert.encoder(projected).last_hidden_state
        return hidden

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Fill from a HuBERT state, old or new names. Raises RuntimeError where entries are missing."""
        given = {}
        for name, value in state.items():
            head, _, leaf = name.rpartition(".")
            given[f"{head}.{_RENAMED[leaf]}" if leaf in _RENAMED else name] = value
        self.hubert.load_state_dict(given)


def encoder_of(module: SpeechEncoder) -> Any:
    """The encoder as a function without gradients."""

    def encode(audio: Tensor, steps: int) -> Tensor:
        with torch.inference_mode():
            hidden: Tensor = module(audio, steps)
        return hidden

    return encode
