"""The avatars of this machine: a folder of packets by id, opened read-only and shared."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2

from avatars.bundled import BundledPortrait, bundled_portraits
from avatars.errors import AvatarIdInvalid, PacketMissing
from avatars.packet import AvatarPacket
from avatars.picture import load_picture

THUMBNAIL_PX = 256
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class AvatarEntry:
    """What a list shows of an avatar without opening it."""

    avatar_id: str
    title: str
    width: int
    height: int
    cycle_frames: int


def check_id(avatar_id: str) -> str:
    """The id itself, or AvatarIdInvalid: ids name folders, so nothing else gets near a path."""
    if not _ID.fullmatch(avatar_id):
        raise AvatarIdInvalid(avatar_id)
    return avatar_id


class AvatarStore:
    """Packets under one root folder. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._packets: dict[str, AvatarPacket] = {}

    def list(self) -> tuple[AvatarEntry, ...]:
        """The avatars that can be opened."""
        with self._lock:
            packets = list(self._packets.values())
        return tuple(
            AvatarEntry(p.avatar_id, p.avatar_id.capitalize(), *p.size_px, p.cycle_frames)
            for p in sorted(packets, key=lambda p: p.avatar_id)
        )

    def open(self, avatar_id: str) -> AvatarPacket:
        """The packet of an id. Raises PacketMissing, PacketInvalid, PacketVersion."""
        with self._lock:
            packet = self._packets.get(check_id(avatar_id))
        if packet is None:
            raise PacketMissing(avatar_id)
        return packet

    def ensure_bundled(self, progress: Callable[[str, float], None]) -> None:
        """Prepare the portraits that come with the program where they are missing; `progress` gets id and 0..1."""
        portraits = bundled_portraits()
        for portrait in portraits:
            progress(portrait.id, 0.0)
            self._prepare(portrait)
            progress(portrait.id, 1.0)

    def thumbnail(self, avatar_id: str, side_px: int = THUMBNAIL_PX) -> bytes:
        """A JPEG of the first frame, at most `side_px` a side."""
        frame = self.open(avatar_id).frames[0]
        rgb = cv2.merge(list(frame))
        shrink = min(1.0, side_px / max(rgb.shape[:2]))
        size = (max(1, round(rgb.shape[1] * shrink)), max(1, round(rgb.shape[0] * shrink)))
        small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
        return bytes(cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 88])[1])

    def _prepare(self, portrait: BundledPortrait) -> None:
        from avatars.faces import FaceMesh
        from avatars.precompile import precompile_portrait

        packet = precompile_portrait(load_picture(portrait.path), portrait.id, FaceMesh(), source=portrait.path.name)
        with self._lock:
            self._packets[portrait.id] = packet
