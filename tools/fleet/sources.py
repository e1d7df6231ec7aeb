"""What a portrait hides, taken in the same light: teeth and tongue as layers of their own, and the eyes shut."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import body
import bpy
import features
import numpy as np
import shading
import studio
from bpy_extras.object_utils import world_to_camera_view
from mathutils import Vector
from people import Person
from teeth import Place

OPEN = {
    "jawOpen": 0.5, "mouthUpperUpLeft": 0.9, "mouthUpperUpRight": 0.9, "mouthLowerDownLeft": 0.3, "mouthLowerDownRight": 0.3,
    "mouthStretchLeft": 0.2, "mouthStretchRight": 0.2,
}  # fmt: skip
"""A mouth that lets the light in."""
SHUT = {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0, "eyeWideLeft": 0.0, "eyeWideRight": 0.0}
OPEN_TOO = bool(os.environ.get("OPEN_TOO"))
MOUTH_PX, EYES_PX = (128, 96), (256, 80)
"""Width and height of what is taken, in a frame of 512."""


@dataclass
class Sitter:
    """Somebody in the studio, with what can still be moved."""

    person: Person
    points: np.ndarray
    head: tuple[Any, np.ndarray]
    """An object and the template's point numbers it uses."""
    inside: dict[str, tuple[Any, Place]]
    """Upper teeth, lower teeth, tongue, and where they go when the points move."""

    def move(self, units: dict[str, float]) -> np.ndarray:
        """Make a face. Returns the points."""
        details = self.person.details | units
        points = body.posed(body.shaped(self.person.build, details), body.STANDING)
        metres = body.metres(points)
        head, used = self.head
        for made, places in ((head, metres[used]), *((made, at(metres)) for made, at in self.inside.values())):
            made.data.vertices.foreach_set("co", places.astype(np.float32).ravel())
            made.data.update()
        return points


def seen(place: np.ndarray) -> np.ndarray:
    """Pixels x, y of a place (3,) in metres."""
    scene = bpy.context.scene
    at = world_to_camera_view(scene, scene.camera, Vector(place))
    return np.array([at.x, 1 - at.y]) * scene.render.resolution_x


def take_all(sitter: Sitter, out: Path) -> None:
    """The layers and the strip of one person, a PNG each, and `NAME.json` with their rectangles in the frame."""
    name, rects = sitter.person.name, {}
    moved = body.metres(sitter.move(OPEN))
    for layer, (made, at) in sitter.inside.items():
        shut, opened = (seen(at(metres).mean(0)) for metres in (body.metres(sitter.points), moved))
        rect = _around(opened, MOUTH_PX)
        _alone(made, visible=True)
        studio.take(out / f"{name}.{layer}.png", _share(rect))
        _alone(made, visible=False)
        back = np.rint(shut - opened).astype(int)
        rects[layer] = (np.array(rect) + np.tile(back, 2)).tolist()
    if OPEN_TOO:
        studio.take(out / f"{name}.open.png", _share(_around(opened, (192, 160))))
    _shut_eyes(sitter)
    rects["eyes"] = _around(seen(features.eyes_of(sitter.points).centres.mean(0)), EYES_PX)
    studio.take(out / f"{name}.eyes.png", _share(rects["eyes"]))
    (out / f"{name}.json").write_text(json.dumps(rects))


def _shut_eyes(sitter: Sitter) -> None:
    points = sitter.move(SHUT)
    bpy.data.objects.remove(bpy.data.objects["lashes"])
    surface = features.surface_of(sitter.head[0])
    features.lashes(points, surface, sitter.person.lashes, shading.strands("#120c09", 0, 0.5), sitter.person.seed)


def _alone(made: Any, *, visible: bool) -> None:
    """Let the camera see this object alone; light falls on it as ever."""
    for other in bpy.context.scene.objects:
        if other.type not in ("CAMERA", "LIGHT"):
            other.visible_camera = other is made or not visible
    render = bpy.context.scene.render
    render.film_transparent = visible
    render.image_settings.color_mode = "RGBA" if visible else "RGB"


def _around(middle: np.ndarray, size: tuple[int, int]) -> list[int]:
    """x1, y1, x2, y2 in a frame of 512, scaled to this one."""
    scale = bpy.context.scene.render.resolution_x / 512
    half = np.array(size) * scale / 2
    return [int(v) for v in np.rint([*(middle - half), *(middle + half)])]


def _share(rect: list[int]) -> tuple[float, float, float, float]:
    side = bpy.context.scene.render.resolution_x
    x1, y1, x2, y2 = rect
    return (x1 / side, 1 - y2 / side, x2 / side, 1 - y1 / side)
