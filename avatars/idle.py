"""Idle frames of a still portrait, kept in a sidecar: a few dozen that sway and breathe, each with where its face went.

Owns their layout and what is refused; how they are made is `avatars.sway`, which is shown when `avatars.walk`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from avatars.errors import PacketInvalid
from avatars.landing import fit_size

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

IDLE_FILE = "idle.safetensors"
MAX_FRAMES = 50
MAX_SIDE_PX = 512
MAX_BYTES = 24_000_000
"""Of the whole file."""
_MOST_TURN = 0.1
"""What a move may turn or stretch; a head that sways does a tenth of it."""


@dataclass(frozen=True, slots=True, eq=False)
class IdleFrames:
    """Frames in the order in which they pass into each other. Read-only."""

    planes: tuple[U8, ...]
    """M x (h * 3 // 2, w) u8 I420: the packet's frame inside 512 x 512, sides even, the head elsewhere in each."""
    moves: F32
    """(M, 2, 3) f32: from a place on the face in the packet's own frame to the same in this one.

    Pixels of the planes, edges at whole numbers. The face moves as a whole: its box and its mask go by this too.
    """
    rest: int
    """The one that is the packet's own frame."""

    @property
    def size_px(self) -> tuple[int, int]:
        """(width, height)"""
        rows, width = self.planes[0].shape
        return width, rows * 2 // 3


def read_idle(tensors: Mapping[str, Array], packet_size_px: tuple[int, int]) -> IdleFrames:
    """The frames of a sidecar's arrays `planes`, `moves` and `rest`. Raises PacketInvalid."""
    width, height = fit_size(packet_size_px, MAX_SIDE_PX)
    planes, moves, rest = tensors.get("planes"), tensors.get("moves"), tensors.get("rest")
    if planes is None or planes.dtype != np.uint8 or planes.shape[1:] != (height * 3 // 2, width):
        raise PacketInvalid(IDLE_FILE, f"planes (M, {height * 3 // 2}, {width}) uint8", _describe(planes))
    count = len(planes)
    if not 1 <= count <= MAX_FRAMES or planes.nbytes > MAX_BYTES:
        raise PacketInvalid(IDLE_FILE, f"1 to {MAX_FRAMES} frames, {MAX_BYTES} bytes at most", _describe(planes))
    if moves is None or moves.dtype != np.float32 or moves.shape != (count, 2, 3):
        raise PacketInvalid(IDLE_FILE, f"moves ({count}, 2, 3) float32", _describe(moves))
    turned = np.abs(moves[:, :, :2] - np.eye(2, dtype=np.float32)).max() if np.isfinite(moves).all() else np.inf
    centre = np.array([width / 2, height / 2])
    away = np.abs(moves[:, :, :2] @ centre + moves[:, :, 2] - centre).max()
    if not (turned <= _MOST_TURN and away <= max(width, height) / 8):
        raise PacketInvalid(IDLE_FILE, "moves of a head that sways", "numbers far from rest")
    if rest is None or rest.dtype != np.int32 or rest.shape != (1,) or not 0 <= rest[0] < count:
        raise PacketInvalid(IDLE_FILE, f"rest (1,) int32, one of {count} frames", _describe(rest))
    return IdleFrames(tuple(planes), moves, int(rest[0]))


def _describe(value: Array | None) -> str:
    return "nothing" if value is None else f"{value.shape} {value.dtype}"
