"""A set of models into a folder: from its origin, a mirror or another folder; what is there and right is left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engines.models.errors import ModelRefused, ModelUnreachable
from engines.models.fetch import Wanted, check, fetch
from engines.models.manifest import ORIGIN, ModelFile, ModelSet

LOCK_NAME = "models.lock.json"
"""Digests of the files that were fetched; files without a digest in the description are held to these."""
OnFile = Callable[[str, int, int | None], None]
"""Hears a file's name, how many bytes there are, and of how many where that is known."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where files come from."""

    origin: str = ORIGIN
    folder: Path | None = None
    """A folder with the set's files, as `pull` lays them; nothing is fetched then."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What was done with one file."""

    to: str
    sha256: str
    how: str
    """kept, fetched or copied."""


def pull(
    models: ModelSet, root: Path, source: Source, on_file: OnFile = lambda name, done, total: None
) -> list[Pulled]:
    """Bring all files of a set to ROOT/NAME. Raises ModelUnreachable, ModelRefused; files done before stay."""
    folder = root / models.name
    folder.mkdir(parents=True, exist_ok=True)
    lock = _read_lock(folder)
    done = []
    for file in models.files:
        wanted = _wanted(file, lock)
        kept = _kept(folder / file.to, wanted)
        if kept is not None:
            on_file(file.to, kept[1], kept[1])
            done.append(Pulled(file.to, kept[0], "kept"))
            continue
        _room(folder, file)
        if source.folder is not None:
            digest = _copy(source.folder, models.name, file, folder / file.to, wanted)
            how = "copied"
        else:
            digest = fetch(
                file.url(source.origin), folder / file.to, wanted,
                lambda at, total, name=file.to: on_file(name, at, total),  # type: ignore[misc]
            )  # fmt: skip
            how = "fetched"
        lock[file.to] = {"sha256": digest, "repository": file.repository, "revision": file.revision}
        _write_lock(folder, lock)
        done.append(Pulled(file.to, digest, how))
    return done


def verify(models: ModelSet, root: Path) -> list[Pulled]:
    """Read every byte of a set that is there. Raises ModelUnreachable (missing), ModelRefused (changed)."""
    folder = root / models.name
    lock = _read_lock(folder)
    found = []
    for file in models.files:
        path = folder / file.to
        if not path.is_file():
            raise ModelUnreachable(file.to, f"it is not in {folder}")
        found.append(Pulled(file.to, check(path, _wanted(file, lock)), "kept"))
    return found


def _wanted(file: ModelFile, lock: dict[str, dict[str, str]]) -> Wanted:
    noted = lock.get(file.to, {})
    known = noted.get("sha256") if noted.get("revision") == file.revision else None
    return Wanted(file.to, file.size_bytes, file.sha256 or known)


def _kept(path: Path, wanted: Wanted) -> tuple[str, int] | None:
    """Digest and size of a file that is there and provably right."""
    if not path.is_file() or wanted.sha256 is None:
        return None
    try:
        return check(path, wanted), path.stat().st_size
    except ModelRefused:
        return None


def _copy(source: Path, name: str, file: ModelFile, to: Path, wanted: Wanted) -> str:
    """From another folder, in the set's own layout or the repository's."""
    places = (source / name / file.to, source / file.to, source / file.path)
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ModelUnreachable(file.to, f"it is not in {source}")
    digest = check(found, wanted)
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(to.name + ".part")
    shutil.copyfile(found, part)
    part.replace(to)
    return digest


def _room(folder: Path, file: ModelFile) -> None:
    free = shutil.disk_usage(folder).free
    if file.size_bytes is not None and file.size_bytes > free:
        raise ModelUnreachable(file.to, f"it takes {file.size_bytes} bytes, the disk has {free}")


def _read_lock(folder: Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads((folder / LOCK_NAME).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_lock(folder: Path, lock: dict[str, dict[str, str]]) -> None:
    part = folder / (LOCK_NAME + ".part")
    part.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n", "utf-8")
    part.replace(folder / LOCK_NAME)
