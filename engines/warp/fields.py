"""Smooth displacement fields over a patch, and their inverses. Knows points and grids, no faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Pixels = TypeVar("Pixels", npt.NDArray[np.uint8], npt.NDArray[np.float32])

CELL_PX = 4
"""Fields live on a grid of one node for each 4 x 4 pixels."""
_INVERSION_STEPS = 6


class Area(NamedTuple):
    """The part of a patch that moves, pixels, edges on whole grid cells."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def rows(self) -> slice:
        return slice(self.y1, self.y2)

    @property
    def columns(self) -> slice:
        return slice(self.x1, self.x2)


def sample(picture: Pixels, at: F32) -> Pixels:
    """Read a picture bilinearly at (h, w, 2) places x, y in pixels; edge pixels go on outside."""
    no_second_map: Any = None
    read: Any = cv2.remap(picture, at, no_second_map, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    result: Pixels = read
    return result


def smoothstep(x: F32 | F64) -> F64:
    t = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)
    eased: F64 = t * t * (3.0 - 2.0 * t)
    return eased


def thin_plate(points: F64, values: F64, query: F64, smoothing: float) -> F32:
    """(n, c) f32: a thin-plate spline through (m, c) values at (m, 2) points, read at (n, 2) places."""
    scale = float(np.ptp(points, axis=0).max()) or 1.0
    centre = points.mean(0)
    at, ask = (points - centre) / scale, (query - centre) / scale
    m = len(at)
    system = np.zeros((m + 3, m + 3))
    system[:m, :m] = _kernel(at, at)
    system[:m, :m][np.diag_indices(m)] += smoothing
    system[:m, m] = system[m, :m] = 1.0
    system[:m, m + 1 :] = at
    system[m + 1 :, :m] = at.T
    right = np.zeros((m + 3, values.shape[1]))
    right[:m] = values
    solved = np.linalg.solve(system, right).astype(np.float32)
    basis = np.empty((len(ask), m + 3), np.float32)
    basis[:, :m] = _kernel(ask.astype(np.float32), at.astype(np.float32))
    basis[:, m] = 1.0
    basis[:, m + 1 :] = ask
    read: F32 = basis @ solved
    return read


def _kernel(a: F32 | F64, b: F32 | F64) -> npt.NDArray[Any]:
    """r^2 log r between all pairs."""
    squared = (a[:, :1] - b[None, :, 0]) ** 2
    squared += (a[:, 1:] - b[None, :, 1]) ** 2
    kernel: npt.NDArray[Any] = 0.5 * squared * np.log(np.maximum(squared, 1e-12))
    return kernel


def nodes(area: Area) -> F64:
    """(rows, columns, 2) pixel places of an area's grid nodes."""
    x = np.arange(area.x1 // CELL_PX, area.x2 // CELL_PX) * CELL_PX + (CELL_PX - 1) / 2
    y = np.arange(area.y1 // CELL_PX, area.y2 // CELL_PX) * CELL_PX + (CELL_PX - 1) / 2
    return np.stack(np.meshgrid(x, y), -1)


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """Displacements of one layer, one field a move, read-only."""

    area: Area
    forward: F32
    """(moves, rows, columns, 2) pixels a point moves for a weight of one; zero at the area's border."""
    _grid: F32
    """(rows, columns, 2) the grid's own indices."""
    _pixels: F32
    """(height, width, 2) patch pixels of the area."""

    @classmethod
    def of(cls, area: Area, *layers: F32) -> tuple[Fields, ...]:
        """Fields of each layer's forward displacements; the layers share what only depends on the area."""
        rows, columns = layers[0].shape[1:3]
        grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).astype(np.float32)
        xy = np.meshgrid(np.arange(area.x1, area.x2), np.arange(area.y1, area.y2))
        pixels = np.stack(xy, -1).astype(np.float32)
        return tuple(cls(area, np.ascontiguousarray(forward), grid, pixels) for forward in layers)

    def at(self, points: F64) -> F32:
        """(moves, n, 2) displacements at (n, 2) patch pixels."""
        x = (points[:, 0] - self.area.x1 + 0.5) / CELL_PX - 0.5
        y = (points[:, 1] - self.area.y1 + 0.5) / CELL_PX - 0.5
        places = np.stack([x, y], -1)[None].astype(np.float32)
        return np.stack([sample(field, places)[0] for field in self.forward])

    def source(self, weights: F32) -> F32:
        """(height, width, 2) f32: the patch pixel that each pixel of the area shows under these weights."""
        moved = np.tensordot(weights, self.forward, 1).astype(np.float32, copy=False)
        back: F32 = -moved
        for _ in range(_INVERSION_STEPS):
            at = back * np.float32(1 / CELL_PX)
            at += self._grid
            back = sample(moved, at)
            np.negative(back, out=back)
        height, width = self._pixels.shape[:2]
        shown = np.asarray(cv2.resize(back, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.float32)
        shown += self._pixels
        return shown
