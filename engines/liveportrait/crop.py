"""The upright square around a face, cut from a picture and laid back into it. OpenCV, CPU, uint8."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from engines.liveportrait.openings import layout_of

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

CROP_PX = 512
_FEATHER = 0.05
"""Share of the crop's side over which its edge fades out."""
_MIN_AXIS_PX = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class FaceCrop:
    """Where an upright crop of a face lies in its picture."""

    to_crop: F64
    """(3, 3): picture pixels to crop pixels."""
    to_picture: F64
    """(3, 3): its inverse."""
    centre_px: tuple[float, float]
    side_px: float
    angle: float
    """Radians, clockwise on screen."""

    def cut(self, picture: U8, side_px: int = CROP_PX) -> U8:
        """(side_px, side_px, 3) u8 of the crop, from a picture (H, W, 3) u8. Outside the picture it is black."""
        out = cv2.warpAffine(picture, self.to_crop[:2], (CROP_PX, CROP_PX), flags=cv2.INTER_LINEAR)
        return out.astype(np.uint8, copy=False) if side_px == CROP_PX else shrink(out, side_px, side_px)

    def mask(self, crop_mask: U8, width_px: int, height_px: int) -> F32:
        """(H, W, 3) f32 0..1: a mask (512, 512, 3) u8 of the crop as it lies in the picture."""
        laid = cv2.warpAffine(crop_mask, self.to_picture[:2], (width_px, height_px), flags=cv2.INTER_LINEAR)
        return laid.astype(np.float32) / np.float32(255.0)

    def paste(self, face: U8, picture: U8, mask: F32) -> U8:
        """The picture with a face (512, 512, 3) u8 laid over it where the mask, from `mask`, says so."""
        height, width = picture.shape[:2]
        laid = cv2.warpAffine(face, self.to_picture[:2], (width, height), flags=cv2.INTER_LINEAR)
        return np.clip(mask * laid + (1.0 - mask) * picture, 0, 255).astype(np.uint8)


def find_crop(
    points: F32, scale: float = 2.3, shift_y: float = -0.125, *, shift_x: float = 0.0, upright: bool = True
) -> FaceCrop:
    """The square around landmarks (n, 2) f32 px, `scale` times as large, turned upright by the eyes-to-mouth axis.

    `shift_x` and `shift_y` move it along the face's own axes, in shares of its side. 203, 106 or 468 landmarks.
    """
    outline = list(layout_of(points).outline)
    extent = points[outline].astype(np.float64) if outline else points.astype(np.float64)
    down = _face_axis(points)
    across = np.array([down[1], -down[0]])
    middle = extent.mean(0)
    turned = (extent - middle) @ np.stack([across, down], 1)
    low, high = turned.min(0), turned.max(0)
    side = float((high - low).max()) * scale
    offset = (low + high) / 2 + np.array([shift_x, shift_y]) * side
    centre = middle + across * offset[0] + down * offset[1]
    angle = math.copysign(math.acos(max(-1.0, min(1.0, float(across[0])))), float(across[1]))
    to_crop = _upright_square(centre, side, angle if upright else 0.0)
    return FaceCrop(
        to_crop, np.linalg.inv(to_crop).astype(np.float64), (float(centre[0]), float(centre[1])), side, angle
    )


def feathered_mask() -> U8:
    """(512, 512, 3) u8: full inside, fading to nothing at all four edges alike."""
    edge = np.minimum(np.arange(CROP_PX) + 0.5, CROP_PX - np.arange(CROP_PX) - 0.5) / (_FEATHER * CROP_PX)
    ramp = np.clip(edge, 0.0, 1.0)
    plane = np.rint(255.0 * np.minimum(ramp[:, None], ramp[None, :])).astype(np.uint8)
    return np.repeat(plane[:, :, None], 3, 2)


def shrink(picture: npt.NDArray[Any], width_px: int, height_px: int) -> U8:
    """Area average: no moiré when a picture becomes smaller."""
    return cv2.resize(picture, (width_px, height_px), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)


def fit_source(picture: U8, longest_px: int = 1280, multiple: int = 2) -> U8:
    """A source picture no longer than `longest_px`, its sides cut down to a multiple of `multiple`."""
    height, width = picture.shape[:2]
    if max(height, width) > longest_px:
        factor = longest_px / max(height, width)
        size = (round(width * factor), round(height * factor))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR).astype(np.uint8, copy=False)
        height, width = picture.shape[:2]
    return picture[: height - height % multiple, : width - width % multiple]


def _face_axis(points: F32) -> F64:
    """Unit vector from between the eyes to the mouth; straight down where they coincide."""
    layout = layout_of(points)
    eyes = np.mean([points[list(eye)].mean(0) for eye in layout.eyes], 0)
    mouth = points[list(layout.lips)].mean(0)
    axis = (mouth - eyes).astype(np.float64)
    length = float(np.linalg.norm(axis))
    return axis / length if length > _MIN_AXIS_PX else np.array([0.0, 1.0])


def _upright_square(centre: F64, side: float, angle: float) -> F64:
    scale = CROP_PX / side
    cos, sin = scale * math.cos(angle), scale * math.sin(angle)
    turn = np.array([[cos, sin], [-sin, cos]])
    shift = CROP_PX / 2 - turn @ centre
    return np.vstack([np.column_stack([turn, shift]), [0.0, 0.0, 1.0]])
