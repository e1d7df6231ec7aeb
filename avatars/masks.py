"""How much of a face patch shows: a softened jaw region, from landmarks or from a face parser's class map.

A mask is made on the crop as it would lie without the frame's edges and only then put into the clamped rectangle: made
on the clamped one, the split line of a face near an edge would move up the lip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from avatars.blend import Box, intersect
from avatars.geometry import Geometry

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
ParseMode = Literal["jaw", "raw", "neck"]

PARSE_PX = 512
SPLIT = 0.5
"""Rows above this share of the crop keep the anchor."""
SOFTNESS = 0.1
"""MuseTalk's blur kernel as a share of the crop's side."""
MESH_SOFTNESS = 0.04
"""A narrower one for masks made from landmarks: a mask that fades where the chin travels shows it twice."""
_JAW_ROOM = 0.08
"""How far beyond the face's outline a mask from landmarks reaches, as a share of the face box's width."""

_SKIN, _NOSE, _NECK = 1, 10, 14
_MOUTH = (11, 12, 13)
_CONE_ROWS, _TAIL_ROWS = 21, 12

# Indices into the 468-point mesh.
_FACE_OVAL = (
    *(10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377),
    *(152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109),
)


@dataclass(frozen=True, slots=True)
class CheekWidths:
    """Columns each side of the parser's middle that are not thinned as cheek, pixels of its 512."""

    left_px: int = 90
    right_px: int = 90


def unclamped_crop(face_box: Box, expand: float = 1.5) -> Box:
    """The square crop as MuseTalk draws it: it may leave the frame on any side."""
    x1, y1, x2, y2 = face_box
    x_c, y_c = (x1 + x2) // 2, (y1 + y2) // 2
    half = int(max(x2 - x1, y2 - y1) // 2 * expand)
    return x_c - half, y_c - half, x_c + half, y_c + half


def parse_region(parse: U8, mode: ParseMode = "jaw", cheeks: CheekWidths | None = None) -> U8:
    """(512, 512) u8 region, 0 or 255, of a (512, 512) u8 class map in CelebAMask order."""
    classes = {"jaw": _MOUTH, "raw": (_SKIN, *_MOUTH), "neck": (_SKIN, *_MOUTH, _NECK)}[mode]
    region = np.isin(parse, classes)
    if mode == "jaw":
        region |= _jaw(parse, cheeks or CheekWidths()) & (parse != _NOSE)
    return region.astype(np.uint8) * 255


def region_to_crop(region512: U8, side_px: int) -> U8:
    """A parser's region at the size of the crop: (side, side) u8, bicubic with antialiasing."""
    return np.asarray(Image.fromarray(region512).resize((side_px, side_px), Image.Resampling.BICUBIC))


def mesh_region(mesh: F32, crop: Box, face_box: Box) -> U8:
    """(side, side) u8 jaw region over the unclamped crop, from a (468, 2) mesh in frame pixels.

    The face's outline with room around it and, below the chin, for the jaw to drop; far enough from the sides and the
    bottom of the face box that softening with MESH_SOFTNESS ends before the patch does.
    """
    side = crop[2] - crop[0]
    points = mesh - np.array(crop[:2], dtype=np.float32)
    outline = np.rint(points[list(_FACE_OVAL)]).astype(np.int32)
    region = np.zeros((side, side), dtype=np.uint8)
    cv2.fillPoly(region, [outline], (255,))
    room_px = 2 * round(_JAW_ROOM * (face_box[2] - face_box[0])) + 1
    grown = cv2.dilate(region, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (room_px, room_px)))
    drop_px = max(1, face_box[3] - round(float(mesh[:, 1].max())))
    region = np.asarray(cv2.dilate(grown, np.ones((drop_px, 1), np.uint8), anchor=(0, drop_px - 1)), dtype=np.uint8)
    rim_px = _kernel_px(side, MESH_SOFTNESS) // 2
    inside = np.zeros_like(region)
    x1, y1, x2, y2 = (edge - crop[i % 2] for i, edge in enumerate(face_box))
    inside[max(0, y1) : max(0, y2 - rim_px), max(0, x1 + rim_px) : max(0, x2 - rim_px)] = 255
    return np.asarray(cv2.bitwise_and(region, inside), dtype=np.uint8)


def soften(region: U8, crop: Box, face_box: Box, split: float = SPLIT, softness: float = SOFTNESS) -> U8:
    """MuseTalk's finish: the region cut to the face box, emptied above the split line, blurred. (side, side) u8."""
    side = region.shape[0]
    kept = np.zeros_like(region)
    shared = intersect(face_box, crop)
    if shared is not None:
        x1, y1, x2, y2 = shared[0] - crop[0], shared[1] - crop[1], shared[2] - crop[0], shared[3] - crop[1]
        y1 = max(y1, int(side * split))
        kept[y1:y2, x1:x2] = region[y1:y2, x1:x2]
    kernel_px = _kernel_px(side, softness)
    return np.asarray(cv2.GaussianBlur(kept, (kernel_px, kernel_px), 0), dtype=np.uint8)


def place(mask: U8, crop: Box, geometry: Geometry) -> F32:
    """A mask over the unclamped crop, put into the clamped rectangle: (1, crop_h, crop_w) f32 0..1, zero elsewhere."""
    placed = np.zeros((1, geometry.crop_height_px, geometry.crop_width_px), dtype=np.float32)
    shared = intersect(crop, (geometry.x_s, geometry.y_s, geometry.x_e, geometry.y_e))
    if shared is not None:
        x1, y1, x2, y2 = shared
        seen = mask[y1 - crop[1] : y2 - crop[1], x1 - crop[0] : x2 - crop[0]]
        placed[0, y1 - geometry.y_s : y2 - geometry.y_s, x1 - geometry.x_s : x2 - geometry.x_s] = seen / np.float32(255)
    return placed


def _kernel_px(side_px: int, softness: float) -> int:
    return int(softness * side_px // 2 * 2) + 1


def _jaw(parse: U8, cheeks: CheekWidths) -> npt.NDArray[np.bool_]:
    """Skin grown downwards, and grown then thinned at the cheeks."""
    grown = cv2.dilate((parse == _SKIN).astype(np.uint8), _cone_kernel())
    thinned = cv2.erode(grown, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (35, 3)), iterations=2)
    middle = PARSE_PX // 2
    between = np.zeros(PARSE_PX, dtype=bool)
    between[middle - cheeks.left_px + 1 : middle + cheeks.right_px] = True
    jaw: npt.NDArray[np.bool_] = np.where(between[None, :], grown, thinned) > 0
    return jaw


def _cone_kernel() -> U8:
    """A cone that opens downwards, with a straight tail under it."""
    rows = _CONE_ROWS + _TAIL_ROWS
    kernel = np.zeros((rows, rows), dtype=np.uint8)
    middle, first = rows // 2, _CONE_ROWS // 2
    for row in range(first, rows):
        reach = min(row, _CONE_ROWS - 1) - first
        kernel[row, middle - reach : middle + reach + 1] = 1
    return kernel
