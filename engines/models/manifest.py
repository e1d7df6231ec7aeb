"""Which files an engine's models are: repository, fixed revision, path, size and digest. One TOML file a set."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Any

from engines.models.errors import ModelSetUnknown

ORIGIN = "https://huggingface.co"
"""Where files lie unless a mirror is named: ORIGIN/REPOSITORY/resolve/REVISION/PATH."""
_REVISION = re.compile(r"^[0-9a-f]{40}$")
_DIGEST = re.compile(r"^[0-9a-f]{64}$")
_NAME = re.compile(r"^[a-z0-9_-]+$")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a set."""

    repository: str
    revision: str
    """A full commit: what lies there never changes."""
    path: str
    """In the repository."""
    to: str
    """In the set's folder."""
    licence: str
    size_bytes: int | None
    sha256: str | None
    """None: not known here; held to what the server announces for the revision, then to that."""

    def url(self, origin: str) -> str:
        """Where it lies under an origin or a mirror of the same layout."""
        return f"{origin.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.path}"


@dataclass(frozen=True, slots=True)
class ModelSet:
    """All files of an engine's models."""

    name: str
    title: str
    files: tuple[ModelFile, ...]

    @property
    def size_bytes(self) -> int:
        """Of the files whose size is known."""
        return sum(file.size_bytes or 0 for file in self.files)


def names(folder: Traversable | None = None) -> tuple[str, ...]:
    """Sets that there are."""
    found = (entry.name.removesuffix(".toml") for entry in (folder or _own()).iterdir() if entry.name.endswith(".toml"))
    return tuple(sorted(found))


def load(name: str, folder: Traversable | None = None) -> ModelSet:
    """A set by name. Raises ModelSetUnknown."""
    known = names(folder)
    if not _NAME.match(name) or name not in known:
        raise ModelSetUnknown(name, f"there is no such set; choose from {', '.join(known)}")
    return parse(name, ((folder or _own()) / f"{name}.toml").read_text("utf-8"))


def parse(name: str, text: str) -> ModelSet:
    """A set from its description. Raises ModelSetUnknown where that is broken."""
    try:
        described = tomllib.loads(text)
        files = tuple(_file(name, source, entry) for source in described["source"] for entry in source["file"])
        title = str(described["title"])
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ModelSetUnknown(name, f"its description is broken ({error})") from error
    places = [file.to for file in files]
    if len(set(places)) != len(places):
        raise ModelSetUnknown(name, "two files go to the same place")
    return ModelSet(name, title, files)


def _file(name: str, source: dict[str, Any], entry: dict[str, Any]) -> ModelFile:
    size, digest = entry.get("bytes"), entry.get("sha256")
    if not _REVISION.match(source["revision"]):
        raise ModelSetUnknown(name, f"{source['repository']} is not at a fixed revision")
    if digest is not None and not _DIGEST.match(digest):
        raise ModelSetUnknown(name, f"{entry['path']} has no proper digest")
    if size is not None and not (isinstance(size, int) and size > 0):
        raise ModelSetUnknown(name, f"{entry['path']} has no proper size")
    for place in (entry["path"], entry["to"]):
        parts = PurePosixPath(place).parts
        if not parts or place.startswith("/") or ".." in parts or "\\" in place:
            raise ModelSetUnknown(name, f"{place!r} leads out of the folder")
    return ModelFile(
        source["repository"], source["revision"], entry["path"], entry["to"], source["licence"], size, digest
    )


def _own() -> Traversable:
    return resources.files("engines.models") / "sets"
