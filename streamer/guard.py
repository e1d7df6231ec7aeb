"""Whether a rendered mouth may be shown: not if it is flat, off in colour, or a jump. Pure; one guard a session.

Looks at a grid of points, some 20 microseconds a patch. What is not finite never comes here: engines refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket
from engines.contract import FacePatch

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

GRID = 16
"""Points a side."""
FLAT_SHARE = 0.2
"""A patch with less contrast than this share of the anchor's is a blank box, not a face."""
COLOUR_LIMIT = 56.0
"""Mean colour may differ from the anchor's by so much in any channel, of 255."""
JUMP_LIMIT = 44.0
"""Mean change against the previous frame's patch, beyond what the anchor itself changed, of 255."""
NEIGHBOUR_FRAMES = 2
"""Patches further apart are not compared."""
REASONS = ("flat", "colour", "jump")


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    index: int
    points: F32
    anchor: F32


class PatchGuard:
    """Tells good patches of one avatar from bad ones."""

    def __init__(self, packet: AvatarPacket) -> None:
        self._packet = packet
        self._last: _Seen | None = None
        self._jumped: _Seen | None = None
        self._anchors: dict[int, F32] = {}

    def check(self, patch: FacePatch) -> str | None:
        """The reason not to show a patch, one of REASONS, or None; a good one is what the next is compared with."""
        seen = _Seen(patch.index, _points(patch.pixels), self._anchor(patch.index))
        reason = self._fault(seen)
        if reason == "jump" and self._stays(seen):
            reason = None
        if reason == "jump":
            self._jumped = seen
        elif reason is None:
            self._last = seen
        return reason

    def _stays(self, seen: _Seen) -> bool:
        """A change that the frame before had too is a change of the picture, not a fault of one frame."""
        before = self._jumped
        return before is not None and before.index < seen.index and _change(before, seen) <= JUMP_LIMIT

    def _fault(self, seen: _Seen) -> str | None:
        points, anchor, last = seen.points, seen.anchor, self._last
        if points.std(axis=(0, 1)).mean() < FLAT_SHARE * anchor.std(axis=(0, 1)).mean():
            return "flat"
        if np.abs(points.mean(axis=(0, 1)) - anchor.mean(axis=(0, 1))).max() > COLOUR_LIMIT:
            return "colour"
        if last is not None and 0 < seen.index - last.index <= NEIGHBOUR_FRAMES and _change(last, seen) > JUMP_LIMIT:
            return "jump"
        return None

    def _anchor(self, index: int) -> F32:
        """(GRID, GRID, 3): the frame's own face, at the same points of its box."""
        packet = self._packet
        frame = 0 if packet.frames.strides[0] == 0 else index % packet.cycle_frames
        found = self._anchors.get(frame)
        if found is None:
            found = self._anchors[frame] = _box_points(packet, frame)
        return found


def _change(before: _Seen, seen: _Seen) -> float:
    """Mean change of the patch, of 255, but for what the anchor itself changed."""
    return float(np.abs((seen.points - before.points) - (seen.anchor - before.anchor)).mean())


def _points(pixels: U8) -> F32:
    step = pixels.shape[0] // GRID
    return pixels[step // 2 :: step, step // 2 :: step][:GRID, :GRID].astype(np.float32)


def _box_points(packet: AvatarPacket, frame: int) -> F32:
    x1, y1, x2, y2 = packet.coords[frame]
    width, height = packet.size_px
    centres = (np.arange(GRID) + 0.5) / GRID
    rows = np.clip(y1 + centres * (y2 - y1), 0, height - 1).astype(int)
    columns = np.clip(x1 + centres * (x2 - x1), 0, width - 1).astype(int)
    return np.asarray(packet.frames[frame][:, rows[:, None], columns].transpose(1, 2, 0), dtype=np.float32)
