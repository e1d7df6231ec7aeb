"""Faults on purpose, so that anybody can see what a render does about them: nan@12, jump@20x2, denoiser@1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

KINDS = ("nan", "jump", "denoiser")
_WORD = re.compile(r"^(nan|jump|denoiser)@(\d+)(?:x(\d+))?$")
_JUMP = 0.5


class Faults:
    """What to spoil: KIND@WHERE, or KIND@WHERExTIMES. WHERE is a frame for nan and jump, a window for denoiser."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._left: Counter[tuple[str, int]] = Counter()
        for word in words:
            match = _WORD.match(word)
            if match is None:
                raise ValueError(f"{word!r} is none of {', '.join(f'{k}@N' for k in KINDS)}, with xN for N times")
            self._left[match[1], int(match[2])] += int(match[3] or 1)

    def strikes(self, kind: str, where: int) -> bool:
        """Whether this one is to fail now; counts it off."""
        if self._left[kind, where] <= 0:
            return False
        self._left[kind, where] -= 1
        return True

    def spoil_rendering(self, frame: int, keypoints: Tensor) -> Tensor:
        """Keypoints on their way to the network: not a number, where this frame is to fail."""
        return torch.full_like(keypoints, float("nan")) if self.strikes("nan", frame) else keypoints

    def spoil_motion(self, frame: int, keypoints: Tensor) -> Tensor:
        """Keypoints of a frame, half a picture away where this frame is to jump."""
        return keypoints + _JUMP if self.strikes("jump", frame) else keypoints


class MortalDenoiser(nn.Module):
    """A denoiser that dies at the first step of windows that are to fail."""

    def __init__(self, denoiser: nn.Module, faults: Faults, steps: int) -> None:
        super().__init__()
        self._denoiser = denoiser
        self._faults = faults
        self._steps = steps
        self.window = 0
        """Which window is being made; whoever makes them says so."""

    def forward(self, motion: Tensor, audio: Tensor, prev_motion: Tensor, prev_audio: Tensor, step: Tensor) -> Tensor:
        if int(step[0]) == self._steps and self._faults.strikes("denoiser", self.window):
            raise RuntimeError("the denoiser is dead (fault on purpose)")
        found: Tensor = self._denoiser(motion, audio, prev_motion, prev_audio, step)
        return found
