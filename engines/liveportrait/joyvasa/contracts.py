"""JoyVASA's stages: sound to hidden states, hidden states to features, one step of denoising."""

from __future__ import annotations

from engines.contract import TensorContract
from engines.liveportrait.joyvasa.denoiser import DenoiserSizes
from engines.liveportrait.joyvasa.motion_generator import AUDIO_FEATURES
from engines.stage import StageContract

_MOTION = "batch, frame at 25 fps, coefficient: 63 expression, scale, 3 shift, pitch, yaw, roll"
_HEARD = "batch, frame at 25 fps, feature"


def contracts(sizes: DenoiserSizes, hidden: int = AUDIO_FEATURES) -> tuple[StageContract, ...]:
    """The stages at these widths. P frames of context, then L of the window."""
    frames, width = sizes.n_motions, sizes.feature_dim
    samples = 640 * frames + 80
    return (
        StageContract(
            "hubert",
            (
                TensorContract(
                    "audio", ("B", samples), "float32", "batch, sample at 16 kHz, mirrored by 40 at both ends", "-1..1",
                    "caller; CPU to device once a window",
                ),
            ),
            (
                TensorContract(
                    "hidden", ("B", 2 * frames, hidden), "float32", "batch, step at 50 Hz, hidden unit", "any",
                    "hubert; stays on the device",
                ),
            ),
        ),
        StageContract(
            "audio_features",
            (
                TensorContract(
                    "hidden", ("B", 2 * frames, AUDIO_FEATURES), "float32", "batch, step at 50 Hz, hidden unit", "any",
                    "hubert; stays on the device",
                ),
            ),
            (
                TensorContract(
                    "audio", ("B", frames, width), "float32", _HEARD, "any", "audio_features; stays on the device"
                ),
            ),
        ),
        _denoiser(sizes),
    )  # fmt: skip


def _denoiser(sizes: DenoiserSizes) -> StageContract:
    frames, context, width = sizes.n_motions, sizes.n_prev_motions, sizes.feature_dim
    return StageContract(
        "denoiser",
        (
            TensorContract(
                "motion", ("B", frames, sizes.motion_feat_dim), "float32", _MOTION, "any",
                "sampler; stays on the device for all steps",
            ),
            TensorContract(
                "audio", ("B", frames, width), "float32", _HEARD, "any",
                "audio_features, or the learnt null; guidance runs both as one batch",
            ),
            TensorContract(
                "prev_motion", ("B", context, sizes.motion_feat_dim), "float32", _MOTION, "any",
                "the window before, or the learnt start",
            ),
            TensorContract(
                "prev_audio", ("B", context, width), "float32", _HEARD, "any",
                "the window before, or the learnt start",
            ),
            TensorContract("step", ("B",), "int64", "batch", "1..500", "sampler; the diffusion step, descending"),
        ),
        (
            TensorContract(
                "clean", ("B", context + frames, sizes.motion_feat_dim), "float32", _MOTION, "any",
                "denoiser; the sampler keeps the last frames of it",
            ),
        ),
    )  # fmt: skip


PUBLISHED = contracts(DenoiserSizes())
