"""An interlude: a named clip of the avatar laid over the pictures for its length, dissolved in and out. Pure."""

from __future__ import annotations

from typing import Protocol

import cv2
import numpy as np

from streamer.media import U8

DISSOLVE_FRAMES = 3


class Clip(Protocol):
    """A clip at the size that is streamed."""

    @property
    def cycle_frames(self) -> int: ...

    def anchor(self, index: int) -> U8:
        """(H * 3 // 2, W) u8 I420 planes of frame `index`, read-only."""
        ...


class Interlude:
    """One showing of a clip, from frame `first_index` of the session's grid on."""

    def __init__(self, clip: Clip, first_index: int) -> None:
        self._clip = clip
        self._first = first_index
        self._end = first_index + clip.cycle_frames

    def over(self, index: int) -> bool:
        return index >= self._end

    def leave(self, index: int) -> None:
        """Speech begins: dissolve out from frame `index` on."""
        self._end = min(self._end, index + DISSOLVE_FRAMES)

    def lay(self, planes: U8, index: int) -> U8:
        """The clip's frame of `index` over planes of the same size; new planes or the clip's own, read-only."""
        front = self._clip.anchor(index - self._first)
        edge = min(index - self._first + 1, self._end - index)
        if edge > DISSOLVE_FRAMES:
            return front
        weight = edge / (DISSOLVE_FRAMES + 1)
        mixed: U8 = np.asarray(cv2.addWeighted(front, weight, planes, 1.0 - weight, 0.0), dtype=np.uint8)
        mixed.flags.writeable = False
        return mixed
