"""Who is in front: a person's outline, from where the face is and what colours lie around it. Rough on purpose."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_SIDE_PX = 192
"""The outline is looked for in a picture of this size: hair has no edge of a pixel anyway."""
_ROUNDS = 4
_CHEEKS, _BROW, _CHIN, _NOSE = (234, 454), 10, 152, 1


def outline(rgb: U8, mesh: F32) -> U8:
    """(H, W) u8, 1 where the person is: rgb (H, W, 3), mesh (468, 2) in its pixels."""
    height, width = rgb.shape[:2]
    scale = min(1.0, _SIDE_PX / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    points = mesh.astype(np.float64) * (size[0] / width, size[1] / height)
    guess = _guess((size[1], size[0]), points)
    found = guess.copy()
    cv2.setRNGSeed(1)  # the same picture gives the same outline
    try:
        models = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.grabCut(small, found, (0, 0, 1, 1), *models, _ROUNDS, cv2.GC_INIT_WITH_MASK)
    except cv2.error:  # a picture of one colour
        found = guess
    person = np.isin(found, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    person = np.asarray(cv2.morphologyEx(person, cv2.MORPH_CLOSE, np.ones((7, 7), np.uint8)), dtype=np.uint8)
    whole = cv2.resize(255 * _joined(person, points[_NOSE]), (width, height), interpolation=cv2.INTER_LINEAR)
    return (np.asarray(whole) > 127).astype(np.uint8)


def _guess(shape: tuple[int, int], points: F64) -> U8:
    """What is certain and what is likely: a face, hair around it, shoulders below; no person far beside the head."""
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    middle = float(points[list(_CHEEKS), 0].mean())
    across = max(4.0, float(np.linalg.norm(points[_CHEEKS[1]] - points[_CHEEKS[0]])))
    chin, high = float(points[_CHIN, 1]), max(4.0, float(points[_CHIN, 1] - points[_BROW, 1]))
    below, beside = (y - chin) / high, np.abs(x - middle) / across
    guess = np.full(shape, cv2.GC_PR_BGD, np.uint8)
    head = beside**2 / 0.9 + ((y - (chin - 0.6 * high)) / high) ** 2 < 1
    guess[head | ((below > 0) & (beside < 0.55 + 1.6 * np.clip(below, 0, 1)))] = cv2.GC_PR_FGD
    guess[(beside > 1.35) & (below < -0.15)] = cv2.GC_BGD
    guess[:2] = cv2.GC_BGD
    # whatever its colour: dark hair before a dark wall, a jacket in the wall's own blue
    skull = ((beside / 0.54) ** 2 + ((y - (chin - 0.62 * high)) / (0.73 * high)) ** 2 < 1) & (below < -0.4)
    trunk = (below > 0.3) & (beside < 0.3 + 1.4 * np.clip(below - 0.3, 0, 0.7))
    guess[skull | trunk | ((below > -0.25) & (beside < 0.2))] = cv2.GC_FGD
    hull = cv2.convexHull(points.astype(np.float32)).astype(np.int32)
    cv2.fillConvexPoly(guess, hull, (cv2.GC_FGD,))
    return guess


def _joined(person: U8, nose: F64) -> U8:
    """The part that the face belongs to, its holes filled."""
    _, parts = cv2.connectedComponents(person)
    row, column = np.rint(nose[::-1]).astype(int).clip(0, np.array(person.shape) - 1)
    own = (parts == parts[row, column]) & (person > 0)
    rest = np.pad((~own).astype(np.uint8), 1, constant_values=1)
    rest[-1] = 0  # the shoulders leave the picture below
    _, outside = cv2.connectedComponents(rest)
    open_air = outside == outside[0, 0]
    filled: U8 = (~open_air[1:-1, 1:-1]).astype(np.uint8)
    return filled
