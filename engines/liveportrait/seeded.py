"""Made-up weights, a function of the parameter names alone, for parity and tests. They make no faces."""

from __future__ import annotations

import math
import re
from typing import TypeVar

import torch
from torch import Tensor, nn

from engines.backends.made_up import made_up

_Network = TypeVar("_Network", bound=nn.Module)
_POWER_STEPS = 20
_UNIT = "unit"
"""As a gain: plain normal values times the factor, whatever the fan-in."""

_GAINS: dict[str, tuple[tuple[str, float, str], ...]] = {
    "appearance": ((r"(first|down_blocks.*)\.conv\.weight$", 1.6, ""),),
    "motion": (
        (r"grn\.(gamma|beta)$", 0.5, _UNIT),
        (r"fc_(kp|exp|t)\.weight$", 0.3, ""),
        (r"fc_scale\.weight$", 0.2, ""),
        (r"fc_(pitch|yaw|roll)\.weight$", 2.0, ""),
    ),
    "warping": (
        (r"hourglass\.encoder\..*conv\.weight$", 1.5, ""),
        (r"hourglass\.decoder\..*conv\.weight$", 1.2, ""),
        (r"dense_motion_network\.mask\.weight$", 5.0, ""),
        (r"dense_motion_network\.occlusion\.weight$", 4.0, ""),
    ),
    "generator": ((r"conv_img.*\.weight$", 1.5, ""),),
    "joyvasa": ((r"^(start_motion_feat|start_audio_feat|null_audio_feat)$", 1.0, _UNIT),),
}
"""Per stage: without them the hourglass fades to nothing and half of the motion network does nothing."""


def seed(stage: str, network: _Network) -> _Network:
    """Fill a network in place, ready for inference; `stage` picks the gains, an unknown one has none."""
    entries: dict[str, Tensor] = network.state_dict()
    with torch.no_grad():
        for name, entry in entries.items():
            value = made_up(name, entry)
            if value is not None:
                entry.copy_(value * _gain(stage, name, entry))
        for name in entries:
            if name.endswith("weight_u"):
                _converge(entries, name.removesuffix("weight_u"))
    network.eval()
    return network


def _gain(stage: str, name: str, entry: Tensor) -> float:
    for pattern, factor, kind in _GAINS.get(stage, ()):
        if re.search(pattern, name):
            return factor * math.sqrt(entry.numel() / entry.shape[0]) if kind == _UNIT else factor
    return 1.0


def _converge(entries: dict[str, Tensor], layer: str) -> None:
    """Power iterations, so that u and v belong to the drawn weight as a trained checkpoint's do."""
    weight = entries[f"{layer}weight_orig"].double().flatten(1)
    u = entries[f"{layer}weight_u"].double()
    v = torch.empty(0)
    for _ in range(_POWER_STEPS):
        v = weight.t().mv(u)
        v = v / v.norm()
        u = weight.mv(v)
        u = u / u.norm()
    entries[f"{layer}weight_u"].copy_(u)
    entries[f"{layer}weight_v"].copy_(v)
