"""Where the lips are in a portrait, whether they are shut, and how they would lie shut and at rest."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from engines.warp.fields import sample
from engines.warp.mesh import (
    LIP_COLUMNS,
    LIPS,
    LOWER_INNER,
    LOWER_OUTER,
    LOWER_RINGS,
    OUTER_LIPS,
    RING_SHARE,
    UPPER_INNER,
    UPPER_OUTER,
    UPPER_RINGS,
)
from engines.warp.pose import FacePose

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_SHUT_GAP, _OPEN_GAP = 0.045, 0.10
"""Inner contours nearer than the first (units) are a shut mouth, further than the second an open one, whatever lies
between them; from first to second the picture decides."""
_SEARCH = 0.09
_STEP = 0.005
_LINE_COLUMNS = 61
_SHUT_DARK = 0.05
"""A line between shut lips is darker than the lips over less than this height."""
_LINE_DARK = 0.72
"""And this dark against the lips; between teeth and lip there is no such line."""
UPPER_SHARE = 0.3
"""Of the way to a shut mouth that the upper lip comes down; the lower lip and the jaw do the rest."""
_REST_LIFT = 0.03
"""Corners of a mouth at rest lie this much above its middle."""


@dataclass(frozen=True, slots=True, eq=False)
class Lips:
    """All in face coordinates."""

    source: F64
    """(468, 2): the mesh with its lip rings laid on the picture's lip line."""
    close: F64
    """(468, 2): from there to a shut mouth at rest; zero where it is shut already."""
    shut: bool
    half_left: float
    """From the middle of the mouth at rest to its left corner; turning the head makes the halves differ."""
    half_right: float
    middle: float
    smile: float
    """0..1: how much of a smile had to be let go."""

    @property
    def rest(self) -> F64:
        return self.source + self.close

    def along(self, x: F64) -> F64:
        """Place along the mouth: -1 at the left corner, 0 in the middle, 1 at the right one."""
        offset = x - self.middle
        return np.where(offset < 0, offset / self.half_left, offset / self.half_right)


def measure(mesh: F64, patch: U8, pose: FacePose) -> Lips:
    """Read the lips of a (468, 2) mesh in face coordinates, with the (N, N, 3) u8 patch it belongs to."""
    source = mesh.copy()
    gap = np.maximum(0.0, mesh[LOWER_INNER, 1] - mesh[UPPER_INNER, 1])
    profile = _LipProfile.read(mesh, patch, pose)
    shut = profile.is_shut(float(gap.max()))
    if shut:
        line = profile.line(np.linspace(0, 1, LIP_COLUMNS))
        source[UPPER_INNER] = source[LOWER_INNER] = line
    for rings in (UPPER_RINGS, LOWER_RINGS):  # the mesh bunches its rings; even ones bend more evenly
        outer, inner = source[rings[0]], source[rings[3]]
        source[rings[1]] = outer + (inner - outer) * RING_SHARE[1]
        source[rings[2]] = outer + (inner - outer) * RING_SHARE[2]
    close, smile = (np.zeros_like(source), 0.0) if shut else _closing(source)
    rest = source + close
    corners = rest[[UPPER_OUTER[0], UPPER_OUTER[-1]], 0]
    middle = float((rest[UPPER_OUTER[5], 0] + rest[UPPER_INNER[5], 0] + rest[LOWER_INNER[5], 0]) / 3)
    width = float(corners[1] - corners[0])
    middle = float(np.clip(middle, corners[0] + 0.25 * width, corners[1] - 0.25 * width))
    return Lips(source, close, shut, middle - float(corners[0]), float(corners[1]) - middle, middle, smile)


@dataclass(frozen=True, slots=True, eq=False)
class _LipProfile:
    """The picture straightened along the mouth: rows across the lips, columns from corner to corner."""

    luma: F32
    """(rows, columns) f32"""
    centre: F64
    """(columns, 2) face coordinates of the middle row."""
    lip_luma: F32
    """(columns,) brightness of the lips themselves."""
    path: npt.NDArray[np.intp]
    """(columns,) row of the darkest smooth line."""

    @classmethod
    def read(cls, mesh: F64, patch: U8, pose: FacePose) -> _LipProfile:
        share = np.linspace(0, 1, _LINE_COLUMNS)
        knots = np.linspace(0, 1, LIP_COLUMNS)
        middle = (mesh[UPPER_INNER] + mesh[LOWER_INNER]) / 2
        centre = np.stack([np.interp(share, knots, middle[:, i]) for i in (0, 1)], 1)
        offsets = np.arange(-_SEARCH, _SEARCH + 1e-9, _STEP)
        grid = np.stack(np.broadcast_arrays(centre[None, :, 0], centre[None, :, 1] + offsets[:, None]), -1)
        grey = cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY).astype(np.float32)
        luma = _sample(grey, pose.patch(grid))
        lips = [
            np.interp(share, knots, _sample(grey, pose.patch((mesh[o] + mesh[i]) / 2)).ravel())
            for o, i in ((UPPER_OUTER, UPPER_INNER), (LOWER_OUTER, LOWER_INNER))
        ]
        smooth = np.asarray(cv2.GaussianBlur(luma, (0, 0), sigmaX=1.5, sigmaY=1.0), dtype=np.float64)
        # near the corners the picture says little and the mesh is good: pull harder towards the middle row
        pull = 20.0 + 60.0 * np.abs(2 * share - 1) ** 4
        cost = smooth / max(1.0, float(np.mean(lips))) * 10 + pull * (offsets[:, None] / _SEARCH) ** 2 * 0.08
        return cls(luma, centre, np.minimum(*lips).astype(np.float32), _cheapest_path(cost))

    def is_shut(self, gap: float) -> bool:
        """A dark line, no teeth and no more darkness than a lip line has, over the middle of the mouth."""
        if not _SHUT_GAP <= gap < _OPEN_GAP:
            return gap < _SHUT_GAP
        middle = slice(_LINE_COLUMNS // 5, -_LINE_COLUMNS // 5)
        columns = np.arange(_LINE_COLUMNS)[middle]
        lip = self.lip_luma[middle]
        around = np.clip(self.path[middle] + np.arange(-9, 10)[:, None], 0, self.luma.shape[0] - 1)
        near = self.luma[around, columns]
        floor = near.min(0)
        dark = (near < floor + 0.4 * (lip - floor)).sum(0) * _STEP
        bright = near.max(0) > 1.7 * lip + 12
        lined = float(np.median(floor / lip)) < _LINE_DARK
        return lined and float(np.median(dark)) < _SHUT_DARK and float(bright.mean()) < 0.3

    def line(self, share: F64) -> F64:
        """(n, 2) face coordinates of the lip line at shares 0..1 of the way from left to right."""
        rows = cv2.GaussianBlur(self.path.astype(np.float32)[None], (0, 0), 1.5)[0]
        y = self.centre[:, 1] + rows * _STEP - _SEARCH
        places = np.linspace(0, 1, _LINE_COLUMNS)
        return np.stack([np.interp(share, places, self.centre[:, 0]), np.interp(share, places, y)], 1)


def _sample(grey: F32, points: F64) -> F32:
    at = points.astype(np.float32).reshape(-1, 1, points.shape[-1])
    return sample(grey, at).reshape(points.shape[:-1])


def _cheapest_path(cost: F64) -> npt.NDArray[np.intp]:
    """(columns,) rows of the cheapest left-to-right path that moves at most one row a column."""
    rows, columns = cost.shape
    total = cost[:, 0].copy()
    came = np.zeros((rows, columns), np.intp)
    for c in range(1, columns):
        padded = np.pad(total, 1, constant_values=np.inf)
        choices = np.stack([padded[:-2] + 0.15, padded[1:-1], padded[2:] + 0.15])
        best = choices.argmin(0)
        came[:, c] = best - 1
        total = choices[best, np.arange(rows)] + cost[:, c]
    path = np.empty(columns, np.intp)
    path[-1] = int(total.argmin())
    for c in range(columns - 1, 0, -1):
        path[c - 1] = path[c] + came[path[c], c]
    return path


def _closing(source: F64) -> tuple[F64, float]:
    """(468, 2) displacement that shuts an open mouth and lets a smile go, and how much of a smile it was."""
    close = np.zeros_like(source)
    gap = np.maximum(0.0, source[LOWER_INNER, 1] - source[UPPER_INNER, 1])
    corners = source[[UPPER_OUTER[0], UPPER_OUTER[-1]]]
    width = float(corners[1, 0] - corners[0, 0])
    middle_x = float(corners[:, 0].mean())
    seam_y = source[UPPER_INNER[5], 1] + UPPER_SHARE * gap[5]
    lift = max(0.0, float(seam_y - corners[:, 1].mean()) - _REST_LIFT)
    smile = min(1.0, lift / 0.12)
    for rings, share, outer in ((UPPER_RINGS, UPPER_SHARE, 0.0), (LOWER_RINGS, UPPER_SHARE - 1.0, 0.72)):
        for ring, inside in zip(rings, RING_SHARE, strict=True):
            along = np.clip((source[ring, 0] - middle_x) / (width / 2), -1, 1)
            # the outlines follow less than the inner lips: a stretched lip grows full again as it relaxes
            close[ring, 1] = share * gap * (outer + (1 - outer) * inside) + 0.6 * lift * along**2
            close[ring, 0] = -np.sign(along) * np.abs(along) ** 1.3 * 0.07 * width * smile
    spread(close, source, OUTER_LIPS, 0.35)
    below = np.clip((source[:, 1] - corners[:, 1].mean()) / 0.5, 0, 1)
    beside = np.clip(1 - ((source[:, 0] - middle_x) / 1.1) ** 2, 0, 1)
    chin = -0.5 * float(gap.max()) * below**2 * (3 - 2 * below) * beside
    outside = np.ones(len(source), bool)
    outside[LIPS] = False
    close[outside, 1] = np.where(np.abs(chin[outside]) > np.abs(close[outside, 1]), chin[outside], close[outside, 1])
    return close, smile


def spread(motion: F64, places: F64, ring: npt.NDArray[np.intp], reach: float) -> None:
    """Let the skin around the lips follow the nearest lip point, less with distance; lips keep what they have."""
    outside = np.ones(len(places), bool)
    outside[LIPS] = False
    away = np.linalg.norm(places[outside, None] - places[None, ring], axis=-1)
    nearest = away.argmin(1)
    weight = np.exp(-((away.min(1) / reach) ** 2))
    motion[outside] += motion[ring[nearest]] * weight[:, None]
