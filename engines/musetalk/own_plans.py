"""TensorRT plans that were built elsewhere, as a config names them: believed as code, checked as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.errors import EngineUnavailable

_NAME = "own_plans"
_STAGES = ("unet", "decoder")
_INSIDE, _OUTSIDE = "inside", "outside"


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """One stage's plan."""

    path: Path
    names: Mapping[str, str] = field(default_factory=dict)
    """What it calls the contract's tensors."""
    positions_inside: bool = True
    """Whether it adds the sound's positions itself, as graphs of `engines export` do; the official UNet does not."""


def read(given: Mapping[str, Any]) -> dict[str, OwnPlan]:
    """By stage. Raises EngineUnavailable for what is unknown, missing or unclear."""
    return {stage: _read(stage, entry) for stage, entry in given.items()}


def _read(stage: str, entry: Any) -> OwnPlan:
    if stage not in _STAGES:
        raise _unclear(stage, "it is no stage with a plan", f"Stages: {', '.join(_STAGES)}.")
    known = {"path", "names", "positions"} if stage == "unet" else {"path", "names"}
    if not isinstance(entry, Mapping) or not {"path"} <= entry.keys() <= known:
        raise _unclear(stage, "it takes a path and other keys than these", f"Keys: {', '.join(sorted(known))}.")
    path, positions = Path(entry["path"]), entry.get("positions")
    if not path.is_file():
        raise _unclear(stage, f"there is no file {path}", "Name the plan's file.")
    if stage == "unet" and positions not in (_INSIDE, _OUTSIDE):
        remedy = (
            f'Say positions = "{_OUTSIDE}" for a plan of the official UNet, "{_INSIDE}" for one of a graph that '
            "`liveanchor engines export` made."
        )
        raise _unclear(stage, "it does not say where the sound's positions are added", remedy)
    return OwnPlan(path, dict(entry.get("names", {})), positions != _OUTSIDE)


def _unclear(stage: str, reason: str, remedy: str) -> EngineUnavailable:
    return EngineUnavailable("musetalk", f"{_NAME}.{stage}: {reason}", remedy)
