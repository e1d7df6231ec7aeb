"""One recording: pictures of a feed or session into a film, in a thread of its own, in constant memory.

Where the coder falls behind, pictures are given up and sound is not: the film shows the picture before for longer.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from streamer.broadcast.courier import courier
from streamer.errors import ConfigError, NotSigned
from streamer.film import Film, FilmKind, recording
from streamer.graphics.badge import Badge, Marker
from streamer.graphics.planes import resized
from streamer.media import S16, U8, Picture
from streamer.provenance import FilmSigner
from streamer.rtc.encoder import picture_size_px
from streamer.threads import ERRANDS, FRAMES, give_way

MOST_WAITING = 250
"""Frames that may wait to be written; beyond half of them pictures are given up."""
FINISH_WITHIN_S = 15.0
"""How long the end may take; a server that takes no more must not keep ours from ending."""
SIGN_WITHIN_S = 120.0
"""How long it may then be signed, some 0.15 GB a second; it is whole already."""


@dataclass(frozen=True, slots=True)
class RecordingOrder:
    """What is recorded, and where to."""

    source: str
    """For people: the feed's name or the session's shortened id."""
    target: str
    """A path, or an RTMP address."""
    kind: FilmKind
    size_px: tuple[int, int]
    badge: Badge | None = None
    signer: FilmSigner | None = None
    """Puts a manifest into the finished file."""


class Recorder:
    """`take` never waits; `run` lasts until `stop` or a failure. The film belongs to one thread, from open to end."""

    def __init__(self, order: RecordingOrder) -> None:
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
        self.signed = False
        """The file has its manifest; where it could not get one, `error` says why."""
        self._waiting: deque[tuple[int, U8 | None, S16]] = deque()
        self._news = threading.Condition()
        self._closed = False
        self._stopping = asyncio.Event()
        self._marker = Marker(order.badge) if order.badge is not None else None

    def take(self, picture: Picture) -> None:
        """The next picture with its sound."""
        with self._news:
            if self._closed:
                return
            planes: U8 | None = picture.planes
            if len(self._waiting) > MOST_WAITING // 2:
                planes = None
                self.given_up += 1
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
            self._waiting.append((picture.index, planes, picture.pcm48))
            self._news.notify()

    def stop(self) -> None:
        """No more pictures; what waits is written. On the loop. Idempotent."""
        self._stopping.set()
        with self._news:
            self._closed = True
            self._news.notify()

    async def run(self) -> None:
        """What goes wrong is told by `state` and `error`; nothing is raised."""
        loop, written, done = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def reached(event: asyncio.Event) -> None:
            event.set()
            self._stopping.set()

        def tell(event: asyncio.Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(reached, event)

        work = partial(self._work, partial(tell, written), partial(tell, done))
        threading.Thread(target=work, name="recording", daemon=True).start()
        try:
            await self._stopping.wait()
            async with asyncio.timeout(FINISH_WITHIN_S):
                await written.wait()
            async with asyncio.timeout(SIGN_WITHIN_S):
                await done.wait()
        except TimeoutError:
            if written.is_set():
                self.state, self.error = "finished", f"it could not be signed within {SIGN_WITHIN_S:.0f} s"
            else:
                self.state, self.error = "failed", f"it could not be finished within {FINISH_WITHIN_S:.0f} s"
        finally:
            self.stop()

    def _work(self, written: Callable[[], None], done: Callable[[], None]) -> None:
        """In the thread."""
        give_way(FRAMES if "://" in self.order.target else ERRANDS)
        order = self.order
        try:
            if "://" in order.target:
                with courier(order.target) as pipe, recording(pipe, order.size_px, order.kind) as film:
                    self._write(film)
            else:
                with recording(Path(order.target), order.size_px, order.kind) as film:
                    self._write(film)
            written()
            self._sign()
            self.state = "finished"
        except ConfigError as error:
            self.state, self.error = "failed", error.reason
        finally:
            if self.state == "recording":  # nobody foresaw it; it must not count as running for ever
                self.state, self.error = "failed", "it could not be written"
            written()
            done()

    def _sign(self) -> None:
        if self.order.signer is None:
            return
        try:
            self.order.signer.sign(Path(self.order.target))
            self.signed = True
        except NotSigned as error:
            self.error = f"it is whole, but not signed: {error.reason}"

    def _write(self, film: Film) -> None:
        while (item := self._next()) is not None:
            index, planes, pcm48 = item
            film.add(index, planes if planes is None else self._marked(planes), pcm48)
            self.frames, self.missing = film.frames, film.missing_frames

    def _next(self) -> tuple[int, U8 | None, S16] | None:
        """The next frame to write; None once there will be none."""
        with self._news:
            while not self._waiting and not self._closed:
                self._news.wait()
            return self._waiting.popleft() if self._waiting else None

    def _marked(self, planes: U8) -> U8:
        """At the film's size, with the badge."""
        if picture_size_px(planes) != self.order.size_px:
            planes = resized(planes, self.order.size_px)
        return planes if self._marker is None else self._marker.marked(planes)
