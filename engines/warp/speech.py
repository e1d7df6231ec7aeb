"""Audio to mouth: log-mel frames and a small causal network, in numpy. Knows sound and six numbers, no picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from engines.contract import ANALYSIS_HZ, FRAME_SAMPLES_16K
from engines.errors import EngineContract

F32 = npt.NDArray[np.float32]

WEIGHTS = "mouth_net.safetensors"
HOP_SAMPLES = 160
MEL_WINDOW_SAMPLES = 400
FFT_SAMPLES = 512
MEL_BANDS = 40
MEL_LOW_HZ, MEL_HIGH_HZ = 60.0, 7600.0
POWER_FLOOR = 1e-6
SMOOTHING = np.array([0.25, 0.5, 0.25], np.float32)
"""Weights of the network's words for 10 ms before, in and 10 ms after the middle of the frame: symmetric, so no lag."""


PRESENCE = ("hidden.weight", "hidden.bias", "out.weight", "out.bias")
"""Weights that say whether one voice stands out, under `presence.` in the file."""


def shipped_weights() -> Path:
    """Where the weights lie in this installation; training writes them there."""
    with resources.as_file(resources.files("engines.warp").joinpath(WEIGHTS)) as path:
        return path


def header_of(body: bytes) -> dict[str, str]:
    """What a weights file says of itself."""
    header: dict[str, str] = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]
    return header


def mel_filters(warp: float = 1.0) -> F32:
    """(257, MEL_BANDS) f32 triangles on the mel scale; `warp` stretches the frequency axis, as a short throat would."""
    low, high = (2595.0 * math.log10(1.0 + hz / 700.0) for hz in (MEL_LOW_HZ, MEL_HIGH_HZ))
    edges_hz = 700.0 * (10.0 ** (np.linspace(low, high, MEL_BANDS + 2) / 2595.0) - 1.0)
    # Above a knee the warp eases back, so that the top of the band stays inside what was recorded.
    knee_hz = 4800.0 / max(warp, 1.0)
    slope = (MEL_HIGH_HZ - knee_hz * warp) / (MEL_HIGH_HZ - knee_hz)
    edges_hz = np.where(edges_hz < knee_hz, edges_hz * warp, MEL_HIGH_HZ - (MEL_HIGH_HZ - edges_hz) * slope)
    bins_hz = np.arange(FFT_SAMPLES // 2 + 1) * ANALYSIS_HZ / FFT_SAMPLES
    left, centre, right = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    rising = (bins_hz[:, None] - left) / (centre - left)
    falling = (right - bins_hz[:, None]) / (right - centre)
    return np.maximum(0.0, np.minimum(rising, falling)).astype(np.float32)


_HANN = np.hanning(MEL_WINDOW_SAMPLES).astype(np.float32)
_FILTERS = mel_filters()


def log_mel(samples: F32, filters: F32 = _FILTERS) -> F32:
    """(..., n) f32 at 16 kHz -> (..., 1 + (n - 400) // 160, MEL_BANDS) log power, one row for each 10 ms."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, MEL_WINDOW_SAMPLES, axis=-1)[..., ::HOP_SAMPLES, :]
    spectrum = np.fft.rfft(frames * _HANN, FFT_SAMPLES)
    power = spectrum.real**2 + spectrum.imag**2
    rows: F32 = np.log(power.astype(np.float32) @ filters + np.float32(POWER_FLOOR))
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """A dilated causal convolution of three taps, then a pointwise one, added to what came in."""

    dilation: int
    taps: F32
    """(3 * channels, channels): oldest tap first."""
    taps_bias: F32
    point: F32
    """(channels, channels)."""
    point_bias: F32


class Reading(NamedTuple):
    """What the network says of some moments, one row each."""

    shapes: F32
    """(..., 6) f32 0..1: open, wide, round, fv, press, tongue."""
    visemes: F32
    """(..., 14) f32: probabilities."""
    presence: F32
    """(...) f32 0..1: whether one voice stands out. The shapes are already shut by it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Presence:
    """Whether one voice stands out, from 0 to 1: two small layers over what the network made of the sound."""

    hidden: F32
    """(channels + 2 * channels, width): its last layer, then mean and spread of its first over all it looked at."""
    hidden_bias: F32
    out: F32
    """(width,)."""
    out_bias: F32

    @classmethod
    def of(cls, weights: Mapping[str, F32]) -> _Presence | None:
        """None where the file has none: then all sound counts as somebody speaking."""
        if f"presence.{PRESENCE[0]}" not in weights:
            return None
        hidden = np.ascontiguousarray(weights["presence.hidden.weight"].T)
        return cls(
            hidden, weights["presence.hidden.bias"], weights["presence.out.weight"], weights["presence.out.bias"]
        )

    def __call__(self, heard: F32) -> F32:
        """(B, T, 3 * channels) -> (B, T, 1)."""
        inner = _rectified(heard @ self.hidden + self.hidden_bias)
        return _sigmoid(inner @ self.out + self.out_bias)[..., None]


class MouthNet:
    """Mouth shapes from windows of sound. Stateless and read-only: any thread may call it."""

    def __init__(self, weights: Mapping[str, F32], dilations: tuple[int, ...], lookahead_frames: int) -> None:
        """`weights` as written by `engines.warp.training`; raises EngineContract where they do not fit together."""
        self._mean, self._scale = weights["mean"], weights["scale"]
        self._input, self._input_bias = _taps(weights["input.weight"]), weights["input.bias"]
        self._blocks = tuple(
            _Block(
                dilation=dilation,
                taps=_taps(weights[f"blocks.{i}.dilated.weight"]),
                taps_bias=weights[f"blocks.{i}.dilated.bias"],
                point=np.ascontiguousarray(weights[f"blocks.{i}.point.weight"][:, :, 0].T),
                point_bias=weights[f"blocks.{i}.point.bias"],
            )
            for i, dilation in enumerate(dilations)
        )
        self._shape, self._shape_bias = np.ascontiguousarray(weights["shape.weight"][:, :, 0].T), weights["shape.bias"]
        self._viseme, self._viseme_bias = (
            np.ascontiguousarray(weights["viseme.weight"][:, :, 0].T),
            weights["viseme.bias"],
        )
        self._gain, self._floor = weights["gain"], weights["floor"]
        self._presence = _Presence.of(weights)
        if self._input.shape[0] != 3 * MEL_BANDS:
            raise EngineContract("mouth_net input.weight", f"3 x {MEL_BANDS} inputs", str(self._input.shape))
        self.lookahead_rows = lookahead_frames
        self.history = history = 2 + 2 * sum(dilations)
        """Mel rows the network looks back from its newest one."""
        reach = len(SMOOTHING) // 2
        middle, half = FRAME_SAMPLES_16K // 2, MEL_WINDOW_SAMPLES // 2
        self.context_samples = (history - lookahead_frames + reach) * HOP_SAMPLES + half - middle
        """16 kHz samples needed before the frame's first sample."""
        self.lookahead_samples = (lookahead_frames + reach) * HOP_SAMPLES + half - middle
        """16 kHz samples needed after the frame's last sample: the engine's whole algorithmic delay."""

    @classmethod
    def load(cls) -> MouthNet:
        """The network that ships beside this file."""
        return cls.read(resources.files("engines.warp").joinpath(WEIGHTS).read_bytes())

    @classmethod
    def read(cls, body: bytes) -> MouthNet:
        """The network in a weights file that `engines.warp.training` wrote."""
        header = header_of(body)
        weights = {name: value.astype(np.float32) for name, value in safetensors.numpy.load(body).items()}
        dilations = tuple(int(d) for d in header["dilations"].split())
        return cls(weights, dilations, int(header["lookahead_frames"]))

    @property
    def window_samples(self) -> int:
        """Length of a window: context, one frame, look-ahead."""
        return self.context_samples + FRAME_SAMPLES_16K + self.lookahead_samples

    def shapes(self, windows: F32) -> F32:
        """(B, window_samples) f32 in -1..1 -> (B, 6) f32 0..1: open, wide, round, fv, press, tongue in mid-frame.

        Raises EngineContract for another length.
        """
        return self.hear(windows).shapes

    def hear(self, windows: F32) -> Reading:
        """As `shapes`, with all else the network says of mid-frame; B rows of each."""
        if windows.ndim != 2 or windows.shape[1] != self.window_samples:
            raise EngineContract("mouth_net windows", f"(B, {self.window_samples})", str(windows.shape))
        said = self._said(log_mel(windows))
        return Reading(said.shapes[:, 0], said.visemes[:, 0], said.presence[:, 0])

    def along(self, samples: F32) -> tuple[F32, F32]:
        """(n,) f32, n >= window_samples -> (m, 6) shapes and (m, 14) viseme probabilities, a row for each 10 ms.

        Row i equals the window that starts at sample 160 * i. For scoring and finished recordings.
        """
        if samples.ndim != 1 or len(samples) < self.window_samples:
            raise EngineContract("mouth_net samples", f"(n >= {self.window_samples},)", str(samples.shape))
        said = self._said(log_mel(samples[None]))
        return said.shapes[0], said.visemes[0]

    def _said(self, mel: F32) -> Reading:
        """(B, rows, MEL_BANDS) -> (B, rows - history - 2, ...): smoothed; doubts and crowds shut the mouth."""
        layers = self.layers(mel)
        last = layers[..., : len(self._shape)]
        smooth = _smoothed(_sigmoid(last @ self._shape + self._shape_bias))
        shapes = np.clip((smooth - self._floor) * self._gain, 0.0, 1.0)
        scores = last @ self._viseme + self._viseme_bias
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        presence = np.ones_like(shapes[..., 0])
        if self._presence is not None:
            presence = _smoothed(self._presence(layers))[..., 0]
        shapes = (shapes * presence[..., None]).astype(np.float32)
        return Reading(shapes, _smoothed(odds / odds.sum(axis=-1, keepdims=True)), presence)

    def opening(self, layers: F32) -> F32:
        """(..., 3 * channels) -> (...): how far the mouth would open by this row alone, whoever speaks."""
        logits = layers[..., : len(self._shape)] @ self._shape[:, 0] + self._shape_bias[0]
        opening: F32 = np.clip((_sigmoid(logits) - self._floor[0]) * self._gain[0], 0.0, 1.0)
        return opening

    def layers(self, mel: F32) -> F32:
        """(B, rows, MEL_BANDS) log-mel -> (B, T, 3 * channels), T = rows - history: 3 for a window, 1 more each 10 ms.

        The last layer, then mean and spread of the first over all the rows it comes from.
        """
        first = _rectified(_convolve((mel - self._mean) * self._scale, self._input, self._input_bias, 1))
        x = first
        for block in self._blocks:
            inner = _rectified(_convolve(x, block.taps, block.taps_bias, block.dilation))
            x = x[:, 2 * block.dilation :] + inner @ block.point + block.point_bias
        over = np.lib.stride_tricks.sliding_window_view(first, first.shape[1] - x.shape[1] + 1, axis=1)
        mean = over.mean(axis=-1)
        spread = np.sqrt(np.maximum((over * over).mean(axis=-1) - mean * mean, 0.0))
        return np.concatenate([x, mean, spread], axis=-1)


def _smoothed(steps: F32) -> F32:
    """(B, T, k) -> (B, T - 2, k): each row with its neighbours, by `SMOOTHING`."""
    count = steps.shape[1] - len(SMOOTHING) + 1
    smooth: F32 = sum(SMOOTHING[k] * steps[:, k : k + count] for k in range(len(SMOOTHING)))
    return smooth


def _taps(weight: F32) -> F32:
    """(out, in, 3) as torch keeps it -> (3 * in, out) for one matrix product."""
    return np.ascontiguousarray(weight.transpose(2, 1, 0).reshape(-1, weight.shape[0]))


def _convolve(x: F32, taps: F32, bias: F32, dilation: int) -> F32:
    """(B, T, in) -> (B, T - 2 * dilation, out): three taps `dilation` rows apart, no padding."""
    length = x.shape[1] - 2 * dilation
    stacked = np.concatenate([x[:, k * dilation : k * dilation + length] for k in range(3)], axis=2)
    result: F32 = stacked @ taps + bias
    return result


def _rectified(x: F32) -> F32:
    result: F32 = np.maximum(x, np.float32(0.0), out=x)
    return result


def _sigmoid(x: F32) -> F32:
    result: F32 = 0.5 * (1.0 + np.tanh(0.5 * x))
    return result
