"""Sound to motion of a face: the JoyVASA chain as one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engines.liveportrait.faults import Faults, MortalDenoiser
from engines.liveportrait.joyvasa.checkpoint import Talker
from engines.liveportrait.joyvasa.coefficients import motion_of, smoothed
from engines.liveportrait.joyvasa.sequence import (
    SequenceGenerator,
    SequenceSettings,
    Window,
    WindowFault,
    seeded_noise,
)
from engines.liveportrait.joyvasa.speech_encoder import encoder_of
from engines.liveportrait.keypoints import MotionInfo
from engines.liveportrait.temporal import F32


@dataclass(frozen=True, slots=True)
class SpeakingSettings:
    """How a face moves to sound."""

    seed: int = 0
    smoothing: float = 0.01
    """Of pose, scale and shift; 1 does not smooth."""
    sequence: SequenceSettings = field(default_factory=SequenceSettings)


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """Motion to a sound."""

    motion: MotionInfo
    faults: tuple[WindowFault, ...]
    windows: int


def motion_of_speech(
    talker: Talker,
    samples: F32,
    kp: Tensor,
    settings: SpeakingSettings,
    on_window: Callable[[int, int], None] = lambda done, total: None,
    faults: Faults | None = None,
) -> Spoken:
    """Motion at 25 fps for sound (n,) f32 at 16 kHz; `kp` (1, 21, 3) are the canonical keypoints it will move."""
    generator = talker.generator
    whole = generator.denoising_net
    mortal = MortalDenoiser(whole, faults or Faults(), generator.diffusion_sched.steps)

    def watch(window: Window) -> None:
        mortal.window = window.index + 1
        on_window(window.index + 1, window.count)

    maker = SequenceGenerator(generator, encoder_of(talker.encoder), settings.sequence)
    generator.denoising_net = mortal
    try:
        found = maker.coefficients(torch.from_numpy(samples), seeded_noise(settings.seed), watch)
    finally:
        generator.denoising_net = whole
    motion = smoothed(motion_of(found, talker.template, kp), settings.smoothing)
    return Spoken(motion, tuple(maker.faults), maker.windows_of(len(samples)))
