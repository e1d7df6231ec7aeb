"""Casting: brings an avatar on stage (packet, engine face, canvas at the streamed size) and keeps it there.

Runs its heavy work in an executor of its own; what it gives out is immutable and shared by sessions.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import Executor
from dataclasses import dataclass

from avatars.canvas import Canvas
from avatars.packet import AvatarPacket
from avatars.store import AvatarStore
from engines.contract import Face, LipSyncEngine


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """An avatar ready to be streamed."""

    packet: AvatarPacket
    face: Face
    canvas: Canvas
    canvas_px: int
    """The side that was asked for; the canvas is never larger."""


class Casting:
    """A small pool of avatars ready for the stage; the least recently used leave it first."""

    def __init__(self, store: AvatarStore, engine: LipSyncEngine, executor: Executor, capacity: int = 16) -> None:
        self._store = store
        self._engine = engine
        self._executor = executor
        self._capacity = capacity
        self._faces: OrderedDict[str, tuple[AvatarPacket, Face]] = OrderedDict()
        self._canvases: OrderedDict[tuple[str, int], Canvas] = OrderedDict()
        self._lock = asyncio.Lock()

    async def cast(self, avatar_id: str, canvas_px: int) -> tuple[Cast, bool]:
        """The avatar and whether it was already in memory. Raises AvatarError, EngineContract."""
        async with self._lock:
            hit = avatar_id in self._faces and (avatar_id, canvas_px) in self._canvases
            if not hit:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._executor, self._prepare, avatar_id, canvas_px)
            self._faces.move_to_end(avatar_id)
            self._canvases.move_to_end((avatar_id, canvas_px))
            packet, face = self._faces[avatar_id]
            cast = Cast(packet, face, self._canvases[avatar_id, canvas_px], canvas_px)
            self._shrink()
            return cast, hit

    def clear(self) -> int:
        """Forget all; live sessions keep what they hold. Returns how many avatars were dropped."""
        count = len(self._faces)
        self._faces.clear()
        self._canvases.clear()
        return count

    def _prepare(self, avatar_id: str, canvas_px: int) -> None:
        if avatar_id not in self._faces:
            packet = self._store.open(avatar_id)
            self._faces[avatar_id] = (packet, self._engine.attach(packet))
        if (avatar_id, canvas_px) not in self._canvases:
            self._canvases[avatar_id, canvas_px] = Canvas(self._faces[avatar_id][0], canvas_px)

    def _shrink(self) -> None:
        while len(self._faces) > self._capacity:
            self._faces.popitem(last=False)
        while len(self._canvases) > 2 * self._capacity:
            self._canvases.popitem(last=False)
