"""Landmarks for packets that came without: found again in their frames."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from avatars.faces import FaceLandmarks, FaceMesh
from avatars.packet import AvatarPacket

F32 = npt.NDArray[np.float32]


def find_landmarks(packet: AvatarPacket, finder: FaceMesh | None = None) -> F32:
    """(N, 468, 2) f32 frame pixels of the face in each frame's face box; NaN where there is none."""
    finder = finder or FaceMesh()
    still = packet.frames.strides[0] == 0
    count = 1 if still else packet.cycle_frames
    points = np.full((count, 468, 2), np.nan, dtype=np.float32)
    last: FaceLandmarks | None = None
    for i in range(count):
        frame = packet.frames[i]
        if i and np.array_equal(frame, packet.frames[i - 1]):
            points[i] = points[i - 1]
            continue
        rgb = np.asarray(cv2.merge(list(frame)), dtype=np.uint8)
        face = finder.follow(rgb, last) if last is not None else None
        last = face or _nearest(finder.find(rgb), packet.coords[i])
        if last is not None:
            points[i] = last.points
    points.flags.writeable = False
    return np.broadcast_to(points[0], (packet.cycle_frames, 468, 2)) if still else points


def _nearest(faces: list[FaceLandmarks], box: tuple[int, int, int, int]) -> FaceLandmarks | None:
    centre = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
    inside = [f for f in faces if f.box[0] <= centre[0] <= f.box[2] and f.box[1] <= centre[1] <= f.box[3]]
    return min(inside, key=lambda f: float(np.linalg.norm(f.points.mean(axis=0) - centre)), default=None)
