"""Plays a finished file to itself: what timestamps, rounding and coding did to it shows only afterwards."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

from streamer.media import FPS

_SMALL_PX = 64
_BLACK_LEVEL = 8.0


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a player would find."""

    frames: int
    video_seconds: float
    audio_seconds: float
    first_video_s: float
    first_audio_s: float
    uneven_frames: int
    """Frames whose distance from the one before is not 40 ms, to the millisecond."""
    black_frames: int
    flicker: float
    """Share of change that goes back and forth, 0..1."""
    mean_change: float
    """Grey levels from frame to frame: 0 is a still picture."""

    @property
    def faults(self) -> list[str]:
        """What is wrong, in words."""
        found = []
        if self.uneven_frames:
            found.append(f"{self.uneven_frames} frames are unevenly spaced")
        if self.black_frames:
            found.append(f"{self.black_frames} frames are black")
        if abs(self.video_seconds - self.audio_seconds) > 1.5 / FPS + 0.03:
            found.append(f"sound and picture differ by {abs(self.video_seconds - self.audio_seconds):.3f} s in length")
        if abs(self.first_video_s - self.first_audio_s) > 0.045:
            found.append(f"sound and picture start {abs(self.first_video_s - self.first_audio_s):.3f} s apart")
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain values for the report."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()} | {
            "faults": self.faults
        }


def inspect(path: Path) -> Inspection:
    """Decode all of a file."""
    times: list[Fraction] = []
    greys: list[npt.NDArray[np.float32]] = []
    heard: list[tuple[float, float]] = []
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        for picture in container.decode(video=0):
            times.append(Fraction(picture.pts or 0) * (picture.time_base or Fraction(1, FPS)))
            grey = picture.reformat(format="gray").to_ndarray()
            small = cv2.resize(grey, (_SMALL_PX, _SMALL_PX), interpolation=cv2.INTER_AREA)
            greys.append(np.asarray(small, np.float32))
    with av.open(str(path)) as container:
        for sound in container.decode(audio=0):
            if sound.time is not None:
                heard.append((sound.time, sound.time + sound.samples / sound.sample_rate))
    steps = np.diff([float(t) for t in times])
    pictures = np.stack(greys) if greys else np.zeros((0, _SMALL_PX, _SMALL_PX), np.float32)
    first = np.diff(pictures, axis=0)
    return Inspection(
        frames=len(times),
        video_seconds=float(times[-1] - times[0]) + 1 / FPS if times else 0.0,
        audio_seconds=heard[-1][1] - max(0.0, heard[0][0]) if heard else 0.0,
        first_video_s=float(times[0]) if times else 0.0,
        first_audio_s=max(0.0, heard[0][0]) if heard else 0.0,
        uneven_frames=int((np.abs(steps - 1 / FPS) > 0.0011).sum()),
        black_frames=int((pictures.mean((1, 2)) < _BLACK_LEVEL).sum()) if len(pictures) else 0,
        flicker=_back_and_forth(first),
        mean_change=float(np.abs(first).mean()) if len(first) else 0.0,
    )


def _back_and_forth(steps: np.ndarray[Any, np.dtype[np.float32]]) -> float:
    if len(steps) < 2:
        return 0.0
    total = float(np.abs(steps[1:]).mean() + np.abs(steps[:-1]).mean())
    return 1.0 - float(np.abs(steps[1:] + steps[:-1]).mean()) / total if total > 0 else 0.0
