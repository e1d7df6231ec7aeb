"""Takes rendered portraits into the package: `python tools/fleet/pack.py RENDERED` with liveanchor installed.

Refuses faces the product would not grade A and faces too like one that is already in; writes WebP, list and sheet.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from avatars.sources import PARTS

ROOT = Path(__file__).resolve().parents[2]
PORTRAITS = ROOT / "avatars" / "portraits"
SHEET = ROOT / "docs" / "anchors.webp"
NEAREST = 0.014
"""Root mean square distance of two meshes, in distances between the eyes, below which two people look alike."""
SKIN_APART = 18.0
"""Such faces may both stay if their skins differ by this much (mean RGB distance, 0..255)."""
TILE_PX, COLUMNS = 192, 10


def shape_of(points: np.ndarray) -> np.ndarray:
    """A (468, 2) mesh moved, turned and scaled so that the eyes' outer corners lie at -1/2 and 1/2."""
    left, right = points[33], points[263]
    across = right - left
    scale = float(across @ across)
    centred = points - (left + right) / 2
    return np.stack([centred @ across, centred @ np.array([-across[1], across[0]])], -1) / scale


def main() -> None:
    rendered = Path(sys.argv[1])
    rows = (Path(__file__).parent / "people.py").read_text(encoding="utf-8")
    names = re.findall(r'^    \("(\w+)", [01], \d', rows, re.M)  # not imported: it needs Blender
    finder = FaceMesh()
    taken: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    rects: dict[str, list[int]] = {}
    side_px = 0
    for name in names:
        path = rendered / f"{name}.png"
        if not path.exists():
            continue
        rgb = load_picture(path)
        packet = precompile_portrait(rgb, name, finder)
        grade = packet.info["report"]["grade"]
        points = np.asarray(packet.landmarks[0], float) if packet.landmarks is not None else np.zeros((468, 2))
        shape, (x, y) = shape_of(points), points[50].astype(int)
        tone = rgb[y - 4 : y + 5, x - 4 : x + 5].reshape(-1, 3).mean(0)
        apart = {other: float(np.sqrt(((shape - s) ** 2).sum(1).mean())) for other, (s, _) in taken.items()}
        nearest = min(apart, key=apart.__getitem__, default="")
        alike = any(
            apart[other] < NEAREST and float(np.abs(t - tone).mean()) < SKIN_APART for other, (_, t) in taken.items()
        )
        sys.stdout.write(
            f"{name:10} {grade} nearest {nearest:10} {apart.get(nearest, 9):.3f} {'TOO ALIKE' if alike else ''}\n"
        )
        if alike or grade != "A":
            continue
        taken[name] = (shape, tone)
        side_px = rgb.shape[1]
        Image.fromarray(rgb).save(PORTRAITS / f"{name}.webp", quality=92, method=6)
        if (rendered / f"{name}.json").exists():
            rects[name] = pack_sources(rendered, name)
    for old in PORTRAITS.rglob("*.webp"):
        if old.stem not in taken:
            old.unlink()
    listed = ",\n    ".join(f'"{name}"' for name in taken)
    placed = "\n".join(f"{name} = {numbers}" for name, numbers in rects.items())
    (PORTRAITS / "portraits.toml").write_text(
        "# The bundled portraits, in the order a page offers them: NAME.webp each, square.\n"
        f"side_px = {side_px}\nportraits = [\n    {listed},\n]\n\n"
        "# sources/NAME.webp: eyes shut, upper teeth, lower teeth and tongue below one another; x1, y1, x2, y2 of each.\n"
        f"[sources]\n{placed}\n"
    )
    sheet(list(taken))


def pack_sources(rendered: Path, name: str) -> list[int]:
    """Lay what was taken of the inside of a mouth and of shut eyes into one file. Returns where each part lies."""
    rects = json.loads((rendered / f"{name}.json").read_text())
    parts = [Image.open(rendered / f"{name}.{part}.png").convert("RGBA") for part in PARTS]
    column = Image.new("RGBA", (max(part.width for part in parts), sum(part.height for part in parts)))
    top = 0
    for part in parts:
        column.paste(part, (0, top))
        top += part.height
    (PORTRAITS / "sources").mkdir(exist_ok=True)
    column.save(PORTRAITS / "sources" / f"{name}.webp", quality=90, method=6)
    return [number for part in PARTS for number in rects[part]]


def sheet(names: list[str]) -> None:
    """All of them on one picture for the docs."""
    rows = -(-len(names) // COLUMNS)
    whole = Image.new("RGB", (COLUMNS * TILE_PX, rows * (TILE_PX + 18)), "#16181d")
    draw = ImageDraw.Draw(whole)
    for number, name in enumerate(names):
        x, y = number % COLUMNS * TILE_PX, number // COLUMNS * (TILE_PX + 18)
        with Image.open(PORTRAITS / f"{name}.webp") as picture:
            whole.paste(picture.convert("RGB").resize((TILE_PX, TILE_PX), Image.Resampling.LANCZOS), (x, y))
        draw.text((x + 6, y + TILE_PX + 3), name, fill="#c9ccd3")
    whole.save(SHEET, quality=85, method=6)


if __name__ == "__main__":
    main()
