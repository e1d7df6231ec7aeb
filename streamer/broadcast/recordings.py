"""The recordings of a server, and the feeds it pushes out: started, listed, stopped, ended with what they record."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from pathlib import Path

from streamer.broadcast.feed import Feed
from streamer.broadcast.recorder import Recorder, RecordingOrder
from streamer.channel import ChannelClosed
from streamer.clock import wall_clock_s
from streamer.config import Config
from streamer.errors import FeedUnavailable, SessionClosed, SessionNotFound
from streamer.film import RECORDINGS, RTMP
from streamer.graphics.lettering import Lettering
from streamer.graphics.overlay import badge
from streamer.media import Picture
from streamer.session import Session

KEPT = 100
"""Ended recordings that are still listed."""

Watchers = list[Callable[[Picture], None]]


class Recordings:
    """`run` must be running before anything is started."""

    def __init__(self, config: Config, executor: Executor) -> None:
        self._config = config
        self._executor = executor
        self._recorders: OrderedDict[str, Recorder] = OrderedDict()
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    def list(self) -> list[Recorder]:
        """The newest last."""
        return list(self._recorders.values())

    def get(self, recording_id: str) -> Recorder:
        """Raises SessionNotFound."""
        found = self._recorders.get(recording_id)
        if found is None:
            raise SessionNotFound
        return found

    def record_feed(self, feed: Feed, kind: str, words: str | None = None) -> Recorder:
        """Record a feed to a file; `words`: of a badge. Raises FeedUnavailable (400, 503), SessionClosed."""
        order = self._order(feed.name, feed.size_px, kind, words)
        return self._start(Recorder(order, self._executor), feed.taps, feed.ended)

    def record_session(self, session: Session, kind: str, words: str | None = None) -> Recorder:
        """Record what a visitor sees and hears. Raises as `record_feed`."""
        order = self._order(session.id[:8], session.cast.canvas.size_px, kind, words)

        async def ended() -> None:
            reader = session.follow()
            try:
                while True:
                    await reader.get()
            except ChannelClosed:
                return

        return self._start(Recorder(order, self._executor), session.watchers, ended)

    def push(self, feed: Feed, url: str) -> Recorder:
        """Send a feed to an RTMP server that the settings allow. Raises FeedUnavailable (400, 403, 503)."""
        if not url.startswith(("rtmp://", "rtmps://")):
            raise FeedUnavailable("feeds can be pushed to rtmp:// and rtmps:// addresses", 400)
        if not any(url.startswith(prefix) for prefix in self._config.broadcast.push_to):
            raise FeedUnavailable("this address is not among broadcast.push_to of the settings", 403)
        order = RecordingOrder(feed.name, url, RTMP, feed.size_px)
        return self._start(Recorder(order, self._executor), feed.taps, feed.ended)

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
        if words is not None and not 1 <= len(words) <= 20:
            raise FeedUnavailable("badge may have 1 to 20 characters", 400)
        folder = Path(self._config.recordings)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{source}-{int(wall_clock_s() * 1000)}.{kind}"
        overlay = badge(words, size_px, Lettering()) if words is not None else None
        return RecordingOrder(source, str(path), RECORDINGS[kind], size_px, overlay)

    def _start(self, recorder: Recorder, watchers: Watchers, ended: Callable[[], Awaitable[None]]) -> Recorder:
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
        watchers.append(recorder.take)
        return recorder

    async def _run(self, recorder: Recorder, watchers: Watchers, ended: Callable[[], Awaitable[None]]) -> None:
        async def until_ended() -> None:
            await ended()
            recorder.stop()

        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(until_ended(), name="recording-source")
            try:
                await recorder.run()
            finally:
                watchers.remove(recorder.take)
                waiting.cancel()
