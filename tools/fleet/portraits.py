"""Renders the newsroom: `python portraits.py OUT [NAME …] [--side 640] [--samples 16]`. Needs bpy 5.0.1 and anny 0.6.2 (README.md)."""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

import body
import clothes
import features
import hair
import numpy as np
import shading
import sources
import studio
import teeth
from people import Person, everybody
from PIL import Image


def build(person: Person) -> sources.Sitter:
    """Put a person into the empty scene."""
    points = body.posed(body.shaped(person.build, person.details), body.STANDING)
    lowest_m = body.metres(body.joint(points, "spine-2")[None])[0, 2] - 0.12
    skin = shading.skin(person.complexion, person.hair_root, person.build.age_years)
    head, used = features.part("skin", points, "body", skin, lowest_m)
    marks = features.masks() | {"scalp": hair.scalp(person.style) * person.style.tint, "lid": features.lid_edge(points)}
    for name, mask in marks.items():
        head.data.attributes.new(name, "FLOAT", "POINT").data.foreach_set("value", mask[used].astype(np.float32))
    surface = features.surface_of(head)
    eyes = features.eyes_of(points)
    for number, (centre, radius) in enumerate(zip(eyes.centres, eyes.radii, strict=True)):
        features.eyeball(centre, radius, person.iris, person.seed + number)
    brow = shading.strands(person.brow_colour, person.grey * 0.6, 0.6)
    features.brows(eyes, surface, person.brows, brow, person.seed)
    features.lashes(points, surface, person.lashes, shading.strands("#120c09", 0, 0.5), person.seed)
    inside = teeth.inside(points, person.teeth, person.seed)
    tailor = clothes.Tailor(points, head)
    clothes.dress(tailor, person.outfit)
    if person.style.strands:
        grown = hair.grow(hair.Head(points, person.style, tailor.worn), person.seed)
        radius_m = 1.4e-4 if person.style.strands < 25_000 else 1.1e-4
        features.curves("hair", grown, shading.strands(person.hair_colour, person.grey), radius_m)
    return sources.Sitter(person, points, (head, used), inside)


def cpu_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def render(person: Person, out: Path, side_px: int, samples: int) -> None:
    """One finished portrait, `NAME.png` before its backdrop, and its sources."""
    begun_s = cpu_s()
    studio.empty()
    sitter = build(person)
    eyes = features.eyes_of(sitter.points).centres.mean(0)
    built_s = cpu_s()
    wall = out / f"{person.name}.wall.png"
    Image.fromarray(studio.backdrop(512, person.backdrop, person.seed).astype(np.uint8)).save(wall)
    setting = studio.Setting(person.light, person.turn_degrees, person.key, wall)
    studio.open_studio(eyes, side_px, samples, setting)
    studio.take(out / f"{person.name}.part.png")
    taken_s = cpu_s()
    sources.take_all(sitter, out)
    (out / f"{person.name}.part.png").rename(out / f"{person.name}.png")
    spent = (built_s - begun_s, taken_s - begun_s, cpu_s() - begun_s)
    sys.stdout.write("{}: built {:.0f} s, portrait {:.0f} s, whole {:.0f} s CPU\n".format(person.name, *spent))
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--side", type=int, default=640)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for person in everybody():
        if given.names and person.name not in given.names:
            continue
        if not given.again and (given.out / f"{person.name}.png").exists():
            continue  # a run that was stopped goes on where it was
        render(person, given.out, given.side, given.samples)


if __name__ == "__main__":
    main()
