"""Casting: brings an avatar on stage (packet, engine face, canvas at the streamed size) and keeps it there.

Runs its heavy work in an executor of its own; what it gives out is immutable and shared by sessions.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from avatars.backdrop import Mark
from avatars.canvas import Canvas, Living
from avatars.packet import AvatarPacket
from avatars.pool import AvatarPool
from engines.contract import FPS, Face, LipSyncEngine, stage_of
from streamer.graphics.badge import Badge


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """An avatar ready to be streamed."""

    packet: AvatarPacket
    face: Face
    canvas: Canvas
    canvas_px: int
    """The side that was asked for; the canvas is never larger."""
    badge: Badge | None = None
    """What lies over every picture."""


def staged(face: Face, canvas_px: int, mark: Mark | None = None) -> Canvas:
    """The canvas of an avatar, with whatever life its face has."""
    return Canvas(stage_of(face), canvas_px, face if isinstance(face, Living) else None, mark)


_Key = tuple[str, int, Badge | None]
FORESEEN_FRAMES = 5 * 60 * FPS
"""What eyes do in so long is made ready with a canvas."""


class Casting:
    """Avatars ready for the stage; the least recently used leave it first, live sessions keep what they hold."""

    def __init__(self, pool: AvatarPool, engine: LipSyncEngine, executor: Executor, capacity: int = 16) -> None:
        self._pool = pool
        self._engine = engine
        self._executor = executor
        self._capacity = capacity
        self._faces: OrderedDict[str, Face] = OrderedDict()
        self._canvases: OrderedDict[_Key, tuple[AvatarPacket, Canvas]] = OrderedDict()
        self._lock = asyncio.Lock()
        self.on_cast: Callable[[AvatarPacket], None] = lambda packet: None
        """Called on the loop with the packet of every avatar that is cast; must only deposit."""

    async def cast(self, avatar_id: str, canvas_px: int, badge: Badge | None = None) -> tuple[Cast, bool]:
        """The avatar and whether it was already in memory. An avatar made again is brought on stage again.

        Raises AvatarError, EngineContract.
        """
        async with self._lock:
            loop = asyncio.get_running_loop()
            cast, hit = await loop.run_in_executor(self._executor, self._prepare, (avatar_id, canvas_px, badge))
        self.on_cast(cast.packet)
        return cast, hit

    def renew(self, engine: LipSyncEngine) -> None:
        """Faces come from another engine from here on."""
        self._engine = engine
        self._faces.clear()

    def clear(self) -> int:
        """Forget all; live sessions keep what they hold. Returns how many avatars were dropped."""
        self._faces.clear()
        self._canvases.clear()
        return self._pool.clear()

    def _prepare(self, key: _Key) -> tuple[Cast, bool]:
        avatar_id, canvas_px, badge = key
        packet, hit = self._pool.get(avatar_id)
        face = self._faces.get(avatar_id)
        if face is None or face.packet is not packet:
            face, hit = self._engine.attach(packet), False
        known = self._canvases.get(key)
        if known is None or known[0] is not packet:
            known, hit = (packet, staged(face, canvas_px, badge)), False
            known[1].prepare(FORESEEN_FRAMES)
        self._keep(key, face, known)
        return Cast(packet, face, known[1], canvas_px, badge), hit

    def _keep(self, key: _Key, face: Face, canvas: tuple[AvatarPacket, Canvas]) -> None:
        self._faces[key[0]] = face
        self._faces.move_to_end(key[0])
        self._canvases[key] = canvas
        self._canvases.move_to_end(key)
        while len(self._faces) > self._capacity:
            self._faces.popitem(last=False)
        while len(self._canvases) > 2 * self._capacity:
            self._canvases.popitem(last=False)
