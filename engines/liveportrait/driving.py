"""A clip of somebody's face to motion, frame by frame, by stage M."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields

import torch

from avatars.errors import FaceNotFound
from engines.liveportrait.crop import U8, find_crop
from engines.liveportrait.keypoints import MotionInfo
from engines.liveportrait.portrait import LivePortrait
from engines.liveportrait.source import FaceFinder


def motion_of_clip(
    engine: LivePortrait, frames: Iterable[U8], finder: FaceFinder, on_frame: Callable[[int], None] = lambda _: None
) -> MotionInfo:
    """Motion of n frames (H, W, 3) u8 RGB. The crop is that of the first face, so that the head's own moves count.

    A frame in which the networks see nothing finite repeats the one before. Raises FaceNotFound without a first face.
    """
    found: list[MotionInfo] = []
    crop = None
    for index, frame in enumerate(frames):
        if crop is None:
            faces = finder.find(frame)
            if not faces:
                raise FaceNotFound("the first frame of the driving clip", "cut it so that it begins with a face")
            crop = find_crop(faces[0].points)
        motion = engine.motion_of(crop.cut(frame, engine.sizes.image_px))
        if found and not finite(motion):
            motion = found[-1]
        found.append(motion)
        on_frame(index)
    if not found:
        raise FaceNotFound("the driving clip", "it has no pictures")
    return joined(found)


def joined(parts: list[MotionInfo]) -> MotionInfo:
    """One batch of several."""
    return MotionInfo(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(MotionInfo)))


def finite(motion: MotionInfo) -> bool:
    """Whether every number of it is."""
    return all(bool(torch.isfinite(getattr(motion, f.name)).all()) for f in fields(MotionInfo))
