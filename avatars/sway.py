"""Makes the idle frames of a still portrait: head and shoulders sway and breathe, the background stays where it is.

One smooth field moves every frame. Over the face it is one turn and shift, so that a mouth can be laid into it alike;
down the neck it becomes the body's, and just outside the person's outline it ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from avatars.colour import rgb_to_i420, shrink_i420, split_planes
from avatars.idle import MAX_FRAMES, MAX_SIDE_PX
from avatars.landing import even_size, find_landing, fit_size
from avatars.matte import outline
from avatars.packet import AvatarPacket
from avatars.stretch import Move, scaled

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

REVISION = 1
"""Raise it when the same portrait would give other frames: those made before are made again."""
_REST = MAX_FRAMES // 2
_TURN_RAD = math.radians(0.36)
"""About the neck; with the shift, eyes go to either side by 1.5 % of the face's width."""
_SHIFT = 0.006
"""Of the head to either side, in widths of the face."""
_NOD = 0.0022
_BREATH = 0.0055
"""How far shoulders rise and fall: a pixel where the face is 180 px wide."""
_BODY_SHARE, _HEAD_SHARE = 0.45, 0.5
"""Of the head's shift that shoulders follow; of the breath that the head rises with."""
_MARGIN = 0.045
"""Beyond the outline, in widths of the face: hair has no sharp edge. Further than anything moves."""
_REACH = 0.28
"""The background that gives way, beyond the margin: the wider, the less it is bent."""
_NECK = 0.5
"""From the chin down to where only the body moves, in heights of the face."""
_CHEEKS, _BROW, _CHIN = (234, 454), 10, 152


class _Pose(NamedTuple):
    """One frame's place in the sway; lengths in widths of the face."""

    turn_rad: float
    x: float
    y: float
    body_x: float
    breath: float


def build_idle(packet: AvatarPacket) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a sidecar for the first frame of a packet, which shows a face; see `avatars.idle`."""
    assert packet.landmarks is not None
    scene = _Scene.of(packet)
    size = fit_size(packet.size_px, MAX_SIDE_PX)
    scale = np.array(size) / even_size(*packet.size_px)
    planes, moves = [], []
    for number, pose in enumerate(_poses()):
        frame = scene.planes if number == _REST else scene.frame(pose)
        planes.append(frame if frame.shape[1] == size[0] else shrink_i420(frame, size))
        moves.append(scaled(scene.move(pose), scale).astype(np.float32))
    return {"planes": np.stack(planes), "moves": np.stack(moves), "rest": np.array([_REST], np.int32)}


def _poses() -> Iterator[_Pose]:
    """From one side to the other, breathing once; each frame differs from the next by less than a fifth of a pixel."""
    for number in range(MAX_FRAMES):
        s = (number - _REST) / _REST
        side = math.sin(math.pi / 2 * s)
        breath = _BREATH * math.sin(math.pi * s)
        nod = _NOD * math.sin(1.5 * math.pi * s)
        yield _Pose(_TURN_RAD * side, _SHIFT * side, nod - _HEAD_SHARE * breath, _BODY_SHARE * _SHIFT * side, -breath)


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    """A portrait and what of it moves how much."""

    planes: U8
    """(H * 3 // 2, W) u8 I420"""
    pivot: F64
    """Where the head turns: pixels, edges at whole numbers."""
    width_px: float
    """Of the face, cheek to cheek."""
    weight: F32
    """(H, W) 0..1: what moves at all."""
    head: F32
    """(H, 1) 1 down to the chin, 0 at the shoulders."""

    @classmethod
    def of(cls, packet: AvatarPacket) -> _Scene:
        assert packet.landmarks is not None
        width, height = even_size(*packet.size_px)
        rgb = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0)[:height, :width])
        mesh = np.array(packet.landmarks[0])
        planes = rgb_to_i420(rgb) if packet.anchors is None else np.asarray(packet.anchors.planes[0])
        across = float(np.linalg.norm(mesh[_CHEEKS[1]] - mesh[_CHEEKS[0]]))
        chin, high = float(mesh[_CHIN, 1]), float(mesh[_CHIN, 1] - mesh[_BROW, 1])
        shows = _shown(packet, (width, height))
        lowest = max(chin, float(np.flatnonzero(shows.any(1)).max(initial=0)) + 2)
        rows = np.arange(height, dtype=np.float32)[:, None]
        pivot = np.array([float(mesh[list(_CHEEKS), 0].mean()) + 0.5, chin + 0.35 * high])
        weight = _weight(outline(rgb, mesh) | shows, across)
        return cls(planes, pivot, across, weight, 1 - _smooth((rows - lowest) / np.float32(_NECK * high)))

    def move(self, pose: _Pose) -> Move:
        """(2, 3): where the head's places go."""
        cos, sin = math.cos(pose.turn_rad), math.sin(pose.turn_rad)
        turn = np.array([[cos, -sin], [sin, cos]])
        shift = self.width_px * np.array([pose.x, pose.y])
        return np.concatenate([turn, (self.pivot - turn @ self.pivot + shift)[:, None]], 1)

    def frame(self, pose: _Pose) -> U8:
        """(H * 3 // 2, W) u8 I420 of one pose."""
        height, width = self.weight.shape
        x, y = np.arange(width, dtype=np.float32)[None], np.arange(height, dtype=np.float32)[:, None]
        move = self.move(pose)
        back = np.linalg.inv(move[:, :2])
        start = (-back @ move[:, 2] + back @ (0.5, 0.5) - 0.5).astype(np.float32)
        back = (back - np.eye(2)).astype(np.float32)
        body = (-self.width_px * np.array([pose.body_x, pose.breath])).astype(np.float32)
        shifts = []
        for axis in (0, 1):
            head = back[axis, 0] * x + back[axis, 1] * y + start[axis]
            shifts.append(((head - body[axis]) * self.head + body[axis]) * self.weight)
        moved = np.empty_like(self.planes)
        for plane, target in zip(split_planes(self.planes), split_planes(moved), strict=True):
            target[:] = _shifted(plane, shifts[0], shifts[1])
        return moved


def _shifted(plane: U8, across: F32, down: F32) -> U8:
    """A plane that reads each of its pixels so many luma pixels away."""
    height, width = plane.shape
    if plane.shape != across.shape:
        across, down = (_halved(across, (width, height)), _halved(down, (width, height)))
    x = np.arange(width, dtype=np.float32)[None] + across
    y = np.arange(height, dtype=np.float32)[:, None] + down
    read = cv2.remap(plane, x, y, cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(read, dtype=np.uint8)


def _halved(shift: F32, size_px: tuple[int, int]) -> F32:
    half = cv2.resize(shift, size_px, interpolation=cv2.INTER_AREA)
    return np.asarray(half, dtype=np.float32) * np.float32(0.5)


def _shown(packet: AvatarPacket, size_px: tuple[int, int]) -> U8:
    """(H, W) u8: 1 where a patch shows."""
    shows = np.zeros((size_px[1], size_px[0]), np.uint8)
    landing = find_landing(packet.masks[0], packet.mask_coords[0], packet.coords[0], packet.size_px)
    if landing is not None:
        x1, y1, x2, y2 = landing.rect
        shows[y1:y2, x1:x2] = landing.luma_mask > 0
    return shows


def _weight(person: U8, width_px: float) -> F32:
    """(H, W) f32: 1 over the person and a little beyond, from there softly to 0."""
    away = cv2.distanceTransform(1 - person, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    weight = 1 - _smooth((away - np.float32(_MARGIN * width_px)) / np.float32(_REACH * width_px))
    return weight


def _smooth(x: F32) -> F32:
    t = np.clip(x, 0.0, 1.0)
    eased: F32 = (t * t * t * (t * (6 * t - 15) + 10)).astype(np.float32)
    return eased
