"""A face patch laid into an RGB frame, inside the crop only: for stills, previews and files.

The live line blends in `canvas`.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
F32 = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]
"""x1, y1, x2, y2 in pixels, x2 and y2 exclusive."""


def lerp_u8(front: U8, back: U8, alpha: U8) -> U8:
    """Exactly rounded (front * alpha + back * (255 - alpha)) / 255 in integers; the arrays broadcast."""
    total = np.multiply(front, alpha, dtype=np.uint16)
    total += np.multiply(back, 255 - alpha, dtype=np.uint16)
    total += 128
    total += total >> 8
    total >>= 8
    return total.astype(np.uint8)


def mask_to_u8(mask: F32) -> U8:
    """0..1 to 0..255, rounded."""
    scaled: U8 = np.rint(mask * 255.0).astype(np.uint8)
    return scaled


def intersect(a: Box, b: Box) -> Box | None:
    """The pixels that two boxes share, or None."""
    x1, y1, x2, y2 = max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


def bounding_box(mask: U8) -> Box | None:
    """The smallest box that holds every non-zero pixel of an (h, w) mask, or None."""
    x, y, width, height = cv2.boundingRect(mask)
    return (x, y, x + width, y + height) if width and height else None


def blend_rgb(frame: U8, patch: U8, mask: U8 | F32, crop: Box, face_box: Box) -> U8:
    """A new frame with the patch in its face box, as far as the mask lets it show.

    frame (H, W, 3) u8, left untouched; patch (h, w, 3) u8 in the same order, stretched to the face box; mask over the
    crop rectangle, either (crop_h, crop_w) u8 or (1, crop_h, crop_w) f32 0..1; crop inside the frame. The face box
    may hang over the crop's edge.
    """
    alpha: U8 = mask_to_u8(mask[0]) if mask.dtype != np.uint8 else np.asarray(mask, dtype=np.uint8)
    blended = frame.copy()
    seen = intersect(crop, face_box)
    if seen is None:
        return blended
    x1, y1, x2, y2 = seen
    alpha = alpha[y1 - crop[1] : y2 - crop[1], x1 - crop[0] : x2 - crop[0]]
    size = (face_box[2] - face_box[0], face_box[3] - face_box[1])
    mouth = np.asarray(cv2.resize(patch, size, interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
    mouth = mouth[y1 - face_box[1] : y2 - face_box[1], x1 - face_box[0] : x2 - face_box[0]]
    blended[y1:y2, x1:x2] = lerp_u8(mouth, frame[y1:y2, x1:x2], alpha[:, :, None])
    return blended
