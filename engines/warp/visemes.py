"""A sheet of mouths: how one face says eleven sounds, to be looked at."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import blend_rgb
from engines.warp.face import WarpFace
from engines.warp.phones import MOUTHS
from engines.warp.shape import MouthShape

U8 = npt.NDArray[np.uint8]

SOUNDS = (
    ("rest", "sil"), ("m", "m"), ("f", "f"), ("th", "th"), ("l", "l"), ("s", "s"),
    ("ah", "aa"), ("eh", "eh"), ("ee", "iy"), ("oh", "ow"), ("oo", "uw"),
)  # fmt: skip
"""What is written under a mouth, and the phone it is."""
TILE_PX = 224


def mouth_of(phone: str) -> MouthShape:
    """The mouth at the height of a phone."""
    return MouthShape(*MOUTHS[phone][1:])


def sheet(face: WarpFace, tile_px: int = TILE_PX) -> U8:
    """(h, w, 3) u8 RGB: a row of faces, one a sound."""
    return np.hstack([_tile(face, name, mouth_of(phone), tile_px) for name, phone in SOUNDS])


def finished(face: WarpFace, shape: MouthShape) -> U8:
    """(H, W, 3) u8 RGB: the first frame with this mouth."""
    packet = face.packet
    anchor = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0))
    return blend_rgb(anchor, face.render(shape), packet.masks[0], packet.mask_coords[0], packet.coords[0])


def _tile(face: WarpFace, name: str, shape: MouthShape, tile_px: int) -> U8:
    x1, y1, x2, y2 = face.packet.coords[0]
    width, height = face.packet.size_px
    half = min(round(0.56 * max(x2 - x1, y2 - y1)), width // 2, height // 2)
    x = min(max((x1 + x2) // 2, half), width - half)
    y = min(max((y1 + y2) // 2, half), height - half)
    crop = finished(face, shape)[y - half : y + half, x - half : x + half]
    shrinks = crop.shape[0] > tile_px
    tile = cv2.resize(crop, (tile_px, tile_px), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC)
    for colour, thick in (((0, 0, 0), 3), ((255, 255, 255), 1)):
        cv2.putText(tile, name, (8, tile_px - 10), cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour, thick, cv2.LINE_AA)
    return np.asarray(tile, dtype=np.uint8)
