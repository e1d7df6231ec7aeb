"""MuseTalk's weights: published checkpoints, mapped and checked name by name, or made up from the names alone.

No code of a checkpoint runs; whatever differs is told in one readable list.
"""

from __future__ import annotations

import hashlib
import pickle  # noqa: TID251 - only its error type: weights_only loading raises it
import tarfile
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from engines.backends.made_up import made_up
from engines.errors import EngineContract, EngineUnavailable
from engines.musetalk.parsing import BiSeNet
from engines.musetalk.stages import FULL, PARTS, MuseTalkSizes, Networks, networks
from engines.musetalk.tiny import PREFIX, TinyDecoder
from engines.musetalk.vae import renamed

TINY_FILE = "taesd/diffusion_pytorch_model.safetensors"
"""Beside the folder of the others: a set of its own."""
UNET_FILE = "musetalkV15/unet.pth"
VAE_FILE = "sd-vae/diffusion_pytorch_model.safetensors"
WHISPER_FILE = "whisper/model.safetensors"
PARSER_FILE = "face-parse-bisent/79999_iter.pth"
_WHISPER_PREFIXES = ("model.encoder.", "encoder.")
_SHOWN = 8
_PROBE_BYTES = 1 << 20


def load(folder: Path, parts: Collection[str] = PARTS) -> Networks:
    """The published networks, as `models pull musetalk` lays them. Raises EngineUnavailable, EngineContract.

    parts: those to load; the others have no weights, and their files are not read.
    """
    made = networks(FULL, real=())
    if "unet" in parts:
        fill(made.unet, read(folder / UNET_FILE), UNET_FILE)
    if "vae" in parts:
        fill(made.vae, renamed(read(folder / VAE_FILE)), VAE_FILE)
    if "whisper" in parts:
        fill(made.whisper, _without_prefix(read(folder / WHISPER_FILE), _WHISPER_PREFIXES), WHISPER_FILE)
    return made


def load_tiny(path: Path) -> TinyDecoder:
    """The small decoder out of the published autoencoder. Raises EngineUnavailable, EngineContract."""
    if not path.is_file():
        remedy = "Run `liveanchor models pull taesd`."
        raise EngineUnavailable("musetalk", f"the small decoder's {path.name} is not in {path.parent}", remedy)
    tiny, state = TinyDecoder(), read(path)
    fill(tiny, _without_prefix(state, (PREFIX,)), path.name)
    return tiny


def load_parser(folder: Path) -> BiSeNet | None:
    """The face parser, or None where its file is not there: masks then come from landmarks."""
    if not (folder / PARSER_FILE).is_file():
        return None
    parser = BiSeNet()
    fill(parser, read(folder / PARSER_FILE), PARSER_FILE)
    return parser


def revision_of(path: Path) -> str:
    """What tells one file of weights from another: its size, beginning and end. Reads 2 MB."""
    digest = hashlib.sha256(str(path.stat().st_size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_PROBE_BYTES))
        file.seek(max(0, path.stat().st_size - _PROBE_BYTES))
        digest.update(file.read(_PROBE_BYTES))
    return digest.hexdigest()[:12]


def read(path: Path) -> dict[str, Tensor]:
    """A file's tensors by name, mapped where the format allows. Raises EngineUnavailable, EngineContract."""
    if not path.is_file():
        remedy = "Run `liveanchor models pull musetalk` or point --models at a folder that has it."
        raise EngineUnavailable("musetalk", f"{path.name} is not there", remedy)
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        found = _unpickled(path)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError, ValueError, tarfile.TarError) as error:
        raise EngineContract(path.name, "a checkpoint of tensors", str(error).split("\n", 1)[0]) from error
    state = found.get("state_dict", found) if isinstance(found, dict) else found
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise EngineContract(path.name, "a dictionary of tensors", type(state).__name__)
    return {str(name): value for name, value in state.items()}


def fill(network: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Give a network exactly its names and shapes, finite. Raises EngineContract with the differences as a list."""
    wanted: dict[str, Tensor] = network.state_dict()
    wrong = list(difference(wanted, state))
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise EngineContract(source, f"{len(wanted)} tensors of this network", "; ".join(wrong[:_SHOWN] + more))
    for name, value in state.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise EngineContract(f"{source}: {name}", "finite weights", "values that are not")
    network.load_state_dict({name: state[name] for name in wanted}, assign=_is_meta(network))
    network.requires_grad_(False)
    network.eval()


def difference(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> list[str]:
    """What is missing, unknown or of another shape, one line each."""
    lines = [f"{name} is missing {_shape(wanted[name])}" for name in sorted(wanted.keys() - given.keys())]
    lines += [f"{name} is unknown {_shape(given[name])}" for name in sorted(given.keys() - wanted.keys())]
    lines += [
        f"{name} is {_shape(given[name])}, not {_shape(wanted[name])}"
        for name in wanted
        if name in given and given[name].shape != wanted[name].shape
    ]
    return lines


def seeded(sizes: MuseTalkSizes, parts: Collection[str] = PARTS, *, tiny: bool = False) -> Networks:
    """Made-up weights, a function of the published names alone. They make no faces. parts: see `load`."""
    made = networks(sizes, real=parts)
    for part, network, prefix in (
        ("unet", made.unet, ""),
        ("vae", made.vae, ""),
        ("whisper", made.whisper, "encoder."),
    ):
        if part in parts:
            seed(network, prefix)
    if not tiny:
        return made
    small = TinyDecoder()
    seed(small, PREFIX)
    return replace(made, tiny=small)


def seed(network: nn.Module, prefix: str = "") -> nn.Module:
    """Fill a network in place, ready for inference; prefix: what the published names have before its own."""
    with torch.no_grad():
        for name, entry in network.state_dict().items():
            value = made_up(prefix + name, entry)
            if value is not None:
                entry.copy_(value)
    network.requires_grad_(False)
    return network.eval()


def _unpickled(path: Path) -> Any:
    """New files are mapped; the oldest, which are archives of another kind, are read whole, with the same care."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of another pickle protocol: what cannot be read is refused anyway
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:
            return torch.load(path, map_location="cpu", weights_only=True)


def _without_prefix(state: Mapping[str, Tensor], prefixes: tuple[str, ...]) -> dict[str, Tensor]:
    for prefix in prefixes:
        found = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if found:
            return found
    return dict(state)


def _is_meta(network: nn.Module) -> bool:
    return any(parameter.is_meta for parameter in network.parameters())


def _shape(value: Tensor) -> str:
    return f"({', '.join(str(size) for size in value.shape)})"
