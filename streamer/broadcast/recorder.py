"""One recording: pictures of a feed or session into a film, in a thread of its own, in constant memory.

Where the coder falls behind, pictures are given up and sound is not: the film shows the picture before for longer.
"""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass

from streamer.channel import Channel, ChannelClosed, WhenFull
from streamer.errors import ConfigError
from streamer.film import Film, FilmKind, recording
from streamer.graphics.overlay import Overlay, lay
from streamer.graphics.planes import parts_of, resized
from streamer.media import U8, Picture
from streamer.rtc.encoder import picture_size_px

MOST_WAITING = 250
"""Frames that may wait to be written; beyond half of them pictures are given up."""


@dataclass(frozen=True, slots=True)
class RecordingOrder:
    """What is recorded, and where to."""

    source: str
    """For people: the feed's name or the session's shortened id."""
    target: str
    """A path, or an RTMP address."""
    kind: FilmKind
    size_px: tuple[int, int]
    badge: Overlay | None = None


class Recorder:
    """`take` never waits; `run` writes until `stop` and ends with the film whole."""

    def __init__(self, order: RecordingOrder, executor: Executor) -> None:
        self.id = secrets.token_hex(8)
        self.order = order
        self.state = "recording"
        """recording, finished or failed."""
        self.error: str | None = None
        self.frames = 0
        self.given_up = 0
        """Frames whose picture was not written, only their sound."""
        self.missing = 0
        """Frames that never came."""
        self._executor = executor
        self._waiting: Channel[tuple[int, U8 | None, Picture]] = Channel(
            "recording", MOST_WAITING, WhenFull.DROP_OLDEST
        )
        self._badged: tuple[U8, U8] | None = None

    def take(self, picture: Picture) -> None:
        """The next picture with its sound."""
        planes: U8 | None = picture.planes
        if len(self._waiting) > MOST_WAITING // 2:
            planes = None
            self.given_up += 1
        self._waiting.put_nowait((picture.index, planes, picture))

    def stop(self) -> None:
        """No more pictures; what waits is written. Idempotent."""
        self._waiting.close()

    async def run(self) -> None:
        """Write until stopped. What goes wrong is told by `state` and `error`; nothing is raised."""
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            order = self.order
            try:
                opening = recording(order.target, order.size_px, order.kind)
                film = await loop.run_in_executor(self._executor, stack.enter_context, opening)
                await self._write(film)
                await loop.run_in_executor(self._executor, stack.close)
                self.state = "finished"
            except ConfigError as error:
                self.state, self.error = "failed", error.reason
            finally:
                self._waiting.close()
                self._waiting.clear()

    async def _write(self, film: Film) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                index, planes, picture = await self._waiting.get()
            except ChannelClosed:
                return
            await loop.run_in_executor(self._executor, self._add, film, index, planes, picture)

    def _add(self, film: Film, index: int, planes: U8 | None, picture: Picture) -> None:
        """In the executor."""
        if planes is not None:
            planes = self._finished(planes)
        try:
            film.add(index, planes, picture.pcm48)
        except OSError as error:
            raise ConfigError("recording", f"cannot be written ({error.strerror or error})") from error
        self.frames, self.missing = film.frames, film.missing_frames

    def _finished(self, planes: U8) -> U8:
        """At the film's size, with the badge."""
        if picture_size_px(planes) != self.order.size_px:
            planes = resized(planes, self.order.size_px)
        badge = self.order.badge
        if badge is None:
            return planes
        if self._badged is None or self._badged[0] is not planes:
            marked = planes.copy()
            width, height = self.order.size_px
            lay(badge, parts_of(marked), (width - badge.size_px[0] - width // 60) // 2 * 2, height // 50 * 2)
            self._badged = (planes, marked)
        return self._badged[1]
