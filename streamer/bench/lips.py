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


class LipReader:
    """Reads pictures of one stream, in any order, on one thread. About 5 ms of CPU a picture."""

    def __init__(self) -> None:
        self._mesh = FaceMesh()
        self._face: FaceLandmarks | None = None

    def gap(self, planes: U8) -> float:
        """Lip gap of (H * 3 // 2, W) u8 I420 planes in hundredths of the face's height. Raises StreamerError: no face.

        The face is searched once; later pictures are read where it was, for an anchor does not walk about.
        """
        rgb: U8 = cv2.cvtColor(planes, cv2.COLOR_YUV2RGB_I420).astype(np.uint8, copy=False)
        if self._face is None:
            faces = self._mesh.find(rgb)
            if not faces:
                raise StreamerError("there is no face in the picture")
            self._face = faces[0]
        face = self._mesh.follow(rgb, self._face)
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
