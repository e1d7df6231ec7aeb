"""What an engine offers for rendering to a file: a planned clip, its keyframes, its finished frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
Arrays = dict[str, npt.NDArray[Any]]
OnStep = Callable[[str, int, int], None]
"""Hears a stage's name, how much of it is done, and how much there is."""


class Take(Protocol):
    """One portrait, one motion. The job calls on one thread: plan or restore, keyframes, key or accept, frame."""

    @property
    def name(self) -> str: ...

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height of the finished frames, even."""
        ...

    def plan(self, on_step: OnStep) -> None:
        """Work out the motion; slow."""
        ...

    def planned(self) -> Arrays:
        """The plan as arrays."""
        ...

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take up a plan of an earlier run."""
        ...

    @property
    def frame_count(self) -> int: ...

    def keyframes(self) -> list[int]:
        """Ascending indices of frames to render, the first and the last frame among them."""
        ...

    def key(self, index: int) -> U8:
        """A keyframe's picture, of whatever size; slow. Raises EngineOutput where there is none to show."""
        ...

    def accept(self, index: int, picture: U8) -> None:
        """A keyframe's picture from an earlier run stands."""
        ...

    def frame(self, index: int, before: tuple[int, U8], after: tuple[int, U8]) -> U8:
        """The finished frame (H, W, 3) u8 RGB between two keyframes and their pictures."""
        ...

    def close_clip(self, voiced: npt.NDArray[np.bool_]) -> None:
        """Look at the clip as a whole; `voiced` (n,): somebody speaks in this frame."""
        ...

    def account(self) -> dict[str, Any]:
        """Counts, findings and settings for the report, as plain values."""
        ...
