"""The portraits that come with the program, so that a first start has somebody to talk to."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import NamedTuple


class BundledPortrait(NamedTuple):
    """One CC0 portrait inside the package."""

    id: str
    title: str
    path: Path


def bundled_portraits() -> tuple[BundledPortrait, ...]:
    """All of them, the one a page should offer first in front."""
    folder = resources.files("avatars") / "portraits"
    names = ("ruby", "blaze", "mateo")
    return tuple(BundledPortrait(name, name.capitalize(), Path(str(folder / f"{name}.webp"))) for name in names)
