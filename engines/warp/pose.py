"""How a face lies in its patch. Face coordinates: origin between the lips, x along the eyes, y down the face.

One unit is the width of an average mouth, about 5 cm, whatever this mouth does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.warp.mesh import CHIN, EYE_CORNERS, FOREHEAD, LIP_BOTTOM, LIP_CORNER_LEFT, LIP_CORNER_RIGHT, LIP_TOP

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_EYES_PER_UNIT = 1.75
"""Outer eye corners lie this many mouth widths apart."""
_FACE_PER_UNIT = 3.2
"""Forehead to chin."""
_LEAST_PX = 4.0
"""Eyes or mouth corners nearer than this are no face to work with."""


@dataclass(frozen=True, slots=True, eq=False)
class FacePose:
    """Affine maps between face coordinates and patch pixels (pixel centres at whole numbers)."""

    to_patch: F64
    """(2, 3)"""
    to_face: F64
    """(2, 3)"""

    @property
    def unit_px(self) -> float:
        """Patch pixels of one unit: the geometric mean over both axes."""
        return float(np.sqrt(abs(np.linalg.det(self.to_patch[:, :2]))))

    def face(self, patch_points: F32 | F64) -> F64:
        """(..., 2) patch pixels to face coordinates."""
        mapped: F64 = patch_points @ self.to_face[:, :2].T + self.to_face[:, 2]
        return mapped

    def patch(self, face_points: F32 | F64) -> F64:
        """(..., 2) face coordinates to patch pixels."""
        mapped: F64 = face_points @ self.to_patch[:, :2].T + self.to_patch[:, 2]
        return mapped

    def patch_vectors(self, face_vectors: F32 | F64) -> F64:
        """(..., 2) displacements, from face coordinates to patch pixels."""
        mapped: F64 = face_vectors @ self.to_patch[:, :2].T
        return mapped


def patch_points(points: F32, box: tuple[int, int, int, int], patch_px: int) -> F64:
    """(468, 2) frame pixels to pixels of the patch that the face box is stretched to."""
    x1, y1, x2, y2 = box
    scale = np.array([patch_px / (x2 - x1), patch_px / (y2 - y1)])
    placed: F64 = (points.astype(np.float64) + 0.5 - (x1, y1)) * scale - 0.5
    return placed


def shows_face(points: F32, box: tuple[int, int, int, int]) -> bool:
    """Whether a (468, 2) mesh in frame pixels is a face whose mouth lies in this face box."""
    if not np.isfinite(points).all():
        return False
    eyes, mouth = (
        points[[EYE_CORNERS[0], EYE_CORNERS[3]]],
        points[[LIP_CORNER_LEFT, LIP_CORNER_RIGHT, LIP_TOP, LIP_BOTTOM]],
    )
    wide_enough = min(np.linalg.norm(eyes[1] - eyes[0]), np.linalg.norm(mouth[1] - mouth[0])) >= _LEAST_PX
    return bool(wide_enough and (mouth >= box[:2]).all() and (mouth < box[2:]).all())


def fit_pose(points: F32, box: tuple[int, int, int, int], patch_px: int) -> FacePose:
    """The pose of a (468, 2) mesh in frame pixels, for the patch of this face box."""
    p = points.astype(np.float64)
    corners = p[list(EYE_CORNERS)]
    across = (corners[3] - corners[0]) + (corners[2] - corners[1])
    across /= np.linalg.norm(across)
    down = np.array([-across[1], across[0]])
    eyes_px = float(np.linalg.norm(corners[3] - corners[0]))
    face_px = float(np.linalg.norm(p[CHIN] - p[FOREHEAD]))
    unit = max(eyes_px / _EYES_PER_UNIT, face_px / _FACE_PER_UNIT)  # turning shortens one, nodding the other
    middle = (p[LIP_TOP] + p[LIP_BOTTOM]) / 2
    corner_middle = (p[LIP_CORNER_LEFT] + p[LIP_CORNER_RIGHT]) / 2
    origin = np.array([corner_middle @ across, middle @ down]) @ np.array([across, down])
    x1, y1, x2, y2 = box
    scale = np.array([[patch_px / (x2 - x1)], [patch_px / (y2 - y1)]])
    turn = np.stack([across, down], axis=1) * unit
    to_patch = np.empty((2, 3))
    to_patch[:, :2] = scale * turn
    to_patch[:, 2] = (origin + 0.5 - (x1, y1)) * scale[:, 0] - 0.5
    to_face = np.empty((2, 3))
    to_face[:, :2] = np.linalg.inv(to_patch[:, :2])
    to_face[:, 2] = -to_face[:, :2] @ to_patch[:, 2]
    return FacePose(to_patch, to_face)
