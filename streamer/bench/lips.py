"""How far the mouth of a decoded picture is open, as the face mesh sees it. Knows pictures only, no server."""

from __future__ import annotations

import cv2
import numpy as np

from avatars.faces import FaceLandmarks, FaceMesh
from streamer.errors import StreamerError
from streamer.media import U8

INNER_LIPS = ((13, 14), (82, 87), (312, 317))
"""Upper and lower point of the inner lip contour in the middle of the mouth (MediaPipe mesh)."""
FOREHEAD, CHIN = 10, 152
CORNERS, UPPER_LIP = (61, 291), 0


def mouth_box(planes: U8) -> tuple[int, int, int, int]:
    """x1, y1, x2, y2 of what moves when (H * 3 // 2, W) u8 I420 planes speak: the mouth and the chin, and no eye.

    Raises StreamerError: no face.
    """
    points = _face(FaceMesh(), planes).points
    xs = [points[corner][0] for corner in CORNERS]
    margin = (max(xs) - min(xs)) / 4
    found = min(xs) - margin, points[UPPER_LIP][1] - margin, max(xs) + margin, points[CHIN][1]
    x1, y1, x2, y2 = (int(edge) for edge in found)
    return x1, y1, x2, y2


def _rgb(planes: U8) -> U8:
    return cv2.cvtColor(planes, cv2.COLOR_YUV2RGB_I420).astype(np.uint8, copy=False)


def _face(mesh: FaceMesh, planes: U8) -> FaceLandmarks:
    faces = mesh.find(_rgb(planes))
    if not faces:
        raise StreamerError("there is no face in the picture")
    return faces[0]


class LipReader:
    """Reads pictures of one stream, in any order, on one thread. About 5 ms of CPU a picture."""

    def __init__(self) -> None:
        self._mesh = FaceMesh()
        self._face: FaceLandmarks | None = None

    def gap(self, planes: U8) -> float:
        """Lip gap of (H * 3 // 2, W) u8 I420 planes in hundredths of the face's height. Raises StreamerError: no face.

        The face is searched once; later pictures are read where it was, for an anchor does not walk about.
        """
        if self._face is None:
            self._face = _face(self._mesh, planes)
        face = self._mesh.follow(_rgb(planes), self._face)
        if face is None:
            raise StreamerError("the face is gone from the picture")
        points = face.points
        height_px = float(np.linalg.norm(points[FOREHEAD] - points[CHIN]))
        gap_px = np.mean([np.linalg.norm(points[upper] - points[lower]) for upper, lower in INNER_LIPS])
        return 100.0 * float(gap_px) / height_px


class SquareReader:
    """The echo's face: its square."""

    def gap(self, planes: U8) -> float:
        """Mean luma of the middle of the picture, 0..255."""
        height, width = planes.shape[0] * 2 // 3, planes.shape[1]
        return float(planes[height * 3 // 8 : height * 5 // 8, width * 3 // 8 : width * 5 // 8].mean())
