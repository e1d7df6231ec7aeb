"""The station: the feeds of a server and who watches them. Admission, lookup, drain."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass

from streamer.broadcast.feed import Feed
from streamer.broadcast.viewing import Viewing
from streamer.clock import Clock
from streamer.config import Config
from streamer.errors import FeedUnavailable, SessionClosed, SessionNotFound, StreamerError
from streamer.rtc.peer import Peer
from streamer.rtc.settings import IceSettings, PeerSettings
from streamer.rtc.threads import CodecThreads

logger = logging.getLogger(__name__)

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, eq=False)
class StationParts:
    """What all feeds share."""

    config: Config
    clock: Clock
    codecs: CodecThreads
    ice: IceSettings


class Station:
    """Owns feeds and viewers. `run` must be running before `open` is called."""

    def __init__(self, parts: StationParts) -> None:
        self._parts = parts
        self._feeds: dict[str, Feed] = {}
        self._viewings: dict[str, Viewing] = {}
        self._opening = 0
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    @property
    def feeds(self) -> list[Feed]:
        return list(self._feeds.values())

    @property
    def viewers(self) -> int:
        """Viewers that watch and offers being answered."""
        return len(self._viewings) + self._opening

    def open(self, name: str, size_px: tuple[int, int]) -> Feed:
        """A new feed. Raises FeedUnavailable: 400 no name for a feed, 409 taken. SessionClosed while draining."""
        if not NAME.fullmatch(name):
            raise FeedUnavailable("a feed's name is a-z, 0-9, '.', '_' and '-', at most 64", 400)
        if name in self._feeds:
            raise FeedUnavailable(f"there is a feed {name} already", 409)
        if self._group is None or self._closing.is_set():
            raise SessionClosed
        feed = self._feeds[name] = Feed(name, size_px, self._parts.clock, self._parts.codecs)
        self._group.create_task(self._air(feed), name=f"feed-{name}")
        return feed

    def close_feed(self, feed: Feed) -> None:
        """A feed is over: its viewers are hung up on. Idempotent."""
        if self._feeds.get(feed.name) is feed:
            del self._feeds[feed.name]
        feed.close()
        for viewing in self._viewings.values():
            if viewing.feed_name == feed.name:
                viewing.close()

    def get(self, name: str) -> Feed:
        """Raises FeedUnavailable (404)."""
        feed = self._feeds.get(name)
        if feed is None:
            raise FeedUnavailable("there is no such feed", 404)
        return feed

    def viewing(self, viewing_id: str) -> Viewing:
        """Raises SessionNotFound."""
        found = self._viewings.get(viewing_id)
        if found is None:
            raise SessionNotFound
        return found

    async def watch(self, name: str, offer_sdp: str, *, remote_is_local: bool) -> tuple[Viewing, str]:
        """Answer a viewer's offer. Returns the viewing and the SDP answer.

        Raises FeedUnavailable, SignalingError, SessionClosed.
        """
        feed, parts = self.get(name), self._parts
        if not feed.live:
            raise FeedUnavailable("nothing is on this feed yet", 409, retry_after_s=2)
        if self.viewers >= parts.config.limits.viewers:
            raise FeedUnavailable("all viewers' places are taken", 503, retry_after_s=10)
        if self._group is None or self._closing.is_set():
            raise SessionClosed
        relay = feed.relay()
        settings = PeerSettings(feed.size_px, remote_is_local=remote_is_local, ice=parts.ice, takes=False)
        peer = Peer(settings, parts.clock, parts.codecs, relay)
        self._opening += 1
        try:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(peer.close)
                answer = await peer.answer(offer_sdp)
                if self._feeds.get(name) is not feed:  # over meanwhile: nobody would hang up on this viewer
                    raise SessionClosed
                stack.pop_all()
        finally:
            self._opening -= 1
        viewing = Viewing(name, peer, relay, parts.config.limits.connect_timeout_s)
        self._viewings[viewing.id] = viewing
        self._group.create_task(self._run(viewing), name=f"viewing-{viewing.id[:8]}")
        return viewing, answer

    async def run(self) -> None:
        """Hold the feeds' and viewers' tasks until `close`, then end them all."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._closing.wait()
            for feed in self.feeds:
                self.close_feed(feed)
            for viewing in self._viewings.values():
                viewing.close()

    def close(self) -> None:
        """Idempotent."""
        self._closing.set()

    async def _air(self, feed: Feed) -> None:
        """A feed's failure is that feed's end."""
        try:
            await feed.run()
        except* StreamerError as errors:
            logger.warning("feed_ended", extra={"feed": feed.name, "reason": type(errors.exceptions[0]).__name__})
            self.close_feed(feed)

    async def _run(self, viewing: Viewing) -> None:
        try:
            await viewing.run()
        finally:
            self._viewings.pop(viewing.id, None)
