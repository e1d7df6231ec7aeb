"""What sits in a face: skin mesh with its masks, eyes, brows, lashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import body
import bpy
import numpy as np
import shading
from mathutils import Vector
from mathutils.bvhtree import BVHTree

Points = np.ndarray


def place(name: str, data: Any) -> Any:
    """An object of this data in the scene."""
    made = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(made)
    return made


def mesh_of(name: str, points: Points, faces: list[tuple[int, ...]], material: Any, subdivide: int = 0) -> Any:
    """A smooth mesh object from metres."""
    data = bpy.data.meshes.new(name)
    data.from_pydata(points.tolist(), [], faces)
    data.polygons.foreach_set("use_smooth", [True] * len(data.polygons))
    data.materials.append(material)
    made = place(name, data)
    if subdivide:
        modifier = made.modifiers.new("smooth", "SUBSURF")
        modifier.levels = modifier.render_levels = subdivide
        modifier.boundary_smooth = "PRESERVE_CORNERS"
    return made


def part(name: str, points: Points, group: str, material: Any, lowest_m: float = -1e9) -> tuple[Any, np.ndarray]:
    """A group of the template as an object with its texture coordinates, and the point numbers it uses."""
    mesh = body.template()
    metres = body.metres(points)
    numbers = [f for f in mesh.groups[group] if metres[list(mesh.faces[f]), 2].max() > lowest_m]
    used = np.unique(np.concatenate([mesh.faces[f] for f in numbers]))
    new = np.full(len(points), -1)
    new[used] = np.arange(len(used))
    made = mesh_of(name, metres[used], [tuple(int(new[i]) for i in mesh.faces[f]) for f in numbers], material, 2)
    layer = made.data.uv_layers.new(name="UV")
    layer.data.foreach_set("uv", np.concatenate([mesh.uv[list(mesh.face_uv[f])] for f in numbers]).ravel())
    return made, used


def curves(name: str, lines: Points, material: Any, radius_m: float) -> Any:
    """Strands (N, K, 3), thinning to the tip."""
    count, knots = lines.shape[:2]
    data = bpy.data.hair_curves.new(name)
    data.add_curves([knots] * count)
    data.attributes["position"].data.foreach_set("vector", lines.astype(np.float32).ravel())
    radius = data.attributes.get("radius") or data.attributes.new("radius", "FLOAT", "POINT")
    taper = radius_m * (1 - 0.75 * np.linspace(0, 1, knots) ** 2)
    radius.data.foreach_set("value", np.tile(taper, count).astype(np.float32))
    data.materials.append(material)
    return place(name, data)


def _lump(points: Points, centre: tuple[float, ...], size: tuple[float, ...]) -> np.ndarray:
    return np.exp(-(((points - np.array(centre)) / np.array(size)) ** 2).sum(1))


def masks() -> dict[str, np.ndarray]:
    """Where skin is red, dark, bearded or a lid's edge: 0..1 a point of the template, the same for everybody."""
    points = body.template().points
    mirrored = points.copy()
    mirrored[:, 0] = abs(mirrored[:, 0])
    eye_x, eye_y, eye_z = np.abs(body.joint(points, "l-eye"))
    mouth_y = points[np.unique(body.target("mouth/mouth-lowerlip-volume-incr")[0])][:, 1].mean()
    nose = points[body.target("nose/nose-point-up")[0]].mean(0)
    red = 0.8 * _lump(mirrored, (eye_x * 1.5, eye_y - 0.44, eye_z), (0.28, 0.24, 0.5))
    red += 0.9 * _lump(mirrored, (0, nose[1], nose[2] + 0.1), (0.16, 0.15, 0.3))
    red += 0.4 * _lump(mirrored, (0, mouth_y - 0.42, eye_z), (0.2, 0.14, 0.4))
    for side in "lr":
        numbers, shifts = body.target(f"ears/{side}-ear-scale-incr")
        red[numbers] = np.maximum(red[numbers], 0.8 * np.clip(np.abs(shifts).max(1) / 0.05, 0, 1))
    dark = 0.6 * _lump(mirrored, (eye_x * 0.95, eye_y - 0.13, eye_z), (0.2, 0.08, 0.3))
    dark += 0.6 * _lump(mirrored, (eye_x * 0.55, eye_y + 0.02, eye_z - 0.05), (0.09, 0.12, 0.2))
    dark += 0.4 * _lump(mirrored, (eye_x, eye_y + 0.1, eye_z), (0.24, 0.07, 0.3))
    dark += 0.5 * _lump(mirrored, (0.17, nose[1] - 0.12, nose[2] - 0.1), (0.07, 0.06, 0.1))
    beard = 1.1 * _lump(mirrored, (0.35, mouth_y - 0.25, eye_z - 0.2), (0.55, 0.38, 0.7))
    beard += 0.9 * _lump(mirrored, (0, mouth_y + 0.16, eye_z), (0.3, 0.1, 0.4))
    beard *= mirrored[:, 1] < mouth_y + 0.3
    found = {"red": red, "dark": dark, "beard": beard}
    return {name: np.clip(mask, 0, 1).astype(np.float32) for name, mask in found.items()}


def lid_edge(points: Points) -> np.ndarray:
    """0..1 a point: how near the root of the upper lashes it is."""
    mesh = body.template()
    near = np.zeros(len(points), np.float32)
    skin = mesh.points_of("body")
    for side in "lr":
        for strip in ("1", "2"):
            lash = points[mesh.points_of(f"helper-{side}-eyelashes-{strip}")]
            if lash[:, 1].mean() < body.joint(points, f"{side}-eye")[1]:
                continue
            distance = np.linalg.norm(points[skin][:, None] - lash[None], axis=2).min(1)
            near[skin] = np.maximum(near[skin], np.clip(1.25 - distance / 0.02, 0, 1))
    return near


@dataclass(frozen=True)
class Eyes:
    """Centres (2, 3) and radii (2,) in metres, left of the picture last."""

    centres: np.ndarray
    radii: np.ndarray


def eyes_of(points: Points) -> Eyes:
    """Where the template's eyes are."""
    metres = body.metres(points)
    boxes = [metres[body.template().points_of(f"helper-{side}-eye")] for side in "lr"]
    centres = np.array([(box.min(0) + box.max(0)) / 2 for box in boxes])
    radii = np.array([np.ptp(box, axis=0)[[0, 2]].mean() / 2 * 0.985 for box in boxes])
    return Eyes(centres, radii)


def eyeball(centre: np.ndarray, radius_m: float, iris: str, seed: int) -> None:
    """A ball with a corneal bulge; iris fibres, limbal ring, pupil and sclera as point colours."""
    rng = np.random.default_rng(seed)
    around, along = 160, 140
    polar = np.pi * np.linspace(0, 1, along) ** 1.35
    theta, phi = np.meshgrid(polar, np.linspace(0, 2 * np.pi, around, endpoint=False), indexing="ij")
    radius = radius_m * (1 + 0.03 * np.exp(-((theta / 0.42) ** 4)))
    points = (
        np.stack([np.sin(theta) * np.cos(phi), -np.cos(theta), np.sin(theta) * np.sin(phi)], -1) * radius[..., None]
    )
    reach = np.where(theta < np.pi / 2, np.sin(theta), 1.0)
    rim, pupil = 0.455, 0.165 + 0.02 * rng.random()
    depth = np.clip((reach - pupil) / (rim - pupil), 0, 1)[..., None]
    fine, broad = (
        np.interp(phi, np.linspace(0, 2 * np.pi, n), np.r_[v := rng.random(n - 1), v[0]])[..., None] for n in (130, 45)
    )
    colour = np.array(shading.linear(iris)) * (0.6 + 0.6 * fine * (1 - depth) + 0.4 * broad * depth)
    colour = colour * (1 - 0.7 * np.clip((depth - 0.72) / 0.28, 0, 1))
    veins = 0.3 * np.clip((reach[..., None] - 0.72) / 0.28, 0, 1) * np.array([0.15, 0.6, 0.65])
    white = np.array([0.66, 0.61, 0.57]) * (1 - veins)
    outside = np.clip((reach[..., None] - rim + 0.03) / 0.05, 0, 1)
    colour = colour * (1 - outside) + white * outside
    hole = np.clip((pupil + 0.012 - reach[..., None]) / 0.02, 0, 1)
    colour = colour * (1 - hole) + 0.004 * hole
    row = np.arange(along - 1)[:, None] * around
    left, right = np.arange(around)[None], (np.arange(around)[None] + 1) % around
    quads = np.stack([row + left, row + around + left, row + around + right, row + right], -1).reshape(-1, 4)
    made = mesh_of("eye", points.reshape(-1, 3) + centre, [tuple(map(int, quad)) for quad in quads], shading.eye())
    tone = made.data.attributes.new("tone", "FLOAT_COLOR", "POINT")
    tone.data.foreach_set("color", np.c_[colour.reshape(-1, 3), np.ones(around * along)].astype(np.float32).ravel())


@dataclass(frozen=True)
class Brows:
    """The shape of the eyebrows."""

    count: int = 420
    arch_m: float = 0.004
    thick_m: float = 0.0022
    lift_m: float = 0.0165
    length_m: float = 0.0075


def brows(eyes: Eyes, surface: BVHTree, shape: Brows, material: Any, seed: int) -> None:
    """Hairs that rise at the inner end, lie down outwards, and thin to a point at the tail."""
    rng = np.random.default_rng(seed)
    lines = []
    for centre in eyes.centres:
        outward = np.sign(centre[0])
        for along in rng.random(shape.count) ** 0.85:
            profile = np.interp(along, (0, 0.12, 0.45, 0.75, 1), (0.55, 1, 1, 0.62, 0.16))
            x = centre[0] + outward * (-0.0165 + 0.0425 * along)
            z = (
                centre[2]
                + shape.lift_m
                + shape.arch_m * np.interp(along, (0, 0.62, 1), (0, 1, 0.45))
                + rng.uniform(-1, 1) * shape.thick_m * profile
            )
            hit, normal, _, _ = surface.ray_cast(Vector((x, -0.6, z)), Vector((0, 1, 0)))
            if hit is None or rng.random() > profile + 0.25:
                continue
            normal = np.array(normal)
            comb = np.array([outward * (0.45 + 0.6 * along), 0, 0.75 - 1.05 * along]) + rng.normal(size=3) * 0.13
            comb -= normal * (comb @ normal)
            comb /= np.linalg.norm(comb)
            reach = shape.length_m * (0.7 + 0.5 * rng.random()) * (1 - 0.4 * along)
            t = np.linspace(0, 1, 6)[:, None]
            lines.append(
                np.array(hit)
                + comb * reach * t
                + normal * (0.0002 + 0.0022 * t * (1 - t))
                - np.array([0, 0, 0.0012]) * t * t
            )
    curves("brows", np.array(lines), material, 5.2e-5)


def lashes(points: Points, surface: BVHTree, full: float, material: Any, seed: int) -> None:
    """Fine curved hairs from the lids' edges, in loose pairs; `full` 0..1 is how long and dense."""
    rng = np.random.default_rng(seed)
    metres, lines = body.metres(points), []
    for side in "lr":
        eye = body.metres(body.joint(points, f"{side}-eye")[None])[0]
        for strip in ("1", "2"):
            band = metres[body.template().points_of(f"helper-{side}-eyelashes-{strip}")]
            depth = np.array([surface.find_nearest(Vector(p))[3] for p in band])
            root, tip = band[depth < np.quantile(depth, 0.4)], band[depth > np.quantile(depth, 0.6)]
            root, tip = root[np.argsort(root[:, 0])], tip[np.argsort(tip[:, 0])]
            upper = root[:, 2].mean() > eye[2]
            length = (0.0062 + 0.002 * full) if upper else (0.0028 + 0.0006 * full)
            for _ in range(int(150 + 110 * full) if upper else int(45 + 30 * full)):
                x = rng.uniform(root[0, 0], root[-1, 0])
                base = np.array([x, np.interp(x, root[:, 0], root[:, 1]), np.interp(x, root[:, 0], root[:, 2])])
                splay = (x - eye[0]) / 0.014
                way = np.array([0.45 * splay, -0.85, 0.28 if upper else -0.55]) + rng.normal(size=3) * (
                    0.09,
                    0.05,
                    0.06,
                )
                way /= np.linalg.norm(way)
                reach = length * (0.65 + 0.45 * rng.random()) * (1 - 0.35 * max(0.0, -splay * np.sign(eye[0])))
                t = np.linspace(0, 1, 7)[:, None]
                curl = np.array([0.1 * splay, 0.2, 0.5 if upper else -0.12])
                lines.append(base + (way * t + curl * t * t) * reach)
    curves("lashes", np.array(lines), material, 3.4e-5)


def surface_of(made: Any) -> BVHTree:
    """The evaluated surface of an object, for rays and nearest points."""
    bpy.context.view_layer.update()
    return BVHTree.FromObject(made, bpy.context.evaluated_depsgraph_get())
