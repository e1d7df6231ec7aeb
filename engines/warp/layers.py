"""The pictures that are warped: upper face and lower lip with jaw, each with its lip drawn over the lip line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.warp.fields import sample
from engines.warp.lips import Lips
from engines.warp.mesh import LOWER_INNER, LOWER_OUTER, UPPER_INNER, UPPER_OUTER
from engines.warp.pose import FacePose

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_LINE_HALF = 0.03
"""Half the height of a lip line with its shadow, units."""


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """(N, N, 3) u8 each, read-only."""

    anchor: U8
    """The portrait as it is."""
    upper: U8
    """Upper lip without the lip line or the teeth below it: the lip's own texture drawn over them."""
    lower: U8
    """The same for the lower lip."""
    line_px: float
    """How far from the lip line upper and lower differ from the anchor, pixels."""


def split_layers(anchor: U8, lips: Lips, pose: FacePose) -> Layers:
    upper = _stretch_lip(anchor, lips.source[UPPER_INNER], lips.source[UPPER_OUTER], pose, down=True)
    lower = _stretch_lip(anchor, lips.source[LOWER_INNER], lips.source[LOWER_OUTER], pose, down=False)
    for layer in (upper, lower):
        layer.flags.writeable = False
    return Layers(anchor, upper, lower, 3 * _LINE_HALF * pose.unit_px)


def _stretch_lip(anchor: U8, inner: F64, outer: F64, pose: FacePose, *, down: bool) -> U8:
    """Pull a lip's texture over its inner contour, so that nothing of the other side shows at the edge.

    Rows up to three line widths inside the lip are spread over the line; beyond the line they are held.
    """
    size = anchor.shape[0]
    reach = pose.unit_px * 0.25
    place = pose.patch(inner)
    low = np.floor(place.min(0) - reach).astype(int).clip(0, size)
    high = np.ceil(place.max(0) + reach).astype(int).clip(0, size)
    pixels = np.stack(np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1])), -1).astype(np.float64)
    face = pose.face(pixels)
    order = np.argsort(inner[:, 0], kind="stable")
    x, thick = inner[order, 0], np.abs(inner - outer)[order, 1]
    edge = np.interp(face[..., 0], x, inner[order, 1])
    band = np.minimum(_LINE_HALF, 0.3 * np.interp(face[..., 0], x, thick))
    beyond = np.maximum(x[0] - face[..., 0], face[..., 0] - x[-1])
    band = band * np.clip(1 - beyond / 0.05, 0, 1) + 1e-6
    distance = (face[..., 1] - edge) * (1 if down else -1)  # positive over the edge
    inside = -3 * band + (distance + 3 * band) * 0.5
    wanted = np.where(distance < -3 * band, distance, np.minimum(inside, -band))
    # only near the lips: far below the lip the held row would smear over everything
    fade = np.clip(1.5 - distance / 0.12, 0, 1)
    shift = (wanted - distance) * fade * (1 if down else -1)
    source = pixels + shift[..., None] * pose.to_patch[:, 1]
    stretched = anchor.copy()
    stretched[low[1] : high[1], low[0] : high[0]] = sample(anchor, source.astype(np.float32))
    return stretched
