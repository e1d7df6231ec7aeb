"""From encoder states to the (50, 384) tokens of a video frame, and which sound that takes. Pure numpy.

Frame i takes the ten steps of 20 ms from 80 ms before it to 80 ms after its end; each step has five hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from engines.contract import ANALYSIS_HZ, FPS, FRAME_SAMPLES_16K

F32 = npt.NDArray[np.float32]

STEP_SAMPLES = ANALYSIS_HZ // 50
STEPS_A_FRAME = FRAME_SAMPLES_16K // STEP_SAMPLES
AROUND_STEPS = 4
"""Steps before a frame and after it."""
WINDOW_STEPS = 2 * AROUND_STEPS + STEPS_A_FRAME
LAYERS = 5
TOKENS = WINDOW_STEPS * LAYERS
WIDTH = 384
LOOKAHEAD_SAMPLES = AROUND_STEPS * STEP_SAMPLES
CONTEXT_SAMPLES = 80 * STEP_SAMPLES
"""1.6 s of sound before the frame, for the encoder's sake; a whole number of steps."""
WINDOW_SAMPLES = CONTEXT_SAMPLES + FRAME_SAMPLES_16K + LOOKAHEAD_SAMPLES
FRAME_STEP = CONTEXT_SAMPLES // STEP_SAMPLES
"""The frame's first step in its own window."""


def frame_count(samples: int, fps: int = FPS) -> int:
    """Video frames of so many samples, in whole numbers."""
    return samples * fps // ANALYSIS_HZ


def step_count(samples: int) -> int:
    """Encoder steps of so many samples, in whole numbers."""
    return samples // STEP_SAMPLES


def frame_tokens(states: F32, first_step: int) -> F32:
    """(steps, 5, 384) and the frame's first step to its (50, 384), step-major; zeros outside the states."""
    wanted = first_step - AROUND_STEPS
    inside = states[max(0, wanted) : max(0, wanted + WINDOW_STEPS)]
    whole = np.zeros((WINDOW_STEPS, *states.shape[1:]), np.float32)
    offset = max(0, -wanted)
    whole[offset : offset + len(inside)] = inside
    return whole.reshape(-1, states.shape[2])


def recorded_tokens(states: F32, samples: int, fps: int = FPS) -> F32:
    """All frames of a whole recording: states (steps, 5, 384), of its `samples` at 16 kHz, to (frames, 50, 384).

    States are cut to the recording's own steps. 50 must be a multiple of fps, or frames take the step below.
    """
    kept = states[: step_count(samples)]
    starts = (index * 50 // fps for index in range(frame_count(samples, fps)))
    return np.stack([frame_tokens(kept, start) for start in starts]) if frame_count(samples, fps) else np.zeros(
        (0, TOKENS, states.shape[2]), np.float32
    )  # fmt: skip


def positions() -> F32:
    """(50, 384) f32, added to a frame's tokens: sines in even columns, cosines in odd ones."""
    rates = np.exp(np.arange(0, WIDTH, 2) * (-np.log(10_000.0) / WIDTH))
    angles = np.arange(TOKENS)[:, None] * rates
    table = np.empty((TOKENS, WIDTH), np.float64)
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table.astype(np.float32)


class FeatureStream:
    """Sound as it comes to frames' tokens, one after the other: how it was cut changes nothing.

    `encode` takes (n, WINDOW_SAMPLES) f32 to (n, 50, 384): see features.FeatureExtractor.
    """

    def __init__(self, encode: Callable[[F32], F32]) -> None:
        self._encode = encode
        self._samples = np.zeros(CONTEXT_SAMPLES, np.float32)

    def push(self, samples: F32) -> F32:
        """(n,) f32 at 16 kHz more; (k, 50, 384) of the frames whose look-ahead is there now."""
        self._samples = np.concatenate([self._samples, samples])
        windows = list(self._whole())
        return self._encode(np.stack(windows)) if windows else np.zeros((0, TOKENS, WIDTH), np.float32)

    def finish(self) -> F32:
        """The last frames, silence behind them."""
        return self.push(np.zeros(LOOKAHEAD_SAMPLES, np.float32))

    def _whole(self) -> Iterator[F32]:
        while len(self._samples) >= WINDOW_SAMPLES:
            yield self._samples[:WINDOW_SAMPLES].copy()
            self._samples = self._samples[FRAME_SAMPLES_16K:]
