"""From a clip to a packet folder: one pass over the video, a steady face box, forward then backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from avatars.clipfile import ClipFile
from avatars.errors import FaceNotFound, PortraitRejected
from avatars.packet import FramedFace
from avatars.precompile import (
    FaceFinder,
    FaceSettings,
    Footage,
    Makers,
    choose_face,
    encode_face,
    frame_face,
    packet_info,
    read_only,
)
from avatars.report import Report, inspect_face, is_mouth_open, pose_deg, with_advice
from avatars.writer import PacketWriter

if TYPE_CHECKING:
    from avatars.faces import FaceLandmarks

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
Progress = Callable[[float], None]

MAX_YAW_DEG = 55.0
MAX_ROLL_DEG = 60.0
_SMOOTH_FRAMES = 1.5
"""Standard deviation of the smoothing of landmarks over time; it looks both ways, so nothing lags."""
_REPORT_EVERY = 25
_SEARCH_EVERY = 5
_TRACKED = 0.9
"""Share of the work that is done when the last frame is read."""


def write_clip(
    clip: ClipFile,
    folder: Path,
    finder: FaceFinder,
    settings: FaceSettings,
    makers: Makers,
    progress: Progress = lambda done: None,
) -> dict[str, Any]:
    """Fill a folder with the packet of a clip; memory does not grow with its length. Returns what is known of it,
    for `avator_info.json`, but for its id.

    Frames without a usable face keep their place and are shown as they are. Raises FaceNotFound, PortraitRejected.
    """
    return _write(clip, folder, _Filming(finder, settings, makers, progress), loops=False) | {"kind": "clip"}


def write_loop(
    loop: Footage,
    folder: Path,
    finder: FaceFinder,
    settings: FaceSettings,
    makers: Makers,
    progress: Progress = lambda done: None,
) -> dict[str, Any]:
    """Like `write_clip` for frames that are a loop already: they run forward only."""
    return _write(loop, folder, _Filming(finder, settings, makers, progress), loops=True) | {"kind": "idle loop"}


@dataclass(frozen=True, slots=True, eq=False)
class _Filming:
    """What a packet of many frames is made with."""

    finder: FaceFinder
    settings: FaceSettings
    makers: Makers
    progress: Progress


def _write(clip: Footage, folder: Path, filming: _Filming, *, loops: bool) -> dict[str, Any]:
    settings, makers = filming.settings, filming.makers
    with PacketWriter(folder) as writer:
        faces, report = _track(clip, writer, filming.finder, settings, filming.progress)
        meshes = steady([None if face is None else face.points for face in faces], loops=loops)
        hidden = _add_faces(meshes, clip, settings, makers, writer)
        count = len(meshes)
        order = list(range(count)) if loops else forward_backward(count)
        opened = sum(face is not None and is_mouth_open(face.points) for face in faces)
        report = with_advice(replace(report, frames=count, faceless_frames=len(hidden), open_mouth_frames=opened))
        info = packet_info(clip.name, clip.size_px, len(order), makers, report)
        info |= {"source_frames": count, "faceless": [i for i, k in enumerate(order) if k in hidden]}
        writer.finish(order)
    return info


def forward_backward(count: int) -> list[int]:
    """There and back again, neither end shown twice in a row."""
    return [*range(count), *range(count - 2, 0, -1)]


def steady(meshes: list[F32 | None], *, loops: bool = False) -> list[F32 | None]:
    """Landmarks (468, 2) smoothed over time within each unbroken run; None where there is no face.

    What `loops` has its last frame before its first.
    """
    reach = int(4 * _SMOOTH_FRAMES)
    if loops:
        turns = -(-reach // len(meshes)) * len(meshes)
        around = [meshes[i % len(meshes)] for i in range(len(meshes) + 2 * turns)]
        return steady(around)[turns : turns + len(meshes)]
    smoothed: list[F32 | None] = [None] * len(meshes)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _SMOOTH_FRAMES) ** 2)
    for i, mesh in enumerate(meshes):
        if mesh is None:
            continue
        total, weight = np.zeros_like(mesh, dtype=np.float64), 0.0
        for side in (range(i, min(len(meshes), i + reach + 1)), range(i - 1, max(-1, i - reach - 1), -1)):
            for k in side:
                other = meshes[k]
                if other is None:
                    break
                total += weights[k - i + reach] * other
                weight += weights[k - i + reach]
        smoothed[i] = (total / weight).astype(np.float32)
    return smoothed


def _track(
    clip: Footage, writer: PacketWriter, finder: FaceFinder, settings: FaceSettings, progress: Progress
) -> tuple[list[FaceLandmarks | None], Report]:
    """Store every frame and follow one face through them."""
    faces: list[FaceLandmarks | None] = []
    reports: list[Report] = []
    last: FaceLandmarks | None = None
    for i, rgb in enumerate(clip):
        writer.add_frame(rgb)
        lost = bool(faces) and faces[-1] is None
        face = None if last is None or lost else finder.follow(rgb, last)
        # Looking everywhere costs many times what following does: every few frames will do while nobody is there.
        if face is None and (not lost or i % _SEARCH_EVERY == 0):
            face = _search(rgb, finder, last, settings, clip.name)
            if face is not None and lost:
                _look_back(faces, face, writer, finder)
        last = face or last
        faces.append(face)
        if face is not None and _is_usable(face) and (not reports or i % _REPORT_EVERY == 0):
            reports += _try_report(rgb, face, settings, clip.name)
        progress(_TRACKED * min(1.0, (i + 1) / max(clip.expected_frames, i + 1)))
    if not reports:
        raise FaceNotFound(clip.name, "use a clip with one clear, front-facing face")
    reports.sort(key=lambda r: r.sharpness)
    return [face if face is not None and _is_usable(face) else None for face in faces], reports[len(reports) // 2]


def _look_back(
    faces: list[FaceLandmarks | None], found: FaceLandmarks, writer: PacketWriter, finder: FaceFinder
) -> None:
    """Follow a face that was found again backwards through the frames that were not searched."""
    for i in range(len(faces) - 1, max(-1, len(faces) - _SEARCH_EVERY), -1):
        face = finder.follow(writer.stored_frame(i), found)
        if faces[i] is not None or face is None:
            return
        faces[i] = found = face


def _search(
    rgb: U8, finder: FaceFinder, last: FaceLandmarks | None, settings: FaceSettings, name: str
) -> FaceLandmarks | None:
    """The wanted face at the start, later the one nearest to where it was last seen."""
    found = finder.find(rgb)
    if not found:
        return None
    if last is None:
        return choose_face(found, settings.face, name)
    centre = last.points.mean(axis=0)
    return min(found, key=lambda face: float(np.linalg.norm(face.points.mean(axis=0) - centre)))


def _is_usable(face: FaceLandmarks) -> bool:
    roll, yaw, _ = pose_deg(face.points, face.depth)
    return abs(yaw) <= MAX_YAW_DEG and abs(roll) <= MAX_ROLL_DEG


def _try_report(rgb: U8, face: FaceLandmarks, settings: FaceSettings, name: str) -> list[Report]:
    try:
        framed = frame_face(rgb, face.points, settings, None, name)
    except PortraitRejected:
        return []
    return [inspect_face(rgb, face.points, face.depth, framed.box)]


def _add_faces(
    meshes: list[F32 | None], clip: Footage, settings: FaceSettings, makers: Makers, writer: PacketWriter
) -> set[int]:
    """A face for every frame of the writer, one at a time. Returns the frames that show none."""
    hidden: set[int] = set()
    pictures = writer.frames() if makers.latents is not None else (None for _ in meshes)
    for i, (face, rgb) in enumerate(zip(_framed(meshes, clip, settings, makers, writer), pictures, strict=True)):
        if np.isnan(face.landmarks).any():
            hidden.add(i)
        if makers.latents is None or rgb is None:
            writer.add_face(face)
        else:
            writer.add_face(face, encode_face(makers.latents, rgb, face.box))
    return hidden


def _framed(
    meshes: list[F32 | None], clip: Footage, settings: FaceSettings, makers: Makers, writer: PacketWriter
) -> Iterator[FramedFace]:
    """A framed face for every frame; where there is none, a neighbour's place with a mask that shows nothing."""
    width, height = clip.size_px
    blank = np.zeros((height, width, 3), dtype=np.uint8)
    # Only a parser looks at the pixels again.
    pictures = writer.frames() if makers.parser is not None else (blank for _ in meshes)
    waiting = 0
    near: FramedFace | None = None
    empty: FramedFace | None = None
    for rgb, mesh in zip(pictures, meshes, strict=True):
        face = None
        if mesh is not None:
            with suppress(PortraitRejected):
                face = frame_face(rgb, mesh, settings, makers.parser, clip.name)
        if face is not None:
            yield from repeat(_hidden(face), waiting)
            near, empty, waiting = face, None, 0
            yield face
        elif near is not None:
            empty = empty or _hidden(near)
            yield empty
        else:
            waiting += 1
    if near is None:
        raise FaceNotFound(clip.name, "the face is too small or cut off in every frame: film it closer")


def _hidden(near: FramedFace) -> FramedFace:
    nowhere = np.full((468, 2), np.nan, dtype=np.float32)
    return replace(near, mask=read_only(np.zeros_like(near.mask)), landmarks=read_only(nowhere))
