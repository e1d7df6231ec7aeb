"""A 256 px patch into large frames: this program's I420 blend beside RGB ways, in one run.

All start from an RGB patch and an anchor of their own kind, have beforehand what depends on the mask alone, use one
thread, and end in an I420 picture.

`best_rgb`, OpenCV's calls as they come, leaves its cached frame alone, so it copies the frame. Ours does so for a clip
(`clip`); of a still it takes the memory of pictures nobody holds again. And `best_rgb` is let off averaging chroma as
ours does: OpenCV's I420 looks at one pixel of four, up to 8 levels off along edges, for a quarter of the price. It is
let off more than it is charged.

Two more bound it. `bare_rgb` has all of our tricks, and no copy, since with one still frame it can do without; it too
is let off averaging. `same_picture_rgb` is that with chroma averaged, so that the pictures are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple

import av
import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box, blend_rgb, intersect, mask_to_u8
from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.colour import LIMITED_RANGE, rgb_to_i420, shrink, split_planes
from avatars.faces import FaceMesh
from avatars.packet import AvatarPacket
from avatars.picture import load_picture
from avatars.precompile import latent_crop, precompile_portrait
from avatars.stretch import Resizing, looked_at, plan_stretch
from streamer.clock import NS_PER_MS, cpu_ns

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]

_BLOCKS, _SLOW_BLOCKS, _IN_A_ROW = 100, 2, 8
SIZES = {"720p": (1280, 720), "1024": (1024, 1024)}


class Scene(NamedTuple):
    """One frame, its packet, and another person's face to lay into it: more change than any mouth makes."""

    frame: U8
    packet: AvatarPacket
    patch: U8


class CropBlend:
    """The best RGB way: masks widened beforehand, integers, blends the part that shows only; then OpenCV's I420."""

    def __init__(self, scene: Scene) -> None:
        packet = scene.packet
        self._scene = scene
        self._box = packet.coords[0]
        self._shows, self._alpha = _wide_mask(packet)
        self._rest = 255 - self._alpha

    def run(self) -> object:
        left, top, right, bottom = self._box
        x1, y1, x2, y2 = self._shows
        blended = self._scene.frame.copy()
        mouth = cv2.resize(self._scene.patch, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR)
        total = np.asarray(mouth, dtype=np.uint8)[y1 - top : y2 - top, x1 - left : x2 - left] * self._alpha
        total += blended[y1:y2, x1:x2] * self._rest
        total += 128
        total += total >> 8
        total >>= 8
        blended[y1:y2, x1:x2] = total
        return cv2.cvtColor(blended, cv2.COLOR_RGB2YUV_I420)


class BareRgb:
    """For one still frame, and nothing else to do: no copy, no row that does not show, the anchor's share ready."""

    def __init__(self, scene: Scene, *, same_picture: bool) -> None:
        packet = scene.packet
        self._scene = scene
        self._scratch = scene.frame.copy()
        self._shows, self._alpha = _wide_mask(packet)
        x1, y1, x2, y2 = self._shows
        self._base = scene.frame[y1:y2, x1:x2] * (255 - self._alpha) + 128
        self._plan = plan_stretch(packet.coords[0], self._shows, len(scene.patch))
        self._resizing = Resizing(self._plan, (3,))
        self._same_picture = same_picture

    def run(self) -> object:
        x1, y1, x2, y2 = self._shows
        total = self._resizing.run(looked_at(self._scene.patch, self._plan)).astype(np.uint16)
        total *= self._alpha
        total += self._base
        total += total >> 8
        total >>= 8
        self._scratch[y1:y2, x1:x2] = total
        i420 = np.asarray(cv2.cvtColor(self._scratch, cv2.COLOR_RGB2YUV_I420), dtype=np.uint8)
        if self._same_picture:
            height, width = self._scratch.shape[:2]
            coloured = cv2.cvtColor(shrink(self._scratch, (width // 2, height // 2)), cv2.COLOR_RGB2YCrCb)
            for plane, channel, (scale, offset) in zip(split_planes(i420)[1:], (2, 1), LIMITED_RANGE[1:], strict=True):
                cv2.convertScaleAbs(cv2.extractChannel(coloured, channel), dst=plane, alpha=scale, beta=offset)
        return i420


def _wide_mask(packet: AvatarPacket) -> tuple[Box, U16]:
    """Where the first frame's patch shows, and its mask there, once for each colour."""
    crop = packet.mask_coords[0]
    mask = mask_to_u8(packet.masks[0][0])
    x, y, width, height = cv2.boundingRect(mask)
    shows = intersect((crop[0] + x, crop[1] + y, crop[0] + x + width, crop[1] + y + height), packet.coords[0])
    x1, y1, x2, y2 = shows or (0, 0, 0, 0)
    part = mask[y1 - crop[1] : y2 - crop[1], x1 - crop[0] : x2 - crop[0]]
    return (x1, y1, x2, y2), np.repeat(part[:, :, None], 3, axis=2).astype(np.uint16)


class FullFrameFloat:
    """What is written first: the whole frame in float, then libswscale."""

    def __init__(self, scene: Scene) -> None:
        packet = scene.packet
        self._scene = scene
        height, width = scene.frame.shape[:2]
        self._alpha = np.zeros((height, width, 1), dtype=np.float32)
        x1, y1, x2, y2 = packet.mask_coords[0]
        self._alpha[y1:y2, x1:x2, 0] = packet.masks[0][0]

    def run(self) -> object:
        x1, y1, x2, y2 = self._scene.packet.coords[0]
        front = self._scene.frame.astype(np.float32)
        front[y1:y2, x1:x2] = cv2.resize(self._scene.patch, (x2 - x1, y2 - y1), interpolation=cv2.INTER_LINEAR)
        mixed = front * self._alpha + self._scene.frame * (1.0 - self._alpha)
        picture = av.VideoFrame.from_ndarray(np.rint(mixed).astype(np.uint8), "rgb24")
        return picture.reformat(format="yuv420p")


def figures() -> dict[str, float]:
    """CPU ms of each way at each size, their ratios (the lesser of the sizes), and how far the results differ."""
    found: dict[str, float] = {}
    ratios: dict[str, list[float]] = {}
    errors = []
    cv2.setNumThreads(1)  # as an engine sets it: all ways on one thread
    for name, size_px in SIZES.items():
        scene = make_scene(size_px)
        canvas = Canvas(scene.packet, max(size_px))
        still, clip = partial(canvas.blend, 0, scene.patch), _clip_blend(scene)
        best = CropBlend(scene).run
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object], int]] = {
            "best_rgb": (still, best, _BLOCKS),
            "bare_rgb": (still, BareRgb(scene, same_picture=False).run, _BLOCKS),
            "same_picture_rgb": (still, BareRgb(scene, same_picture=True).run, _BLOCKS),
            "full_frame_float": (still, FullFrameFloat(scene).run, _SLOW_BLOCKS),
        }
        for other, pair in pairs.items():
            ours_ms, other_ms, ratio = _side_by_side(*pair)
            found.setdefault(f"blend_{name}_cpu_ms", ours_ms)
            found[f"blend_{name}_{other}_cpu_ms"] = other_ms
            found[f"blend_{name}_ratio_vs_{other}"] = ratio
            ratios.setdefault(f"blend_ratio_vs_{other}", []).append(ratio)
        found[f"blend_{name}_clip_cpu_ms"], _, found[f"blend_{name}_clip_ratio_vs_best_rgb"] = _side_by_side(
            clip, best, _BLOCKS
        )
        errors.append(_error_levels(scene, canvas))
    return found | {name: min(values) for name, values in ratios.items()} | {"blend_max_error_levels": max(errors)}


def _clip_blend(scene: Scene) -> Callable[[], object]:
    """Ours, in two frames that differ, in turn."""
    packet = scene.packet
    both = replace(
        packet,
        frames=np.stack([packet.frames[0], packet.frames[0][:, ::-1]]),
        masks=packet.masks[:1] * 2,
        geometry=packet.geometry[:1] * 2,
        coords=packet.coords[:1] * 2,
        latents=None,
        landmarks=None,
        anchors=None,
    )
    canvas, indices = Canvas(both, max(packet.size_px)), count()
    return lambda: canvas.blend(next(indices), scene.patch)


def make_scene(size_px: tuple[int, int]) -> Scene:
    """The first bundled portrait in a frame of this size, and the second one's face."""
    width, height = size_px
    first, second = (load_picture(portrait.path) for portrait in bundled_portraits()[:2])
    side = min(width, height)
    face = cv2.resize(first, (side, side), interpolation=cv2.INTER_AREA if side < len(first) else cv2.INTER_CUBIC)
    frame = np.full((height, width, 3), 96, dtype=np.uint8)
    frame[:, (width - side) // 2 : (width - side) // 2 + side] = face
    finder = FaceMesh()
    other = precompile_portrait(second, "other", finder)
    return Scene(frame, precompile_portrait(frame, "scene", finder), latent_crop(second, other.coords[0]))


def _side_by_side(ours: Callable[[], object], other: Callable[[], object], blocks: int) -> tuple[float, float, float]:
    """CPU ms of both, and how many times the other takes as long.

    They take turns in blocks of a few ms, now one first and now the other, and each pair of blocks gives one ratio; the
    median of these counts. So a busy machine, or a core that changes its pace, burdens both alike.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    for block in range(blocks):
        for work, medians in ((ours, taken[0]), (other, taken[1]))[:: -1 if block % 2 else 1]:
            times = []
            for _ in range(_IN_A_ROW):
                before_ns = cpu_ns()
                work()
                times.append((cpu_ns() - before_ns) / NS_PER_MS)
            medians.append(float(np.median(times)))
    ratio = float(np.median(np.array(taken[1]) / np.array(taken[0])))
    return float(np.quantile(taken[0], 0.25)), float(np.quantile(taken[1], 0.25)), ratio


def _error_levels(scene: Scene, canvas: Canvas) -> float:
    packet = scene.packet
    exact = blend_rgb(scene.frame, scene.patch, packet.masks[0], packet.mask_coords[0], packet.coords[0])
    return float(np.abs(canvas.blend(0, scene.patch).astype(np.int16) - rgb_to_i420(exact)).max())
