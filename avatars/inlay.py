"""What one place in one anchor frame needs to take patches in: tables made once, three passes a patch."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box
from avatars.colour import LIMITED_RANGE, HalfPlanes, shrink
from avatars.stretch import PatchPlan, Workspace

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]


class Inlay(NamedTuple):
    """How patches of one size are laid into one frame."""

    rect: Box
    """Where, its edges even."""
    plan: PatchPlan
    weights: U16
    """For luma and both chroma planes of the patch, one after the other: their masks, times what brings full range to
    limited range. Bytes, but as wide as the products, which spares every frame a conversion."""
    bases: U16
    """What is added to make 256 times the blended planes: the anchor under the mask's rest, offsets and rounding."""

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.bases.nbytes


def make_inlay(anchor: U8, rect: Box, luma_mask: U8, plan: PatchPlan) -> Inlay:
    """anchor: (H * 3 // 2, W) I420; luma_mask over rect."""
    luma, chroma = _parts(anchor, rect)
    small = shrink(luma_mask, (luma_mask.shape[1] // 2, luma_mask.shape[0] // 2))
    pairs = [
        _weigh(mask, behind, *limits)
        for mask, behind, limits in zip((luma_mask, small, small), (luma, *chroma), LIMITED_RANGE, strict=True)
    ]
    weights, bases = (np.concatenate([table.reshape(-1) for table in tables]) for tables in zip(*pairs, strict=True))
    return Inlay(rect, plan, weights, bases)


class Layer:
    """Lays patches. Threads may share it: each works in memory of its own."""

    def __init__(self) -> None:
        self._idle: list[_Bench] = []

    def lay(self, pixels: U8, planes: U8, inlay: Inlay) -> None:
        """A (p, p, 3) u8 RGB patch into (H * 3 // 2, W) I420, in place; only the rectangle is written, all of it."""
        try:
            bench = self._idle.pop()
        except IndexError:
            bench = _Bench(inlay)
        if bench.inlay is not inlay:  # another frame of a clip: as many benches as threads, not as frames
            bench = _Bench(inlay)
        bench.lay(pixels, planes)
        self._idle.append(bench)


class _Bench:
    """Memory to lay patches into one place."""

    def __init__(self, inlay: Inlay) -> None:
        self.inlay = inlay
        self._workspace = Workspace(inlay.plan)
        self._total = np.empty_like(inlay.weights)
        height, width = inlay.rect[3] - inlay.rect[1], inlay.rect[2] - inlay.rect[0]
        self._luma = self._total[: height * width].reshape(height, width)
        self._chroma = self._total[height * width :].reshape(2, height // 2, width // 2)

    def lay(self, pixels: U8, planes: U8) -> None:
        inlay, total = self.inlay, self._total
        self._luma[...], self._chroma[...] = self._workspace.planes(pixels)
        total *= inlay.weights
        total += inlay.bases
        total >>= 8
        luma, chroma = _parts(planes, inlay.rect)
        luma[...] = self._luma
        chroma[...] = self._chroma


def _parts(i420: U8, rect: Box) -> HalfPlanes:
    """Views of a rectangle with even edges."""
    x1, y1, x2, y2 = rect
    height, width = i420.shape[0] * 2 // 3, i420.shape[1]
    chroma = i420[height:].reshape(2, height // 2, width // 2)
    return HalfPlanes(i420[y1:y2, x1:x2], chroma[:, y1 // 2 : y2 // 2, x1 // 2 : x2 // 2])


def _weigh(mask: U8, anchor: U8, scale: float, offset: float) -> tuple[U16, U16]:
    """Weight and base: (x * weight + base) >> 8 is x * scale + offset over the anchor, as far as the mask says."""
    alpha = np.arange(256) * (256.0 / 255.0)
    weight = np.rint(alpha * scale)
    # Half of 256 rounds; and what rounding took from the weight is made good for a medium x.
    front = np.rint(alpha * offset + 128.0 + 128.0 * (alpha * scale - weight))
    back = np.multiply(anchor, 255 - mask, dtype=np.uint16)
    rounded = back + 128
    rounded += rounded >> 8
    back += rounded >> 8  # times 256 / 255
    back += np.asarray(cv2.LUT(mask, front.astype(np.uint16)), dtype=np.uint16)
    return np.asarray(cv2.LUT(mask, weight.astype(np.uint16)), dtype=np.uint16), back
