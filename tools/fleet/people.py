"""The fifty people of the newsroom: one row each, everything else drawn from a seed per name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from body import Build
from clothes import Outfit
from features import Brows
from hair import STYLES, Style
from shading import Complexion, Fabric


@dataclass(frozen=True)
class Person:
    """Everything a portrait is made of."""

    name: str
    seed: int
    build: Build
    details: dict[str, float]
    complexion: Complexion
    iris: str
    style: Style
    hair_colour: str
    hair_root: str
    grey: float
    brow_colour: str
    brows: Brows
    lashes: float
    teeth: str
    outfit: Outfit
    backdrop: tuple[int, int, int]
    light: float
    turn_degrees: float
    key: float


TONES = {
    1: Complexion("#dcae93", "#cf7f6b", "#b8806c", "#b9706a", freckles=0.2),
    2: Complexion("#d19f80", "#c67862", "#a8735c", "#b0665f", freckles=0.12),
    3: Complexion("#cf9d7b", "#b96e57", "#9a6a50", "#a8615a"),
    4: Complexion("#c08d68", "#a8654d", "#875a41", "#9c5a52"),
    5: Complexion("#ab7752", "#94573f", "#734a33", "#8f5048"),
    6: Complexion("#8d5d40", "#7d4532", "#5c3a29", "#7f463f", scatter_m=0.008),
    7: Complexion("#70472f", "#683828", "#46291c", "#6d3c36", scatter_m=0.007),
    8: Complexion("#573523", "#553024", "#352018", "#5b332f", scatter_m=0.006),
}
"""Light to dark."""

HAIR = {
    "black": ("#0d0a09", "#100c0b"), "dark": ("#1c120c", "#1c120d"), "brown": ("#38220f", "#302013"), "chestnut": ("#4d2a14", "#3a2013"),
    "auburn": ("#5e2815", "#401d12"), "copper": ("#85401a", "#5a3018"), "honey": ("#7d5730", "#5c4229"), "blond": ("#a5814f", "#77603c"),
    "ash": ("#84705a", "#5f5243"), "grey": ("#6d6a68", "#57524e"), "silver": ("#a8a5a2", "#7f7a75"),
}  # fmt: skip
"""Name to strand and scalp colour."""

SUITS = ("#1d2430", "#22314f", "#2b2d31", "#3a3f47", "#2a2522", "#18191c", "#31405a", "#454a4f")
BLAZERS = (
    "#22365e",
    "#7c2433",
    "#1f4a45",
    "#44305c",
    "#2b2d33",
    "#8b5a4a",
    "#b7ae9f",
    "#1a1b1f",
    "#5c6f86",
    "#a14b3a",
    "#2f5d6b",
    "#d9d2c5",
)
SHIRTS = ("#e3e5e8", "#d6dde8", "#e8dfdc", "#cfd9e6", "#e9e6df")
TOPS = ("#e6e1d6", "#141416", "#cdd6dc", "#d8c5b4", "#8a3a44", "#e8e8e6", "#3c4a5c", "#b7a7a0")
KNITS = ("#3b4a42", "#6b2f33", "#2e3a4e", "#7a6a58", "#b8ab97", "#26282c", "#4a5a6b", "#8a6a3f")
TIES = (
    ("#6d1a26", "#a8656c"),
    ("#1d2f55", "#8d9bb8"),
    ("#2d4a3a", None),
    ("#3d2a52", "#8a7aa0"),
    ("#7a4a1d", "#c9a878"),
    ("#21252c", "#6a7078"),
    ("#8a2f2a", None),
    ("#2b5a6e", "#b4c9d0"),
)
WALLS = (
    (58, 66, 84),
    (44, 58, 88),
    (76, 52, 66),
    (52, 72, 76),
    (70, 62, 56),
    (62, 54, 86),
    (40, 66, 84),
    (84, 64, 54),
    (54, 60, 66),
    (48, 74, 66),
)

A, S, C = "african", "asian", "caucasian"
EAST, AFRICA, EUROPE = {S: 1.0}, {A: 1.0}, {C: 1.0}
LATIN, SOUTH, ARAB, MIXED, EURASIAN = (
    {C: 0.65, A: 0.15, S: 0.2},
    {C: 0.6, S: 0.25, A: 0.15},
    {C: 0.85, A: 0.15},
    {C: 0.45, A: 0.55},
    {C: 0.5, S: 0.5},
)

ROWS = (
    # name, 1 man, age, origin, tone, style, hair, grey, clothes, iris
    ("ruby", 0, 31, EUROPE, 1, "lob", "auburn", 0.0, "blazer", "#5f6f52"),
    ("blaze", 1, 38, LATIN, 3, "swept", "dark", 0.04, "suit", "#4a3320"),
    ("mateo", 1, 33, MIXED, 6, "coils", "black", 0.0, "knit", "#2f1c12"),
    ("sofia", 0, 34, LATIN, 3, "waves", "brown", 0.0, "blouse", "#4b3522"),
    ("claire", 0, 46, EUROPE, 1, "bob", "blond", 0.1, "blazer", "#66757f"),
    ("victoria", 0, 54, EUROPE, 2, "pixie", "silver", 0.5, "blazer", "#6a7a84"),
    ("volt", 1, 29, EURASIAN, 2, "fringe", "black", 0.0, "knit", "#3a2818"),
    ("amara", 0, 30, AFRICA, 7, "afro", "black", 0.0, "blazer", "#2a1810"),
    ("kenji", 1, 45, EAST, 2, "parted", "black", 0.08, "suit", "#2c1c12"),
    ("nadia", 0, 37, ARAB, 3, "long", "dark", 0.0, "blazer", "#4d3a24"),
    ("oscar", 1, 58, EUROPE, 2, "receding", "grey", 0.5, "suit", "#6a7884"),
    ("priya", 0, 32, SOUTH, 5, "long", "black", 0.0, "blouse", "#2e1c12"),
    ("malik", 1, 41, AFRICA, 7, "buzz", "black", 0.03, "suit", "#26160e"),
    ("ingrid", 0, 40, EUROPE, 1, "knot", "blond", 0.0, "blazer", "#74848c"),
    ("diego", 1, 36, LATIN, 4, "curls", "dark", 0.0, "open", "#432c1a"),
    ("mei", 0, 28, EAST, 1, "bob", "black", 0.0, "blouse", "#281a11"),
    ("theo", 1, 27, EUROPE, 1, "crop", "copper", 0.0, "knit", "#5c7268"),
    ("zola", 0, 43, AFRICA, 8, "buzz", "black", 0.05, "blazer", "#24140d"),
    ("hassan", 1, 50, ARAB, 4, "parted", "dark", 0.18, "suit", "#3c2818"),
    ("elena", 0, 50, EUROPE, 2, "lob", "chestnut", 0.05, "blouse", "#5a4a34"),
    ("samir", 1, 34, SOUTH, 5, "swept", "black", 0.0, "open", "#2c1a11"),
    ("yuki", 0, 35, EAST, 1, "lob", "dark", 0.0, "blazer", "#2b1b12"),
    ("boris", 1, 62, EUROPE, 2, "receding", "silver", 0.6, "suit", "#67767f"),
    ("leila", 0, 29, ARAB, 4, "waves", "black", 0.0, "blazer", "#4a3823"),
    ("jonas", 1, 42, EUROPE, 1, "parted", "honey", 0.05, "suit", "#687a80"),
    ("imani", 0, 35, MIXED, 6, "ringlets", "black", 0.0, "blouse", "#2f1d13"),
    ("rafael", 1, 47, LATIN, 4, "swept", "grey", 0.35, "suit", "#46301d"),
    ("greta", 0, 61, EUROPE, 1, "bob", "silver", 0.6, "blazer", "#6c7b84"),
    ("tariq", 1, 31, SOUTH, 5, "crop", "black", 0.0, "suit", "#2d1b11"),
    ("hana", 0, 44, EAST, 2, "knot", "black", 0.04, "blazer", "#271911"),
    ("felix", 1, 35, EUROPE, 2, "curls", "brown", 0.0, "knit", "#56664e"),
    ("aisha", 0, 38, AFRICA, 6, "knot", "black", 0.0, "blouse", "#2a180f"),
    ("marco", 1, 53, EUROPE, 3, "parted", "grey", 0.4, "open", "#4f4029"),
    ("lucia", 0, 26, LATIN, 3, "long", "chestnut", 0.0, "knit", "#4f3a25"),
    ("dayo", 1, 48, AFRICA, 8, "coils", "black", 0.12, "suit", "#23130c"),
    ("freya", 0, 33, EUROPE, 1, "waves", "copper", 0.0, "blouse", "#66785f"),
    ("chen", 1, 55, EAST, 3, "crop", "grey", 0.4, "suit", "#2a1b12"),
    ("anaya", 0, 47, SOUTH, 4, "bob", "black", 0.08, "blazer", "#301e13"),
    ("pavel", 1, 39, EUROPE, 1, "buzz", "ash", 0.0, "open", "#6f7f88"),
    ("carmen", 0, 57, LATIN, 4, "pixie", "dark", 0.2, "blazer", "#452f1d"),
    ("idris", 1, 34, AFRICA, 7, "crop", "black", 0.0, "open", "#26160e"),
    ("nora", 0, 42, EUROPE, 2, "long", "honey", 0.0, "blouse", "#60707a"),
    ("hugo", 1, 64, EUROPE, 2, "swept", "silver", 0.7, "suit", "#6b7a83"),
    ("thandi", 0, 27, AFRICA, 8, "coils", "black", 0.0, "knit", "#24140d"),
    ("ravi", 1, 44, SOUTH, 6, "parted", "black", 0.08, "suit", "#2b1a11"),
    ("ada", 0, 36, MIXED, 5, "afro", "dark", 0.0, "blazer", "#3a2517"),
    ("liam", 1, 30, EUROPE, 1, "fringe", "chestnut", 0.0, "suit", "#66767e"),
    ("sakura", 0, 52, EAST, 2, "pixie", "dark", 0.12, "blouse", "#2a1b12"),
    ("omar", 1, 43, ARAB, 5, "receding", "black", 0.06, "suit", "#382617"),
    ("stella", 0, 39, EURASIAN, 2, "lob", "brown", 0.0, "knit", "#574630"),
)

DRAWN_AGAIN = {
    "victoria": "g", "nadia": "h", "diego": "b", "hassan": "e", "boris": "f", "jonas": "g", "hugo": "c", "greta": "d", "tariq": "b",
    "aisha": "i", "marco": "h", "lucia": "e", "dayo": "b", "anaya": "c", "pavel": "b", "idris": "c", "nora": "h", "sakura": "b",
    "thandi": "g", "oscar": "e", "leila": "n", "elena": "l", "ada": "g",
}  # fmt: skip
"""Who came out too like somebody else or hard to read from the lips, and what the seed has beside the name."""

DETAILS = (
    "head/head-oval", "head/head-round", "head/head-square", "head/head-rectangular", "head/head-diamond", "head/head-triangular",
    "head/head-invertedtriangular",
)  # fmt: skip
PAIRS = (
    ("head/head-scale-horiz-", "decr", "incr", 0.25), ("head/head-scale-vert-", "decr", "incr", 0.25), ("head/head-fat-", "decr", "incr", 0.3),
    ("nose/nose-scale-horiz-", "decr", "incr", 0.35), ("nose/nose-scale-vert-", "decr", "incr", 0.35), ("nose/nose-width1-", "decr", "incr", 0.4),
    ("nose/nose-width3-", "decr", "incr", 0.4), ("nose/nose-point-", "down", "up", 0.4), ("nose/nose-curve-", "concave", "convex", 0.3),
    ("nose/nose-flaring-", "decr", "incr", 0.35), ("nose/nose-volume-", "decr", "incr", 0.35), ("nose/nose-hump-", "decr", "incr", 0.3),
    ("mouth/mouth-scale-horiz-", "decr", "incr", 0.35), ("mouth/mouth-trans-", "down", "up", 0.25), ("mouth/mouth-upperlip-volume-", "decr", "incr", 0.35),
    ("mouth/mouth-lowerlip-volume-", "decr", "incr", 0.35), ("mouth/mouth-cupidsbow-", "decr", "incr", 0.4), ("mouth/mouth-philtrum-volume-", "decr", "incr", 0.3),
    ("chin/chin-width-", "decr", "incr", 0.4), ("chin/chin-height-", "decr", "incr", 0.35), ("chin/chin-prominent-", "decr", "incr", 0.35),
    ("chin/chin-bones-", "decr", "incr", 0.35), ("chin/chin-jaw-drop-", "decr", "incr", 0.25), ("forehead/forehead-scale-vert-", "decr", "incr", 0.3),
    ("forehead/forehead-temple-", "decr", "incr", 0.3), ("cheek/@-cheek-bones-", "decr", "incr", 0.4), ("cheek/@-cheek-volume-", "decr", "incr", 0.35),
    ("cheek/@-cheek-inner-", "decr", "incr", 0.3), ("eyes/@-eye-scale-", "decr", "incr", 0.22), ("eyes/@-eye-trans-", "in", "out", 0.25),
    ("eyes/@-eye-height2-", "decr", "incr", 0.12), ("eyes/@-eye-corner1-", "down", "up", 0.3), ("eyes/@-eye-eyefold-", "down", "up", 0.15),
    ("eyes/@-eye-bag-", "decr", "incr", 0.25), ("eyebrows/eyebrows-angle-", "down", "up", 0.15), ("eyebrows/eyebrows-trans-", "down", "up", 0.3),
    ("ears/@-ear-scale-", "decr", "incr", 0.3), ("ears/@-ear-wing-", "decr", "incr", 0.25), ("neck/neck-scale-horiz-", "decr", "incr", 0.3),
)  # fmt: skip
"""Target, its two ends, and the largest weight."""

FRIENDLY = {
    "mouthSmileLeft": 0.52, "mouthSmileRight": 0.55, "cheekSquintLeft": 0.18, "cheekSquintRight": 0.18, "browInnerUp": 0.09,
    "browOuterUpLeft": 0.14, "browOuterUpRight": 0.14, "eyeWideLeft": 0.20, "eyeWideRight": 0.20, "mouthDimpleLeft": 0.1, "mouthDimpleRight": 0.1,
}  # fmt: skip
"""The face somebody makes before the red light goes on."""


def details_of(rng: np.random.Generator, *, man: bool) -> dict[str, float]:
    """Weights of face targets: one head shape, and a spread over everything that tells people apart."""
    chosen = {str(rng.choice(DETAILS)): float(rng.uniform(0.15, 0.5))}
    for stem, low, high, most in PAIRS:
        weight = float(np.clip(rng.normal(0, 0.7), -1, 1) * most)
        chosen[stem + (high if weight > 0 else low)] = abs(weight)
    if not man:  # the mesh's women have a strong jaw and neck
        for name, low, high in (("neck/neck-scale-horiz-decr", 0.25, 0.5), ("chin/chin-width-decr", 0.15, 0.4)):
            chosen[name] = chosen.get(name, 0.0) + float(rng.uniform(low, high))
    chosen["neck/neck-scale-vert-incr"] = float(rng.uniform(0.15, 0.35))
    chosen["eyes/@-eye-scale-incr"] = chosen.get("eyes/@-eye-scale-incr", 0.0) + 0.26
    chosen["eyebrows/eyebrows-angle-up"] = chosen.get("eyebrows/eyebrows-angle-up", 0.0) + (0.12 if man else 0.05)
    chosen["chin/chin-bones-incr" if man else "chin/chin-bones-decr"] = float(rng.uniform(0.05, 0.35))
    return chosen | {name: weight * float(rng.uniform(0.75, 1.25)) for name, weight in FRIENDLY.items()}


def outfit_of(kind: str, rng: np.random.Generator) -> Outfit:
    """Clothes of a kind in colours of its own."""

    def pick(colours: tuple) -> object:
        return colours[int(rng.integers(len(colours)))]

    shirt, top = Fabric(pick(SHIRTS), rough=0.7, weave=0.03), Fabric(pick(TOPS), rough=0.6, weave=0.04)
    if kind == "suit":
        colour, stripe = pick(TIES)
        tie = Fabric(colour, stripe, rng.uniform(0.008, 0.016), rng.choice((0.75, -0.75)), 0.45, 0.06)
        return Outfit(shirt, "shirt", tie, Fabric(pick(SUITS), rough=0.85), lapel_m=rng.uniform(0.055, 0.07))
    if kind == "blazer":
        cut = str(rng.choice(("crew", "scoop", "vee", "vee")))
        return Outfit(top, cut, None, Fabric(pick(BLAZERS), rough=0.85), lapel_m=rng.uniform(0.045, 0.062))
    if kind == "open":
        return Outfit(shirt, "shirt", None, Fabric(pick(SUITS), rough=0.85), open_collar=True)
    if kind == "blouse":
        return Outfit(Fabric(pick(BLAZERS + TOPS), rough=0.55, weave=0.04), str(rng.choice(("vee", "scoop"))))
    return Outfit(Fabric(pick(KNITS), rough=0.9, weave=0.2), str(rng.choice(("crew", "turtle"))))


def everybody() -> tuple[Person, ...]:
    """All of them, in the order a page shows them."""
    return tuple(person_of(*row) for row in ROWS)


def person_of(
    name: str,
    man: int,
    age: int,
    origin: dict[str, float],
    tone: int,
    style: str,
    hair: str,
    grey: float,
    kind: str,
    iris: str,
) -> Person:
    """A row with everything that is drawn from its seed."""
    seed = int.from_bytes(hashlib.sha256((name + DRAWN_AGAIN.get(name, "")).encode()).digest()[:4], "big")
    rng = np.random.default_rng(seed)
    build = Build(
        male=float(rng.uniform(0.86, 1.0) if man else rng.uniform(0.0, 0.08)), age_years=age, origin=origin,
        weight=float(rng.uniform(0.42, 0.64)), muscle=float(rng.uniform(0.42, 0.6)),
    )  # fmt: skip
    strand, root = HAIR[hair]
    look = TONES[tone]
    stubble = float(rng.choice((0.0, 0.12, 0.22, 0.4))) if man else 0.0
    look = replace(look, stubble=stubble, stubble_colour=root, liner=0.0 if man else float(rng.uniform(0.5, 0.85)))
    if not man:
        look = replace(
            look,
            lips=_mixed(
                look.lips, str(rng.choice(("#a8414a", "#9c4a4f", "#b25a58", "#8c3440"))), float(rng.uniform(0.25, 0.6))
            ),
        )
    brows = Brows(
        count=int(rng.integers(520, 680) if man else rng.integers(400, 500)), arch_m=float(rng.uniform(0.0015, 0.0035) if man else rng.uniform(0.003, 0.0055)),
        thick_m=float(rng.uniform(0.0024, 0.0031) if man else rng.uniform(0.0016, 0.0022)), lift_m=float(rng.uniform(0.0158, 0.0182)),
    )  # fmt: skip
    details = details_of(rng, man=bool(man))
    haircut = replace(STYLES[style], parting_m=float(rng.choice((-1, 1)) * rng.uniform(0.018, 0.036)))
    root = _mixed(root, "#000000", 0.35)  # skin scatters light under it
    brow_colour = {
        "blond": "#6b4d2c",
        "silver": "#6e6862",
        "grey": "#4a4643",
        "honey": "#4f3620",
        "ash": "#5a4a3a",
        "copper": "#5e3318",
    }.get(hair, strand)
    return Person(
        name, seed, build, details, look, iris, haircut, strand, root, grey, brow_colour, brows,
        lashes=float(rng.uniform(0.0, 0.2) if man else rng.uniform(0.5, 0.9)), teeth="#ece2d0", outfit=outfit_of(kind, rng),
        backdrop=WALLS[int(rng.integers(len(WALLS)))], light=float(np.interp(tone, (1, 4, 8), (0.90, 1.03, 1.3))),
        turn_degrees=float(rng.choice((-1, 1)) * rng.uniform(1.5, 6.5)), key=float(rng.choice((-1, 1))),
    )  # fmt: skip


def _mixed(one: str, other: str, share: float) -> str:
    channels = [round(int(one[i : i + 2], 16) * (1 - share) + int(other[i : i + 2], 16) * share) for i in (1, 3, 5)]
    return "#" + "".join(f"{channel:02x}" for channel in channels)
