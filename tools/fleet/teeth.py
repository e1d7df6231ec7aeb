"""Two rows of single teeth and their gums, where the mesh data has but plain strips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import body
import numpy as np
import shading
from features import Points, mesh_of, part

Place = Callable[[Points], Points]
"""The points of an object in metres, by those of the whole template."""

UPPER = ((8.6, 10.4), (6.7, 9.2), (7.7, 10.3), (7.0, 8.6), (6.8, 8.0), (9.5, 7.4))
LOWER = ((5.4, 8.4), (5.9, 8.6), (6.8, 9.6), (7.0, 8.6), (7.1, 8.0), (10.5, 7.2))
"""Width and height in millimetres, from the middle to the back."""
RINGS, ROUND = 11, 24
_HALF_M, _DEPTH_M = 0.0285, 0.035
"""The arch of an average jaw: half its width, and how far it curves back."""


@dataclass(frozen=True)
class Arch:
    """Half an ellipse on which teeth stand, edges first."""

    edge: np.ndarray
    """(3,) m: where the edges of the front teeth meet."""
    scale: float
    to_gum: float
    """1: the gums are above (upper teeth), -1: below."""

    def at(self, arc_m: np.ndarray) -> tuple[Points, Points, Points]:
        """Places (n, 3), ways along and ways outwards, by the way along the arch from its middle."""
        theta = np.linspace(-1.5, 1.5, 601)
        a, b = _HALF_M * self.scale, _DEPTH_M * self.scale
        line = np.stack([a * np.sin(theta), b * (1 - np.cos(theta)), 0 * theta], 1)
        arc = np.r_[0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))]
        angle = np.interp(arc_m, arc - arc[300], theta)
        place = np.stack([a * np.sin(angle), b * (1 - np.cos(angle)), 0 * angle], 1) + self.edge
        along = np.stack([a * np.cos(angle), b * np.sin(angle), 0 * angle], 1)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        return place, along, np.stack([along[:, 1], -along[:, 0], 0 * angle], 1)


def _tooth(arch: Arch, number: int, middle_m: float, size_m: tuple[float, float], lower: bool) -> Points:
    """(RINGS, ROUND, 3): rings from the edge to under the gum."""
    width, height = size_m
    front, canine = number < 3, number == 2
    v = np.linspace(0, 1.15, RINGS)[:, None]
    turn = np.linspace(0, 2 * np.pi, ROUND, endpoint=False)[None]
    half = width / 2 * np.interp(v, (0, 0.1, 0.35, 1, 1.15), (0.84, 0.95, 0.985, 0.80, 0.74))
    mm = 1e-3 * arch.scale
    thick = mm * np.interp(v, (0, 0.12, 0.5, 1.15), (0.7, 1.1, 2.2, 3.0) if front else (2.2, 3.4, 3.9, 3.6))
    bulge = mm * np.interp(v, (0, 0.5, 1.15), (-0.25, 0.35, -0.45))
    across, out = np.cos(turn), np.sin(turn)
    power = 2 / 2.7
    x = half * np.sign(across) * np.abs(across) ** power
    y = bulge - thick + thick * np.sign(out) * np.abs(out) ** power
    side = np.abs(across) ** 2.2
    lift = np.where(canine, 0.9e-3 * np.abs(across) ** 1.3, 0.55e-3 * side**2 + (0.0 if front else 0.5e-3 * side))
    up = v * height + lift * np.interp(v, (0, 0.4), (1.0, 0.0))
    if lower and front:
        up = v * height + 0.3 * lift * np.interp(v, (0, 0.4), (1.0, 0.0))
    place, along, outwards = (value[0] for value in arch.at(np.array([middle_m])))
    rings = place + x[..., None] * along + y[..., None] * outwards
    rings[..., 2] += arch.to_gum * up
    cap = rings[:1].mean(1, keepdims=True) * 0.45 + rings[:1] * 0.55  # rounds the edge off
    cap[..., 2] -= arch.to_gum * 0.12e-3
    return np.concatenate([cap, rings])


def row(arch: Arch, sizes: tuple[tuple[float, float], ...], tone: str, seed: int) -> tuple[Any, Points]:
    """A row of teeth with its gum as one object, and its points in metres."""
    rng, lower = np.random.default_rng(seed), arch.to_gum < 0
    ends = np.r_[0, np.cumsum([width for width, _ in sizes])] * 1e-3 * arch.scale
    heights = np.array([height for _, height in sizes]) * 1e-3 * arch.scale
    points: list[Points] = []
    faces: list[tuple[int, ...]] = []
    for number, raised_mm in enumerate((0, 0.7, 0.1, 0.6, 0.9, 1.3)):
        width = ends[number + 1] - ends[number]
        for side in (-1, 1):
            rings = _tooth(arch, number, side * (ends[number] + width / 2), (width, heights[number]), lower)
            rings += np.array([0, rng.normal() * 0.12e-3, rng.normal() * 0.15e-3])
            rings[..., 2] += arch.to_gum * 1e-3 * arch.scale * raised_mm * (0.3 if lower else 1.0)
            first, (count, around) = sum(len(p) for p in points), rings.shape[:2]
            points.append(rings.reshape(-1, 3))
            faces.append(tuple(first + i for i in range(around)))
            faces += _walls(first, count, around, closed=True)
    enamel_faces = len(faces)
    gum, gum_faces = _gum(arch, ends, heights)
    faces += [tuple(sum(len(p) for p in points) + i for i in face) for face in gum_faces]
    whole = np.concatenate([*points, gum])
    made = mesh_of("teeth", whole, faces, shading.enamel(tone), 1)
    made.data.materials.append(shading.gum())
    is_gum = np.arange(len(faces)) >= enamel_faces
    made.data.polygons.foreach_set("material_index", is_gum.astype(np.int32))
    return made, whole


def _walls(first: int, rows: int, columns: int, *, closed: bool) -> list[tuple[int, ...]]:
    """The faces between rows of points; closed rows meet their own ends."""
    faces = []
    for r in range(rows - 1):
        for c in range(columns if closed else columns - 1):
            a, b = first + r * columns + c, first + r * columns + (c + 1) % columns
            faces.append((a, b, b + columns, a + columns))
    return faces


def _gum(arch: Arch, ends: np.ndarray, heights: np.ndarray) -> tuple[Points, list[tuple[int, ...]]]:
    """A wall above the necks, its edge in a bow over each tooth."""
    columns, rows, mm = 181, 7, 1e-3 * arch.scale
    s = np.linspace(-ends[-1], ends[-1], columns)
    tooth = np.clip(np.searchsorted(ends, np.abs(s), side="right") - 1, 0, len(heights) - 1)
    apart = np.abs((np.abs(s) - ends[tooth]) / (ends[tooth + 1] - ends[tooth]) * 2 - 1)
    smooth = np.convolve(np.r_[heights[tooth][:8], heights[tooth], heights[tooth][-8:]], np.ones(17) / 17, "valid")
    margin = smooth * (0.95 - 0.30 * apart**2.5)
    place, _, outwards = arch.at(s)
    grid = []
    for r in range(rows):
        t = r / (rows - 1)
        off = mm * (np.interp(t, (0, 0.2, 1), (-0.75, 0.15, 0.6)) - 0.5 * apart**3 * (1 - t))
        line = place + outwards * off[:, None]
        line[:, 2] += arch.to_gum * (margin + t * 9 * mm)
        grid.append(line)
    return np.concatenate(grid), _walls(0, rows, columns, closed=False)


def inside(points: Points, tone: str, seed: int) -> dict[str, tuple[Any, Place]]:
    """Upper teeth, lower teeth and tongue: objects, and where their points go when the template's move."""
    mesh, metres = body.template(), body.metres(points)
    strips = {layer: mesh.points_of(f"helper-{layer.replace('_', '-')}") for layer in ("upper_teeth", "lower_teeth")}
    upper = metres[strips["upper_teeth"]]
    scale = float(np.abs(upper[:, 0]).max()) * 0.92 / _HALF_M
    front = upper[np.abs(upper[:, 0]) < 0.008 * scale]
    edge = np.array([0.0, front[:, 1].min(), front[:, 2].min()])
    behind = edge + np.array([0, 2.6e-3, 1.3e-3]) * scale
    made: dict[str, tuple[Any, Place]] = {}
    for layer, arch, sizes in (
        ("upper_teeth", Arch(edge, scale, 1.0), UPPER),
        ("lower_teeth", Arch(behind, scale * 0.97, -1.0), LOWER),
    ):
        teeth, rest = row(arch, sizes, tone, seed)
        made[layer] = (teeth, _follower(rest, metres, strips[layer]))
    tongue, used = part("tongue", points, "helper-tongue", shading.plain("#a8585a", 0.35))
    return made | {"tongue": (tongue, lambda moved: moved[used])}


def _follower(rest: Points, before: Points, strip: np.ndarray) -> Place:
    """Teeth go where the template's strip goes: by the affine map between the two."""

    def at(moved: Points) -> Points:
        one = np.c_[before[strip], np.ones(len(strip))]
        return np.c_[rest, np.ones(len(rest))] @ np.linalg.lstsq(one, moved[strip], rcond=None)[0]

    return at
