"""Enlarges a small RGB picture to Y, U and V planes in one pass of libswscale; knows no faces and no frames.

It keeps a few rows at hand where OpenCV, step by step, fills the processor's cache with whole pictures.
"""

from __future__ import annotations

from typing import NamedTuple

import av
import numpy as np
import numpy.typing as npt
from av.video.plane import VideoPlane
from av.video.reformatter import Interpolation, VideoReformatter

from avatars.colour import Planes

U8 = npt.NDArray[np.uint8]


class _Kit(NamedTuple):
    """What one thread at a time enlarges with."""

    reformatter: VideoReformatter
    source: av.VideoFrame
    pixels: U8
    """Its memory, (h, w, 3)."""


class Enlarger:
    """From one size to one other, bilinear, to I420 planes in BT.601 limited range. Threads may share it."""

    def __init__(self, size_px: tuple[int, int], larger_px: tuple[int, int]) -> None:
        """Sizes are (width, height), the larger ones even."""
        self._size_px = size_px
        self._larger_px = larger_px
        self._idle: list[_Kit] = []

    def planes(self, pixels: U8) -> Planes:
        """Of (h, w, 3) u8 RGB; the planes are the caller's own."""
        kit = self._idle.pop() if self._idle else self._make_kit()
        np.copyto(kit.pixels, pixels)
        width, height = self._larger_px
        larger = kit.reformatter.reformat(
            kit.source, width, height, "yuv420p", interpolation=Interpolation.BILINEAR, threads=1
        )
        self._idle.append(kit)
        return Planes(*(_array(plane, (plane.height, plane.width)) for plane in larger.planes))

    def _make_kit(self) -> _Kit:
        width, height = self._size_px
        source = av.VideoFrame(width, height, "rgb24")
        return _Kit(VideoReformatter(), source, _array(source.planes[0], (height, width, 3)))


def _array(plane: VideoPlane, shape: tuple[int, ...]) -> U8:
    """The plane's own memory, without the padding of its rows."""
    within_row = (3, 1) if len(shape) == 3 else (1,)
    return np.ndarray(shape, np.uint8, memoryview(plane), strides=(plane.line_size, *within_row))
