"""Lids and gaze of one anchor frame: small pictures of its eyes, half shut, shut, or looking aside."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from engines.contract import FaceOverlay
from engines.warp.fields import sample, smoothstep
from engines.warp.glances import Eyes
from engines.warp.mesh import EYE_LIDS

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_LEAST_OPEN_PX = 2.5
"""Eyes that are less open than this in the patch do not blink: there is nothing to show."""
_SKIN_SHARE = 1.5
"""Skin that comes down with the upper lid, in heights of the open eye."""
_LASH_SHARE = 0.30
"""Of an eye's height: the lid's edge with its lashes, which moves without being stretched."""
_LINE_SHARE, _LINE_DARK, _OVER = 0.09, 0.55, 0.12
"""The line of lashes: half its width and how far below the lid's edge, in heights of the open eye; how dark it is."""
_MEET = 0.96
"""Where shut lids meet, from the upper edge to the lower one."""
_GAZE_SHARE = 0.06
"""How far an iris goes aside, in widths of the eye."""


@dataclass(frozen=True, slots=True, eq=False)
class _Eye:
    """One eye's lids as heights over the columns of its rectangle, patch pixels."""

    rect: tuple[int, int, int, int]
    upper: F32
    """(w,) the upper lid's edge; outside the corners, the line between them."""
    lower: F32
    open_px: float
    across: F32
    """(w,) -1 at the left corner, 1 at the right one."""


class LidPainter:
    """Makes the overlays of a frame once each; read-only afterwards."""

    def __init__(self, anchor: U8, points: F64, shut: U8 | None = None) -> None:
        """anchor (N, N, 3) u8 RGB; points (468, 2) in its pixels; shut: the same with its eyes shut, where known,
        (N, N, 4) u8 RGB times alpha and alpha.
        """
        self._anchor = anchor
        self._shut = None if shut is None else _laid_over(anchor, shut)
        found = (_eye(points[upper], points[lower], anchor.shape[0]) for upper, lower in EYE_LIDS)
        self._eyes = [eye for eye in found if eye is not None]
        self._made: dict[Eyes, tuple[FaceOverlay, ...]] = {}

    def overlays(self, eyes: Eyes) -> tuple[FaceOverlay, ...]:
        """What lies over the frame; nothing where the eyes are as they are in the portrait."""
        if eyes == Eyes() or not self._eyes:
            return ()
        made = self._made.get(eyes)
        if made is None:
            made = self._made[eyes] = tuple(self._paint(eye, eyes) for eye in self._eyes)
        return made

    def _paint(self, eye: _Eye, eyes: Eyes) -> FaceOverlay:
        x1, y1, x2, y2 = eye.rect
        x, y = (grid.astype(np.float32) for grid in np.meshgrid(np.arange(x1, x2), np.arange(y1, y2)))
        aside = _looks_aside(eye, x, y, eyes.gaze)
        pixels = sample(self._anchor, np.stack([x + aside, y], -1).astype(np.float32))
        mask = _soft_edge(eye, x, y)
        if eyes.shut > 0:
            lid_from, lid = _lid_down(eye, y, eyes.shut, 0.0 if self._shut is None else 1.0)
            lids = self._anchor if self._shut is None else self._shut
            skin = sample(lids, np.stack([x, lid_from], -1).astype(np.float32))
            if self._shut is not None and eyes.shut >= 1.0:
                lid = np.ones_like(lid)  # nothing of the open eye is left
            share = lid[..., None]
            mixed = skin * share + pixels * (1 - share)
            if self._shut is not None:
                mixed *= 1 - _lash_line(eye, y, eyes.shut)[..., None]
            pixels = np.rint(mixed).astype(np.uint8)
        pixels.flags.writeable = mask.flags.writeable = False
        return FaceOverlay(eye.rect, pixels, mask)


def _eye(upper: F64, lower: F64, side_px: int) -> _Eye | None:
    """An eye from its lids' edges (n, 2) each, left corner to right; None where it is shut, odd or cut off."""
    left, right = (upper[0] + lower[0]) / 2, (upper[-1] + lower[-1]) / 2
    width = right[0] - left[0]
    gap = np.interp(upper[1:-1, 0], lower[:, 0], lower[:, 1]) - upper[1:-1, 1]
    open_px = float(gap.max())
    if width < 4 * _LEAST_OPEN_PX or open_px < _LEAST_OPEN_PX or np.any(np.diff(upper[:, 0]) <= 0):
        return None
    pad = 0.16 * width
    x1, x2 = int(np.floor(left[0] - pad)), int(np.ceil(right[0] + pad))
    top = min(upper[:, 1].min(), left[1], right[1]) - (_SKIN_SHARE + 0.15) * open_px
    bottom = max(lower[:, 1].max(), left[1], right[1]) + 0.6 * open_px
    y1, y2 = int(np.floor(top)), int(np.ceil(bottom))
    if x1 < 0 or y1 < 0 or x2 > side_px or y2 > side_px:
        return None
    columns = np.arange(x1, x2, dtype=np.float64)
    across = (2 * (columns - left[0]) / width - 1).astype(np.float32)
    line = left[1] + (right[1] - left[1]) * (columns - left[0]) / width
    inside = (columns >= left[0]) & (columns <= right[0])
    edges = []
    for lid in (upper, lower):
        curve = np.interp(columns, lid[:, 0], lid[:, 1])
        smooth = cv2.GaussianBlur((curve - line)[None], (0, 0), 0.04 * width)[0]
        edges.append((line + np.where(inside, smooth, 0.0)).astype(np.float32))
    return _Eye((x1, y1, x2, y2), np.minimum(*edges), np.maximum(*edges), open_px, across)


def _laid_over(anchor: U8, shut: U8) -> U8:
    share = shut[..., 3:].astype(np.float32) * np.float32(1 / 255)
    laid: U8 = np.rint(anchor * (1 - share) + shut[..., :3]).clip(0, 255).astype(np.uint8)
    return laid


def _lid_down(eye: _Eye, y: F32, shut: float, seen: float) -> tuple[F32, F32]:
    """Rows (h, w) that the lowered lid shows, and where it lies, 0..1.

    seen: how far shut the lid is in the picture that it is read from, as `shut`.
    """
    height = eye.lower - eye.upper
    edge = eye.upper + np.float32(shut * _MEET) * height
    known = eye.upper + np.float32(seen * _MEET) * height
    lash = np.float32(_LASH_SHARE * eye.open_px) * np.clip(height / eye.open_px, 0.2, 1.0)
    top = eye.upper - np.float32(_SKIN_SHARE * eye.open_px)
    # From the fold down to the lashes the skin is stretched; lashes and edge only move.
    rest, moved = known - lash - top, edge - lash - top
    rows = np.where(y < edge - lash, top + np.clip((y - top) / moved, 0.0, 1.0) * rest, y - (edge - known))
    over = np.float32(lash.max() * 0.55)
    lid = np.clip((edge + over - y) / np.float32(max(1.0, 0.12 * eye.open_px)) + 0.5, 0.0, 1.0)
    lid = lid * np.clip((y - top) / 2.0, 0.0, 1.0)
    return rows.astype(np.float32), lid.astype(np.float32)


def _lash_line(eye: _Eye, y: F32, shut: float) -> F32:
    """(h, w) 0..1: how dark lashes and their shade make the edge of a lid that was rendered with hardly any."""
    height = eye.lower - eye.upper
    edge = np.minimum(eye.upper + np.float32(shut * _MEET + _OVER) * height, eye.lower)
    wide = np.float32(max(0.8, _LINE_SHARE * eye.open_px))
    there = smoothstep(height / np.float32(0.4 * eye.open_px)) * np.float32(_LINE_DARK)
    line: F32 = (there * np.exp(-(((y - edge) / wide) ** 2))).astype(np.float32)
    return line


def _looks_aside(eye: _Eye, x: F32, y: F32, gaze: float) -> F32:
    """Columns to read from, against (h, w) columns: inside the lids the eye turns, at their edges it stays."""
    if gaze == 0:
        return np.zeros_like(x)
    height = np.maximum(eye.lower - eye.upper, 1.0)
    down = np.clip((y - eye.upper) / height, 0.0, 1.0)
    within = (smoothstep(5 * down * (1 - down)) * smoothstep((1 - np.abs(eye.across)) * 1.5)).astype(np.float32)
    width = np.float32(2.0 / max(1e-6, float(eye.across[1] - eye.across[0])))
    shifted: F32 = within * np.float32(-gaze * _GAZE_SHARE) * width
    return shifted


def _soft_edge(eye: _Eye, x: F32, y: F32) -> F32:
    """(h, w) f32: 1 inside, fading to the rectangle's border."""
    x1, y1, x2, y2 = eye.rect
    fade = max(2.0, 0.35 * eye.open_px)
    border = np.minimum(np.minimum(x - x1, x2 - 1 - x), np.minimum(y - y1, y2 - 1 - y))
    soft: F32 = smoothstep(border / fade).astype(np.float32)
    return soft
