"""Which points of the 468-point mesh are what. Left and right are the picture's."""

from __future__ import annotations

import numpy as np

MESH_POINTS = 468
LIP_COLUMNS = 11
"""Points along a lip ring, from the left corner to the right one."""

UPPER_RINGS = np.array(
    [
        (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
        (76, 184, 74, 73, 72, 11, 302, 303, 304, 408, 306),
        (62, 183, 42, 41, 38, 12, 268, 271, 272, 407, 292),
        (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),
    ]
)
"""(4, 11): upper lip, outer contour first, inner contour last."""
LOWER_RINGS = np.array(
    [
        (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
        (76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306),
        (62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292),
        (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
    ]
)
"""(4, 11): lower lip, outer contour first, inner contour last; the corners are shared with the upper lip."""

RING_SHARE = np.array([0.0, 0.33, 0.67, 1.0])
"""How far inside the lip each ring lies, once they are evened out."""

UPPER_INNER, LOWER_INNER = UPPER_RINGS[3], LOWER_RINGS[3]
UPPER_OUTER, LOWER_OUTER = UPPER_RINGS[0], LOWER_RINGS[0]
OUTER_LIPS = np.concatenate([UPPER_OUTER, LOWER_OUTER[1:-1]])
LIPS = np.unique(np.concatenate([UPPER_RINGS.ravel(), LOWER_RINGS.ravel()]))

LIP_CORNER_LEFT, LIP_CORNER_RIGHT = 61, 291
LIP_TOP, LIP_BOTTOM = 13, 14
CHIN, FOREHEAD, NOSE_BASE = 152, 10, 2
EYE_CORNERS = (33, 133, 362, 263)
"""Outer and inner corner of the left eye, inner and outer of the right one."""
EYE_LEFT = np.array((33, 246, 161, 160, 159, 158, 157, 173, 133, 155, 154, 153, 145, 144, 163, 7))
EYE_RIGHT = np.array((263, 466, 388, 387, 386, 385, 384, 398, 362, 382, 381, 380, 374, 373, 390, 249))
EYE_LIDS = (
    (np.array((33, 246, 161, 160, 159, 158, 157, 173, 133)), np.array((33, 7, 163, 144, 145, 153, 154, 155, 133))),
    (np.array((362, 398, 384, 385, 386, 387, 388, 466, 263)), np.array((362, 382, 381, 380, 374, 373, 390, 249, 263))),
)
"""Edges of the upper and the lower lid, left corner to right, of the left eye and the right one."""
CHEEKS = np.array((50, 280, 205, 425, 36, 266))
