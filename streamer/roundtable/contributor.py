"""Who speaks through a seat: a participant who also sees the room and hears the others, or a WHIP publisher."""

from __future__ import annotations

import asyncio
import logging
import secrets

from streamer.broadcast.strand import Strand
from streamer.channel import ChannelClosed
from streamer.clock import NS_PER_S
from streamer.errors import StreamerError
from streamer.roundtable.seat import Voice
from streamer.rtc.peer import Peer

logger = logging.getLogger(__name__)


class Contributor:
    """Whoever holds its id may act on it."""

    def __init__(self, peer: Peer, voice: Voice, strand: Strand, connect_timeout_s: float) -> None:
        """`strand`: the room's sound without this voice, if the peer listens."""
        self.id = secrets.token_hex(16)
        self.etag = f'"{secrets.token_hex(8)}"'
        self.peer = peer
        self.strand = strand
        self._voice = voice
        self._connect_timeout_s = connect_timeout_s

    async def run(self) -> None:
        """Until the peer is gone. Nothing is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self.peer.run(), name=f"contributor-{self.id[:8]}")
                helpers = [
                    group.create_task(self._speak(), name="contributor-voice"),
                    group.create_task(self.strand.run(), name="contributor-strand"),
                ]
                await self.peer.connected(int(self._connect_timeout_s * NS_PER_S))
                await running
                for helper in helpers:
                    helper.cancel()
        except* StreamerError as errors:
            reason = type(errors.exceptions[0]).__name__
            logger.info("contributor_failed", extra={"contributor": self.id[:8], "reason": reason})
        finally:
            self.strand.close()
            await self.peer.close()

    def close(self) -> None:
        """Hang up; `run` then ends. Idempotent."""
        self.peer.hang_up()

    async def _speak(self) -> None:
        try:
            await self._voice.run(self.peer.inbound)
        except ChannelClosed:
            return
