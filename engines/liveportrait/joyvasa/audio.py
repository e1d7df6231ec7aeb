"""Sound at 16 kHz to features at 25 fps: padding, the speech encoder's hidden states, interpolation."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from engines.liveportrait.joyvasa.motion_generator import MotionGenerator

SAMPLE_HZ = 16_000
FRAME_SAMPLES = 640
_UNIT_SAMPLES = 320
"""The encoder's convolutions step by 320 samples: 50 a second."""
_SPARE_SAMPLES = 80
"""They look 80 samples beyond the last step."""

HiddenStates = Callable[[Tensor, int], Tensor]
"""Padded sound (N, samples) and a number of steps at 50 Hz → hidden states (N, steps, 768)."""


def padded(audio: Tensor) -> Tensor:
    """Sound (N, samples) with just so much mirrored at both ends that the encoder makes whole steps of it."""
    samples = audio.shape[1]
    missing = samples // _UNIT_SAMPLES * _UNIT_SAMPLES + _SPARE_SAMPLES - samples
    side = -(-missing // 2)
    if side < 0:
        return audio
    if side // 2 > 0:
        # Twice by a quarter each: mirrored samples are mirrored again, which the checkpoints were trained with.
        for _ in range(2):
            audio = functional.pad(audio, (side // 2, side // 2), mode="reflect")
    return functional.pad(audio, (1, 1), mode="replicate") if side % 2 else audio


def resampled(features: Tensor, length: int) -> Tensor:
    """Features (N, C, T) interpolated along time to (N, C, length)."""
    return functional.interpolate(features, size=length, mode="linear", align_corners=False)


def audio_features(generator: MotionGenerator, encode: HiddenStates, audio: Tensor, frames: int) -> Tensor:
    """(N, frames, F) for sound (N, samples) at 16 kHz that lasts `frames` frames."""
    hidden = encode(padded(audio), 2 * frames)
    return mapped(generator.audio_feature_map, hidden, frames)


def mapped(audio_feature_map: nn.Module, hidden: Tensor, frames: int) -> Tensor:
    """Hidden states (N, steps, 768) at 50 Hz → features (N, frames, F) at 25 fps."""
    at_25_fps = resampled(hidden.transpose(1, 2), frames).transpose(1, 2)
    features: Tensor = audio_feature_map(at_25_fps)
    return features
