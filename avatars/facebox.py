"""From face landmarks to MuseTalk's face box: symmetric about the lower nose bridge, down to the chin and a margin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from avatars.blend import Box

F32 = npt.NDArray[np.float32]

BRIDGE = 29
"""The 68-point landmark on the lower nose bridge: half-way down the face box."""
OFFICIAL_MARGIN_PX = 10
"""MuseTalk 1.5 puts 10 px under the chin whatever the size of the face."""

# 0..16 jaw, 17..26 brows, 27..35 nose, 36..47 eyes, 48..67 lips, as indices into the 468-point mesh.
_MESH_TO_68 = (
    *(162, 234, 93, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 323, 454, 389),
    *(71, 63, 105, 66, 107, 336, 296, 334, 293, 301),
    *(168, 197, 5, 4, 75, 97, 2, 326, 305),
    *(33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380),
    *(61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181, 78, 82, 13, 312, 308, 317, 14, 87),
)
_ABOVE_BRIDGE, _BELOW_BRIDGE = 195, 5


def landmarks68(mesh: F32) -> F32:
    """The (68, 2) landmarks MuseTalk's box is made of, out of a (468, 2) mesh."""
    points: F32 = mesh[list(_MESH_TO_68)].copy()
    # The 68-point bridge is evenly spaced, the mesh is not: two thirds down lies between these two.
    points[BRIDGE] = (mesh[_ABOVE_BRIDGE] + mesh[_BELOW_BRIDGE]) / 2
    return points


def official_face_box(landmarks: F32, frame_height_px: int, bbox_shift_px: int = 0, margin_px: int = 0) -> Box | None:
    """MuseTalk's box, number for number: whole-pixel landmarks, equally far from the bridge up and down, clipped at 0.

    landmarks (68, 2) pixels. None where MuseTalk falls back to its detector: an empty box, or one that leaves the frame
    on the left.
    """
    whole = landmarks.astype(np.int32)
    middle = int(whole[BRIDGE, 1]) + bbox_shift_px
    bottom = int(whole[:, 1].max())
    top = max(0, middle - (bottom - middle))
    left, right = int(whole[:, 0].min()), int(whole[:, 0].max())
    if right <= left or bottom <= top or left < 0:
        return None
    return left, top, right, min(bottom + margin_px, frame_height_px) if margin_px else bottom


def fitted_face_box(landmarks: F32, frame_size_px: tuple[int, int], chin_margin: float, bbox_shift_px: int = 0) -> Box:
    """The same box, its margin a share of its height so that a dropping chin stays inside, cut to the frame.

    landmarks (68, 2) pixels, frame_size_px (width, height). May be empty where the face lies outside the frame.
    """
    whole = np.rint(landmarks).astype(np.int32)
    middle = int(whole[BRIDGE, 1]) + bbox_shift_px
    chin = int(whole[:, 1].max())
    margin = round(chin_margin * 2 * (chin - middle))
    width, height = frame_size_px
    return (
        max(0, int(whole[:, 0].min())),
        max(0, middle - (chin - middle)),
        min(width, int(whole[:, 0].max()) + 1),
        min(height, chin + margin),
    )
