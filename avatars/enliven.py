"""Gives a portrait of a store its idle frames, beside its other files; the packet is replaced whole or not at all."""

from __future__ import annotations

import numpy as np

from avatars.errors import PacketMissing
from avatars.folder import INFO_FILE, PacketFolder
from avatars.idle import IDLE_FILE
from avatars.packet import AvatarPacket
from avatars.store import AvatarStore
from avatars.sway import REVISION, build_idle
from avatars.writer import add_sidecar


class _Overtaken(Exception):
    """Somebody made the packet again, or removed it, while its idle frames were made."""


def wants_idle(packet: AvatarPacket) -> bool:
    """Whether this is a portrait of our own making, with a face, whose idle frames are missing, damaged or of old."""
    if "digests" not in packet.info or packet.landmarks is None or not np.isfinite(packet.landmarks[0]).all():
        return False
    one_frame = packet.anchors is not None and len(packet.anchors.planes) == 1
    made = packet.info.get("sway")
    return one_frame and (packet.idle is None or made != REVISION)


def enliven(store: AvatarStore, avatar_id: str) -> bool:
    """Make the idle frames of a portrait unless it has them or cannot have any; whether it was done.

    Takes half a second of one processor. Raises AvatarError.
    """
    version, packet = store.version(avatar_id), store.open(avatar_id)
    if not wants_idle(packet):
        return False
    arrays = build_idle(packet)
    try:
        with store.replacing(avatar_id) as folder, PacketFolder(store.root / avatar_id) as present:
            for name in present.names():
                if name not in (INFO_FILE, IDLE_FILE):
                    present.put_into(folder, name)
            add_sidecar(folder, {**packet.info, "sway": REVISION}, IDLE_FILE, arrays)
            if store.version(avatar_id) != version:
                raise _Overtaken
    except (_Overtaken, PacketMissing):
        return False
    return True
