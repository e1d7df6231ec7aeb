"""The portraits that come with the program, so that a first start has somebody to talk to."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from avatars.sources import PARTS, Rect, read_sources

FIRST = 3
"""So many are made ready before a first start answers; the others when somebody asks for them."""


class BundledPortrait(NamedTuple):
    """One CC0 portrait inside the package."""

    id: str
    title: str
    path: Path
    side_px: int
    """The picture is square."""
    rects: dict[str, Rect]
    """Where its sources lie in the frame, by part; empty where it has none."""

    @property
    def sources_path(self) -> Path:
        return self.path.parent / "sources" / self.path.name

    def sources(self) -> dict[str, npt.NDArray[Any]]:
        """What it hides, as a packet's sidecar keeps it; empty where nothing of it was taken."""
        return read_sources(self.sources_path, self.rects) if self.rects else {}


@functools.cache
def bundled_portraits() -> tuple[BundledPortrait, ...]:
    """All of them, in the order a page offers them."""
    folder = Path(str(resources.files("avatars") / "portraits"))
    listed = tomllib.loads((folder / "portraits.toml").read_text(encoding="utf-8"))
    side_px, rects = int(listed["side_px"]), listed.get("sources", {})

    def portrait(name: str) -> BundledPortrait:
        numbers = rects.get(name, [])
        places = {part: tuple(numbers[4 * i : 4 * i + 4]) for i, part in enumerate(PARTS)} if numbers else {}
        return BundledPortrait(name, name.capitalize(), folder / f"{name}.webp", side_px, places)

    return tuple(portrait(name) for name in listed["portraits"])


def bundled_portrait(avatar_id: str) -> BundledPortrait | None:
    """The one of this id."""
    return next((portrait for portrait in bundled_portraits() if portrait.id == avatar_id), None)


def bundled_at(path: Path) -> BundledPortrait | None:
    """The one whose picture this is."""
    return next((portrait for portrait in bundled_portraits() if portrait.path == path), None)
