"""A packet's sources brought into the patch: teeth, tongue and shut lids as they were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from avatars.sources import EYES, LOWER_TEETH, TONGUE, UPPER_TEETH, Source, sources_of

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Crops:
    """(N, N, 4) u8 each, in patch pixels: RGB times alpha, and alpha."""

    upper_teeth: U8
    lower_teeth: U8
    tongue: U8
    shut_eyes: U8


def crops_of(sidecars: Mapping[str, Mapping[str, npt.NDArray[Any]]], box: Box, patch_px: int) -> Crops | None:
    """The sources of a packet for the patch of this face box, or None where it has none."""
    found = sources_of(sidecars)
    if not found:
        return None
    upper, lower, tongue, eyes = (
        _in_patch(found[part], box, patch_px) for part in (UPPER_TEETH, LOWER_TEETH, TONGUE, EYES)
    )
    return Crops(upper, lower, _without_shade(tongue), eyes)


def _without_shade(tongue: U8) -> U8:
    """What no light reached is left to the dark behind it."""
    bright = cv2.GaussianBlur(tongue[..., :3].max(-1), (0, 0), 1.5).astype(np.float32)
    share = np.clip(bright / max(1.0, 0.35 * float(bright.max())), 0, 1)
    lit: U8 = np.rint(tongue * (share * share)[..., None]).astype(np.uint8)
    return lit


def _in_patch(source: Source, box: Box, patch_px: int) -> U8:
    """As `pose.patch_points` maps points: pixel centres at whole numbers."""
    x1, y1, x2, y2 = box
    scale = patch_px / (x2 - x1), patch_px / (y2 - y1)
    left, top = source.rect[:2]
    moved = np.array(
        [[scale[0], 0, (left + 0.5 - x1) * scale[0] - 0.5], [0, scale[1], (top + 0.5 - y1) * scale[1] - 0.5]]
    )
    whole = source.rgba.astype(np.float32)
    whole[..., :3] *= whole[..., 3:] * np.float32(1 / 255)
    patch = cv2.warpAffine(whole, moved, (patch_px, patch_px), flags=cv2.INTER_LINEAR)
    placed: U8 = np.rint(patch).clip(0, 255).astype(np.uint8)
    return placed
