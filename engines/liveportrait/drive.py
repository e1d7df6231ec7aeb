"""How a driving motion moves a source face: relative or absolute, whole or by region. Knows no network's insides."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from engines.liveportrait.keypoints import MotionInfo, placed

LIP_POINTS = (6, 12, 14, 17, 19, 20)
EYE_POINTS = (11, 13, 15, 16, 18)
_EXPRESSION_POINTS = (1, 2, 6, *range(11, 21))
_EXPRESSION_AXES = ((3, 1), (4, 1), (5, 2), (8, 2), (9, 1), (9, 2))
"""(keypoint, axis) that carry expression though the keypoint as a whole does not."""

Stitch = Callable[[Tensor, Tensor], Tensor]
"""Source and driving keypoints (B, 21, 3) → stitched driving keypoints."""


class Region(StrEnum):
    """Which part of the driving motion is taken."""

    ALL = "all"
    EXP = "exp"
    POSE = "pose"
    LIP = "lip"
    EYES = "eyes"


@dataclass(frozen=True, slots=True)
class DriveSettings:
    """How a driving motion is applied."""

    relative: bool = True
    """Take changes since the driving motion's first frame; False: take its values as they are."""
    region: Region = Region.ALL
    expression_friendly: bool = False
    """Start from the source's own expression and scale changes by how the two faces' extents compare."""
    multiplier: float = 1.0
    """How much of the movement away from the source is kept."""
    lips_absolute: bool = False
    """Lips follow the driving values themselves: for motions that speech made, whose first frame is no rest pose."""
    region_keeps_place: bool = True
    """With a region other than "all" the head's scale, and other than "pose" its shift, stay the source's."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceFace:
    """The portrait's side of the drive, computed once."""

    info: MotionInfo
    keypoints: Tensor
    """(1, 21, 3) as they lie in the picture."""
    stitch: Stitch | None = None
    resting_delta: Tensor | None = None
    """(1, 21, 3) that closes the source's open lips before it is animated; None where they are closed."""


class Drive:
    """Turns driving motions, in order, into keypoints for stage W. One instance per clip: frame 0 is its reference."""

    def __init__(self, source: SourceFace, settings: DriveSettings, first: MotionInfo | None = None) -> None:
        """`first` is the reference where the clip's frame 0 is not at hand."""
        self._source = source
        self._settings = settings
        self._first = first
        self._first_moved: Tensor | None = None
        self._gain = 1.0

    def next(self, driving: MotionInfo, openings: Tensor | None = None) -> Tensor:
        """(1, 21, 3) keypoints of the next frame.

        `openings` is what retargeting of eyes and lips adds to the source (1, 21, 3); it then stands in for the motion.
        """
        settings, source = self._settings, self._source
        if self._first is None:
            self._first = driving
        moved = self._moved(driving, self._first)
        if settings.expression_friendly and settings.relative:
            moved = self._from_source(moved)
        if openings is not None:
            moved = (source.keypoints if settings.relative else moved) + openings
        if source.stitch is not None:
            moved = source.stitch(source.keypoints, moved)
        if openings is None and source.resting_delta is not None:
            moved = moved + source.resting_delta
        return source.keypoints + (moved - source.keypoints) * settings.multiplier

    def _moved(self, driving: MotionInfo, first: MotionInfo) -> Tensor:
        own, settings = self._source.info, self._settings
        turns = settings.region in (Region.ALL, Region.POSE)
        shifts = turns or not settings.region_keeps_place
        scales = settings.region is Region.ALL or not settings.region_keeps_place
        turn, scale, shift = own.rotation, own.scale, own.t
        if turns:
            turn = driving.rotation
            if settings.relative:
                turn = turn @ first.rotation.transpose(1, 2) @ own.rotation
        if shifts:
            shift = own.t + (driving.t - first.t) if settings.relative else driving.t
        if scales and settings.relative:
            scale = own.scale * (driving.scale / first.scale)
        return placed(own.kp @ turn + self._expression(driving, first), scale, shift)

    def _expression(self, driving: MotionInfo, first: MotionInfo) -> Tensor:
        own, settings = self._source.info.exp, self._settings
        wanted = own + (driving.exp - first.exp) if settings.relative else driving.exp
        if settings.region is Region.POSE:
            return own
        if settings.region is Region.LIP:
            return torch.where(_chosen(LIP_POINTS, own), wanted, own)
        if settings.region is Region.EYES:
            return torch.where(_chosen(EYE_POINTS, own), wanted, own)
        if settings.lips_absolute:
            wanted = torch.where(_chosen(LIP_POINTS, own), driving.exp, wanted)
        if settings.relative:
            return wanted
        taken = _chosen(_EXPRESSION_POINTS, own)
        for point, axis in _EXPRESSION_AXES:
            taken[:, point, axis] = True
        return torch.where(taken, wanted, own)

    def _from_source(self, moved: Tensor) -> Tensor:
        if self._first_moved is None:
            self._first_moved = moved
            self._gain = motion_gain(self._source.keypoints, moved)
        return self._source.keypoints + (moved - self._first_moved) * self._gain


def motion_gain(source: Tensor, driving: Tensor) -> float:
    """Square root of the ratio of the two hulls' volumes; 1 where either set of points is flat."""
    volumes = [hull_volume(points[0].double().cpu().numpy()) for points in (source, driving)]
    if min(volumes) <= 0.0:
        return 1.0
    return float(np.sqrt(volumes[0] / volumes[1]))


def hull_volume(points: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Volume of the convex hull of (n, 3) points, n small: every triangle with all points on one side is a face."""
    centre = points.mean(0)
    volume = 0.0
    for a, b, c in itertools.combinations(points, 3):
        normal = np.cross(b - a, c - a)
        side = (points - a) @ normal
        slack = 1e-12 * float(np.abs(side).max(initial=0.0))
        if (side <= slack).all() or (side >= -slack).all():
            volume += abs(float((centre - a) @ normal)) / 6.0
    return volume


def _chosen(points: tuple[int, ...], like: Tensor) -> Tensor:
    chosen = torch.zeros_like(like, dtype=torch.bool)
    chosen[:, list(points)] = True
    return chosen
