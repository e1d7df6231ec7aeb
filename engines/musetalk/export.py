"""MuseTalk's live stages as ONNX graphs with an open batch, in float32 or half precision, weights beside the graph."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from engines.errors import EngineUnavailable
from engines.musetalk.stages import CONTRACTS, DecoderStage, Networks, TinyDecoderStage, UnetStage
from engines.stage import StageContract

OPSET = 20
LARGEST_BATCH = 32
STAGES = ("unet", "decoder", "tiny")
"""`tiny` stands in for `decoder`, under the same contract."""
PROBES = {"unet": (), "decoder": ("mid", "picture"), "tiny": ("picture",)}
"""Outputs beside the contract's: only there to be compared, no backend computes them live."""
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16}
_KEY = "liveanchor."
PARTS_OF = {"unet": ("unet",), "decoder": ("vae",), "tiny": ()}
"""What of the networks a stage needs; the small decoder is a thing of its own."""


def stage_network(stage: str, nets: Networks) -> nn.Module:
    """A stage with its probes, the time step folded. The networks are changed by it."""
    if stage == "unet":
        if hasattr(nets.unet, "time_embedding"):
            nets.unet.fold_time()
        return UnetStage(nets.unet).eval()
    if stage == "tiny":
        if nets.tiny is None:
            raise EngineUnavailable(
                "musetalk", "the small decoder has no weights", "Run `liveanchor models pull taesd`."
            )
        return TinyDecoderStage(nets.tiny, probes=True).eval()
    return DecoderStage(nets.vae, probes=True).eval()


def contract_of(stage: str) -> StageContract:
    """The contract that a stage keeps to. Raises EngineUnavailable."""
    wanted = "decoder" if stage == "tiny" else stage
    found = next((c for c in CONTRACTS if c.stage == wanted), None)
    if found is None or stage not in STAGES:
        raise EngineUnavailable("musetalk", f"there is no stage {stage!r}", f"Stages: {', '.join(STAGES)}.")
    return found


def drawn_inputs(stage: str, count: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Inputs like those of a face and of speech: latents of about unit size, sound states too."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"unet": ((8, 32, 32), (50, 384)), "decoder": ((4, 32, 32),), "tiny": ((4, 32, 32),)}[stage]
    scale = 0.9 if stage == "unet" else 0.8
    return tuple(scale * torch.randn((count, *shape), generator=generator) for shape in shapes)


def export(stage: str, path: Path, nets: Networks, precision: str) -> None:
    """Write PATH and PATH.data. Raises EngineUnavailable for an unknown stage or precision."""
    if stage not in STAGES or precision not in PRECISIONS:
        remedy = f"Stages: {', '.join(STAGES)}; precisions: {', '.join(PRECISIONS)}."
        raise EngineUnavailable("musetalk", f"there is no stage {stage!r} in {precision!r}", remedy)
    dtype = PRECISIONS[precision]
    network = stage_network(stage, nets).to(dtype)
    contract = contract_of(stage)
    batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)
    names_out = [*(c.name for c in contract.outputs), *PROBES[stage]]
    inputs = tuple(tensor.to(dtype) for tensor in drawn_inputs(stage, 2))
    program = _exported(
        network, inputs, [c.name for c in contract.inputs], names_out, tuple({0: batch} for _ in inputs)
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(str(path), external_data=True)
    _label(path, {"engine": "musetalk", "stage": stage, "precision": precision})


def label_of(path: Path) -> dict[str, str]:
    """What `export` wrote about itself into a graph; empty where somebody else made it."""
    model = onnx.load(str(path), load_external_data=False)
    return {p.key.removeprefix(_KEY): p.value for p in model.metadata_props if p.key.startswith(_KEY)}


def _label(path: Path, words: dict[str, str]) -> None:
    model = onnx.load(str(path), load_external_data=False)
    for key, value in words.items():
        model.metadata_props.add(key=_KEY + key, value=value)
    path.write_bytes(model.SerializeToString())


def _exported(
    network: nn.Module, inputs: tuple[Tensor, ...], names_in: list[str], names_out: list[str], shapes: Any
) -> Any:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of torchvision, which nobody needs here
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # the exporter warns of its own deprecated parts
            return torch.onnx.export(
                network, inputs, dynamo=True, opset_version=OPSET, input_names=names_in, output_names=names_out,
                dynamic_shapes=shapes, verbose=False,
            )  # fmt: skip
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[musetalk]'."
        raise EngineUnavailable("musetalk", f"graphs need {error.name}", remedy) from error
