"""A 256 px patch into large frames: this program's I420 blend beside two RGB ways, in one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import av
import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box, blend_rgb, intersect, mask_to_u8
from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.colour import rgb_to_i420
from avatars.faces import FaceMesh
from avatars.packet import AvatarPacket
from avatars.picture import load_picture
from avatars.precompile import latent_crop, precompile_portrait
from streamer.clock import NS_PER_MS, cpu_ns

U8 = npt.NDArray[np.uint8]

_BLOCKS, _SLOW_BLOCKS, _IN_A_ROW = 30, 2, 8
SIZES = {"720p": (1280, 720), "1024": (1024, 1024)}


class Scene(NamedTuple):
    """One frame, its packet, and another person's face to lay into it: more change than any mouth makes."""

    frame: U8
    packet: AvatarPacket
    patch: U8


class CropBlend:
    """The best RGB way: masks widened beforehand, integers, nothing outside the part that shows; then OpenCV's I420."""

    def __init__(self, scene: Scene) -> None:
        packet = scene.packet
        self._scene = scene
        self._box = packet.coords[0]
        crop = packet.mask_coords[0]
        mask = mask_to_u8(packet.masks[0][0])
        x, y, width, height = cv2.boundingRect(mask)
        shows = intersect((crop[0] + x, crop[1] + y, crop[0] + x + width, crop[1] + y + height), self._box)
        self._shows: Box = shows or (0, 0, 0, 0)
        x1, y1, x2, y2 = self._shows
        part = mask[y1 - crop[1] : y2 - crop[1], x1 - crop[0] : x2 - crop[0]]
        self._alpha = np.ascontiguousarray(np.repeat(part[:, :, None], 3, axis=2)).astype(np.uint16)
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
    ratios: dict[str, list[float]] = {"blend_ratio_vs_best_rgb": [], "blend_ratio_vs_full_frame_float": []}
    errors = []
    cv2.setNumThreads(1)  # as an engine sets it: all ways on one thread
    for name, size_px in SIZES.items():
        scene = make_scene(size_px)
        canvas = Canvas(scene.packet, max(size_px))
        best, slow = CropBlend(scene), FullFrameFloat(scene)
        ours_ms, best_ms, best_ratio = _side_by_side(lambda c=canvas, s=scene: c.blend(0, s.patch), best.run, _BLOCKS)  # type: ignore[misc]
        _, float_ms, float_ratio = _side_by_side(lambda c=canvas, s=scene: c.blend(0, s.patch), slow.run, _SLOW_BLOCKS)  # type: ignore[misc]
        found |= {
            f"blend_{name}_cpu_ms": ours_ms,
            f"blend_{name}_best_rgb_cpu_ms": best_ms,
            f"blend_{name}_full_frame_float_cpu_ms": float_ms,
        }
        ratios["blend_ratio_vs_best_rgb"].append(best_ratio)
        ratios["blend_ratio_vs_full_frame_float"].append(float_ratio)
        errors.append(_error_levels(scene, canvas))
    return found | {name: min(values) for name, values in ratios.items()} | {"blend_max_error_levels": max(errors)}


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

    They take turns in short blocks and each pair of blocks gives one ratio, so that a busy machine, which makes every
    call dearer, burdens both alike.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(blocks):
        for work, medians in zip((ours, other), taken, strict=True):
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
