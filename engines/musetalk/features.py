"""Sound windows to frames' tokens by log-mel and whisper-tiny's encoder. Each window alone: company changes nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from engines.logmel import HOP_SAMPLES
from engines.musetalk.mel import LogMel
from engines.musetalk.whisper import MEL_FRAMES
from engines.musetalk.windows import (
    AROUND_STEPS,
    FRAME_STEP,
    TOKENS,
    WIDTH,
    WINDOW_SAMPLES,
    WINDOW_STEPS,
    positions,
)

F32 = npt.NDArray[np.float32]


class FeatureExtractor:
    """(n, WINDOW_SAMPLES) f32 to (n, 50, 384) f32, one encoder pass for the whole batch.

    By default the encoder sees each window padded to 30 s, as it was trained; `short` gives it the window alone:
    a fourteenth of the work and other numbers, whose effect on faces nobody has measured.
    """

    def __init__(
        self, encoder: nn.Module, device: str = "cpu", *, short: bool = False, positioned: bool = False
    ) -> None:
        """positioned: with the tokens' positions added, for a UNet that does not add them itself."""
        self._encoder = encoder.eval().to(device)
        self._device = torch.device(device)
        self._dtype = next(encoder.parameters()).dtype
        frames = WINDOW_SAMPLES // HOP_SAMPLES if short else MEL_FRAMES
        self._mel = LogMel(frames).to(device)
        self._positions = positions() if positioned else np.float32(0.0)

    def __call__(self, windows: F32) -> F32:
        with torch.inference_mode():
            mel = self._mel(torch.from_numpy(windows).to(self._device))
            states = self._encoder(mel.to(self._dtype))
            first = FRAME_STEP - AROUND_STEPS
            tokens = states[:, first : first + WINDOW_STEPS].reshape(len(windows), TOKENS, WIDTH)
            return np.asarray(tokens.float().cpu().numpy() + self._positions)
