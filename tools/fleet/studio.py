"""The studio: camera, softboxes, blurred backdrop, and how a picture is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from features import mesh_of, place
from mathutils import Vector
from shading import Graph

FRAME_M = 0.372
"""What the picture spans at the face."""
DISTANCE_M = 2.0
DROP_M = 0.034
"""How far below the eyes the picture's middle lies."""


def empty() -> None:
    """A scene with nothing in it."""
    bpy.ops.wm.read_factory_settings(use_empty=True)


@dataclass(frozen=True)
class Setting:
    """How somebody is photographed."""

    light: float
    turn_degrees: float
    """How far the camera stands to one side."""
    key: float
    """-1: the key light is on the left, 1: on the right."""
    wall: Path
    """The picture behind."""


def open_studio(eyes: np.ndarray, side_px: int, samples: int, setting: Setting) -> None:
    """Camera, lights and a picture as backdrop for eyes at this place; renders on one thread."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    cycles = scene.cycles
    cycles.device, cycles.samples, cycles.seed = "CPU", samples, 1
    cycles.use_adaptive_sampling, cycles.adaptive_threshold = True, 0.05
    cycles.use_denoising, cycles.denoiser = True, "OPENIMAGEDENOISE"
    cycles.denoising_input_passes, cycles.denoising_prefilter = "RGB_ALBEDO_NORMAL", "ACCURATE"
    cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = 3, 2, 1
    cycles.transmission_bounces, cycles.transparent_max_bounces = 2, 12
    cycles.caustics_reflective = cycles.caustics_refractive = False
    cycles.sample_clamp_indirect = 4
    scene.cycles_curves.shape, scene.cycles_curves.subdivisions = "RIBBONS", 2
    render = scene.render
    render.threads_mode, render.threads = "FIXED", 1
    render.resolution_x = render.resolution_y = side_px
    render.use_persistent_data = True
    render.image_settings.file_format, render.image_settings.color_mode = "PNG", "RGB"
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = "AgX - Medium High Contrast"
    target = np.array([0, eyes[1], eyes[2] - DROP_M])
    camera = bpy.data.cameras.new("camera")
    camera.sensor_width, camera.lens = 36, 36 * DISTANCE_M / FRAME_M
    stand = place("camera", camera)
    turn = math.radians(setting.turn_degrees)
    around = _turned(np.array([0, 0.055, 0]), turn)  # about the neck, not the tip of the nose
    middle = target + np.array([0, 0.055, 0]) - around
    stand.location = middle + _turned(np.array([0, -DISTANCE_M, 0.03]), turn)
    stand.rotation_euler = (math.radians(90 - 0.86), 0, turn)
    scene.camera = stand
    _lights(target, setting, turn)
    _hang(middle, setting.wall, turn)


def _turned(place: np.ndarray, angle: float) -> np.ndarray:
    """(..., 3) about the vertical."""
    cos, sin = math.cos(angle), math.sin(angle)
    return place @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])


def _lights(target: np.ndarray, setting: Setting, turn: float) -> None:
    world = bpy.data.worlds.new("world")
    bpy.context.scene.world = world
    world.use_nodes = True
    back = world.node_tree.nodes["Background"]
    back.inputs[0].default_value, back.inputs[1].default_value = (0.55, 0.6, 0.68, 1), 0.16
    for offset, size_m, watts, colour in (
        ((-0.8, -1.2, 0.8), 0.7, 28.0, (1.0, 0.955, 0.91)),  # key: a large softbox, above and to the left
        ((1.1, -1.1, 0.12), 1.1, 7.0, (0.93, 0.96, 1.0)),  # fill
        ((0.0, -0.9, -0.8), 0.7, 1.6, (1.0, 0.96, 0.92)),  # what a desk throws back
        ((0.7, 0.9, 0.75), 0.5, 4.0, (0.9, 0.95, 1.0)),  # edge, on hair and shoulder
        ((-0.45, 0.9, 0.95), 0.6, 4.5, (1.0, 0.97, 0.94)),  # hair
    ):
        lamp = bpy.data.lights.new("softbox", "AREA")
        lamp.shape, lamp.size, lamp.energy, lamp.color = "DISK", size_m, watts * setting.light, colour
        stand = place("softbox", lamp)
        stand.location = target + _turned(np.array(offset) * (-setting.key, 1, 1), 0.5 * turn)
        aim = Vector(target + np.array([0, 0, 0.03])) - Vector(stand.location)
        stand.rotation_euler = aim.to_track_quat("-Z", "Y").to_euler()


def _hang(target: np.ndarray, wall: Path, turn: float) -> None:
    """The backdrop, far behind, seen by the camera alone and lit by nothing."""
    behind_m = 1.5
    half = 0.5 * FRAME_M * (DISTANCE_M + behind_m) / DISTANCE_M * 1.06
    middle = np.array([0, behind_m, -0.016])
    corners = [middle + np.array([x * half, 0, z * half]) for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    corners = [target + _turned(corner, turn) for corner in corners]
    graph = Graph("wall")
    light = graph.node("ShaderNodeEmission")
    graph.join(graph.picture(str(wall), "sRGB"), light.inputs[0])
    graph.join(light.outputs[0], graph.output.inputs[0])
    made = mesh_of("wall", np.array(corners), [(0, 1, 2, 3)], graph.material)
    made.data.uv_layers.new(name="UV").data.foreach_set("uv", [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    made.visible_diffuse = made.visible_glossy = made.visible_transmission = made.visible_shadow = False


def take(path: Path, box: tuple[float, float, float, float] | None = None) -> None:
    """Render to a PNG; `box` (left, bottom, right, top; shares of the picture) renders that part alone."""
    render = bpy.context.scene.render
    render.use_border = render.use_crop_to_border = box is not None
    if box is not None:
        render.border_min_x, render.border_min_y, render.border_max_x, render.border_max_y = box
    render.filepath = str(path)
    bpy.ops.render.render(write_still=True)


def backdrop(side_px: int, hue: tuple[int, int, int], seed: int) -> np.ndarray:
    """An out-of-focus studio wall (side, side, 3) f32 0..255: panels, a screen's glow, a horizon, fine grain."""
    rng = np.random.default_rng(seed)
    small = 96
    y, x = np.mgrid[0:small, 0:small] / small
    base = np.array(hue, float) * 1.45
    wall = base * (0.55 + 0.35 * (1 - y))[..., None] * np.ones((small, small, 1))
    for _ in range(7):
        left, width = rng.uniform(-0.1, 1.0), rng.uniform(0.06, 0.3)
        top, height = rng.uniform(-0.1, 0.5), rng.uniform(0.25, 0.8)
        inside = (x > left) & (x < left + width) & (y > top) & (y < top + height)
        tint = base * rng.uniform(0.5, 1.9) + rng.normal(size=3) * 8
        wall[inside] = 0.55 * wall[inside] + 0.45 * tint
    for _ in range(5):
        centre, radius = rng.random(2), rng.uniform(0.015, 0.05)
        glow = ((x - centre[0]) ** 2 + (y - 0.6 * centre[1]) ** 2) < radius**2
        wall[glow] = 0.5 * wall[glow] + 0.5 * (base * 2.2 + np.array([50, 42, 30]))
    wall = _blurred(wall, 2.2)
    grid = (np.arange(side_px) + 0.5) * small / side_px - 0.5
    low = np.clip(np.floor(grid).astype(int), 0, small - 2)
    share = np.clip(grid - low, 0, 1)
    rows = wall[low] * (1 - share)[:, None, None] + wall[low + 1] * share[:, None, None]
    big = rows[:, low] * (1 - share)[None, :, None] + rows[:, low + 1] * share[None, :, None]
    far = np.hypot(*(np.mgrid[0:side_px, 0:side_px] / side_px - 0.5))
    return np.clip(big * (1.08 - 0.75 * far**2)[..., None] + rng.normal(size=(side_px, side_px, 1)) * 1.2, 0, 255)


def _blurred(picture: Any, sigma: float) -> np.ndarray:
    reach = int(3 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        padded = np.pad(picture, [(reach, reach) if a == axis else (0, 0) for a in range(3)], mode="edge")
        length = picture.shape[axis]
        picture = sum(k * np.take(padded, range(i, i + length), axis) for i, k in enumerate(kernel))
    return np.asarray(picture)
