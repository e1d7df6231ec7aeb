"""Which frames of a clip are rendered by the network, and how those between are made of their two neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
_LOST_PX = 1.5
"""Where flow there and back ends farther off than this, the pixel is not in both pictures."""


@dataclass(frozen=True, slots=True)
class KeyframeSettings:
    """How sparse keyframes may be."""

    longest_gap: int = 1
    """Frames from one keyframe to the next; 1 renders every frame."""
    deviation: float = 0.02
    """Keypoints between two keyframes may be this far from the straight line, in units of half the picture."""


PREVIEW = KeyframeSettings(longest_gap=4, deviation=0.03)
QUALITY = KeyframeSettings(longest_gap=2, deviation=0.008)
EVERY_FRAME = KeyframeSettings()


def choose_keyframes(keypoints: F32, settings: KeyframeSettings) -> list[int]:
    """Indices of keyframes for keypoints (n, 21, 3), first and last included; the longest gaps that keep the line."""
    count = len(keypoints)
    chosen = [0]
    while chosen[-1] < count - 1:
        start = chosen[-1]
        end = min(start + settings.longest_gap, count - 1)
        while end > start + 1 and _deviation(keypoints[start : end + 1]) > settings.deviation:
            end -= 1
        chosen.append(end)
    return chosen


def between(before: U8, after: U8, share: float) -> U8:
    """The picture at `share` (0..1) of the way: both neighbours moved along optical flow, then mixed.

    Where the flow there and back disagrees, the pixel is a plain mix: a ghost is milder than a tear.
    """
    if share <= 0.0 or share >= 1.0:
        return before if share <= 0.0 else after
    grey_before, grey_after = (cv2.cvtColor(p, cv2.COLOR_RGB2GRAY) for p in (before, after))
    flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    forth = flow.calc(grey_before, grey_after, None)  # type: ignore[call-overload]
    back = flow.calc(grey_after, grey_before, None)  # type: ignore[call-overload]
    place = _pixels(*grey_before.shape)
    moved_before = _taken(before, place - share * forth)
    moved_after = _taken(after, place - (1.0 - share) * back)
    returned = forth + _taken(back, place + forth)
    trusted = (np.linalg.norm(returned, axis=2) < _LOST_PX).astype(np.float32)
    trusted = cv2.GaussianBlur(trusted, (0, 0), 2.0)[:, :, None]
    mixed = (1.0 - share) * moved_before + share * moved_after
    plain = (1.0 - share) * before.astype(np.float32) + share * after.astype(np.float32)
    found: U8 = np.clip(np.rint(trusted * mixed + (1.0 - trusted) * plain), 0, 255).astype(np.uint8)
    return found


def _deviation(keypoints: F32) -> float:
    """How far the inner frames are from the line between the outer two: largest over frames and keypoints."""
    share = np.linspace(0.0, 1.0, len(keypoints), dtype=np.float32)[:, None, None]
    line = (1.0 - share) * keypoints[0] + share * keypoints[-1]
    return float(np.linalg.norm(keypoints - line, axis=2).max())


def _pixels(height: int, width: int) -> F32:
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    return np.stack([x, y], 2)


def _taken(picture: npt.NDArray[np.float32] | U8, at: F32) -> F32:
    moved = cv2.remap(
        picture.astype(np.float32), at[:, :, 0], at[:, :, 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(moved, np.float32)
