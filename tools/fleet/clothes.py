"""Clothes over the body's own mesh: tops with cut necklines, shirts with collars, ties, jackets with modelled lapels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import bpy  # it brings bmesh

# isort: split
import bmesh
import body
import numpy as np
import shading
from features import Points, mesh_of, surface_of
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from shading import Fabric

Edge = Callable[[float], np.ndarray]
"""A point (3,) in metres for a share 0..1 of the way."""


@dataclass(frozen=True)
class Outfit:
    """What somebody wears: a top of some cut, perhaps a tie, perhaps a jacket."""

    top: Fabric
    cut: str = "crew"
    """crew, scoop, vee, turtle or shirt."""
    tie: Fabric | None = None
    jacket: Fabric | None = None
    open_collar: bool = False
    lapel_m: float = 0.062
    """How broad the lapels are."""
    obstacles: list = field(default_factory=list)


class Tailor:
    """Dresses one body. Heights are counted from the pit of the neck."""

    def __init__(self, points: Points, skin: object) -> None:
        self.metres = body.metres(points)
        neck, eye = body.metres(np.stack([body.joint(points, "neck"), body.joint(points, "l-eye")]))
        self.axis_y = neck[1] - 0.004
        self.skin = surface_of(skin)
        self.pit = self._pit(float(eye[2]))
        self.neck_m = 1.0
        self.neck_m = float(min(abs(self.around(90, height, 0.0)[0]) for height in np.arange(0.02, 0.1, 0.008)))
        """Half the neck's width."""
        self.side_m = self._shoulder_m()
        """How high neck and shoulder meet, above the pit."""
        mesh = body.template()
        self.lowest_m = self.pit[2] - 0.36
        self.faces = [mesh.faces[f] for f in mesh.groups["body"]]
        normals = np.zeros_like(self.metres)
        for face in self.faces:
            a, b, c = self.metres[list(face[:3])]
            normals[list(face)] += np.cross(b - a, c - a)
        self.normals = normals / (np.linalg.norm(normals, axis=1, keepdims=True) + 1e-12)
        self.worn: list[tuple[Points, list[tuple[int, ...]]]] = []
        """Meshes that hair must not enter."""

    def _pit(self, eye_z_m: float) -> np.ndarray:
        """Where the throat ends: two centimetres below its thinnest place, as seen from the front."""
        heights = eye_z_m - np.arange(0.12, 0.27, 0.004)
        seen = [self.skin.ray_cast(Vector((0, -1, z)), Vector((0, 1, 0)))[0] for z in heights]
        thinnest = max((hit for hit in seen if hit is not None), key=lambda hit: hit[1])
        return np.array([0, thinnest[1], thinnest[2] - 0.02])

    def _shoulder_m(self) -> float:
        above = Vector((self.neck_m + 0.008, self.axis_y + 0.02, self.pit[2] + 0.085))
        hit, _, _, _ = self.skin.ray_cast(above, Vector((0, 0, -1)))
        return 0.04 if hit is None else float(np.clip(hit[2] - self.pit[2], 0.015, 0.07))

    def base(self, degrees: float) -> float:
        """The height at which the neck begins, by azimuth."""
        return self.side_m * float(np.interp(abs(degrees), (0, 15, 30, 60, 90, 180), (0, 0.04, 0.2, 0.7, 1.0, 1.2)))

    def throat(self, degrees: float) -> float:
        """The height at which a shirt's collar begins: it lies closer to the chin in front than the neck's own base."""
        rise = float(np.interp(abs(degrees), (0, 20, 40, 60, 90, 180), (0.50, 0.52, 0.60, 0.80, 1.0, 1.2)))
        return self.side_m * rise

    def layer(self, off_m: float, smooth: int, pad_m: float, top_m: float) -> object:
        """The body's skin below a height, moved outwards and smoothed."""
        height = self.metres[:, 2] - self.pit[2]
        chosen = [f for f in self.faces if (height[list(f)] < top_m).all() and height[list(f)].max() > -0.36]
        shell = self.metres + self.normals * off_m
        neighbours: dict[int, set[int]] = {}
        for face in chosen:
            for a, b in zip(face, face[1:] + face[:1], strict=True):
                neighbours.setdefault(a, set()).add(b)
                neighbours.setdefault(b, set()).add(a)
        for _ in range(smooth):
            shell = shell.copy()
            mean = {a: shell[list(near)].mean(0) for a, near in neighbours.items()}
            for a, value in mean.items():
                shell[a] = 0.5 * shell[a] + 0.5 * value
        if pad_m:
            across = np.abs(shell[:, 0])
            up = np.clip(self.normals[:, 2], 0, 1)
            shell[:, 2] += pad_m * up * np.interp(across, (0.10, 0.14, 0.18, 0.22), (0, 0.5, 1, 0.5))
        used = sorted(neighbours)
        new = {a: i for i, a in enumerate(used)}
        faces = [tuple(new[i] for i in f) for f in chosen]
        self.worn.append((shell[used], faces))
        data = bpy.data.meshes.new("layer")
        data.from_pydata(shell[used].tolist(), [], faces)
        return data

    def cut(self, data: object, planes: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Trim a layer: each plane (a point, a normal for the right half) takes away what lies beyond, on both sides."""
        cloth = bmesh.new()
        cloth.from_mesh(data)
        bmesh.ops.subdivide_edges(cloth, edges=cloth.edges[:], cuts=1, use_grid_fill=True, smooth=0.4)
        bmesh.ops.bisect_plane(
            cloth, geom=[*cloth.verts, *cloth.edges, *cloth.faces], plane_co=(0, 0, 0), plane_no=(1, 0, 0)
        )
        for point, normal in planes:
            for sign in (1, -1):
                half = [f for f in cloth.faces if sign * f.calc_center_median().x >= 0]
                geometry = {*half, *(e for f in half for e in f.edges), *(v for f in half for v in f.verts)}
                done = bmesh.ops.bisect_plane(
                    cloth,
                    geom=list(geometry),
                    plane_co=point,
                    plane_no=Vector((sign * normal[0], normal[1], normal[2])),
                    clear_outer=False,
                )
                del done
                beyond = [
                    f for f in cloth.faces
                    if sign * (c := f.calc_center_median()).x >= 0
                    and (np.array(c) - point) @ np.array([sign * normal[0], normal[1], normal[2]]) > 0
                ]  # fmt: skip
                bmesh.ops.delete(cloth, geom=beyond, context="FACES")
        cloth.to_mesh(data)
        cloth.free()

    def worn_mesh(self, data: object, fabric: Fabric, thick_m: float) -> object:
        """The finished layer as an object of some thickness."""
        data.materials.append(shading.cloth(fabric))
        data.polygons.foreach_set("use_smooth", [True] * len(data.polygons))
        made = bpy.data.objects.new("cloth", data)
        bpy.context.scene.collection.objects.link(made)
        made.modifiers.new("smooth", "SUBSURF").render_levels = 1
        shell = made.modifiers.new("thick", "SOLIDIFY")
        shell.thickness, shell.offset = thick_m, 1
        return made

    def neckline(self, cut: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """The planes that cut a top's neck."""
        front = self.pit + np.array(
            [0, 0, {"vee": -0.038, "scoop": 0.004, "shirt": 0.030, "jacket": 0.03}.get(cut, 0.006)]
        )
        spread = {"vee": (self.side_m + 0.05) / (self.neck_m + 0.012) * 0.75, "jacket": 0.0}.get(cut, 0.55)
        reach = self.neck_m + 0.012
        level = (
            self.side_m
            + {"jacket": 0.034, "vee": -0.02}.get(cut, 0.006)
            - spread * reach * (0.6 if cut == "vee" else 1)
        )
        rise = max(0.12, (level - (front[2] - self.pit[2])) / (self.axis_y + 0.02 - self.pit[1]))
        normal = np.array([-spread, -rise, 1.0])
        return [(front, normal / np.linalg.norm(normal))]

    def around(
        self, degrees: float, height_m: float, off_m: float, surface: BVHTree | None = None, cap_m: float = 1.0
    ) -> np.ndarray:
        """A place at this azimuth (0 front, 180 nape) and height, this far off the skin (or another surface).

        `cap_m` is how far it may lie outside the neck: on the shoulders, heights alone lead astray.
        """
        angle = np.radians(degrees)
        way = np.array([np.sin(angle), -np.cos(angle), 0.0])
        start = np.array([0, self.axis_y, self.pit[2] + height_m]) + way * 0.4
        hit = self._first(start, -way, surface)
        if hit is not None:
            reach = float((hit - (start - way * 0.4)) @ way)
            return start - way * 0.4 + way * (min(reach, self.neck_m + cap_m) + off_m)
        return start - way * 0.34

    def _first(self, start: np.ndarray, way: np.ndarray, surface: BVHTree | None) -> np.ndarray | None:
        """What a ray meets first, on the skin or a surface over it."""
        hits = [hull.ray_cast(Vector(start), Vector(way))[0] for hull in (surface, self.skin) if hull is not None]
        found = [np.array(hit) for hit in hits if hit is not None]
        return min(found, key=lambda hit: float((hit - start) @ way)) if found else None

    def before(self, x: float, height_m: float, off_m: float, surface: BVHTree) -> np.ndarray:
        """A place on a surface as seen from the front, this much nearer to the camera."""
        z = self.pit[2] + height_m
        hit = self._first(np.array([x, -1.0, z]), np.array([0, 1.0, 0]), surface)
        if hit is not None:
            return hit + np.array([0, -off_m, 0])
        return np.array([x, self.pit[1], z])


def sheet(
    first: Edge,
    last: Edge,
    fabric: Fabric,
    *,
    bulge: Callable[[float, float], np.ndarray] | None = None,
    thick_m: float = 0.002,
    rows: int = 40,
    across: int = 10,
) -> object:
    """A piece of cloth ruled between two edges; `bulge` adds a shift for (share along, share across)."""
    points = []
    for i in range(rows + 1):
        a, b = first(i / rows), last(i / rows)
        for j in range(across + 1):
            s = j / across
            points.append(a + (b - a) * s + (bulge(i / rows, s) if bulge else 0))
    wide = across + 1
    faces = [
        (r * wide + c, r * wide + c + 1, (r + 1) * wide + c + 1, (r + 1) * wide + c)
        for r in range(rows)
        for c in range(across)
    ]
    made = mesh_of("sheet", np.array(points), faces, shading.cloth(fabric))
    shell = made.modifiers.new("thick", "SOLIDIFY")
    shell.thickness, shell.offset = thick_m, 0
    round_off = made.modifiers.new("edge", "BEVEL")
    round_off.width, round_off.segments, round_off.limit_method = thick_m * 0.4, 2, "ANGLE"
    return made


def dress(tailor: Tailor, outfit: Outfit) -> None:
    """Put an outfit on."""
    cut = outfit.cut
    data = tailor.layer(0.0055 if cut != "knit" else 0.008, 3, 0.0, 0.09)
    tailor.cut(data, tailor.neckline(cut))
    top = tailor.worn_mesh(data, outfit.top, 0.0022)
    if cut in ("crew", "turtle"):
        _band(tailor, outfit.top, 0.058 if cut == "turtle" else 0.014)
    if cut == "shirt":
        _collar(tailor, outfit)
    if outfit.tie:
        _tie(tailor, outfit.tie, surface_of(top))
    if outfit.jacket:
        _jacket(tailor, outfit)


def _band(tailor: Tailor, fabric: Fabric, tall_m: float) -> None:
    """The ribbed band of a crew neck, or the roll of a turtleneck."""

    def height(share: float) -> float:
        return tailor.base(360 * share - 180) + 0.003

    tall = tall_m > 0.03

    def low(share: float) -> np.ndarray:
        return tailor.around(360 * share - 180, height(share) - 0.006, 0.007)

    def high(share: float) -> np.ndarray:
        return tailor.around(360 * share - 180, height(share) + tall_m, 0.006 if tall else 0.004)

    def bulge(share: float, s: float) -> np.ndarray:
        angle = 2 * np.pi * share - np.pi  # the seam lies at the nape
        way = np.array([np.sin(angle), -np.cos(angle), 0])
        return way * (0.007 if tall else 0.002) * np.sin(np.pi * s) ** 0.6

    sheet(low, high, fabric, bulge=bulge, thick_m=0.0035, rows=90)


def _collar(tailor: Tailor, outfit: Outfit) -> None:
    """A shirt's collar: the stand round the neck, and two leaves that fold down to points."""
    spread = 16.0 if outfit.open_collar else 5.0
    fabric = outfit.top

    def stand_height(degrees: float) -> float:
        return tailor.throat(degrees) + float(np.interp(degrees, (0, 60, 180), (0.022, 0.026, 0.034)))

    def leaf_height(degrees: float) -> float:
        fall = np.interp(degrees, (0, 21, 30, 60, 100, 180), (-0.030, -0.052, -0.030, -0.006, 0.0, 0.002))
        return tailor.throat(degrees) + float(fall)

    for sign in (1, -1):

        def turned(share: float, sign: int = sign) -> float:
            return sign * (spread + (180 - spread) * share**1.3)

        def low(share: float, turned: Callable[[float], float] = turned) -> np.ndarray:
            return tailor.around(turned(share), stand_height(abs(turned(share))) - 0.034, 0.0045, cap_m=0.012)

        def fold(share: float, turned: Callable[[float], float] = turned) -> np.ndarray:
            return tailor.around(turned(share), stand_height(abs(turned(share))), 0.0065, cap_m=0.010)

        def hem(share: float, turned: Callable[[float], float] = turned) -> np.ndarray:
            degrees = abs(turned(share)) + (14 if not outfit.open_collar else 20) * max(0.0, 1 - share * 4)
            return tailor.around(
                np.sign(turned(share)) * degrees,
                leaf_height(degrees),
                0.0135,
                cap_m=float(np.interp(degrees, (35, 60), (1.0, 0.022))),
            )

        def roll(share: float, s: float, turned: Callable[[float], float] = turned) -> np.ndarray:
            angle = np.radians(turned(share))
            return np.array([np.sin(angle), -np.cos(angle), 0]) * 0.0045 * np.sin(np.pi * min(1.0, 1.6 * s + 0.08))

        sheet(low, fold, fabric, thick_m=0.002, rows=60)
        sheet(fold, hem, fabric, bulge=roll, thick_m=0.0022, rows=60)


def _tie(tailor: Tailor, fabric: Fabric, shirt: BVHTree) -> None:
    """A knot between the collar's points, and the blade below it."""

    def edge(sign: int, heights: tuple[float, float], widths: tuple[float, float, float], off_m: float) -> Edge:
        def at(share: float) -> np.ndarray:
            height = heights[0] + (heights[1] - heights[0]) * share
            half = float(np.interp(share, (0, 0.5, 1), widths))
            front = tailor.before(0.0, height, off_m, shirt)
            return front + np.array([sign * half, 0.002, 0])

        return at

    def round_knot(share: float, s: float) -> np.ndarray:
        return np.array([0, -0.010 * np.sin(np.pi * s) ** 0.7 * (0.55 + 0.45 * np.sin(np.pi * share)), 0])

    def round_blade(share: float, s: float) -> np.ndarray:
        dimple = 0.0035 * np.exp(-(((s - 0.5) / 0.13) ** 2)) * np.exp(-share * 6)
        return np.array([0, -0.0055 * np.sin(np.pi * s) ** 0.8 + dimple, 0])

    top = tailor.throat(0) + 0.020
    end = top - 0.044
    sheet(
        edge(-1, (top, end), (0.019, 0.0165, 0.0115), 0.013),
        edge(1, (top, end), (0.019, 0.0165, 0.0115), 0.013),
        fabric,
        bulge=round_knot,
        rows=24,
        across=16,
    )
    sheet(
        edge(-1, (end, -0.34), (0.0115, 0.0245, 0.034), 0.007),
        edge(1, (end, -0.34), (0.0115, 0.0245, 0.034), 0.007),
        fabric,
        bulge=round_blade,
        rows=60,
        across=16,
    )


def _jacket(tailor: Tailor, outfit: Outfit) -> None:
    """Padded shoulders, an opening to the button, lapels with a notch, and the collar behind the neck."""
    fabric = outfit.jacket
    assert fabric is not None
    data = tailor.layer(0.013, 5, 0.013, 0.10)
    button = np.array([0, tailor.before(0, -0.27, 0, tailor.skin)[1] - 0.02, tailor.pit[2] - 0.27])
    opening = np.array([-0.23 / (0.80 * tailor.neck_m), -0.8, 1.0])
    tailor.cut(data, [(button, opening / np.linalg.norm(opening)), *tailor.neckline("jacket")])
    hull = surface_of(tailor.worn_mesh(data, fabric, 0.004))

    def gap(height: float) -> float:
        return tailor.neck_m * float(np.interp(height, (-0.27, -0.1, 0.0, 0.05), (0.03, 0.5, 0.78, 0.86)))

    for sign in (1, -1):

        def roll_line(share: float, sign: int = sign) -> np.ndarray:
            height = -0.016 - 0.254 * share
            return tailor.before(sign * (gap(height) - 0.007), height, 0.010, hull)

        def lapel(share: float, sign: int = sign) -> np.ndarray:
            height = -0.030 - 0.24 * share
            breadth = outfit.lapel_m * float(np.interp(share, (0, 0.12, 0.6, 1), (1.0, 0.97, 0.6, 0.05)))
            return tailor.before(sign * (gap(height) + breadth), height, 0.0065, hull)

        def swell(share: float, s: float) -> np.ndarray:
            return np.array([0, -0.006 * np.sin(np.pi * min(1.0, s + 0.15)) * (1 - 0.7 * share), 0])

        def inner(share: float, sign: int = sign) -> np.ndarray:
            degrees = 31 + 149 * share
            height = tailor.base(degrees) + float(np.interp(degrees, (31, 60, 100, 180), (-0.006, 0.004, 0.014, 0.016)))
            return tailor.around(sign * degrees, height, 0.0125, cap_m=0.02)

        def outer(share: float, sign: int = sign) -> np.ndarray:
            degrees = 49 + 131 * share
            height = tailor.base(degrees) + float(
                np.interp(degrees, (49, 70, 100, 180), (-0.045, -0.032, -0.016, -0.03))
            )
            return tailor.around(
                sign * degrees, height, 0.0075, hull, float(np.interp(degrees, (55, 80), (1.0, 0.055)))
            )

        def turn(share: float, s: float, sign: int = sign) -> np.ndarray:
            angle = np.radians(sign * (40 + 140 * share))
            return (
                np.array([0.6 * np.sin(angle), -0.6 * np.cos(angle), 0.6]) * 0.008 * np.sin(np.pi * min(1.0, s + 0.1))
            )

        sheet(roll_line, lapel, fabric, bulge=swell, thick_m=0.003, rows=70)
        sheet(inner, outer, fabric, bulge=turn, thick_m=0.003, rows=60)
