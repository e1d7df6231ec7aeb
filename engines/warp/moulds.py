"""Teeth and tongue as everybody has them, drawn once for all faces. Places and light come from the face.

Place: units across from the middle of the mouth, units below the line of the shut lips.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

PX_PER_UNIT = 160
_LEFT, _TOP, _RIGHT, _BOTTOM = -0.8, -0.45, 0.8, 0.95
"""What is drawn, units."""

TEETH_EDGE = 0.045
"""The upper teeth end this far below the line of the shut lips."""
_LOWER_EDGE = -0.02
"""The lower teeth end this far below it, that is above, and go down with the jaw."""
_UPPER_WIDTHS = (0.165, 0.130, 0.120, 0.100, 0.085, 0.07)
"""Front to back, units; the back ones foreshortened."""
_UPPER_LONGER = (0.0, -0.008, -0.001, -0.010, -0.014, -0.018)
_LOWER_WIDTHS = (0.100, 0.108, 0.110, 0.095, 0.085, 0.07)
_LOWER_LONGER = (0.0, 0.004, 0.006, -0.004, -0.01, -0.016)
_TEETH_TONE = np.array([0.96, 0.925, 0.85], np.float32)
"""Teeth against the white of the eye."""
_GUM_TONE = np.array([0.58, 0.32, 0.32], np.float32)
_LOWER_SHADE = 0.74


@dataclass(frozen=True, slots=True, eq=False)
class Moulds:
    """(h, w, 4) f32 each: RGB times alpha and alpha, 0..1, where RGB 1 is something white in the face's light."""

    upper_teeth: F32
    lower_teeth: F32
    tongue: F32
    """Its RGB is shading only: the colour is the face's."""

    @staticmethod
    def pixel(across: F32, below: F32) -> F32:
        """(..., 2) f32: the pixel of a mould at a place."""
        return np.stack([(across - _LEFT) * PX_PER_UNIT - 0.5, (below - _TOP) * PX_PER_UNIT - 0.5], -1).astype(
            np.float32
        )


def cast() -> Moulds:
    """Draw them."""
    x = _LEFT + (np.arange(round((_RIGHT - _LEFT) * PX_PER_UNIT), dtype=np.float32) + 0.5) / PX_PER_UNIT
    y = _TOP + (np.arange(round((_BOTTOM - _TOP) * PX_PER_UNIT), dtype=np.float32) + 0.5) / PX_PER_UNIT
    across, below = (grid.astype(np.float32) for grid in np.meshgrid(x, y))
    upper = _teeth(across, below, TEETH_EDGE, _UPPER_WIDTHS, _UPPER_LONGER)
    lower = _teeth(across, -below, -_LOWER_EDGE, _LOWER_WIDTHS, _LOWER_LONGER)
    lower[..., :3] *= _LOWER_SHADE
    return Moulds(*(_finished(mould) for mould in (upper, lower, _tongue(across, below))))


def _finished(mould: F32) -> F32:
    """Smooth enough to be shown at half the size, read-only."""
    smooth = np.asarray(cv2.GaussianBlur(mould, (0, 0), 0.8), dtype=np.float32)
    smooth.flags.writeable = False
    return smooth


def _teeth(across: F32, below: F32, edge: float, widths: tuple[float, ...], longer: tuple[float, ...]) -> F32:
    """A row of teeth whose edges lie `edge` below, seen from the front."""
    offset = np.abs(across)
    ends = np.cumsum((0.0, *widths)).astype(np.float32)
    index = np.clip(np.searchsorted(ends, offset.ravel(), side="right") - 1, 0, len(widths) - 1).reshape(offset.shape)
    width = np.array(widths, np.float32)[index]
    inside = np.abs((offset - ends[index]) / width * 2 - 1)  # 0 in the middle of a tooth, 1 at its sides
    uneven = np.stack(
        [np.array(longer) + 0.004 * np.sin(7.3 * np.arange(len(widths)) + 2.1 * side) for side in (-1, 1)]
    )
    bottom = edge - 0.10 * offset**2 + uneven.astype(np.float32)[(across > 0).astype(np.intp), index]
    bottom -= 0.011 * inside**5
    alpha = np.clip((bottom - below) / 0.012 + 0.5, 0, 1) * np.clip((ends[-1] - offset) / 0.05, 0, 1)
    alpha *= np.clip((below + 0.30) / 0.03, 0, 1)
    apart = np.clip((1 - inside) * width / 2 / 0.012, 0, 1)  # 0 where two teeth meet
    bright = (0.86 + 0.14 * apart) * (1.0 - 0.06 * inside**2)
    bright *= np.clip(1.04 - 1.15 * offset**2, 0.45, 1)
    bright *= 1.0 - 0.10 * np.clip((below - bottom + 0.04) / 0.04, 0, 1)
    gum = np.clip((-below - 0.10 + 0.03 * inside**2) / 0.03, 0, 1)[..., None]
    tooth = _TEETH_TONE * bright[..., None]
    rgb = tooth + (_GUM_TONE - tooth) * gum
    return np.concatenate([rgb * alpha[..., None], alpha[..., None]], -1).astype(np.float32)


def _tongue(across: F32, below: F32) -> F32:
    """A low mound whose top lies a little above the shut line: with the jaw down, low in the mouth."""
    top = -0.15 + 0.5 * across**2
    alpha = np.clip((below - top) / 0.06 + 0.5, 0, 1) * np.clip((0.36 - np.abs(across)) / 0.08, 0, 1)
    shade = np.clip(1.0 - 3.0 * across**2, 0.5, 1) * (1.0 - 0.12 * np.exp(-((across / 0.03) ** 2)))
    shade = shade * np.clip(0.60 + 1.6 * (below - top), 0.60, 0.85)
    return np.stack([shade * alpha, shade * alpha, shade * alpha, alpha], -1).astype(np.float32)
