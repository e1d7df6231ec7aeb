"""Hair: guides that grow along a combed field and never enter the head, and thousands of strands between them."""

from __future__ import annotations

from dataclasses import dataclass

import body
import numpy as np
from features import Points
from mathutils import Vector
from mathutils.bvhtree import BVHTree

AZIMUTH_DEGREES = (0, 15, 30, 42, 54, 64, 74, 84, 96, 110, 130, 150, 180)
HAIRLINE = (0.60, 0.61, 0.58, 0.46, 0.27, 0.06, -0.14, -0.24, -0.28, -0.38, -0.56, -0.66, -0.70)
"""Where hair begins, by azimuth from the front: 0 the eyes' height, 1 about the crown."""


@dataclass(frozen=True)
class Style:
    """How hair is cut and combed. Lengths in metres; pairs are (low on the head, top)."""

    length_m: tuple[float, float]
    lift: tuple[float, float] = (0.05, 0.3)
    """How far it stands off when it leaves the skin."""
    volume_m: tuple[float, float] = (0.002, 0.012)
    side: float = 0.4
    back: float = 0.6
    forward: float = 0.0
    down: float = 1.0
    comb: float = 0.15
    """How firmly the comb bends it on its way."""
    parting_m: float = 0.03
    gravity: float = 0.05
    quiff: float = 0.0
    gather: bool = False
    """Combed to a knot at the back of the head."""
    knots: int = 12
    strands: int = 18_000
    clumps: int = 1600
    clumping: float = 0.45
    frizz_m: float = 0.0012
    curl_m: float = 0.0
    curl_turns: float = 3.0
    wave_m: float = 0.0
    recede: float = 0.0
    thin_top: float = 0.0
    """Share of strands missing on the crown."""
    tint: float = 1.0
    """How much of the hair's colour the scalp takes."""
    behind: bool = True
    """Long hair falls behind the shoulders, not over the chest."""

    @property
    def root_m(self) -> float:
        """How far outside the skin strands begin: long ones lie flat on it, and would else leave it late."""
        return 0.0008 if max(self.length_m) > 0.05 else -0.001


STYLES = {
    "crop": Style((0.011, 0.036), (0.15, 0.4), (0.002, 0.010), 0.3, 0.45, quiff=0.2, comb=0.3, clumps=2500, knots=9),
    "parted": Style((0.013, 0.06), (0.05, 0.18), (0.002, 0.011), 0.6, 0.7, quiff=0.15, comb=0.45, knots=11, gravity=0.03),
    "swept": Style((0.014, 0.07), (0.05, 0.22), (0.002, 0.013), 0.0, 1.0, quiff=0.2, comb=0.5, knots=12, gravity=0.02),
    "fringe": Style((0.012, 0.045), (0.1, 0.25), (0.002, 0.010), 0.3, -0.2, forward=0.8, comb=0.4, gravity=0.08, knots=10),
    "buzz": Style((0.004, 0.009), (1.2, 1.6), (0.002, 0.003), 0.0, 0.4, knots=5, gravity=0, strands=30_000, clumping=0.2, curl_m=0.001),
    "receding": Style((0.010, 0.022), (0.2, 0.4), (0.002, 0.006), 0.25, 0.6, recede=0.16, thin_top=0.35, knots=8, clumps=2500, tint=0.7),
    "afro": Style((0.02, 0.034), (2.0, 2.0), (0.02, 0.032), 0.0, 0.2, down=0, gravity=0, knots=12, strands=30_000, clumps=1500, clumping=0.4, frizz_m=0.004, curl_m=0.004),
    "coils": Style((0.008, 0.016), (1.6, 1.8), (0.008, 0.014), 0.0, 0.2, down=0, gravity=0, knots=10, strands=30_000, clumps=2200, clumping=0.5, frizz_m=0.002, curl_m=0.0025),
    "curls": Style((0.05, 0.075), (0.6, 0.9), (0.012, 0.024), 0.5, 0.2, gravity=0.12, knots=18, clumps=420, clumping=0.75, curl_m=0.006, curl_turns=4, frizz_m=0.002),
    "bob": Style((0.11, 0.21), (0.0, 0.1), (0.002, 0.007), 1.0, 0.5, gravity=0.42, knots=18, clumps=900, clumping=0.5),
    "lob": Style((0.15, 0.255), (0.0, 0.1), (0.002, 0.008), 1.0, 0.6, gravity=0.4, knots=20, clumps=800, clumping=0.55, wave_m=0.004),
    "long": Style((0.21, 0.33), (0.0, 0.1), (0.002, 0.008), 1.0, 0.85, gravity=0.36, knots=24, clumps=700, clumping=0.6),
    "waves": Style((0.20, 0.31), (0.05, 0.15), (0.003, 0.011), 1.0, 0.8, gravity=0.34, knots=26, clumps=420, clumping=0.7, wave_m=0.009),
    "ringlets": Style((0.14, 0.22), (0.3, 0.4), (0.006, 0.014), 1.0, 0.6, gravity=0.3, knots=30, clumps=320, clumping=0.8, curl_m=0.007, curl_turns=6),
    "pixie": Style((0.02, 0.075), (0.05, 0.2), (0.002, 0.012), 0.9, 0.15, forward=0.3, gravity=0.1, knots=12, quiff=0.1, comb=0.35),
    "knot": Style((0.12, 0.17), (0.0, 0.1), (0.003, 0.008), 0.3, 1.5, down=0.1, gravity=0, gather=True, knots=14, clumps=1300, clumping=0.4, frizz_m=0.0009),
}  # fmt: skip


def scalp(style: Style) -> np.ndarray:
    """0..1 a point of the template: how much hair grows there."""
    mesh = body.template()
    points = mesh.points
    eye_y = body.joint(points, "l-eye")[1]
    scale = (points[mesh.points_of("body")][:, 1].max() - eye_y) / 1.12
    ears = np.zeros(len(points), bool)
    for side in "lr":
        numbers, shifts = body.target(f"ears/{side}-ear-scale-incr")
        ears[numbers[np.abs(shifts).max(1) > 0.006]] = True
    middle_z = points[ears][:, 2].mean() - 0.03
    azimuth = np.degrees(np.abs(np.arctan2(points[:, 0], points[:, 2] - middle_z)))
    line = np.array(HAIRLINE)
    line[:5] += style.recede * np.array([0.35, 1.0, 1.1, 0.8, 0.3])
    height = (points[:, 1] - eye_y) / scale
    ears &= (height < 0.14) & (azimuth > 76) & (np.abs(points[:, 0]) > 0.68)  # the target moves temples too
    grown = np.clip((height - np.interp(azimuth, AZIMUTH_DEGREES, line)) / 0.16 + 0.5, 0, 1)
    grown[ears] = 0
    grown[height < -0.95] = 0
    if style.thin_top:
        crown = np.exp(-(((points[:, 0]) / 0.55) ** 2) - ((points[:, 2] - middle_z - 0.2) / 0.7) ** 2) * (height > 0.7)
        grown *= 1 - style.thin_top * crown
    return grown.astype(np.float32)


class Head:
    """The hairy part of a head in metres: where strands start, and what they must not enter."""

    def __init__(self, points: Points, style: Style, obstacles: list[tuple[Points, list[tuple[int, ...]]]]) -> None:
        mesh = body.template()
        self.style = style
        self.metres = body.metres(points)
        self.weight = scalp(style)
        top = self.metres[mesh.points_of("body")][:, 2].max()
        faces = [mesh.faces[f] for f in mesh.groups["body"] if self.metres[list(mesh.faces[f]), 2].max() > top - 0.62]
        triangles = np.array([(a, b, c) for a, b, c, *_ in faces] + [(f[0], f[2], f[3]) for f in faces if len(f) > 3])
        everything, everywhere = [list(face) for face in faces], self.metres
        for more, more_faces in obstacles:
            everything += [[i + len(everywhere) for i in face] for face in more_faces]
            everywhere = np.concatenate([everywhere, more])
        self.surface = BVHTree.FromPolygons([Vector(p) for p in everywhere.tolist()], everything)
        mean = self.weight[triangles].mean(1)
        self.triangles, mean = triangles[mean > 0.02], mean[mean > 0.02]
        corners = self.metres[self.triangles]
        cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        self.chance = np.linalg.norm(cross, axis=1) * mean
        self.chance /= self.chance.sum()
        self.normals = np.zeros_like(self.metres)
        for corner in range(3):
            np.add.at(self.normals, self.triangles[:, corner], cross)
        self.normals /= np.linalg.norm(self.normals, axis=1, keepdims=True) + 1e-12
        haired = self.metres[self.weight > 0.5]
        self.middle = haired.mean(0)
        self.eyes = body.metres(np.stack([body.joint(points, "l-eye"), body.joint(points, "r-eye")])).mean(0)
        self.knot = np.array([0, haired[:, 1].max() + 0.004, self.eyes[2] - 0.005])

    def roots(self, count: int, rng: np.random.Generator) -> tuple[Points, Points]:
        """Places (count, 3) and normals, denser where more hair grows."""
        chosen = rng.choice(len(self.triangles), count, p=self.chance)
        share = rng.random((count, 2))
        over = share.sum(1) > 1
        share[over] = 1 - share[over]
        share = np.c_[1 - share.sum(1), share][..., None]
        corners = self.triangles[chosen]
        normals = (share * self.normals[corners]).sum(1)
        return (share * self.metres[corners]).sum(1), normals / np.linalg.norm(normals, axis=1, keepdims=True)

    def combed(self, places: Points, normals: Points, jitter: np.ndarray) -> Points:
        """The direction (N, 3) hair is combed in, along the skin."""
        style = self.style
        if style.gather:
            way = self.knot - places
        else:
            sided = np.clip((places[:, 0] - style.parting_m + jitter) / 0.004, -1, 1)
            high = np.clip((places[:, 2] - self.middle[2] + 0.02) / 0.10, 0, 1)
            front = np.clip((self.middle[1] - places[:, 1]) / 0.08, 0, 1)
            brushed = 0.9 * (style.forward == 0 and max(style.length_m) < 0.1)  # short hair goes up from the forehead
            way = np.stack(
                [
                    style.side * sided,
                    style.back * (0.1 + 0.9 * high) - style.forward * front,
                    -style.down * (1 - 0.8 * high) * (1 - brushed * front * np.clip(2 * high, 0, 1)),
                ],
                1,
            )
        way = way - (way * normals).sum(1, keepdims=True) * normals
        return way / (np.linalg.norm(way, axis=1, keepdims=True) + 1e-6)


def guides(head: Head, count: int, rng: np.random.Generator) -> tuple[Points, Points]:
    """Roots (count, 3) and leading strands (count, K, 3)."""
    style = head.style
    roots, normals = head.roots(count, rng)
    jitter = rng.normal(size=count) * 0.004
    side = np.where(roots[:, 0] - style.parting_m + jitter > 0, 1.0, -1.0)
    way = head.combed(roots, normals, jitter)
    high = np.clip((roots[:, 2] - head.middle[2] + 0.05) / 0.12, 0, 1)
    front = np.clip((head.middle[1] - roots[:, 1] - 0.03) / 0.06, 0, 1) * high

    def between(pair: tuple[float, float]) -> np.ndarray:
        return pair[0] + (pair[1] - pair[0]) * high

    length = between(style.length_m) * (1 + 0.08 * rng.normal(size=count)).clip(0.7, 1.25)
    if style.gather:
        length = 1.35 * np.linalg.norm(head.knot - roots, axis=1)
    volume = between(style.volume_m) * (0.4 + 0.6 * rng.random(count)) * (1 + 0.8 * style.quiff * front)
    way = way + normals * (between(style.lift) + style.quiff * front)[:, None]
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    lines = np.zeros((count, style.knots, 3))
    lines[:, 0] = roots + normals * style.root_m
    place = roots.copy()
    step = (length / (style.knots - 1))[:, None]
    for knot in range(1, style.knots):
        along = knot / (style.knots - 1)
        nearer = place + way * step
        for i in range(count):
            nearer[i] = _outside(head, nearer[i], volume[i] * min(1.0, 3 * along) * (1 - 0.15 * along) + 0.0015)
        nearer += np.clip(_off_the_face(head, nearer, side) - nearer, -0.5 * step, 0.5 * step)
        way = nearer - place
        way /= np.linalg.norm(way, axis=1, keepdims=True) + 1e-9
        place = place + way * step
        lines[:, knot] = place
        if style.gather:  # straight to the knot; the head is in the way, so they go around it
            pull = head.knot - place
            pull = 0.8 * pull / (np.linalg.norm(pull, axis=1, keepdims=True) + 0.01)
        else:
            fades = 4 if max(style.length_m) > 0.1 else 1.5
            pull = head.combed(roots, normals, jitter) * style.comb * np.exp(-fades * along)
        way = way + style.gravity * (0.4 + along) * np.array([0, 0, -1.0]) + pull
        way /= np.linalg.norm(way, axis=1, keepdims=True)
    return roots, lines


def _outside(head: Head, place: np.ndarray, clearance_m: float) -> np.ndarray:
    """A place pushed out of head and clothes."""
    nearest, normal, _, _ = head.surface.find_nearest(Vector(place), 0.09)
    if nearest is None:
        return place
    normal = np.array(normal)
    depth = float((place - np.array(nearest)) @ normal)
    return place + normal * (clearance_m - depth) * 0.85 if depth < clearance_m else place


def _off_the_face(head: Head, places: Points, side: np.ndarray) -> Points:
    """Hair in front of the ears is held beside the face, each strand on its side; long hair is led behind the shoulders.

    places (…, 3), side (…): -1 or 1.
    """
    if max(head.style.length_m) < 0.1 or head.style.gather:
        return places
    drop = head.eyes[2] - places[..., 2]
    beside = np.interp(drop, (-0.065, -0.02, 0.03, 0.10, 0.16), (0.0, 0.056, 0.066, 0.060, 0.052))
    beside = beside * (1.0 + 0.1 * np.sin(1e4 * places[..., :1, 0] + 0 * beside) if places.ndim == 3 else 1.0)
    beside = beside * np.clip((head.middle[1] - 0.03 - places[..., 1]) / 0.02, 0, 1)
    held = places.copy()
    across = side * places[..., 0]
    held[..., 0] = side * np.where(across < beside, beside + 0.08 * np.tanh((across - beside) / 0.02) * 0.1, across)
    if head.style.behind:
        low = (drop > 0.12) & (places[..., 1] < head.middle[1] + 0.02)
        held[..., 1] += np.where(low, np.minimum(0.006, 0.1 * (drop - 0.12)), 0)
    return held


def grow(head: Head, seed: int) -> Points:
    """All strands (N, K, 3) in metres."""
    style, rng = head.style, np.random.default_rng(seed)
    roots, lines = guides(head, 700, rng)
    places, normals = head.roots(style.strands, rng)
    if max(style.length_m) > 0.05 and not style.gather:  # where hair parts, the skin shows unless more of it grows
        more, more_normals = head.roots(2 * style.strands, rng)
        parting = (np.abs(more[:, 0] - style.parting_m) < 0.011) & (more[:, 2] > head.middle[2] + 0.01)
        places, normals = np.concatenate([places, more[parting]]), np.concatenate([normals, more_normals[parting]])
    count = len(places)
    split = 0.08 * (style.side > 0)
    untidy_m = 0.002 if max(style.length_m) > 0.1 else 0.006
    grown = np.zeros((count, style.knots, 3))
    blurred = places[:, 0] - style.parting_m + untidy_m * rng.normal(size=count)
    side, guide_side = np.sign(blurred), np.sign(lines[:, style.knots // 4, 0] - roots[:, 0])
    for start in range(0, count, 2000):
        some = slice(start, start + 2000)
        apart = np.linalg.norm(places[some, None] - roots[None], axis=2)
        apart += split * ((side[some, None] != guide_side[None]) & (places[some, None, 2] > head.middle[2]))
        nearest = np.argpartition(apart, 3, axis=1)[:, :3]
        share = 1 / (np.take_along_axis(apart, nearest, 1) + 0.002) ** 2
        share /= share.sum(1, keepdims=True)
        grown[some] = np.einsum("nk,nkij->nij", share, lines[nearest] - lines[nearest][:, :, :1])
    t = np.linspace(0, 1, style.knots)[None, :, None]
    grown *= (1 + 0.07 * rng.normal(size=(count, 1, 1))).clip(0.6, 1.15)
    grown += (places + normals * style.root_m)[:, None]
    dressed = _dressed(grown, places, style, t, rng)
    held = _off_the_face(head, dressed, np.where(dressed[:, -1:, 0] > 0, 1.0, -1.0))
    dressed = dressed + (held - dressed) * np.clip(4 * t - 0.25, 0, 1)
    if max(style.length_m) >= 0.1:
        drop = head.eyes[2] - dressed[..., 2]
        before = (
            (dressed[..., 1] < head.middle[1] - 0.05)
            & (np.abs(dressed[..., 0]) < 0.05)
            & (drop > -0.035)
            & (drop < 0.1)
        )
        kept = ~(before & (drop < 0)).any(1)  # cut short, they would lie on the forehead like a scratch
        dressed = _cut(dressed[kept], before[kept])  # nobody reads the news through a curtain
    if max(style.length_m) >= 0.07 and style.side >= 0.5 and not style.curl_m:
        dressed[..., 0] = _narrow(dressed[..., 0], head.eyes[2] - dressed[..., 2])
    return dressed.astype(np.float32)


def _cut(lines: Points, beyond: np.ndarray) -> Points:
    """Strands (N, K, 3) ended before the first knot that lies beyond (N, K); those with nothing left are dropped."""
    knots = beyond.shape[1]
    first = np.where(beyond.any(1), beyond.argmax(1), knots)
    lines, end = lines[first > 1], np.minimum(first[first > 1] - 1, knots - 1)
    at = np.linspace(0, 1, knots)[None] * end[:, None]
    low = np.clip(np.floor(at).astype(int), 0, knots - 2)
    share = (at - low)[..., None]
    row = np.arange(len(lines))[:, None]
    return lines[row, low] * (1 - share) + lines[row, low + 1] * share


def _narrow(x: np.ndarray, drop: np.ndarray) -> np.ndarray:
    """Hair that stands out sideways, drawn in: it hangs, and is no helmet."""
    most = np.interp(drop, (-0.14, -0.11, -0.08, -0.03, 0.06, 0.20), (0.050, 0.068, 0.082, 0.093, 0.090, 0.095))
    out = np.abs(x) - most
    return np.where(out > 0, np.sign(x) * (most + 0.42 * out), x)


def _dressed(grown: Points, places: Points, style: Style, t: np.ndarray, rng: np.random.Generator) -> Points:
    """Strands gathered in locks, curled, waved and a little untidy."""
    count = len(grown)
    leaders = rng.choice(count, style.clumps, replace=False)
    lock = np.concatenate(
        [
            np.linalg.norm(places[s : s + 2000, None] - places[leaders][None], axis=2).argmin(1)
            for s in range(0, count, 2000)
        ]
    )
    grown = grown + (grown[leaders[lock]] - grown) * (style.clumping * t**1.2 * (0.5 + 0.5 * rng.random((count, 1, 1))))
    stray, ripple = rng.normal(size=(2, count, 1, 3)) * style.frizz_m
    grown = grown + 1.2 * t * stray + 0.6 * np.sin(9 * t + 6.28 * rng.random((count, 1, 1))) * ripple * t
    phase = rng.random(style.clumps)[lock][:, None]
    if style.curl_m:
        angle = 2 * np.pi * (style.curl_turns * t[..., 0] + phase)
        grown = grown + style.curl_m * t**0.7 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    if style.wave_m:
        swing = np.sin(2 * np.pi * (1.7 * t[..., 0] + 0.35 * phase))[..., None] * style.wave_m * t
        outward = np.concatenate(
            [np.sign(grown[:, :1, :1] - style.parting_m), np.full((count, 1, 1), 0.5), np.zeros((count, 1, 1))], 2
        )
        grown = grown + swing * outward
    return grown.astype(np.float32)
