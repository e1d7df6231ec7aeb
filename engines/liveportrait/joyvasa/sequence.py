"""Sound of any length to motion, window by window: each window starts from the frames before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from engines.liveportrait.joyvasa.audio import FRAME_SAMPLES, HiddenStates, audio_features
from engines.liveportrait.joyvasa.motion_generator import Context, Guidance, MotionGenerator, Noise


@dataclass(frozen=True, slots=True)
class SequenceSettings:
    """How sound is cut into windows."""

    lead_in_samples: int = 1280
    """Silence put in front: the published checkpoint heard it so. Motion of it is cut off again."""
    lead_out_samples: int = 640
    guidance: Guidance = field(default_factory=Guidance)
    reuse_start: bool = True
    """Every window starts from the same noise, as published; False draws anew."""
    keep_lead: bool = False
    """As published: motion of the lead-in stays (80 ms late), and a last partial frame is dropped."""


@dataclass(frozen=True, slots=True)
class WindowFault:
    """A window that came out unusable."""

    index: int
    reason: str
    """What was wrong: "not finite", or the failure's own words."""
    retried: bool
    """The second try, with other noise, was good; else its frames hold the last good one."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What one window gave, for whoever watches."""

    index: int
    count: int
    motion: Tensor
    """(1, L, 70)"""
    audio: Tensor
    """(1, L, F)"""


class SequenceGenerator:
    """Makes coefficients for whole recordings. Deterministic in its noise."""

    def __init__(self, generator: MotionGenerator, encode: HiddenStates, settings: SequenceSettings) -> None:
        self._generator = generator
        self._encode = encode
        self._settings = settings
        self.faults: list[WindowFault] = []
        """What went wrong since this object was made."""

    def frames_of(self, samples: int) -> int:
        """How many frames come of this much sound."""
        settings = self._settings
        if settings.keep_lead:
            return (samples + settings.lead_in_samples + settings.lead_out_samples) // FRAME_SAMPLES
        return -(-samples // FRAME_SAMPLES)

    def windows_of(self, samples: int) -> int:
        """How many windows that takes."""
        return -(-self._frames_with_lead(samples) // self._generator.sizes.n_motions) or 1

    def coefficients(self, audio: Tensor, noise: Noise, on_window: Callable[[Window], None] | None = None) -> Tensor:
        """(frames, 70) for sound (samples,) f32 at 16 kHz."""
        settings, sizes = self._settings, self._generator.sizes
        count = self.windows_of(len(audio))
        length = count * sizes.n_motions * FRAME_SAMPLES
        sound = functional.pad(audio, (settings.lead_in_samples, settings.lead_out_samples))
        sound = functional.pad(sound, (0, max(0, length - len(sound))))[:length]
        shape = (1, sizes.n_motions, sizes.motion_feat_dim)
        context, start, parts = self._generator.start(), noise(shape), []
        with torch.inference_mode():
            for index in range(count):
                if index and not settings.reuse_start:
                    start = noise(shape)
                heard = sound[index * sizes.n_motions * FRAME_SAMPLES : (index + 1) * sizes.n_motions * FRAME_SAMPLES]
                features = audio_features(self._generator, self._encode, heard[None], sizes.n_motions)
                motion = self._window(index, features, context, start, noise)
                context = Context(motion[:, -sizes.n_prev_motions :], features[:, -sizes.n_prev_motions :])
                parts.append(motion[0])
                if on_window is not None:
                    on_window(Window(index, count, motion, features))
        whole = torch.cat(parts)[: self._frames_with_lead(len(audio))]
        return (
            whole if settings.keep_lead else whole[self._lead_frames : self._lead_frames + self.frames_of(len(audio))]
        )

    def _window(self, index: int, features: Tensor, context: Context, start: Tensor, noise: Noise) -> Tensor:
        """Motion (1, L, 70) of one window: sampled, sampled once more where that failed, else the last frame held."""
        reason = "not finite"
        for attempt in range(2):
            begin = start if attempt == 0 else noise(tuple(start.shape))
            try:
                motion = self._generator.sample(features, context, begin, noise, self._settings.guidance)
            except RuntimeError as error:  # torch's own: out of memory, a dead device
                reason = str(error).split("\n", 1)[0]
                continue
            if bool(torch.isfinite(motion).all()):
                if attempt:
                    self.faults.append(WindowFault(index, reason, True))
                return motion
        self.faults.append(WindowFault(index, reason, False))
        return context.motion[:, -1:].expand(-1, self._generator.sizes.n_motions, -1)

    @property
    def _lead_frames(self) -> int:
        return self._settings.lead_in_samples // FRAME_SAMPLES

    def _frames_with_lead(self, samples: int) -> int:
        if self._settings.keep_lead:
            return self.frames_of(samples)
        return self.frames_of(samples) + self._lead_frames


def seeded_noise(seed: int) -> Noise:
    """Unit normal values that depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)

    def draw(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=generator)

    return draw
