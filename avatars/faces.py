"""Finds faces and their 468-point meshes in a picture with two small vendored models. Knows no packet and no engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

MESH_POINTS = 468
_DETECTOR_PX = 128
_MESH_PX = 192
_ROI_SCALE = 1.5
"""The mesh network was trained on squares 1.5 times the face."""
_REFINE_PASSES = 2
_MIN_SCORE = 0.5
_MIN_HARD_SCORE = 0.65
"""Tilted and tiled views see more of everything, faces of wallpaper included: ask more of them."""
_SURE_SCORE = 0.75
"""A face upside down scores less than this, and its mesh comes out inverted: try the tilted views."""
_MIN_PRESENCE = 0.5
_SAME_FACE_IOU = 0.3
_MIDDLING_FACE, _SMALL_FACE = 0.25, 0.12
"""Shares of the picture's longer side; where the largest face is smaller, the short-range detector misses others."""
_TILES_ALONG = 12
"""A strip is not cut into more squares than this (not counting their overlap), or a thin one would take minutes."""
_WARPED_PX = 32_000
"""OpenCV's warp refuses longer sides."""
_EYE_RIGHT, _EYE_LEFT = 33, 263


@dataclass(frozen=True, slots=True, eq=False)
class FaceLandmarks:
    """One face. Pixel (0, 0) is the centre of the first pixel; points may lie outside a picture that cuts the face."""

    points: F32
    """(468, 2) f32, x and y in pixels of the picture, MediaPipe mesh order."""
    depth: F32
    """(468,) f32, pixels at the scale of x and y, relative to the head's middle; smaller is nearer."""
    score: float
    """0..1: how sure detector and mesh are that this is a face."""
    box: tuple[float, float, float, float]
    """x1, y1, x2, y2 around the points, pixels."""


class _View(NamedTuple):
    """A square of the picture, turned by `angle` (radians, clockwise on screen), that a network looks at."""

    x: float
    y: float
    side_px: float
    angle: float


_LEAST_PX = 8
"""Nobody would see a face in a smaller picture."""


class _Candidate(NamedTuple):
    view: _View
    score: float


class FaceMesh:
    """Detector and mesh on one CPU thread. An instance belongs to one thread at a time."""

    def __init__(self) -> None:
        self._detector = _Network("face_detection_short_range.tflite")
        self._mesh = _Network("face_landmark.tflite")
        self._anchors = _detector_anchors()

    def find(self, rgb: U8) -> list[FaceLandmarks]:
        """All faces of a picture (H, W, 3) u8 RGB, largest first; an empty list where there is none."""
        height, width = rgb.shape[:2]
        if min(height, width) < _LEAST_PX:
            return []
        whole = _View((width - 1) / 2, (height - 1) / 2, float(max(width, height)), 0.0)
        candidates = self._detect(rgb, whole, _MIN_SCORE)
        share = max((c.view.side_px for c in candidates if c.score >= _SURE_SCORE), default=0.0) / whole.side_px
        views: list[_View] = []
        least_px = whole.side_px / _TILES_ALONG
        if share < _MIDDLING_FACE * _ROI_SCALE:
            views += _tiles(width, height, max(least_px, min(0.6 * whole.side_px, min(width, height))))
        if share < _SMALL_FACE * _ROI_SCALE:
            views += [whole._replace(angle=math.radians(a)) for a in (-135, -90, -45, 45, 90, 135, 180)]
            views += _tiles(width, height, max(least_px, 0.36 * min(width, height)))
            views.append(whole._replace(side_px=whole.side_px * 1.7))  # a face that fills the picture
        for view in views:
            candidates += self._detect(rgb, view, _MIN_HARD_SCORE)
        faces: list[FaceLandmarks] = []
        for candidate in sorted(candidates, key=lambda c: -c.score):
            if any(_overlap(_view_box(candidate.view, 1 / _ROI_SCALE), face.box) > 0.5 for face in faces):
                continue
            face = self._refine(rgb, candidate.view, candidate.score)
            if face is not None and all(_overlap(face.box, other.box) < _SAME_FACE_IOU for other in faces):
                faces.append(face)
        return sorted(faces, key=lambda f: -(f.box[2] - f.box[0]) * (f.box[3] - f.box[1]))

    def follow(self, rgb: U8, previous: FaceLandmarks) -> FaceLandmarks | None:
        """The same face in the next frame of a clip, without the detector; None where it is lost."""
        return self._refine(rgb, _mesh_view(previous.points), 1.0)

    def _detect(self, rgb: U8, view: _View, min_score: float) -> list[_Candidate]:
        image, to_picture = _sample(rgb, view, _DETECTOR_PX)
        outputs = self._detector.run(image.astype(np.float32) / 127.5 - 1.0)
        logits = np.clip(outputs[1].reshape(-1), -60.0, 60.0)
        scores = (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)
        (kept,) = np.nonzero(scores > min_score)
        # (k, 8, 2): box centre, box size, then six key points of which the first two are the eyes
        shapes = outputs[0].reshape(-1, 8, 2)[kept]
        shapes[:, 0] += self._anchors[kept]
        shapes[:, 2:] += self._anchors[kept, None]
        found = []
        for shape, score in _merge(shapes, scores[kept]):
            centre, eye_right, eye_left = shape[[0, 2, 3]] @ to_picture[:, :2].T + to_picture[:, 2]
            across = eye_left - eye_right
            side_px = float(shape[1].max()) * view.side_px / _DETECTOR_PX * _ROI_SCALE
            roi = _View(float(centre[0]), float(centre[1]), side_px, math.atan2(float(across[1]), float(across[0])))
            found.append(_Candidate(roi, score))
        return found

    def _refine(self, rgb: U8, view: _View, score: float) -> FaceLandmarks | None:
        points, raw = np.empty((0, 2)), np.empty((0, 3), np.float32)
        scale = presence = 0.0
        for _ in range(_REFINE_PASSES):
            image, to_picture = _sample(rgb, view, _MESH_PX)
            outputs = self._mesh.run(image.astype(np.float32) / 255.0)
            presence = 1.0 / (1.0 + math.exp(-min(60.0, max(-60.0, float(outputs[1].reshape(-1)[0])))))
            if presence < _MIN_PRESENCE:
                return None
            raw = outputs[0].reshape(MESH_POINTS, 3)
            points = raw[:, :2] @ to_picture[:, :2].T + to_picture[:, 2]
            scale = view.side_px / _MESH_PX
            view = _mesh_view(points)
        xy, depth = points.astype(np.float32), (raw[:, 2] * scale).astype(np.float32)
        xy.flags.writeable = depth.flags.writeable = False
        low, high = xy.min(0), xy.max(0)
        box = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
        return FaceLandmarks(xy, depth, min(score, presence), box)


class _Network:
    """One vendored model: a picture in, its outputs largest first."""

    def __init__(self, name: str) -> None:
        content = (resources.files("avatars") / "models" / name).read_bytes()
        self._interpreter: Any = Interpreter(model_content=content, num_threads=1)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        details = sorted(self._interpreter.get_output_details(), key=lambda d: -int(np.prod(d["shape"])))
        self._outputs = [d["index"] for d in details]

    def run(self, image: npt.NDArray[np.floating[Any]]) -> list[F32]:
        self._interpreter.set_tensor(self._input, image[None].astype(np.float32))
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


def _detector_anchors() -> F32:
    """(896, 2) f32: centres the detector's boxes are relative to, in pixels of its input."""
    rows = []
    for stride, per_cell in ((8, 2), (16, 6)):
        cells = _DETECTOR_PX // stride
        y, x = np.mgrid[0:cells, 0:cells].reshape(2, -1)
        rows.append(np.repeat((np.stack([x, y], 1) + 0.5) * stride, per_cell, axis=0))
    return np.concatenate(rows).astype(np.float32)


def _merge(shapes: F32, scores: F32) -> list[tuple[F64, float]]:
    """Boxes of one face averaged by score, best face first."""
    low, high = shapes[:, 0] - shapes[:, 1] / 2, shapes[:, 0] + shapes[:, 1] / 2
    area = shapes[:, 1].prod(-1)
    left = np.argsort(-scores)
    merged = []
    while left.size:
        best = left[0]
        inner = np.clip(np.minimum(high[best], high[left]) - np.maximum(low[best], low[left]), 0, None).prod(-1)
        same = inner / (area[best] + area[left] - inner) > _SAME_FACE_IOU
        same[0] = True
        group = left[same]
        merged.append((np.average(shapes[group], axis=0, weights=scores[group]), float(scores[best])))
        left = left[~same]
    return merged


def _tiles(width: int, height: int, side_px: float) -> list[_View]:
    """Overlapping squares over the picture."""
    return [_View(x, y, side_px, 0.0) for y in _steps(height, side_px) for x in _steps(width, side_px)]


def _steps(length: int, side_px: float) -> list[float]:
    """Centres of the squares along one axis."""
    if side_px >= length:
        return [(length - 1) / 2]
    count = 1 + math.ceil((length - side_px) / (side_px * 0.6))
    return [float(c) for c in np.linspace(side_px / 2, length - side_px / 2, count)]


def _mesh_view(points: F32 | F64) -> _View:
    """The square the mesh wants: upright with the eyes, 1.5 times the face."""
    across = points[_EYE_LEFT] - points[_EYE_RIGHT]
    angle = math.atan2(float(across[1]), float(across[0]))
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], np.float32)
    upright = points @ turn.T
    low, high = upright.min(0), upright.max(0)
    centre = (low + high) / 2 @ turn
    return _View(float(centre[0]), float(centre[1]), float((high - low).max()) * _ROI_SCALE, angle)


def _sample(rgb: U8, view: _View, out_px: int) -> tuple[U8, F64]:
    """The view as (out_px, out_px, 3) u8, and the (2, 3) map from its continuous coordinates to picture pixels."""
    scale = out_px / view.side_px
    cos, sin = math.cos(view.angle), math.sin(view.angle)
    shrink = 1.0
    image: Any = rgb
    x, y = view.x, view.y
    # Average before sampling, or detail aliases; only around the view, or a large photo costs a lot.
    if scale < 0.5 or max(rgb.shape) > _WARPED_PX:
        x1, y1, x2, y2 = _view_box(view, abs(cos) + abs(sin))
        left, top = max(0, math.floor(x1)), max(0, math.floor(y1))
        part = rgb[top : max(top + 1, math.ceil(y2)), left : max(left + 1, math.ceil(x2))]
        if part.size:
            shrink = 1.0 / max(1, math.floor(1 / scale))
            size = (max(1, round(part.shape[1] * shrink)), max(1, round(part.shape[0] * shrink)))
            image = cv2.resize(part, size, interpolation=cv2.INTER_AREA)
            x, y = (x - left + 0.5) * shrink - 0.5, (y - top + 0.5) * shrink - 0.5
    k = scale / shrink
    to_view = np.array([[cos * k, sin * k, 0.0], [-sin * k, cos * k, 0.0]])
    to_view[:, 2] = (out_px - 1) / 2 - to_view[:, :2] @ (x, y)
    sampled: Any = cv2.warpAffine(image, to_view, (out_px, out_px), flags=cv2.INTER_LINEAR)
    to_picture = np.array([[cos, -sin, 0.0], [sin, cos, 0.0]]) / scale
    to_picture[:, 2] = np.array([view.x, view.y]) - to_picture[:, :2] @ (out_px / 2, out_px / 2)
    return sampled, to_picture


def _view_box(view: _View, share: float) -> tuple[float, float, float, float]:
    half = view.side_px * share / 2
    return view.x - half, view.y - half, view.x + half, view.y + half


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Intersection over union of two boxes."""
    inner = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner
    return inner / union if union > 0 else 0.0
