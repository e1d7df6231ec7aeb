"""The avatars of this machine: a folder of packets by id, opened read-only; written and removed whole."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from avatars import folder
from avatars.bundled import FIRST, BundledPortrait, bundled_portrait, bundled_portraits
from avatars.errors import AvatarError, AvatarIdInvalid, AvatarIdReserved, PacketMissing, PacketUnwritable
from avatars.packet import AvatarPacket
from avatars.picture import load_picture
from avatars.reader import Inspected, open_packet, read_info

if TYPE_CHECKING:
    from avatars.precompile import Makers

THUMBNAIL_PX = 256
_TITLE_CHARACTERS = 80
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
RESERVED_IDS = frozenset({"clear", "jobs"})
"""What else the server answers beside /api/avatars/{id}; a test reads it off the router."""


@dataclass(frozen=True, slots=True)
class AvatarEntry:
    """What a list shows of an avatar without opening it."""

    avatar_id: str
    title: str
    width: int
    height: int
    cycle_frames: int
    kind: str = "portrait"
    grade: str = ""
    """A to D, as precompilation judged; empty where nobody did."""


def check_id(avatar_id: str) -> str:
    """The id itself, or AvatarIdInvalid: ids name folders, so nothing else gets near a path."""
    if not _ID.fullmatch(avatar_id):
        raise AvatarIdInvalid(avatar_id)
    return avatar_id


def check_new_id(avatar_id: str) -> str:
    """As `check_id`; raises AvatarIdReserved too. An avatar that has such a name already can be opened and removed."""
    if check_id(avatar_id) in RESERVED_IDS:
        raise AvatarIdReserved(avatar_id, RESERVED_IDS)
    return avatar_id


class AvatarStore:
    """Packets under one root folder. Safe to use from several threads and processes."""

    def __init__(self, root: Path, *, sways: bool = True) -> None:
        """sways: False opens portraits without their idle frames, so that they stand still."""
        self.root = root
        self._sways = sways
        self._inspected = Inspected()
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[folder.FileIdentity, AvatarEntry]] = {}
        self._bundled_lock = threading.Lock()
        self._makers: Makers | None = None
        self._removed: set[str] = set()
        """Bundled portraits that somebody deleted: they stay away until the next start."""

    def ids(self) -> list[str]:
        """Everything in the folder that is named like an avatar, sound or not."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if _ID.fullmatch(path.name))

    def list(self) -> tuple[AvatarEntry, ...]:
        """The avatars whose description can be read, by id."""
        entries = []
        for avatar_id in self.ids():
            try:
                entries.append(self.entry(avatar_id))
            except AvatarError:
                continue  # `liveanchor avatars list` tells what is wrong with it
        return tuple(entries)

    def entry(self, avatar_id: str) -> AvatarEntry:
        """The description of one avatar, without opening it. Raises as `open`."""
        version = self.version(avatar_id)
        with self._lock:
            known = self._entries.get(avatar_id)
        if known is not None and known[0] == version:
            return known[1]
        entry = self._describe(avatar_id)
        with self._lock:
            self._entries[avatar_id] = (version, entry)
        return entry

    def version(self, avatar_id: str) -> folder.FileIdentity:
        """Tells one making of a packet from the next. Raises PacketMissing, PacketInvalid."""
        try:
            with folder.PacketFolder(self.root / check_id(avatar_id)) as opened, opened.open(folder.INFO_FILE) as file:
                return folder.identity(file)
        except FileNotFoundError:
            raise PacketMissing(avatar_id) from None

    def info(self, avatar_id: str) -> dict[str, Any]:
        """`avator_info.json`. Raises as `open`."""
        try:
            return read_info(self.root / check_id(avatar_id), avatar_id)
        except FileNotFoundError:
            raise PacketMissing(avatar_id) from None

    def open(self, avatar_id: str) -> AvatarPacket:
        """The packet of an id, mapped and checked. Raises PacketMissing, PacketInvalid, PacketVersion.

        A packet that was made elsewhere gets landmarks here, in memory.
        """
        try:
            packet = open_packet(self.root / check_id(avatar_id), avatar_id, self._inspected)
        except FileNotFoundError:
            raise PacketMissing(avatar_id) from None
        if packet.landmarks is None:
            from avatars.adopt import find_landmarks  # the face models load only where they are needed

            packet = replace(packet, landmarks=find_landmarks(packet))
        return packet if self._sways else replace(packet, idle=None)

    def verify(self, avatar_id: str) -> AvatarPacket:
        """Open a packet as if for the first time: every byte hashed, every value searched. Raises as `open`."""
        try:
            return open_packet(self.root / check_id(avatar_id), avatar_id, Inspected(), whole=True)
        except FileNotFoundError:
            raise PacketMissing(avatar_id) from None

    @contextmanager
    def replacing(self, avatar_id: str) -> Iterator[Path]:
        """A folder to fill, which takes the packet's place at the end of the block.

        Raises PacketUnwritable, AvatarIdInvalid.
        """
        try:
            with folder.replacing(self.root, check_new_id(avatar_id)) as path:
                yield path
        except OSError as error:
            raise PacketUnwritable(avatar_id, error.strerror or str(error)) from error

    def remove(self, avatar_id: str) -> None:
        """Delete a packet; who has it open keeps it. Raises PacketMissing, PacketUnwritable."""
        offered = self.unmade(avatar_id) is not None
        try:
            folder.remove(self.root, check_id(avatar_id))
        except FileNotFoundError:
            if not offered:
                raise PacketMissing(avatar_id) from None
        except OSError as error:
            raise PacketUnwritable(avatar_id, error.strerror or str(error)) from error
        self._removed.add(avatar_id)

    def ensure_bundled(self, progress: Callable[[str, float], None], makers: Makers | None = None) -> None:
        """Prepare the first of the portraits that come with the program; `progress` gets id and 0..1.

        makers: what an engine needs in its packets; kept for those that are made later.
        """
        from avatars.workshop import Workshop  # as above

        self._makers = makers
        workshop = Workshop(self, makers=makers)
        for portrait in bundled_portraits()[:FIRST]:
            progress(portrait.id, 0.0)
            workshop.make(portrait.path, portrait.id)
            progress(portrait.id, 1.0)

    def bundled_version(self, avatar_id: str) -> folder.FileIdentity:
        """As `version`; of the picture where a bundled portrait is still to be made."""
        portrait = self.unmade(check_id(avatar_id))
        if portrait is None:
            return self.version(avatar_id)
        with portrait.path.open("rb") as file:
            return folder.identity(file)

    def unmade(self, avatar_id: str) -> BundledPortrait | None:
        """The bundled portrait of this id, if it is still to be made."""
        portrait = bundled_portrait(avatar_id)
        if portrait is None or avatar_id in self._removed or (self.root / avatar_id).exists():
            return None
        return portrait

    def make_bundled(self, avatar_id: str) -> bool:
        """Make the bundled portrait of this id if it is still to be made; whether it is there. Raises AvatarError."""
        from avatars.workshop import Workshop  # as above

        with self._bundled_lock:  # who comes second finds it made
            portrait = self.unmade(avatar_id)
            if portrait is not None:
                Workshop(self, makers=self._makers).make(portrait.path, avatar_id)
            return (self.root / avatar_id).exists()

    def thumbnail(self, avatar_id: str, side_px: int = THUMBNAIL_PX) -> bytes:
        """A JPEG of the first frame, at most `side_px` a side; of a bundled portrait's picture where it is unmade.

        Raises as `open`.
        """
        offered = self.unmade(check_id(avatar_id))
        try:
            bgr = (
                cv2.merge(list(open_packet(self.root / avatar_id, avatar_id, self._inspected).frames[0][::-1]))
                if offered is None
                else np.ascontiguousarray(load_picture(offered.path)[..., ::-1])
            )
        except FileNotFoundError:
            raise PacketMissing(avatar_id) from None
        shrink = min(1.0, side_px / max(bgr.shape[:2]))
        size = (max(1, round(bgr.shape[1] * shrink)), max(1, round(bgr.shape[0] * shrink)))
        small = cv2.resize(bgr, size, interpolation=cv2.INTER_AREA)
        return bytes(np.asarray(cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 88])[1]))

    def _describe(self, avatar_id: str) -> AvatarEntry:
        info = self.info(avatar_id)
        dimensions, report = info.get("dimensions"), info.get("report")
        title = info.get("title", avatar_id.replace("_", " ").replace("-", " ").title())
        kind = str(info.get("kind", "portrait"))
        grade = str(report.get("grade", "")) if isinstance(report, dict) else ""
        told = (dimensions.get("width"), dimensions.get("height")) if isinstance(dimensions, dict) else (None, None)
        width, height, frames = *told, info.get("cycle_frames")
        if not (type(width) is int and type(height) is int and type(frames) is int):
            packet = self.verify(avatar_id)
            (width, height), frames = packet.size_px, packet.cycle_frames
        return AvatarEntry(avatar_id, str(title)[:_TITLE_CHARACTERS], width, height, frames, kind[:40], grade[:1])
