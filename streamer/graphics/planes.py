"""I420 pictures at another size. Pure."""

from __future__ import annotations

import cv2
import numpy as np

from avatars.colour import split_planes
from streamer.media import U8


def resized(planes: U8, size_px: tuple[int, int]) -> U8:
    """(H * 3 // 2, W) u8 I420 stretched to (width, height), both even."""
    width, height = size_px
    sizes = ((width, height), (width // 2, height // 2), (width // 2, height // 2))
    parts = [stretched(part, size) for part, size in zip(split_planes(planes), sizes, strict=True)]
    return np.concatenate([part.reshape(-1) for part in parts]).reshape(height * 3 // 2, width)


def stretched(part: U8, size_px: tuple[int, int]) -> U8:
    """One plane at another (width, height)."""
    shrinks = size_px[0] * 2 <= part.shape[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(part, size_px, interpolation=how), np.uint8)
