"""Packets kept open in memory: the least lately used leave when their bytes pass a limit; sessions keep theirs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from avatars.errors import PacketMissing
from avatars.folder import FileIdentity
from avatars.packet import AvatarPacket
from avatars.store import AvatarStore

DEFAULT_CAPACITY_BYTES = 2 << 30


class _Held(NamedTuple):
    version: FileIdentity
    packet: AvatarPacket
    size_bytes: int


class AvatarPool:
    """Opens each packet of a store once. Safe to use from several threads."""

    def __init__(self, store: AvatarStore, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._store = store
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[str, _Held] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        """What the packets would take if every page of them were resident."""
        with self._lock:
            return sum(held.size_bytes for held in self._held.values())

    def get(self, avatar_id: str) -> tuple[AvatarPacket, bool]:
        """The packet, and whether it was at hand. A packet made again on disk is opened again.

        A bundled portrait that nobody asked for yet is made now. Raises PacketMissing, PacketInvalid, PacketVersion.
        """
        try:
            version = self._store.version(avatar_id)
        except PacketMissing:
            if not self._store.make_bundled(avatar_id):
                raise
            version = self._store.version(avatar_id)
        with self._lock:
            held = self._held.get(avatar_id)
            if held is not None and held.version == version:
                self._held.move_to_end(avatar_id)
                return held.packet, True
        packet = self._store.open(avatar_id)
        with self._lock:
            self._held[avatar_id] = _Held(version, packet, size_bytes(packet))
            self._held.move_to_end(avatar_id)
            total = sum(held.size_bytes for held in self._held.values())
            while total > self._capacity_bytes and len(self._held) > 1:
                total -= self._held.popitem(last=False)[1].size_bytes
        return packet, False

    def drop(self, avatar_id: str) -> bool:
        """Forget one packet. Returns whether it was held."""
        with self._lock:
            return self._held.pop(avatar_id, None) is not None

    def clear(self) -> int:
        """Forget all. Returns how many were held."""
        with self._lock:
            count = len(self._held)
            self._held.clear()
        return count


def size_bytes(packet: AvatarPacket) -> int:
    """The memory a packet's arrays span, what is shared or repeated counted once."""
    arrays = [packet.frames, packet.latents, packet.landmarks, *packet.masks]
    if packet.anchors is not None:
        arrays += [packet.anchors.planes, *packet.anchors.luma_masks]
    if packet.idle is not None:
        arrays += packet.idle.planes
    spans = {}
    for array in arrays:
        if array is not None and array.size:
            once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
            spans[once.__array_interface__["data"][0]] = once.nbytes
    return sum(spans.values())
