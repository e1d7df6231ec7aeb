"""How each mesh point moves for each element of a mouth shape. Face coordinates; knows no pictures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engines.warp.lips import Lips, spread
from engines.warp.mesh import CHIN, LIPS, LOWER_RINGS, OUTER_LIPS, RING_SHARE, UPPER_RINGS
from engines.warp.moulds import TEETH_EDGE
from engines.warp.shape import MouthShape

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

MOVES = ("close", "open", "wide", "round", "fv", "press", "sway", "tilt")
"""`close` shuts the portrait's own mouth, always; `sway` and `tilt` are the irregularities of a living one."""
JAW_DROP = 0.30
"""Drop of the lower lip at full opening, units."""
CHIN_FOLLOWS = 0.78


def moves(lips: Lips, chin_room: float) -> F64:
    """(len(MOVES), 468, 2) displacements in face coordinates, for weights of one.

    chin_room: how far the chin may come down before it leaves what the packet's mask shows.
    """
    rest = lips.rest
    made = {
        "close": lips.close,
        "open": _open(lips, rest, chin_room),
        "wide": _wide(lips, rest),
        "round": _round(lips, rest),
        "fv": _fv(lips, rest),
        "press": _press(lips, rest),
        "sway": _sway(rest),
        "tilt": _tilt(lips, rest),
    }
    return np.stack([made[name] for name in MOVES])


def weights(shape: MouthShape, sway: float = 0.0, tilt: float = 0.0) -> F32:
    """(len(MOVES),) f32: what shape elements add up to, where they would fight each other."""
    opened = shape.open * (1.0 - 0.12 * shape.open)  # the last of a wide-open jaw only stretches the chin
    opened *= (1.0 - shape.press) * (1.0 - 0.65 * shape.fv)
    narrow = shape.round * (1.0 - 0.5 * shape.fv)
    wide = shape.wide * (1.0 - 0.8 * shape.round) * (1.0 - 0.25 * shape.open)
    tucked = shape.fv * (1.0 - shape.press)
    alive = min(1.0, 4.0 * opened + 2.0 * (narrow + wide))
    return np.array(
        [1.0, opened, wide, narrow, tucked, shape.press, sway * alive * (0.3 + opened), tilt * alive], np.float32
    )


def _lens(along: F64, power: float = 2.0) -> F64:
    """1 in the middle of the mouth, 0 at the corners."""
    return (1.0 - np.minimum(1.0, np.abs(along)) ** power) ** 0.85


def _gape(along: F64) -> F64:
    """The same, easing into the corners: a lip that hangs steeply there would fold."""
    return (1.0 - np.minimum(1.0, np.abs(along)) ** 2.6) ** 1.25


def _half(lips: Lips, along: F64) -> F64:
    """Half width of the mouth on the side of each point, so that the far side of a turned face moves less."""
    return np.where(along < 0, lips.half_left, lips.half_right)


def _jaw(rest: F64) -> F64:
    """(468,) share of the jaw's drop that each point below the mouth takes part in."""
    below = np.clip(rest[:, 1] / 0.5, 0.0, 1.0)
    ramp = below * below * (3.0 - 2.0 * below)
    return ramp / (1.0 + (np.abs(rest[:, 0]) / 0.95) ** 4)


def _open(lips: Lips, rest: F64, chin_room: float) -> F64:
    move = np.zeros_like(rest)
    chin = min(CHIN_FOLLOWS * JAW_DROP, max(0.0, chin_room) * 0.6)
    for rings, lower in ((UPPER_RINGS, False), (LOWER_RINGS, True)):
        for ring, inside in zip(rings, RING_SHARE, strict=True):
            along = lips.along(rest[ring, 0])
            corner = JAW_DROP * 0.20
            if lower:
                drop = (0.96 + 0.04 * inside) * JAW_DROP
                move[ring, 1] = corner + (drop - corner) * _gape(along)
            else:
                move[ring, 1] = corner * np.minimum(1, np.abs(along)) ** 3 - 0.035 * _gape(along)
            move[ring, 0] = -along * 0.10 * _half(lips, along)
    spread(move, rest, OUTER_LIPS, 0.30)
    jaw = _jaw(rest) * chin
    outside = np.ones(len(rest), bool)
    outside[LIPS] = False
    # between lip and chin the drop goes over from the lip's to the chin's
    move[outside, 1] = np.maximum(move[outside, 1], jaw[outside])
    under = outside & (rest[:, 1] > rest[CHIN, 1] - 0.1)
    move[under, 1] = jaw[under]
    return move


def _wide(lips: Lips, rest: F64) -> F64:
    move = np.zeros_like(rest)
    for rings, sign in ((UPPER_RINGS, 1.0), (LOWER_RINGS, -1.0)):
        for ring, inside in zip(rings, RING_SHARE, strict=True):
            along = lips.along(rest[ring, 0])
            move[ring, 0] = along * 0.19 * _half(lips, along)
            thinner = sign * 0.02 * (1 - inside) * _lens(along)
            move[ring, 1] = -0.03 * along**2 + thinner - sign * 0.012 * inside * _lens(along)
    spread(move, rest, OUTER_LIPS, 0.42)
    return move


def _round(lips: Lips, rest: F64) -> F64:
    narrower = 0.31 - 0.10 * lips.smile  # the folds of a smile do not go with pursed lips
    move = np.zeros_like(rest)
    for rings, sign in ((UPPER_RINGS, -1.0), (LOWER_RINGS, 1.0)):
        for ring, inside in zip(rings, RING_SHARE, strict=True):
            along = lips.along(rest[ring, 0])
            move[ring, 0] = -along * narrower * _half(lips, along)
            move[ring, 1] = sign * (0.05 - 0.02 * inside) * _lens(along, 1.6) + 0.01
            move[ring, 1] += 0.04 * lips.smile * along**2
    spread(move, rest, OUTER_LIPS, 0.45)
    return move


def _fv(lips: Lips, rest: F64) -> F64:
    """The lower lip comes up to the edge of the upper teeth and tucks in; the upper lip bares the edge."""
    move = np.zeros_like(rest)
    for ring, inside in zip(UPPER_RINGS, RING_SHARE, strict=True):
        move[ring, 1] = -(0.018 + 0.012 * inside) * _lens(lips.along(rest[ring, 0]))
    for ring, inside in zip(LOWER_RINGS, RING_SHARE, strict=True):
        lens = _lens(lips.along(rest[ring, 0]))
        move[ring, 1] = (-0.05 * (1 - inside) + 0.7 * TEETH_EDGE * inside) * lens
    spread(move, rest, OUTER_LIPS, 0.28)
    return move


def _press(lips: Lips, rest: F64) -> F64:
    move = np.zeros_like(rest)
    for rings, sign in ((UPPER_RINGS, 1.0), (LOWER_RINGS, -1.0)):
        for ring, inside in zip(rings, RING_SHARE, strict=True):
            along = lips.along(rest[ring, 0])
            move[ring, 1] = sign * 0.035 * (1 - inside) * _lens(along) - 0.008
            move[ring, 0] = along * 0.03 * _half(lips, along)
    spread(move, rest, OUTER_LIPS, 0.28)
    return move


def _sway(rest: F64) -> F64:
    """The jaw a little to one side."""
    move = np.zeros_like(rest)
    move[:, 0] = 0.03 * _jaw(rest)
    for ring in LOWER_RINGS:
        move[ring, 0] = 0.03 * (1 - np.abs(np.linspace(-1, 1, len(ring))) ** 3)
    return move


def _tilt(lips: Lips, rest: F64) -> F64:
    """One corner higher than the other."""
    move = np.zeros_like(rest)
    for rings in (UPPER_RINGS, LOWER_RINGS):
        for ring in rings:
            along = lips.along(rest[ring, 0])
            move[ring, 1] = -0.03 * along * np.abs(along)
    spread(move, rest, OUTER_LIPS, 0.4)
    return move
