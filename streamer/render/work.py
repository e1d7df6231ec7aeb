"""A render's unfinished business on disk: the plan and the keyframes that are done, so that it can go on later."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import cv2
import numpy as np

from streamer.render.take import U8, Arrays

_PNG_END = b"IEND\xaeB`\x82"
_LAST_KEY = "last_key"


def digest(values: dict[str, Any], files: list[Path]) -> str:
    """Of settings and of the files' contents: the same render, the same digest."""
    found = hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode())
    for path in files:
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


class WorkFolder:
    """Everything is written beside its place and moved there, so what is there is whole."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self._fingerprint = fingerprint

    def open(self, *, fresh: bool) -> bool:
        """Make the folder, empty unless it is of the same render. True if there is something to go on with."""
        known = self._read("render.json")
        if fresh or known is None or known.get("digest") != self._fingerprint:
            self.clear()
            (self.path / "keys").mkdir(parents=True)
            self._write("render.json", json.dumps({"digest": self._fingerprint}).encode())
            return False
        return (self.path / "plan.npz").is_file()

    def plan(self) -> tuple[Arrays, dict[str, Any]] | None:
        """What `save_plan` kept; None where it is not done, or damaged."""
        account = self._read("plan.json")
        if account is None or not (self.path / "plan.npz").is_file():
            return None
        try:
            with (self.path / "plan.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}, account
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error):
            return None  # damaged: it is made again

    def save_plan(self, arrays: Arrays, account: dict[str, Any]) -> None:
        """Keep the plan and what was counted while it was made."""
        part = self.path / "plan.part.npz"
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]  # its signature takes names for flags
        part.replace(self.path / "plan.npz")
        self._write("plan.json", json.dumps(account).encode())

    def key(self, index: int) -> U8 | None:
        """A keyframe's picture; None where it is not done, or damaged."""
        path = self.path / "keys" / f"{index:06d}.png"
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if not content.endswith(_PNG_END):
            return None  # OpenCV would fill up what is missing
        found = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB)
        return None if found is None else found.astype(np.uint8, copy=False)

    def save_key(self, index: int, picture: U8, account: dict[str, Any]) -> None:
        """Keep a keyframe's picture without loss, and what was counted so far, it included."""
        done, coded = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        if done:
            self._write(f"keys/{index:06d}.png", coded.tobytes())
        self._write("account.json", json.dumps(account | {_LAST_KEY: index}).encode())

    def account(self) -> tuple[dict[str, Any], int] | None:
        """The latest that `save_key` kept, and the keyframe up to which it counts."""
        account = self._read("account.json")
        if account is None or not isinstance(account.get(_LAST_KEY), int):
            return None
        return account, account.pop(_LAST_KEY)

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, name: str, content: bytes) -> None:
        part = self.path / (name + ".part")
        part.write_bytes(content)
        part.replace(self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self.path / name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None
