"""How well a picture suits as an avatar, in numbers a person can act on: pose, sharpness, mouth, size, and a grade."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box
from avatars.facebox import BRIDGE, landmarks68

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

OPEN_MOUTH = 0.12
"""Lips are apart when the gap is more than this share of the mouth's width."""
PATCH_PX = 256
"""Side of the square patch engines render."""
GRADES = "ABCD"

# Indices into the 468-point mesh.
_EYE_RIGHT, _EYE_LEFT = 33, 263
_CHEEK_RIGHT, _CHEEK_LEFT = 234, 454
_FOREHEAD, _CHIN = 10, 152
_LIP_UPPER, _LIP_LOWER, _MOUTH_RIGHT, _MOUTH_LEFT = 13, 14, 78, 308

_FRONTAL_BRIDGE = 0.19
"""Where the lower nose bridge lies on frontal faces, as a share of the way from the eyes to the chin."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that could be better; `cost` is the number of grades it takes."""

    about: str
    text: str
    cost: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured on a face, and what follows."""

    face_width_px: int
    face_height_px: int
    yaw_deg: float
    pitch_deg: float
    roll_deg: float
    sharpness: float
    """Variance of the Laplacian of the face at 256 px over the variance of its luma; sharp photos have 0.02 or more."""
    mouth_open: float
    """Gap between the lips over the mouth's width."""
    patch_upscale: float
    """How much a 256 px patch is enlarged to fill the face box."""
    mean_luma: float
    bbox_shift_px: int
    """The shift that would put MuseTalk's split line where it lies on a frontal face."""
    visible: float = 1.0
    """Share of the face's points that lie in the picture."""
    faces_found: int = 1
    faceless_frames: int = 0
    open_mouth_frames: int = 0
    frames: int = 1
    advice: tuple[Advice, ...] = field(default=())

    @property
    def grade(self) -> str:
        """A: nothing to say. B: fine. C: it will show. D: use another picture."""
        return GRADES[min(sum(item.cost for item in self.advice), len(GRADES) - 1)]

    def as_dict(self) -> dict[str, Any]:
        return {"grade": self.grade, **asdict(self)}


def inspect_face(rgb: U8, mesh: F32, depth: F32, box: Box, faces_found: int = 1) -> Report:
    """Measure one face: rgb (H, W, 3) u8, mesh (468, 2) and depth (468,) f32 in frame pixels."""
    roll, yaw, pitch = pose_deg(mesh, depth)
    x1, y1, x2, y2 = box
    face = cv2.cvtColor(np.ascontiguousarray(rgb[y1:y2, x1:x2]), cv2.COLOR_RGB2GRAY)
    small = cv2.resize(face, (PATCH_PX, PATCH_PX), interpolation=cv2.INTER_AREA).astype(np.float32)
    sharpness = float(cv2.Laplacian(small, cv2.CV_32F).var() / max(float(small.var()), 1.0))
    report = Report(
        face_width_px=x2 - x1,
        face_height_px=y2 - y1,
        yaw_deg=round(yaw, 1),
        pitch_deg=round(pitch, 1),
        roll_deg=round(roll, 1),
        sharpness=round(sharpness, 4),
        mouth_open=round(_mouth_open(mesh), 3),
        patch_upscale=round(max(x2 - x1, y2 - y1) / PATCH_PX, 2),
        mean_luma=round(float(small.mean()), 1),
        bbox_shift_px=_suggested_shift_px(mesh),
        visible=round(_visible(mesh, rgb.shape), 3),
        faces_found=faces_found,
    )
    return with_advice(report)


def with_advice(report: Report) -> Report:
    """The same measurements with what a person could do about them."""
    r = report
    found: list[Advice] = []

    def say(when: bool, about: str, text: str, cost: int) -> None:
        if when:
            found.append(Advice(about, text, cost))

    turn = max(abs(r.yaw_deg), abs(r.pitch_deg))
    say(turn > 40, "pose", f"the head is turned by {turn:.0f} degrees, a profile: use a frontal picture", 2)
    say(25 < turn <= 40, "pose", f"the head is turned by {turn:.0f} degrees: a frontal picture looks better", 1)
    lean = abs(r.roll_deg)
    say(lean > 15, "pose", f"the head leans by {lean:.0f} degrees: turn the picture upright", 2 if lean > 35 else 1)
    small = min(r.face_width_px, r.face_height_px)
    say(small < 72, "size", f"the face is {small} px wide: it will look coarse; crop closer or use a larger picture", 2)
    say(72 <= small < 160, "size", f"the face is {small} px wide: 200 px or more look better", 1)
    say(
        r.patch_upscale > 2.0,
        "size",
        f"the face box is {r.patch_upscale:.1f} times the 256 px that are rendered: the mouth will look softer than "
        "the rest; stream a smaller canvas or use --max-height",
        1,
    )
    say(r.visible < 0.98, "edge", "the picture's edge cuts the face: use one that shows it whole, with some neck", 1)
    say(r.sharpness < 0.006, "sharpness", "the face is blurred: use a sharper picture", 1)
    say(r.mean_luma < 35 or r.mean_luma > 225, "light", "the face is nearly black or white: use even light", 1)
    say(r.mouth_open > OPEN_MOUTH and r.frames == 1, "mouth", "the mouth is open: a closed one rests better", 1)
    say(r.faces_found > 1, "faces", f"{r.faces_found} faces found, the largest is used: choose with --face", 0)
    share = r.open_mouth_frames / r.frames
    say(
        share > 0.3 and r.frames > 1,
        "mouth",
        f"the mouth is open in {share:.0%} of the clip: film a silent, calm face",
        1,
    )
    share = r.faceless_frames / r.frames
    say(
        share > 0,
        "faces",
        f"{r.faceless_frames} of {r.frames} frames show no face: they are shown as they are",
        int(share > 0.2),
    )
    values = {name: getattr(r, name) for name in Report.__dataclass_fields__ if name != "advice"}
    return Report(**values, advice=tuple(found))


def is_mouth_open(mesh: F32) -> bool:
    return _mouth_open(mesh) > OPEN_MOUTH


def _mouth_open(mesh: F32) -> float:
    gap = float(np.linalg.norm(mesh[_LIP_LOWER] - mesh[_LIP_UPPER]))
    return gap / max(1.0, float(np.linalg.norm(mesh[_MOUTH_LEFT] - mesh[_MOUTH_RIGHT])))


def pose_deg(mesh: F32, depth: F32) -> tuple[float, float, float]:
    """Roll, yaw and pitch in degrees, 0 for a head that faces the camera; right and up on screen are positive."""
    across = mesh[_EYE_LEFT] - mesh[_EYE_RIGHT]
    roll = math.degrees(math.atan2(float(across[1]), float(across[0])))
    side = mesh[_CHEEK_LEFT] - mesh[_CHEEK_RIGHT]
    yaw = math.degrees(math.atan2(float(depth[_CHEEK_LEFT] - depth[_CHEEK_RIGHT]), float(np.linalg.norm(side))))
    down = mesh[_CHIN] - mesh[_FOREHEAD]
    pitch = math.degrees(math.atan2(float(depth[_CHIN] - depth[_FOREHEAD]), float(np.linalg.norm(down))))
    return roll, yaw, pitch


def _visible(mesh: F32, shape: tuple[int, ...]) -> float:
    height, width = shape[:2]
    inside = (mesh[:, 0] >= 0) & (mesh[:, 0] <= width - 1) & (mesh[:, 1] >= 0) & (mesh[:, 1] <= height - 1)
    return float(inside.mean())


def _suggested_shift_px(mesh: F32) -> int:
    """Within the range MuseTalk gives for a face: from one bridge point up to one down."""
    points = landmarks68(mesh)
    eyes_y = float(mesh[_EYE_RIGHT, 1] + mesh[_EYE_LEFT, 1]) / 2
    wanted = eyes_y + _FRONTAL_BRIDGE * (float(mesh[_CHIN, 1]) - eyes_y)
    bridge = float(points[BRIDGE, 1])
    up, down = bridge - float(points[BRIDGE - 1, 1]), float(points[BRIDGE + 1, 1]) - bridge
    return round(min(max(wanted - bridge, -up), down))
