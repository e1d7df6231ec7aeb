"""How far eyes and lips are open, from landmarks, and the layouts of landmarks that this engine knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Layout:
    """Indices of one landmark scheme. Pairs are (upper, lower) over (corner, corner)."""

    points: int
    eyes: tuple[tuple[int, ...], tuple[int, ...]]
    """Points around each eye whose mean is its middle."""
    lips: tuple[int, int]
    """Two points whose mean is the middle of the mouth."""
    eye_lids: tuple[tuple[int, int, int, int], tuple[int, int, int, int]] | None = None
    """Each eye: upper, lower, corner, corner."""
    lip_gap: tuple[int, int, int, int] | None = None
    """Upper, lower, corner, corner of the inner lips."""
    outline: tuple[int, ...] = ()
    """Points whose extent is the face's size; empty: all of them."""


LAYOUT_203 = Layout(
    203, ((0, 6, 12, 18), (24, 30, 36, 42)), (48, 66), ((6, 18, 0, 12), (30, 42, 24, 36)), (90, 102, 48, 66)
)
LAYOUT_106 = Layout(106, ((33, 35, 40, 39), (87, 89, 94, 93)), (52, 61))
LAYOUT_MESH = Layout(
    468, ((33, 159, 133, 145), (362, 386, 263, 374)), (61, 291),
    ((159, 145, 33, 133), (386, 374, 362, 263)), (13, 14, 61, 291),
    (
        127, 234, 93, 132, 58, 136, 150, 176, 152, 400, 379, 365, 288, 361, 323, 454, 356,
        70, 63, 105, 66, 107, 336, 296, 334, 293, 300,
    ),
)  # fmt: skip
"""MediaPipe's mesh: the same places on the face, found by our own models. Its size is jaw to brows, as in the others,
though the mesh goes up to the hair."""
_LAYOUTS = {layout.points: layout for layout in (LAYOUT_203, LAYOUT_106, LAYOUT_MESH)}
_TINY = 1e-6


def layout_of(points: F32) -> Layout:
    """The layout with this many points. Raises ValueError where there is none."""
    layout = _LAYOUTS.get(len(points))
    if layout is None:
        raise ValueError(f"no layout has {len(points)} landmarks; known: {sorted(_LAYOUTS)}")
    return layout


def eye_openings(points: F32) -> F32:
    """(1, 2) f32: lid distance over eye width, both eyes. `points` (n, 2) f32 in any scale."""
    layout = layout_of(points)
    if layout.eye_lids is None:
        raise ValueError(f"the layout of {layout.points} landmarks has no lids")
    return np.array([[_ratio(points, *eye) for eye in layout.eye_lids]], np.float32)


def lip_opening(points: F32) -> F32:
    """(1, 1) f32: inner-lip distance over mouth width."""
    layout = layout_of(points)
    if layout.lip_gap is None:
        raise ValueError(f"the layout of {layout.points} landmarks has no inner lips")
    return np.array([[_ratio(points, *layout.lip_gap)]], np.float32)


def wanted_eyes(points: F32, opening: float) -> F32:
    """(1, 3) f32 for the eye network: both openings of the source, then the wanted one."""
    return np.concatenate([eye_openings(points), np.array([[opening]], np.float32)], 1)


def wanted_lips(points: F32, opening: float) -> F32:
    """(1, 2) f32 for the lip network: the source's opening, then the wanted one."""
    return np.concatenate([lip_opening(points), np.array([[opening]], np.float32)], 1)


def _ratio(points: F32, upper: int, lower: int, left: int, right: int) -> float:
    across = float(np.linalg.norm(points[left] - points[right]))
    return float(np.linalg.norm(points[upper] - points[lower])) / (across + _TINY)
