"""The portraits that come with the program, so that a first start has somebody to talk to."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from pathlib import Path
from typing import NamedTuple

FIRST = 3
"""So many are made ready before a first start answers; the others when somebody asks for them."""


class BundledPortrait(NamedTuple):
    """One CC0 portrait inside the package."""

    id: str
    title: str
    path: Path
    side_px: int
    """The picture is square."""


@functools.cache
def bundled_portraits() -> tuple[BundledPortrait, ...]:
    """All of them, in the order a page offers them."""
    folder = Path(str(resources.files("avatars") / "portraits"))
    listed = tomllib.loads((folder / "portraits.toml").read_text(encoding="utf-8"))
    side_px = int(listed["side_px"])
    return tuple(
        BundledPortrait(name, name.capitalize(), folder / f"{name}.webp", side_px) for name in listed["portraits"]
    )


def bundled_portrait(avatar_id: str) -> BundledPortrait | None:
    """The one of this id."""
    return next((portrait for portrait in bundled_portraits() if portrait.id == avatar_id), None)
