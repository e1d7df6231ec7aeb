"""What shows between open lips: teeth, tongue, the dark behind them. Made once a face, in its light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from engines.warp.lips import UPPER_SHARE, Lips
from engines.warp.mesh import CHEEKS, EYE_LEFT, EYE_RIGHT, LOWER_INNER, LOWER_RINGS, UPPER_INNER
from engines.warp.motion import JAW_DROP, TEETH_EDGE
from engines.warp.pose import FacePose

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_SUPERSAMPLE = 3
_UPPER_WIDTHS = (0.165, 0.130, 0.120, 0.100, 0.085, 0.07)
"""Front to back, units; the back ones foreshortened."""
_UPPER_LENGTHS = (0.0, -0.008, -0.001, -0.010, -0.014, -0.018)
_LOWER_WIDTHS = (0.100, 0.108, 0.110, 0.095, 0.085, 0.07)
_LOWER_LENGTHS = (0.0, 0.004, 0.006, -0.004, -0.01, -0.016)
_LOWER_EDGE = -0.02
"""The lower teeth end this far above the line of the shut lips, and go down with the jaw."""
_TEETH_TONE = np.array([0.96, 0.925, 0.85], np.float32)
"""Teeth against the white of the eye."""
_REAL_TEETH_GAP = 0.10
"""Teeth that show in a gap of at least this (units) are used as they are."""


class Light(NamedTuple):
    """How bright the face is lit."""

    white: F32
    """(3,) RGB of something white in this light."""
    lip: F32
    """(3,) RGB of the lips."""


@dataclass(frozen=True, slots=True, eq=False)
class Interior:
    """Textures over one rectangle of the patch, (h, w, 4) u8: RGB times alpha, alpha."""

    x: int
    y: int
    upper_teeth: U8
    lower_teeth: U8
    tongue: U8
    dark: F32
    """(h, w, 3) f32: the back of the mouth."""
    down: F64
    """(2,) patch pixels of one unit down the face."""
    unit_px: float

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)"""
        return self.dark.shape[1], self.dark.shape[0]

    def paint(self, out: U8, contour: F32, drop: float, tongue: float, pursed: float) -> None:
        """Draw into `out` (N, N, 3) what shows inside a contour (n, 2) of patch pixels.

        drop: of the jaw, units; tongue and pursed 0..1: tip raised, lips pushed out in front of the teeth.
        """
        width, height = self.size
        hole = np.zeros((height, width), np.uint8)
        points = np.rint((contour - (self.x, self.y)) * 16).astype(np.int32)
        cv2.fillPoly(hole, [points], (255,), cv2.LINE_AA, 4)
        x, y, w, h = cv2.boundingRect(hole)
        if w == 0 or h == 0:
            return
        pad = 3
        x1, y1, x2, y2 = max(0, x - pad), max(0, y - pad), min(width, x + w + pad), min(height, y + h + pad)
        view = (slice(y1, y2), slice(x1, x2))
        shown = self.dark[view].copy()
        raise_units = 0.15 * tongue
        for texture, shift, strength in (
            (self.tongue, drop - raise_units, 1.0),
            (self.lower_teeth, drop + 0.05 * pursed, (1.0 - 0.8 * tongue) * (1.0 - 0.9 * pursed)),
            (self.upper_teeth, -0.03 * pursed, 1.0 - 0.97 * pursed),
        ):
            _over(shown, _shifted(texture, self.down * shift, (x1, y1, x2, y2)), strength)
        shown *= self._shade(hole[view]) * np.float32(1.0 - 0.35 * pursed)
        alpha = cv2.GaussianBlur(hole[view], (0, 0), 0.8).astype(np.float32)
        alpha *= np.float32(1 / 255)
        target = out[self.y + y1 : self.y + y2, self.x + x1 : self.x + x2]
        mixed = target + (shown - target) * alpha[..., None]
        np.clip(mixed, 0, 255, out=mixed)
        target[...] = mixed + 0.5

    def _shade(self, hole: U8) -> F32:
        """(h, w, 1) f32: darker under the lips, most under the upper one, and never so dark that a slit looks grey."""
        soft = cv2.GaussianBlur(hole, (0, 0), 0.05 * self.unit_px).astype(np.float32)
        step = self.down * 0.02
        shift = np.array([[1, 0, step[0]], [0, 1, step[1]]])
        size = (hole.shape[1], hole.shape[0])
        soft = np.asarray(cv2.warpAffine(soft, shift, size, borderMode=cv2.BORDER_REPLICATE), dtype=np.float32)
        soft *= np.float32(1 / max(1.0, float(soft.max())))
        shade: F32 = np.minimum(1.0, 0.45 + 0.70 * soft)[..., None].astype(np.float32, copy=False)
        return shade


def make_interior(anchor: U8, mesh_patch: F64, lips: Lips, pose: FacePose) -> Interior:
    """mesh_patch: (468, 2) patch pixels of the portrait's own mesh."""
    size = anchor.shape[0]
    corners = np.array([[-0.75, -0.32], [0.75, -0.32], [0.75, 0.75], [-0.75, 0.75]])
    bounds = pose.patch(corners + np.array([lips.middle, lips.rest[UPPER_INNER[5], 1]]))
    x1, y1 = np.floor(bounds.min(0)).astype(int).clip(0, size - 1)
    x2, y2 = np.ceil(bounds.max(0)).astype(int).clip(1, size)
    across, below = _places((x1, y1, x2, y2), lips, pose)
    light = read_light(anchor, mesh_patch, lips, pose)
    lower = _teeth(across, -below, -_LOWER_EDGE, _LOWER_WIDTHS, _LOWER_LENGTHS, light.white * _TEETH_TONE * 0.74)
    upper = _real_teeth(anchor, mesh_patch, lips, pose, light, (x1, y1, x2, y2))
    if upper is None:
        upper = _small(
            _teeth(across, below, TEETH_EDGE, _UPPER_WIDTHS, _UPPER_LENGTHS, light.white * _TEETH_TONE),
            (x1, y1, x2, y2),
        )
    depth = np.clip(below / (JAW_DROP * 1.4), 0, 1)[..., None].astype(np.float32)
    back = light.white * np.array([0.20, 0.065, 0.065], np.float32)
    fine = back * (0.45 + 0.75 * depth)
    dark = np.asarray(cv2.resize(fine, (x2 - x1, y2 - y1), interpolation=cv2.INTER_AREA), dtype=np.float32)
    tongue = _tongue(across, below, light)
    rect = (x1, y1, x2, y2)
    return Interior(
        int(x1), int(y1), upper, _small(lower, rect), _small(tongue, rect), dark, pose.to_patch[:, 1], pose.unit_px
    )


def read_light(anchor: U8, mesh_patch: F64, lips: Lips, pose: FacePose) -> Light:
    """White from the whites of the eyes, within what the skin makes believable."""
    skin = np.median(_pixels_at(anchor, mesh_patch[CHEEKS]), axis=0)
    luma = np.array([0.299, 0.587, 0.114])
    whites = []
    for eye in (EYE_LEFT, EYE_RIGHT):
        mask = np.zeros(anchor.shape[:2], np.uint8)
        cv2.fillPoly(mask, [np.rint(mesh_patch[eye] * 16).astype(np.int32)], (255,), cv2.LINE_8, 4)
        pixels = anchor[mask > 0].astype(np.float64)
        if len(pixels) >= 12:
            bright = pixels @ luma
            low, high = np.quantile(bright, [0.75, 0.97])
            whites.append(pixels[(bright >= low) & (bright <= high)].mean(0))
    skin_luma = float(skin @ luma)
    white = np.mean(whites, axis=0) if whites else np.full(3, 1.25 * skin_luma)
    white = 0.7 * white + 0.3 * float(white @ luma)
    wanted = float(np.clip(white @ luma, max(80.0, 1.25 * skin_luma), max(165.0, min(240.0, 1.9 * skin_luma))))
    white = np.minimum(250.0, white * (wanted / max(1.0, float(white @ luma))))
    middle = (lips.source[LOWER_RINGS[1], :] + lips.source[LOWER_RINGS[2], :])[3:8] / 2
    lip = np.median(_pixels_at(anchor, pose.patch(middle)), axis=0)
    return Light(white.astype(np.float32), lip.astype(np.float32))


def _pixels_at(picture: U8, points: F64) -> F64:
    at = np.rint(points).astype(int).clip(0, picture.shape[0] - 1)
    pixels: F64 = picture[at[:, 1], at[:, 0]].astype(np.float64)
    return pixels


def _places(rect: tuple[int, int, int, int], lips: Lips, pose: FacePose) -> tuple[F32, F32]:
    """Units across, from the middle of the mouth and unforeshortened, and below the shut line; supersampled."""
    x1, y1, x2, y2 = rect
    step = 1 / _SUPERSAMPLE
    x = np.arange(x1 - 0.5 + step / 2, x2 - 0.5, step)
    y = np.arange(y1 - 0.5 + step / 2, y2 - 0.5, step)
    face = pose.face(np.stack(np.meshgrid(x, y), -1)).astype(np.float32)
    halves = 0.5 * (lips.half_left + lips.half_right)
    offset = face[..., 0] - np.float32(lips.middle)
    scale = np.float32(np.clip(halves, 0.42, 0.56))
    across = offset * np.where(offset < 0, scale / np.float32(lips.half_left), scale / np.float32(lips.half_right))
    seam = lips.rest[UPPER_INNER]
    # the line sags or lifts with the mouth; teeth stay straight, so only its tilt and height count
    slope, height = np.polyfit(seam[:, 0], seam[:, 1], 1)
    return across, face[..., 1] - (np.float32(slope) * face[..., 0] + np.float32(height))


def _teeth(
    across: F32, below: F32, edge: float, widths: tuple[float, ...], lengths: tuple[float, ...], colour: F32
) -> F32:
    """(h, w, 4) f32 RGB times alpha, alpha of a row of teeth whose edges lie `edge` below."""
    offset = np.abs(across)
    ends = np.cumsum((0.0, *widths)).astype(np.float32)
    index = np.clip(np.searchsorted(ends, offset.ravel(), side="right") - 1, 0, len(widths) - 1).reshape(offset.shape)
    width = np.array(widths, np.float32)[index]
    inside = np.abs((offset - ends[index]) / width * 2 - 1)  # 0 in the middle of a tooth, 1 at its sides
    longer = np.array(lengths, np.float32)
    uneven = np.stack([longer + 0.004 * np.sin(7.3 * np.arange(len(widths)) + 2.1 * side) for side in (-1, 1)])
    bottom = edge - 0.10 * offset**2 + uneven.astype(np.float32)[(across > 0).astype(np.intp), index]
    bottom -= 0.011 * inside**4 * inside
    soft = 0.012
    alpha = np.clip((bottom - below) / soft + 0.5, 0, 1) * np.clip((ends[-1] - offset) / 0.05, 0, 1)
    alpha *= np.clip((below + 0.30) / 0.03, 0, 1)
    gap = np.clip((1 - inside) * width / 2 / 0.012, 0, 1)  # 0 where two teeth meet
    bright = (0.86 + 0.14 * gap) * (1.0 - 0.06 * inside**2)
    bright *= np.clip(1.04 - 1.15 * offset**2, 0.45, 1)
    bright *= 1.0 - 0.10 * np.clip((below - bottom + 0.04) / 0.04, 0, 1)
    gum = np.clip((-below - 0.10 + 0.03 * inside**2) / 0.03, 0, 1)[..., None]
    tooth = colour * bright[..., None]
    rgb = tooth + (colour * np.array([0.72, 0.40, 0.40], np.float32) * 0.8 - tooth) * gum
    return np.concatenate([rgb * alpha[..., None], alpha[..., None] * 255], -1).astype(np.float32)


def _tongue(across: F32, below: F32, light: Light) -> F32:
    """(h, w, 4) f32: a low mound whose top lies a little below the shut line."""
    top = -0.15 + 0.5 * across**2
    inside = np.clip((below - top) / 0.06 + 0.5, 0, 1) * np.clip((0.36 - np.abs(across)) / 0.08, 0, 1)
    colour = 0.45 * light.lip + 0.55 * light.white * np.array([0.70, 0.34, 0.34], np.float32)
    round_ = np.clip(1.0 - 3.0 * across**2, 0.5, 1)
    groove = 1.0 - 0.12 * np.exp(-((across / 0.03) ** 2))
    lit = np.clip(0.60 + 1.6 * (below - top), 0.60, 0.85)
    rgb = colour * (round_ * groove * lit)[..., None]
    return np.concatenate([rgb * inside[..., None], inside[..., None] * 255], -1).astype(np.float32)


def _real_teeth(
    anchor: U8, mesh_patch: F64, lips: Lips, pose: FacePose, light: Light, rect: tuple[int, int, int, int]
) -> U8 | None:
    """The portrait's own teeth where its mouth is open enough and they are lit."""
    gap = float((lips.source[LOWER_INNER, 1] - lips.source[UPPER_INNER, 1]).max())
    if lips.shut or gap < _REAL_TEETH_GAP:
        return None
    hole = np.zeros(anchor.shape[:2], np.uint8)
    contour = np.concatenate([mesh_patch[UPPER_INNER], mesh_patch[LOWER_INNER][::-1]])
    cv2.fillPoly(hole, [np.rint(contour * 16).astype(np.int32)], (255,), cv2.LINE_8, 4)
    hole = np.asarray(cv2.erode(hole, np.ones((3, 3), np.uint8)), dtype=np.uint8)
    bright = anchor.astype(np.float32).min(-1)
    if not hole.any() or float(np.median(bright[hole > 0])) < 0.45 * float(light.white.mean()):
        return None
    alpha = cv2.GaussianBlur(hole, (0, 0), 1.0).astype(np.float32)[..., None]
    x1, y1, x2, y2 = rect
    whole = np.concatenate([anchor.astype(np.float32) * (alpha / 255), alpha], -1)
    # a broad smile bares more than speech does: up with them until they end where such teeth would
    bared = (1 - UPPER_SHARE) * gap - 1.6 * TEETH_EDGE
    up = -max(0.0, bared) * pose.to_patch[:, 1]
    shift = np.array([[1, 0, up[0]], [0, 1, up[1]]])
    lifted = cv2.warpAffine(whole, shift, (anchor.shape[1], anchor.shape[0]))[y1:y2, x1:x2]
    return np.ascontiguousarray(np.rint(lifted).astype(np.uint8))


def _small(texture: F32, rect: tuple[int, int, int, int]) -> U8:
    size = (rect[2] - rect[0], rect[3] - rect[1])
    return np.rint(cv2.resize(texture, size, interpolation=cv2.INTER_AREA)).clip(0, 255).astype(np.uint8)


def _shifted(texture: U8, by: F64, view: tuple[int, int, int, int]) -> U8:
    """The part of a texture, moved by (x, y) pixels, that lies in a view of its rectangle."""
    x1, y1, x2, y2 = view
    shift = np.array([[1, 0, by[0] - x1], [0, 1, by[1] - y1]])
    return np.asarray(cv2.warpAffine(texture, shift, (x2 - x1, y2 - y1)), dtype=np.uint8)


def _over(shown: F32, texture: U8, strength: float) -> None:
    """Lay RGB-times-alpha over a picture, in place."""
    front = texture.astype(np.float32)
    if strength < 1.0:
        front *= np.float32(strength)
    shown *= 1.0 - front[..., 3:] * np.float32(1 / 255)
    shown += front[..., :3]
