"""What shows between open lips: teeth, tongue, the dark behind them, in the place and light of one face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from engines.warp.crops import Crops
from engines.warp.fields import sample
from engines.warp.lips import UPPER_SHARE, Lips
from engines.warp.mesh import CHEEKS, EYE_LEFT, EYE_RIGHT, LOWER_INNER, LOWER_RINGS, UPPER_INNER
from engines.warp.motion import JAW_DROP
from engines.warp.moulds import TEETH_EDGE, Moulds
from engines.warp.pose import FacePose

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_REAL_TEETH_GAP = 0.10
"""Teeth that show in a gap of at least this (units) are used as they are."""
_TONGUE_TONE = np.array([0.70, 0.34, 0.34], np.float32)
_DARK_TONE = np.array([0.20, 0.065, 0.065], np.float32)
"""The back of the mouth against the white of the eye."""

_LOWER_LIFT, _TONGUE_LIFT = 0.03, 0.20
"""Units: a mouth that speaks opens less than the one whose teeth and tongue were taken; what it shows lies higher."""


class Light(NamedTuple):
    """How bright the face is lit."""

    white: F32
    """(3,) RGB of something white in this light."""
    lip: F32
    """(3,) RGB of the lips."""
    colour: float
    """1 in colour, 0 in black and white."""

    def tone(self, rgb: F32) -> F32:
        """A tone against white, as far as this picture has colours."""
        toned: F32 = rgb * self.colour + rgb.mean(-1, keepdims=True) * np.float32(1 - self.colour)
        return toned


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


def make_interior(anchor: U8, mesh_patch: F64, lips: Lips, pose: FacePose, parts: Moulds | Crops) -> Interior:
    """mesh_patch: (468, 2) patch pixels of the portrait's own mesh. parts: everybody's, or the portrait's own."""
    size = anchor.shape[0]
    corners = np.array([[-0.75, -0.32], [0.75, -0.32], [0.75, 0.75], [-0.75, 0.75]])
    bounds = pose.patch(corners + np.array([lips.middle, lips.rest[UPPER_INNER[5], 1]]))
    x1, y1 = np.floor(bounds.min(0)).astype(int).clip(0, size - 1).tolist()
    x2, y2 = np.ceil(bounds.max(0)).astype(int).clip(1, size).tolist()
    across, below = _places((x1, y1, x2, y2), lips, pose)
    light = read_light(anchor, mesh_patch, lips, pose)
    if isinstance(parts, Crops):
        lifted = ((parts.upper_teeth, 0.0), (parts.lower_teeth, _LOWER_LIFT), (parts.tongue, _TONGUE_LIFT))
        layers = tuple(_shifted(own, -lift * pose.to_patch[:, 1], (x1, y1, x2, y2)) for own, lift in lifted)
    else:
        at = parts.pixel(across, below)
        upper = _real_teeth(anchor, mesh_patch, lips, pose, light)
        tongue = 0.45 * light.lip + 0.55 * light.white * light.tone(_TONGUE_TONE)
        layers = (
            _lit(parts.upper_teeth, at, light, light.white) if upper is None else upper[y1:y2, x1:x2].copy(),
            _lit(parts.lower_teeth, at, light, light.white),
            _lit(parts.tongue, at, light, tongue),
        )
    depth = np.clip(below / (JAW_DROP * 1.4), 0, 1)[..., None]
    return Interior(
        x=x1,
        y=y1,
        upper_teeth=layers[0],
        lower_teeth=layers[1],
        tongue=layers[2],
        dark=(light.white * light.tone(_DARK_TONE) * (0.45 + 0.75 * depth)).astype(np.float32),
        down=pose.to_patch[:, 1],
        unit_px=pose.unit_px,
    )


def _lit(mould: F32, at: F32, light: Light, colour: F32) -> U8:
    """A mould in its place and light."""
    shown = sample(mould, at)
    shown[..., :3] = light.tone(shown[..., :3]) * colour
    shown[..., 3] *= 255
    lit: U8 = np.rint(shown).clip(0, 255).astype(np.uint8)
    return lit


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
    wanted = float(np.clip(white @ luma, max(20.0, 1.25 * skin_luma), min(240.0, max(40.0, 2.7 * skin_luma))))
    white = np.minimum(250.0, white * (wanted / max(1.0, float(white @ luma))))
    colour = min(1.0, float(np.ptp(skin)) / (0.12 * max(20.0, float(skin.max()))))
    middle = (lips.source[LOWER_RINGS[1], :] + lips.source[LOWER_RINGS[2], :])[3:8] / 2
    lip = np.median(_pixels_at(anchor, pose.patch(middle)), axis=0)
    return Light(white.astype(np.float32), lip.astype(np.float32), colour)


def _pixels_at(picture: U8, points: F64) -> F64:
    at = np.rint(points).astype(int).clip(0, picture.shape[0] - 1)
    pixels: F64 = picture[at[:, 1], at[:, 0]].astype(np.float64)
    return pixels


def _places(rect: tuple[int, int, int, int], lips: Lips, pose: FacePose) -> tuple[F32, F32]:
    """Units across, from the middle of the mouth and unforeshortened, and below the shut line, of each pixel."""
    x1, y1, x2, y2 = rect
    face = pose.face(np.stack(np.meshgrid(np.arange(x1, x2), np.arange(y1, y2)), -1).astype(np.float64))
    halves = 0.5 * (lips.half_left + lips.half_right)
    across = lips.along(face[..., 0]) * np.clip(halves, 0.42, 0.56)
    seam = lips.rest[UPPER_INNER]
    # the line sags or lifts with the mouth; teeth stay straight, so only its tilt and height count
    slope, height = np.polyfit(seam[:, 0], seam[:, 1], 1)
    return across.astype(np.float32), (face[..., 1] - (slope * face[..., 0] + height)).astype(np.float32)


def _real_teeth(anchor: U8, mesh_patch: F64, lips: Lips, pose: FacePose, light: Light) -> U8 | None:
    """(N, N, 4) u8: the portrait's own teeth where its mouth is open enough and they are lit."""
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
    whole = np.concatenate([anchor.astype(np.float32) * (alpha / 255), alpha], -1)
    # a broad smile bares more than speech does: up with them until they end where such teeth would
    bared = (1 - UPPER_SHARE) * gap - 1.6 * TEETH_EDGE
    up = -max(0.0, bared) * pose.to_patch[:, 1]
    shift = np.array([[1, 0, up[0]], [0, 1, up[1]]])
    lifted: U8 = np.rint(cv2.warpAffine(whole, shift, (anchor.shape[1], anchor.shape[0]))).astype(np.uint8)
    return lifted


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
