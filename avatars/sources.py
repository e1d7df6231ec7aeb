"""Pictures of what a portrait hides, taken where it was: teeth and tongue as layers of their own, and the eyes shut.

One file holds them below one another; where each lies in the frame is told beside it. A packet keeps them as a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

U8 = npt.NDArray[np.uint8]
Rect = tuple[int, int, int, int]

SIDECAR = "sources"
EYES, UPPER_TEETH, LOWER_TEETH, TONGUE = PARTS = ("eyes", "upper_teeth", "lower_teeth", "tongue")


class Source(NamedTuple):
    """One picture and its place."""

    rgba: U8
    """(h, w, 4) u8, not multiplied by alpha."""
    rect: Rect
    """x1, y1, x2, y2 in frame pixels; of what hangs on the jaw, where it is while the mouth is shut."""


def read_sources(path: Path, rects: Mapping[str, Rect]) -> dict[str, npt.NDArray[Any]]:
    """The sidecar's arrays: `PART` (h, w, 4) u8 RGBA and `PART.rect` (4,) i32 for each part."""
    with Image.open(path) as picture:
        column = np.asarray(picture.convert("RGBA"))
    arrays: dict[str, npt.NDArray[Any]] = {}
    top = 0
    for part in PARTS:
        x1, y1, x2, y2 = rects[part]
        arrays[part] = np.ascontiguousarray(column[top : top + y2 - y1, : x2 - x1])
        arrays[f"{part}.rect"] = np.array([x1, y1, x2, y2], dtype="<i4")
        top += y2 - y1
    return arrays


def sources_of(sidecars: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> dict[str, Source]:
    """The sources among a packet's sidecars; empty where it has none, or none that is whole."""
    kept = sidecars.get(SIDECAR, {})
    found = {}
    for part in PARTS:
        rgba, rect = kept.get(part), kept.get(f"{part}.rect")
        if rgba is None or rect is None or rect.shape != (4,) or rgba.dtype != np.uint8:
            return {}
        x1, y1, x2, y2 = (int(edge) for edge in rect)
        if rgba.shape != (y2 - y1, x2 - x1, 4):
            return {}
        found[part] = Source(rgba, (x1, y1, x2, y2))
    return found
