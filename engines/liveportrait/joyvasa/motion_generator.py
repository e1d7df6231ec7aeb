"""The published motion generator as one state dictionary, and its sampler: noise to motion, guided by sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engines.liveportrait.joyvasa.denoiser import Denoiser, DenoiserSizes
from engines.liveportrait.joyvasa.schedule import DiffusionSchedule

AUDIO_FEATURES = 768
Noise = Callable[[tuple[int, ...]], Tensor]
"""Unit normal values of a shape, in the order in which they are asked for."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """How the sound steers. `scale` 1 is plain conditioning, more exaggerates; None listens without a null branch."""

    scale: float | None = 2.8
    flexibility: float = 0.0
    dynamic_threshold: tuple[float, float, float] | None = None
    """(quantile, least, most): clamp predictions to a quantile of their own size."""
    steps: int | None = None
    """So many of the diffusion steps, evenly spread; None: all that the generator was trained with."""


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The last P frames before a window."""

    motion: Tensor
    """(N, P, 70)"""
    audio: Tensor
    """(N, P, F)"""


class MotionGenerator(nn.Module):
    """Denoiser, schedule and the learnt start and null features. Names are those of the published checkpoint."""

    def __init__(self, sizes: DenoiserSizes, steps: int = 50) -> None:
        super().__init__()
        self.sizes = sizes
        features, context = sizes.feature_dim, sizes.n_prev_motions
        self.start_audio_feat = nn.Parameter(torch.zeros(1, context, features))
        self.start_motion_feat = nn.Parameter(torch.zeros(1, context, sizes.motion_feat_dim))
        self.null_audio_feat = nn.Parameter(torch.zeros(1, 1, features))
        self.audio_feature_map = nn.Linear(AUDIO_FEATURES, features)
        self.denoising_net = Denoiser(sizes)
        self.diffusion_sched = DiffusionSchedule(steps)

    def start(self, batch: int = 1) -> Context:
        """The context before the first window."""
        return Context(self.start_motion_feat.expand(batch, -1, -1), self.start_audio_feat.expand(batch, -1, -1))

    def sample(
        self,
        audio: Tensor,
        context: Context,
        start: Tensor,
        noise: Noise,
        guidance: Guidance,
        on_step: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """Clean motion (N, L, 70) for audio features (N, L, F), from noise `start` (N, L, 70); L as wanted.

        `on_step(t, motion)` hears the signal after each step, t from steps - 1 down to 0.
        """
        schedule, frames = self.diffusion_sched, audio.shape[1]
        if guidance.steps is not None:
            schedule = schedule.thinned(min(guidance.steps, schedule.steps))
        branches = 1 if guidance.scale is None else 2
        heard = audio if branches == 1 else torch.cat([self.null_audio_feat.expand_as(audio), audio])
        before_motion, before_audio = (x.repeat(branches, 1, 1) for x in (context.motion, context.audio))
        motion = start
        for t in range(schedule.steps, 0, -1):
            step = torch.full((branches * len(audio),), schedule.times[t], dtype=torch.int64, device=audio.device)
            found = self.denoising_net(motion.repeat(branches, 1, 1), heard, before_motion, before_audio, step)
            if guidance.dynamic_threshold is not None:
                found = _clamped(found, frames, guidance.dynamic_threshold)
            clean = found[:, -frames:]
            if guidance.scale is not None:
                without, with_sound = clean.chunk(2)
                clean = without + guidance.scale * (with_sound - without)
            unit = noise(tuple(motion.shape)) if t > 1 else torch.zeros_like(motion)
            motion = schedule.step(motion, clean, t, unit, guidance.flexibility)
            if on_step is not None:
                on_step(t - 1, motion)
        return motion


def _clamped(found: Tensor, frames: int, threshold: tuple[float, float, float]) -> Tensor:
    quantile, least, most = threshold
    size = torch.quantile(found[:, -frames:].flatten(1).abs(), quantile, dim=1).clamp(least, most)[:, None, None]
    return torch.maximum(torch.minimum(found, size), -size)
