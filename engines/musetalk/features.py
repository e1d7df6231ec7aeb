"""Sound windows to frames' tokens by log-mel and whisper-tiny's encoder. Each window alone: company changes nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from engines.contract import ANALYSIS_HZ
from engines.logmel import log_mel
from engines.musetalk.whisper import SECONDS
from engines.musetalk.windows import AROUND_STEPS, FRAME_STEP, TOKENS, WIDTH, WINDOW_SAMPLES, WINDOW_STEPS

F32 = npt.NDArray[np.float32]


class FeatureExtractor:
    """(n, WINDOW_SAMPLES) f32 to (n, 50, 384) f32, one encoder pass for the whole batch.

    By default the encoder sees each window padded to 30 s, as it was trained; `short` gives it the window alone:
    a fourteenth of the work and other numbers, whose effect on faces nobody has measured.
    """

    def __init__(self, encoder: nn.Module, device: str = "cpu", *, short: bool = False) -> None:
        self._encoder = encoder.eval().to(device)
        self._device = torch.device(device)
        self._dtype = next(encoder.parameters()).dtype
        self._total_samples = WINDOW_SAMPLES if short else SECONDS * ANALYSIS_HZ

    def __call__(self, windows: F32) -> F32:
        mel = np.stack([log_mel(window, self._total_samples) for window in windows])
        with torch.inference_mode():
            states = self._encoder(torch.from_numpy(mel).to(self._device, self._dtype))
            first = FRAME_STEP - AROUND_STEPS
            tokens = states[:, first : first + WINDOW_STEPS].reshape(len(windows), TOKENS, WIDTH)
            return np.asarray(tokens.float().cpu().numpy())
