"""A packet shown with its whole head instead of its mouth: the same frames, another box and mask. CPU, uint8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from avatars.geometry import Geometry
from avatars.landing import find_landing
from avatars.packet import Anchors, AvatarPacket
from engines.errors import EngineContract
from engines.liveportrait.crop import CROP_PX, F32, F64, U8, FaceCrop, feathered_mask, find_crop

Box = tuple[int, int, int, int]
_INSIDE = 0.04
"""Share of the crop's side that a face must keep from its edges in every frame."""


def steady_crop(landmarks: F32) -> FaceCrop:
    """One crop for all frames, from landmarks (M, 468, 2) with NaN where there is no face. Raises EngineContract."""
    seen = landmarks[np.isfinite(landmarks).all((1, 2))]
    if not len(seen):
        raise EngineContract("landmarks", "a face in at least one frame", "none")
    crop = find_crop(seen.mean(0, dtype=np.float64).astype(np.float32))
    places = np.concatenate([seen, np.ones_like(seen[:, :, :1])], 2) @ crop.to_crop[:2].T
    edge = _INSIDE * CROP_PX
    if places.min() < edge or places.max() > CROP_PX - edge:
        found = f"it reaches {places.min():.0f}..{places.max():.0f} of 0..{CROP_PX}"
        raise EngineContract("landmarks", "a head that stays inside one crop in all frames", found)
    return crop


def shown_box(crop: FaceCrop, size_px: tuple[int, int]) -> Box:
    """The frame's pixels that a crop covers: x1, y1, x2, y2, the last two exclusive. Raises EngineContract."""
    corners = np.array([[0, 0, 1], [CROP_PX, 0, 1], [0, CROP_PX, 1], [CROP_PX, CROP_PX, 1]]) @ crop.to_picture[:2].T
    (left, top), (right, bottom) = corners.min(0), corners.max(0)
    width, height = size_px
    box = (
        max(0, math.floor(left)),
        max(0, math.floor(top)),
        min(width, math.ceil(right)),
        min(height, math.ceil(bottom)),
    )
    if box[2] - box[0] < 2 or box[3] - box[1] < 2:
        raise EngineContract("landmarks", f"a face inside {width} x {height} pixels", str(box))
    return box


def staged(packet: AvatarPacket, crop: FaceCrop, shown: Sequence[bool]) -> AvatarPacket:
    """The packet with a whole head's box and mask; `shown` says for each frame whether there is a face in it."""
    width, height = packet.size_px
    box = shown_box(crop, packet.size_px)
    x1, y1, x2, y2 = box
    mask = np.ascontiguousarray(crop.mask(feathered_mask(), width, height)[y1:y2, x1:x2, 0])[None]
    nothing = np.zeros_like(mask)
    for plane in (mask, nothing):
        plane.flags.writeable = False
    count = packet.cycle_frames
    return replace(
        packet,
        idle=None,
        masks=tuple(mask if shows else nothing for shows in shown),
        geometry=(Geometry(x1, y1, x2, y2, 0, 0, x2 - x1, y2 - y1),) * count,
        coords=(box,) * count,
        anchors=packet.anchors and _landed(packet.anchors, mask, box, (width, height), shown),
    )


def into_patch(crop: FaceCrop, box: Box, face_px: int, patch_px: int) -> F64:
    """(2, 3): pixels of a rendered face of that side to pixels of the patch that is stretched over the box."""
    to_crop_units = _scaling(CROP_PX / face_px, CROP_PX / face_px)
    x1, y1, x2, y2 = box
    place = np.array([[1.0, 0.0, -x1], [0.0, 1.0, -y1], [0.0, 0.0, 1.0]])
    to_patch = _scaling(patch_px / (x2 - x1), patch_px / (y2 - y1))
    found: F64 = (to_patch @ place @ crop.to_picture @ to_crop_units)[:2]
    return found


def laid(face: U8, matrix: F64, patch_px: int) -> U8:
    """(patch_px, patch_px, 3) u8 of a rendered face."""
    moved = cv2.warpAffine(face, matrix, (patch_px, patch_px), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return moved.astype(np.uint8, copy=False)


def _scaling(x: float, y: float) -> npt.NDArray[np.float64]:
    """Scales about the outer corner of the first pixel, whose own middle is at 0."""
    return np.array([[x, 0.0, 0.5 * x - 0.5], [0.0, y, 0.5 * y - 0.5], [0.0, 0.0, 1.0]])


def _landed(anchors: Anchors, mask: F32, box: Box, size_px: tuple[int, int], shown: Sequence[bool]) -> Anchors:
    """The anchors' own rectangles and masks for another box. A distinct frame shows what its cycle frame shows."""
    landing = find_landing(mask, box, box, size_px)
    order = [int(k) for k in anchors.order]
    rows, planes = [], []
    for key in range(len(anchors.planes)):
        here = landing if landing is not None and shown[order.index(key)] else None
        rows.append((0, 0, 0, 0) if here is None else here.rect)
        planes.append(np.zeros((0, 0), np.uint8) if here is None else here.luma_mask)
    return replace(anchors, rects=np.array(rows, np.int32), luma_masks=tuple(planes))
