"""MuseTalk's stages at full size with made-up weights, to be timed: numbers, no faces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from engines.logmel import HOP_SAMPLES
from engines.musetalk import weights
from engines.musetalk.export import drawn_inputs, stage_network
from engines.musetalk.features import FeatureExtractor
from engines.musetalk.stages import FULL
from engines.musetalk.whisper import MEL_FRAMES
from engines.musetalk.windows import WINDOW_SAMPLES

STAGES = ("features", "features_short", "unet", "decoder")
_SHORT_FRAMES = WINDOW_SAMPLES // HOP_SAMPLES


class Stages:
    """One set of networks on one thread of the CPU, or on CUDA."""

    def __init__(self, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        torch.set_num_threads(1)
        nets = weights.seeded(FULL)
        self._device, self._dtype = torch.device(device), dtype
        self._whisper = nets.whisper.to(device, dtype)
        self._networks = {stage: stage_network(stage, nets).to(device, dtype) for stage in ("unet", "decoder")}

    def call(self, stage: str, batch: int) -> Callable[[], object]:
        """One pass of a stage over so many frames, features one window a frame."""
        if stage.startswith("features"):
            frames = MEL_FRAMES if stage == "features" else _SHORT_FRAMES
            mel = torch.zeros(batch, 80, frames, device=self._device, dtype=self._dtype)
            return lambda: self._run(self._whisper, (mel,))
        inputs = tuple(t.to(self._device, self._dtype) for t in drawn_inputs(stage, batch))
        return lambda: self._run(self._networks[stage], inputs)

    def short_audio_difference(self) -> tuple[float, float]:
        """Mean absolute difference of a frame's tokens when the encoder sees the window alone, and their mean size."""
        chance = np.random.default_rng(0)
        sound = (0.1 * chance.normal(size=(4, WINDOW_SAMPLES))).astype(np.float32)
        device = str(self._device)
        whole, short = (FeatureExtractor(self._whisper, device, short=s)(sound) for s in (False, True))
        return float(np.abs(whole - short).mean()), float(np.abs(whole).mean())

    def _run(self, network: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> object:
        with torch.inference_mode():
            return network(*inputs)
