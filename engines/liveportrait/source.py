"""A picture with a face made ready to be animated: where the face is, how it is cut out, how it goes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np

from avatars.faces import FaceLandmarks
from avatars.precompile import choose_face
from engines.liveportrait.crop import CROP_PX, F32, U8, FaceCrop, feathered_mask, find_crop, fit_source


class FaceFinder(Protocol):
    """All faces of an (H, W, 3) u8 RGB picture, largest first."""

    def find(self, rgb: U8) -> list[FaceLandmarks]: ...


@dataclass(frozen=True, slots=True, eq=False)
class SourcePicture:
    """One portrait and the face in it."""

    picture: U8
    """(H, W, 3) u8 RGB, sides even."""
    landmarks: F32
    """(468, 2) f32 pixels."""
    crop: FaceCrop
    mask: F32
    """(H, W, 3) f32 0..1: how much of a rendered face shows."""

    def face(self, side_px: int) -> U8:
        """(side_px, side_px, 3) u8 of the face as the networks take it."""
        return self.crop.cut(self.picture, side_px)

    def with_face(self, face: U8) -> U8:
        """The whole picture with a rendered face of any size laid into it."""
        if face.shape[0] != CROP_PX:
            face = cv2.resize(face, (CROP_PX, CROP_PX), interpolation=cv2.INTER_CUBIC).astype(np.uint8, copy=False)
        return self.crop.paste(face, self.picture, self.mask)


def read_source(picture: U8, finder: FaceFinder, name: str = "the picture", face: int = 0) -> SourcePicture:
    """Find a face of (H, W, 3) u8 RGB, 0 the largest. Raises FaceNotFound."""
    fitted = np.ascontiguousarray(fit_source(picture))
    landmarks = choose_face(finder.find(fitted), face, name).points
    crop = find_crop(landmarks)
    height, width = fitted.shape[:2]
    return SourcePicture(fitted, landmarks, crop, crop.mask(feathered_mask(), width, height))
