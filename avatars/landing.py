"""Where the face patch of a frame shows: the even rectangle that I420 wants, and the mask inside it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from avatars.blend import Box, bounding_box, intersect, mask_to_u8

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]


class Landing(NamedTuple):
    """Where a patch shows, and how much of it."""

    rect: Box
    """Pixels, edges even, rounded outwards."""
    luma_mask: U8
    """(h, w) u8, 0 where the rectangle was only rounded outwards."""


def even_outwards(box: Box) -> Box:
    """The smallest box with even edges that holds this one."""
    return box[0] & ~1, box[1] & ~1, (box[2] + 1) & ~1, (box[3] + 1) & ~1


def even_size(width: int, height: int) -> tuple[int, int]:
    """The sides of what is streamed: an odd last row or column is cut."""
    return width & ~1, height & ~1


def fit_size(size_px: tuple[int, int], max_side_px: int) -> tuple[int, int]:
    """The sides of a picture fitted inside a square: never enlarged, even."""
    width, height = size_px
    shrinking = min(1.0, max_side_px / max(width, height))
    return even_size(max(2, round(width * shrinking)), max(2, round(height * shrinking)))


def find_landing(mask: F32, crop: Box, face_box: Box, size_px: tuple[int, int]) -> Landing | None:
    """The part of a (1, crop_h, crop_w) mask that lies in the face box and is not zero; None where nothing shows."""
    seen = intersect(crop, face_box)
    seen = seen and intersect(seen, (0, 0, *even_size(*size_px)))
    if seen is None:
        return None
    x1, y1, x2, y2 = seen
    alpha = mask_to_u8(mask[0, y1 - crop[1] : y2 - crop[1], x1 - crop[0] : x2 - crop[0]])
    shows = bounding_box(alpha)
    if shows is None:
        return None
    left, top, right, bottom = x1 + shows[0], y1 + shows[1], x1 + shows[2], y1 + shows[3]
    rect = even_outwards((left, top, right, bottom))
    luma = np.zeros((rect[3] - rect[1], rect[2] - rect[0]), dtype=np.uint8)
    luma[top - rect[1] : bottom - rect[1], left - rect[0] : right - rect[0]] = alpha[
        shows[1] : shows[3], shows[0] : shows[2]
    ]
    return Landing(rect, luma)
