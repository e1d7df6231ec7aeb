"""One viewer of one feed, from its offer to its end."""

from __future__ import annotations

import asyncio
import logging
import secrets

from streamer.broadcast.relay import Relay
from streamer.clock import NS_PER_S
from streamer.errors import StreamerError
from streamer.rtc.peer import Peer

logger = logging.getLogger(__name__)


class Viewing:
    """Whoever holds its id may act on it."""

    def __init__(self, feed_name: str, peer: Peer, relay: Relay, connect_timeout_s: float) -> None:
        self.id = secrets.token_hex(16)
        self.etag = f'"{secrets.token_hex(8)}"'
        """Of the ICE session, which is the only one a viewing ever has."""
        self.feed_name = feed_name
        self.peer = peer
        self.relay = relay
        self._connect_timeout_s = connect_timeout_s

    async def run(self) -> None:
        """Until the viewer or the feed is gone. Nothing is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self.peer.run(), name=f"viewer-{self.id[:8]}")
                await self.peer.connected(int(self._connect_timeout_s * NS_PER_S))
                await running
        except* StreamerError as errors:
            logger.info("viewer_failed", extra={"viewer": self.id[:8], "reason": type(errors.exceptions[0]).__name__})
        finally:
            await self.peer.close()

    def close(self) -> None:
        """Hang up; `run` then ends. Idempotent."""
        self.peer.hang_up()
