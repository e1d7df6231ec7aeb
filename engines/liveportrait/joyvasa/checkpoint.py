"""The published JoyVASA checkpoint into a motion generator, a speech encoder and motion statistics."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from engines.errors import EngineContract
from engines.liveportrait.joyvasa.coefficients import MotionTemplate
from engines.liveportrait.joyvasa.denoiser import DenoiserSizes
from engines.liveportrait.joyvasa.motion_generator import MotionGenerator
from engines.liveportrait.joyvasa.speech_encoder import SpeechEncoder
from engines.liveportrait.joyvasa.template_file import read_template
from engines.liveportrait.seeded import seed
from engines.liveportrait.weights import fill, read

GENERATOR_FILE = "motion_generator/motion_generator_hubert_chinese.pt"
TEMPLATE_FILE = "motion_template/motion_template.pkl"
HUBERT_FOLDER = "chinese-hubert-base"
_ENCODER_PREFIX = "audio_encoder."
_TIME_TABLE = "denoising_net.TE.pe"
_PUBLISHED_STEPS = 50
REDUCED_HUBERT: dict[str, Any] = {
    "hidden_size": 768, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
    "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
"""Small, but with the hidden width that the generator maps from."""
REDUCED_SIZES = DenoiserSizes(n_motions=20, n_prev_motions=5, feature_dim=64, n_layers=2)


@dataclass(frozen=True, slots=True, eq=False)
class Talker:
    """All that sound to motion needs."""

    generator: MotionGenerator
    encoder: SpeechEncoder
    template: MotionTemplate


def load(folder: Path) -> Talker:
    """The published networks from `folder`. Raises EngineUnavailable (no such file), EngineContract."""
    stored = read(folder / GENERATOR_FILE, "joyvasa", (argparse.Namespace,))
    state, arguments = stored.get("model"), stored.get("args")
    if not isinstance(state, Mapping) or not isinstance(arguments, argparse.Namespace | Mapping):
        raise EngineContract(GENERATOR_FILE, "a dictionary of model and args", ", ".join(sorted(stored)))
    given = arguments if isinstance(arguments, Mapping) else vars(arguments)
    sizes = DenoiserSizes(**{name: _whole(given, name) for name in ("n_motions", "n_prev_motions", "feature_dim")})
    generator = MotionGenerator(sizes, _whole(given, "n_diff_steps", _PUBLISHED_STEPS))
    own = {k: v for k, v in state.items() if not k.startswith(_ENCODER_PREFIX)}
    # Another number of steps was once in it: a table of sines, not a weight.
    own[_TIME_TABLE] = generator.denoising_net.TE.pe
    fill(generator, own, GENERATOR_FILE)
    return Talker(generator.eval(), _encoder(folder, state), read_template(folder / TEMPLATE_FILE))


def seeded(sizes: DenoiserSizes = REDUCED_SIZES, steps: int = 50, hubert: Mapping[str, Any] | None = None) -> Talker:
    """Made-up weights: the whole chain runs, nobody speaks."""
    generator = seed("joyvasa", MotionGenerator(sizes, steps))
    return Talker(generator, seed("", SpeechEncoder(hubert or REDUCED_HUBERT)), MotionTemplate.neutral())


def _encoder(folder: Path, state: Mapping[str, Tensor]) -> SpeechEncoder:
    beside = folder / HUBERT_FOLDER
    config = json.loads((beside / "config.json").read_text("utf-8")) if (beside / "config.json").is_file() else {}
    kept = {k: v for k, v in config.items() if k not in ("architectures", "torch_dtype", "transformers_version")}
    encoder = SpeechEncoder(kept)
    inside = {k.removeprefix(_ENCODER_PREFIX): v for k, v in state.items() if k.startswith(_ENCODER_PREFIX)}
    source = inside or read(beside / "pytorch_model.bin", "joyvasa")
    try:
        encoder.load(source)
    except RuntimeError as error:
        raise EngineContract(
            "speech encoder", "the weights of a HuBERT base", str(error).split("\n", 2)[1].strip()
        ) from error
    encoder.eval()
    return encoder


def _whole(arguments: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = arguments.get(name, default)
    if not isinstance(value, int) or not 0 < value <= 4096:
        raise EngineContract(f"{GENERATOR_FILE}: args.{name}", "a whole number of frames or features", repr(value))
    return value
