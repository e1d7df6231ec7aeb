"""Copies of one anchor frame to blend into, taken again once nobody holds them, so that most of it is copied once."""

from __future__ import annotations

import sys
import threading

import numpy as np
import numpy.typing as npt

from avatars.blend import Box
from avatars.colour import parts_of, split_planes

U8 = npt.NDArray[np.uint8]

_POOLED = 24
"""Enough for the playout buffers of a few sessions; beyond, copies are made and thrown away."""
_UNHELD = 3
"""References to a sheet's memory that nobody else holds: the sheet's, the loop's, and the question's own."""


class _Sheet:
    __slots__ = ("marks", "planes")

    def __init__(self, planes: U8) -> None:
        self.planes = planes
        self.marks: tuple[Box, ...] = ()


class Sheets:
    """Hands out memory that holds the anchor. Whoever keeps a view of it, or a view of a view, keeps it from reuse.

    Threads may share it.
    """

    def __init__(self, anchor: U8) -> None:
        self._anchor = anchor
        self._lock = threading.Lock()
        self._sheets: list[_Sheet] = []

    def take(self, marks: tuple[Box, ...]) -> U8:
        """A writable anchor. The caller may write inside `marks` (even rectangles), and where it always writes anew."""
        with self._lock:
            for sheet in self._sheets:
                planes = sheet.planes
                # The base of every numpy view is the array that owns the memory, so each view counts here.
                if sys.getrefcount(planes) == _UNHELD:
                    break
            else:
                planes = self._anchor.copy()
                sheet = _Sheet(planes)
                if len(self._sheets) < _POOLED:
                    self._sheets.append(sheet)
            stale, sheet.marks = sheet.marks, marks
        for rect in stale:
            for target, source, part in zip(
                split_planes(planes), split_planes(self._anchor), parts_of(rect), strict=True
            ):
                target[part] = source[part]
        return planes
