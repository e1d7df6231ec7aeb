"""The log-mel of engines.logmel for many windows at once, where the encoder runs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engines.logmel import FLOOR, HOP_SAMPLES, RANGE_DECADES, SILENT_TAIL_SAMPLES, WINDOW_SAMPLES, filters, hann


class LogMel(nn.Module):
    """(B, n) f32 at 16 kHz to (B, 80, frames) f32: silence behind each window, up to `frames` of 10 ms."""

    hann: Tensor
    filters: Tensor

    def __init__(self, frames: int) -> None:
        super().__init__()
        self._frames = frames
        self.register_buffer("hann", torch.from_numpy(hann()).float(), persistent=False)
        self.register_buffer("filters", torch.from_numpy(filters()).float().T.contiguous(), persistent=False)

    def forward(self, windows: Tensor) -> Tensor:
        longer = windows.shape[1] < self._frames * HOP_SAMPLES
        sound = nn.functional.pad(windows, (0, SILENT_TAIL_SAMPLES)) if longer else windows
        spectrum = torch.stft(
            sound, WINDOW_SAMPLES, HOP_SAMPLES, window=self.hann, center=True, pad_mode="reflect", return_complex=True
        )  # fmt: skip
        decades = (self.filters @ spectrum[:, :, :-1].abs().square()).clamp_min(FLOOR).log10()
        loudest = decades.amax(dim=(1, 2), keepdim=True)
        mel = (torch.maximum(decades, loudest - RANGE_DECADES) + 4.0) / 4.0
        more = self._frames - mel.shape[2]
        return mel if more <= 0 else torch.cat([mel, mel[:, :, -1:].expand(-1, -1, more)], dim=2)
