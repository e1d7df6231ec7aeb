"""Published checkpoints into networks: no code of theirs runs, and whatever differs is refused by name."""

from __future__ import annotations

import pickle  # noqa: TID251 - only its error type: weights_only loading raises it
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.errors import EngineContract, EngineUnavailable
from engines.liveportrait.portrait import FULL, PortraitSizes, networks
from engines.liveportrait.retargeting import CHECKPOINT_PARTS

FILES = {
    "appearance": "base_models/appearance_feature_extractor.pth",
    "motion": "base_models/motion_extractor.pth",
    "warping": "base_models/warping_module.pth",
    "generator": "base_models/spade_generator.pth",
}
RETARGETING_FILE = "retargeting_models/stitching_retargeting_module.pth"
_DISTRIBUTED_PREFIX = "module."


def load_networks(folder: Path, sizes: PortraitSizes = FULL) -> dict[str, nn.Module]:
    """All stages with the weights in `folder`. Raises EngineUnavailable (no such file), EngineContract."""
    made = networks(sizes)
    for stage, name in FILES.items():
        fill(made[stage], read(folder / name), name)
    parts = read(folder / RETARGETING_FILE)
    for part, entry in CHECKPOINT_PARTS.items():
        if not isinstance(parts.get(entry), Mapping):
            raise EngineContract(
                f"{RETARGETING_FILE}: {entry}", "a dictionary of tensors", type(parts.get(entry)).__name__
            )
        fill(made[f"retarget_{part}"], parts[entry], f"{RETARGETING_FILE}: {entry}")
    return made


def read(path: Path, engine: str = "liveportrait", allowed: tuple[type, ...] = ()) -> dict[str, Any]:
    """A checkpoint's dictionary: tensors and plain values, plus the harmless types in `allowed`."""
    if not path.is_file():
        remedy = f"Run `liveanchor models pull {engine}` or point --models at a folder that has it."
        raise EngineUnavailable(engine, f"{path.name} is not there", remedy)
    try:
        with torch.serialization.safe_globals(list(allowed)):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise EngineContract(
            path.name, "a checkpoint of tensors and plain values", str(error).split("\n", 1)[0]
        ) from error
    if not isinstance(found, dict):
        raise EngineContract(path.name, "a dictionary", type(found).__name__)
    return found


def fill(network: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Load a state with exactly the network's names and shapes and finite values. Raises EngineContract."""
    given = {name.removeprefix(_DISTRIBUTED_PREFIX): value for name, value in state.items()}
    wanted: dict[str, Tensor] = network.state_dict()
    for name in sorted(wanted.keys() ^ given.keys()):
        expected, found = ("an entry", "nothing") if name in wanted else ("nothing", "an entry")
        raise EngineContract(f"{source}: {name}", expected, found)
    for name, value in wanted.items():
        if given[name].shape != value.shape:
            raise EngineContract(f"{source}: {name}", str(tuple(value.shape)), str(tuple(given[name].shape)))
        if value.is_floating_point() and not bool(torch.isfinite(given[name]).all()):
            raise EngineContract(f"{source}: {name}", "finite weights", "values that are not")
    network.load_state_dict(given)
