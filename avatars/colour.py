"""RGB to I420 and back: BT.601, limited range.

Chroma is the mean of its 2x2 pixels, not one of them as in OpenCV's own conversion.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]

_CHROMA_SCALE = 224.0 / 255.0
LIMITED_RANGE = (
    (219.0 / 255.0, 16.0),
    (_CHROMA_SCALE, 128.0 * (1.0 - _CHROMA_SCALE)),
    (_CHROMA_SCALE, 128.0 * (1.0 - _CHROMA_SCALE)),
)
"""Factor and offset from full range for Y, U and V."""


class Planes(NamedTuple):
    """Views into one I420 picture."""

    y: U8
    """(H, W)"""
    u: U8
    """(H // 2, W // 2)"""
    v: U8
    """(H // 2, W // 2)"""


class HalfPlanes(NamedTuple):
    """As `Planes`, the two smaller ones in one array, so that they are reckoned with at once."""

    luma: U8
    """(H, W)"""
    chroma: U8
    """(2, H // 2, W // 2): U and V, or Cb and Cr."""


def split_planes(i420: U8) -> Planes:
    """Views of a contiguous (H * 3 // 2, W) picture; H and W even."""
    rows, width = i420.shape
    height = rows * 2 // 3
    luma = height * width
    flat = i420.reshape(-1)
    half = (height // 2, width // 2)
    return Planes(
        flat[:luma].reshape(height, width),
        flat[luma : luma + luma // 4].reshape(half),
        flat[luma + luma // 4 :].reshape(half),
    )


def rgb_to_full_range(rgb: U8) -> Planes:
    """Full-range Y, and Cb and Cr of half the size, of an (H, W, 3) u8 RGB picture, H and W even.

    Grey and YCrCb are many times faster in OpenCV than its I420, whose colours would be thrown away.
    """
    height, width = rgb.shape[:2]
    coloured = cv2.cvtColor(shrink(rgb, (width // 2, height // 2)), cv2.COLOR_RGB2YCrCb)
    cb, cr = (np.asarray(cv2.extractChannel(coloured, i), dtype=np.uint8) for i in (2, 1))
    return Planes(np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), dtype=np.uint8), cb, cr)


def rgb_to_planes(rgb: U8) -> Planes:
    """Planes of an (H, W, 3) u8 RGB picture, H and W even."""
    full = rgb_to_full_range(rgb)
    return Planes(*(
        np.asarray(cv2.convertScaleAbs(plane, alpha=scale, beta=offset), dtype=np.uint8)
        for plane, (scale, offset) in zip(full, LIMITED_RANGE, strict=True)
    ))  # fmt: skip


def rgb_to_i420(rgb: U8) -> U8:
    """(H, W, 3) u8 RGB with even sides to one contiguous (H * 3 // 2, W) picture."""
    height, width = rgb.shape[:2]
    i420 = np.empty((height * 3 // 2, width), dtype=np.uint8)
    for target, source in zip(split_planes(i420), rgb_to_planes(np.ascontiguousarray(rgb)), strict=True):
        target[:] = source
    return i420


def i420_to_rgb(i420: U8) -> U8:
    """(H * 3 // 2, W) to (H, W, 3) u8 RGB, for stills and previews."""
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(i420), cv2.COLOR_YUV2RGB_I420), dtype=np.uint8)


def shrink(pixels: U8, size_px: tuple[int, int]) -> U8:
    """(H, W) or (H, W, 3) u8 reduced to (width, height), every pixel counted."""
    return np.asarray(cv2.resize(pixels, size_px, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def shrink_i420(i420: U8, size_px: tuple[int, int]) -> U8:
    """A picture reduced to (width, height), both even, plane by plane."""
    width, height = size_px
    reduced = np.empty((height * 3 // 2, width), dtype=np.uint8)
    for target, source in zip(split_planes(reduced), split_planes(i420), strict=True):
        target[:] = shrink(source, (target.shape[1], target.shape[0]))
    return reduced


def parts_of(rect: tuple[int, int, int, int]) -> tuple[tuple[slice, slice], ...]:
    """An even rectangle x1, y1, x2, y2 in each of the three planes."""
    x1, y1, x2, y2 = rect
    half = (slice(y1 // 2, y2 // 2), slice(x1 // 2, x2 // 2))
    return (slice(y1, y2), slice(x1, x2)), half, half
