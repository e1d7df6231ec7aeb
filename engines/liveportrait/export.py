"""Stages as ONNX graphs of opset 18, each with the numbers that torch gives for fixed inputs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.errors import EngineUnavailable
from engines.graphs.binding import bind
from engines.graphs.model import Graph, read, write
from engines.graphs.simplify import simplify
from engines.graphs.verify import Reference
from engines.liveportrait.generator import SpadeGenerator
from engines.liveportrait.portrait import PortraitSizes
from engines.stage import StageContract

OPSET = 18
"""Every 4-D GridSample of it runs on WebGPU; the 5-D ones are rewritten."""
RENDERER = "renderer"
"""Warping and generator as one graph: what runs once per frame."""
_CASES = 2


@dataclass(frozen=True, slots=True, eq=False)
class Exportable:
    """A network with its contract and inputs to try it on."""

    contract: StageContract
    network: nn.Module
    inputs: Callable[[torch.Generator], tuple[Tensor, ...]]
    """Tensors in the contract's order, batch 1."""


class _Renderer(nn.Module):
    def __init__(self, warping: nn.Module, generator: nn.Module) -> None:
        super().__init__()
        self.warping = warping
        self.generator = generator

    def forward(self, feature_3d: Tensor, kp_driving: Tensor, kp_source: Tensor) -> Tensor:
        picture: Tensor = self.generator(self.warping(feature_3d, kp_driving, kp_source)["out"])
        return picture


class _Ordered(nn.Module):
    """Gives a network's named outputs in the contract's order, as a graph wants them."""

    def __init__(self, network: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self._names = tuple(names)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        found = self.network(*tensors)
        return tuple(found[name] for name in self._names) if isinstance(found, dict) else (found,)


def exportables(sizes: PortraitSizes, networks: dict[str, nn.Module]) -> dict[str, Exportable]:
    """All stages of LivePortrait by name, and warping with generator as one."""
    contracts = {c.stage: c for c in sizes.contracts()}
    if isinstance(networks["generator"], SpadeGenerator):
        networks["generator"].fold()
    warping, generator = contracts["warping"], contracts["generator"]
    joined = StageContract(RENDERER, warping.inputs, generator.outputs)
    found = {name: Exportable(contract, networks[name], _drawn(contract)) for name, contract in contracts.items()}
    renderer = _Renderer(networks["warping"], networks["generator"])
    return found | {RENDERER: Exportable(joined, renderer, _drawn(joined))}


def export(what: Exportable, path: Path, opset: int = OPSET, seed: int = 0) -> Graph:
    """Write PATH and PATH with the suffix .reference.npz; returns the graph, bound to its contract."""
    network = _Ordered(what.network.eval(), [c.name for c in what.contract.outputs]).eval()
    generator = torch.Generator().manual_seed(seed)
    given = [what.inputs(generator) for _ in range(_CASES)]
    names_in = [c.name for c in what.contract.inputs]
    names_out = [c.name for c in what.contract.outputs]
    program = _exported(network, given[0], names_in, names_out, opset)
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(str(path))
    graph = simplify(read(path))
    write(graph, path)
    bind(what.contract, graph)
    with torch.inference_mode():
        outputs = [network(*tensors) for tensors in given]
    reference = Reference(
        tuple({n: t.numpy() for n, t in zip(names_in, tensors, strict=True)} for tensors in given),
        tuple({n: t.numpy() for n, t in zip(names_out, tensors, strict=True)} for tensors in outputs),
    )
    reference.save(reference_path(path))
    return graph


def reference_path(path: Path) -> Path:
    """Where the numbers that belong to a graph lie."""
    return path.with_suffix(".reference.npz")


def _exported(
    network: nn.Module, inputs: tuple[Tensor, ...], names_in: list[str], names_out: list[str], opset: int
) -> Any:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of torchvision, which nobody needs here
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter warns of its own deprecated parts
            return torch.onnx.export(
                network, inputs, dynamo=True, opset_version=opset, input_names=names_in, output_names=names_out,
                verbose=False,
            )  # fmt: skip
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
        raise EngineUnavailable("liveportrait", f"graphs need {error.name}", remedy) from error


def _drawn(contract: StageContract) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    """Inputs like those of a face: pictures in 0..1, keypoints of a head and 0.1 away from them, features normal."""

    def draw(generator: torch.Generator) -> tuple[Tensor, ...]:
        keypoints: Tensor | None = None
        found = []
        for tensor in contract.inputs:
            shape = [1 if isinstance(size, str) else size for size in tensor.shape]
            if tensor.value_range == "0..1":
                value = torch.rand(shape, generator=generator)
            elif tensor.name.startswith("kp_"):
                if keypoints is None:
                    keypoints = (torch.rand(shape, generator=generator) * 2 - 1) * torch.tensor([0.6, 0.6, 0.3])
                value = keypoints + 0.1 * torch.randn(shape, generator=generator)
            else:
                value = torch.randn(shape, generator=generator)
            found.append(value)
        return tuple(found)

    return draw
