"""Built plans on disk: each under a key of all that decides it, whole or not at all, a manifest beside it."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PLAN_NAME, MANIFEST_NAME = "plan.engine", "manifest.json"
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class PlanKey:
    """What a plan depends on. Plans of the same key may differ in bytes: their own hash is no key."""

    stage: str
    onnx_sha256: str
    """Of the graph and the weights beside it."""
    precision: str
    backend: str
    version: str
    buckets: tuple[int, ...]
    gpu: str = "any"
    """Name of the card, where a plan fits one only."""
    compute_capability: str = "any"

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Stored:
    """A plan in the cache."""

    path: Path
    manifest: dict[str, Any]
    fresh: bool
    """Built just now."""


class PlanCache:
    """A folder of plans."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, key: PlanKey) -> Stored | None:
        """The plan of a key if it is there whole: one whose size is not the manifest's is none."""
        folder = self._folder(key)
        try:
            manifest = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
            size = (folder / PLAN_NAME).stat().st_size
        except (OSError, ValueError):
            return None
        fits = isinstance(manifest, dict) and manifest.get("plan_bytes") == size
        return Stored(folder / PLAN_NAME, manifest, fresh=False) if fits else None

    def ensure(self, key: PlanKey, build: Callable[[], bytes]) -> Stored:
        """The plan of a key, built where it is not there. What `build` raises leaves the cache as it was."""
        found = self.get(key)
        if found is not None:
            return found
        plan = build()
        manifest = {**asdict(key), "plan_bytes": len(plan), "plan_sha256": hashlib.sha256(plan).hexdigest()}
        folder = self._folder(key)
        part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        part.mkdir(parents=True)
        try:
            (part / PLAN_NAME).write_bytes(plan)
            (part / MANIFEST_NAME).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
            if folder.exists():
                shutil.rmtree(folder)
            part.replace(folder)
        except OSError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return Stored(folder / PLAN_NAME, manifest, fresh=True)

    def _folder(self, key: PlanKey) -> Path:
        return self.root / f"{key.stage}-{key.digest}"


def graph_sha256(path: Path) -> str:
    """Of an ONNX file and of PATH.data beside it, where its weights lie apart."""
    digest = hashlib.sha256()
    for part in (path, path.with_name(path.name + ".data")):
        if part.is_file():
            with part.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
    return digest.hexdigest()
