"""Enlivening: gives portraits that come on stage, or were just made, their idle frames, one after the other behind all.

Sessions go on with what they hold; the next one to bring the avatar on stage gets the frames.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor

from avatars.enliven import enliven, wants_idle
from avatars.errors import AvatarError
from avatars.packet import AvatarPacket
from avatars.store import AvatarStore
from streamer.channel import Channel, WhenFull

logger = logging.getLogger(__name__)

WAITING_AVATARS = 64


class Enlivening:
    """The line of portraits. `run` must be running; the work itself happens in an executor of others' errands."""

    def __init__(self, store: AvatarStore, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._asked: set[str] = set()
        self._line: Channel[str] = Channel("enlivening", WAITING_AVATARS, WhenFull.DROP_NEWEST)

    def __len__(self) -> int:
        """Waiting."""
        return len(self._line)

    def note(self, packet: AvatarPacket) -> None:
        """A packet is brought on stage."""
        if wants_idle(packet):
            self.ask(packet.avatar_id, str(packet.info.get("timestamp")))

    def ask(self, avatar_id: str, making: str = "") -> None:
        """Put an avatar in line, each making of it once."""
        name = f"{avatar_id} {making}"
        if name not in self._asked and self._line.put_nowait(avatar_id):
            self._asked.add(name)

    async def run(self) -> None:
        """Work through the line for ever."""
        loop = asyncio.get_running_loop()
        while True:
            avatar_id = await self._line.get()
            try:
                done = await loop.run_in_executor(self._executor, enliven, self._store, avatar_id)
            except AvatarError as error:
                logger.warning("idle_frames_not_made", extra={"avatar": avatar_id, "reason": str(error)})
            else:
                logger.info("idle_frames_made" if done else "idle_frames_not_wanted", extra={"avatar": avatar_id})
