"""The recordings of a server, and the feeds it pushes out: started, listed, stopped, ended with what they record."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path

from streamer.broadcast.feed import Feed
from streamer.broadcast.publisher import Publisher
from streamer.broadcast.recorder import Recorder, RecordingOrder
from streamer.channel import ChannelClosed
from streamer.clock import Clock, wall_clock_s
from streamer.config import Config
from streamer.errors import FeedUnavailable, SessionClosed, SessionNotFound
from streamer.film import RECORDINGS, RTMP
from streamer.graphics.badge import chosen
from streamer.media import Picture
from streamer.provenance import SUFFIX, FilmSigner
from streamer.rtc.settings import IceSettings
from streamer.session import Session

KEPT = 100
"""Ended recordings that are still listed."""

Watchers = list[Callable[[Picture], None]]
Recording = Recorder | Publisher
"""To a file or an RTMP server, or by WHIP."""


class Recordings:
    """`run` must be running before anything is started."""

    def __init__(self, config: Config, ice: IceSettings, clock: Clock, signer: FilmSigner | None = None) -> None:
        self._config = config
        self._ice = ice
        self._clock = clock
        self._signer = signer
        self._recorders: OrderedDict[str, Recording] = OrderedDict()
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    def list(self) -> list[Recording]:
        """The newest last."""
        return list(self._recorders.values())

    def get(self, recording_id: str) -> Recording:
        """Raises SessionNotFound."""
        found = self._recorders.get(recording_id)
        if found is None:
            raise SessionNotFound
        return found

    def record_feed(self, feed: Feed, kind: str, words: str | None = None) -> Recording:
        """Record a feed to a file; `words`: of a badge.

        Raises FeedUnavailable (400, 503), ConfigError, SessionClosed.
        """
        order = self._order(feed.name, feed.size_px, kind, words)
        return self._start(Recorder(order), feed.taps, feed.ended)

    def record_session(self, session: Session, kind: str, words: str | None = None) -> Recording:
        """Record what a visitor sees and hears. Raises as `record_feed`."""
        marked = session.cast.badge is not None  # its pictures have one already
        order = self._order(session.id[:8], session.cast.canvas.size_px, kind, None if marked else words)

        async def ended() -> None:
            reader = session.follow()
            try:
                while True:
                    await reader.get()
            except ChannelClosed:
                return

        return self._start(Recorder(order), session.watchers, ended)

    def push(self, feed: Feed, url: str, token: str | None = None) -> Recording:
        """Send a feed to a server that the settings allow: RTMP, or WHIP with its bearer `token`.

        Raises FeedUnavailable (400, 403, 503), SessionClosed.
        """
        if not url.startswith(("rtmp://", "rtmps://", "http://", "https://")):
            raise FeedUnavailable("feeds can be pushed to rtmp(s):// addresses, and by WHIP to http(s):// ones", 400)
        if not any(url.startswith(prefix) for prefix in self._config.broadcast.push_to):
            raise FeedUnavailable("this address is not among broadcast.push_to of the settings", 403)
        if url.startswith("http"):
            return self._start(Publisher(feed, url, token, self._ice, self._clock), None, feed.ended)
        order = RecordingOrder(feed.name, url, RTMP, feed.size_px)
        return self._start(Recorder(order), feed.taps, feed.ended)

    async def run(self) -> None:
        """Hold the recordings' tasks until `close`, then finish them all."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._closing.wait()
            for recorder in self._recorders.values():
                recorder.stop()

    def close(self) -> None:
        """Idempotent."""
        self._closing.set()

    def _order(self, source: str, size_px: tuple[int, int], kind: str, words: str | None) -> RecordingOrder:
        if kind not in RECORDINGS:
            raise FeedUnavailable(f"format must be one of {', '.join(RECORDINGS)}", 400)
        mark = chosen(None, words)
        signer = self._signer if kind == SUFFIX[1:] else None
        folder = Path(self._config.recordings)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FeedUnavailable(f"there is no room for recordings ({error.strerror})", 507) from error
        path = folder / f"{source}-{int(wall_clock_s() * 1000)}.{kind}"
        return RecordingOrder(source, str(path), RECORDINGS[kind], size_px, mark, signer)

    def _start(self, recorder: Recording, watchers: Watchers | None, ended: Callable[[], Awaitable[None]]) -> Recording:
        if self._group is None or self._closing.is_set():
            raise SessionClosed
        limit = self._config.limits.recordings
        if sum(r.state == "recording" for r in self._recorders.values()) >= limit:
            raise FeedUnavailable(f"{limit} recordings run already", 503, retry_after_s=10)
        self._recorders[recorder.id] = recorder
        while len(self._recorders) > KEPT:
            oldest = next(key for key, r in self._recorders.items() if r.state != "recording")
            del self._recorders[oldest]
        self._group.create_task(self._run(recorder, watchers, ended), name=f"recording-{recorder.id}")
        if watchers is not None and isinstance(recorder, Recorder):
            watchers.append(recorder.take)
        return recorder

    async def _run(self, recorder: Recording, watchers: Watchers | None, ended: Callable[[], Awaitable[None]]) -> None:
        async def until_ended() -> None:
            await ended()
            recorder.stop()

        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(until_ended(), name="recording-source")
            try:
                await recorder.run()
            finally:
                if watchers is not None and isinstance(recorder, Recorder):
                    watchers.remove(recorder.take)
                waiting.cancel()
