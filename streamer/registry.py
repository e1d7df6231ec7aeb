"""The sessions of a server: admission, lookup, drain. Runs each session as a named task of one TaskGroup."""

from __future__ import annotations

import asyncio
import gc
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from weakref import WeakSet

from avatars.errors import AvatarError
from engines.contract import EngineSpec
from engines.errors import EngineError
from streamer.broadcast.feed import Feed
from streamer.broadcast.station import Station
from streamer.casting import Cast, Casting
from streamer.clock import NS_PER_S, Clock
from streamer.config import Config
from streamer.errors import ServerDraining, SessionLimit, SessionNotFound, SignalingError, StreamerError
from streamer.graphics.badge import Badge
from streamer.inference import Inference
from streamer.live import SessionParts
from streamer.media import Picture, Source
from streamer.outlet import Outlet
from streamer.rtc.peer import Peer
from streamer.rtc.settings import IceSettings, PeerSettings
from streamer.rtc.threads import CodecThreads
from streamer.session import Session
from streamer.telemetry.metrics import Metrics

SWEEP_AFTER_NS = NS_PER_S // 2
"""Behind the first who leaves; a crowd leaves within that."""

Watchers = list[Callable[[Picture], None]]


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What a visitor asks for."""

    sdp: str
    avatar_id: str
    source: Source
    canvas_px: int
    remote_is_local: bool
    feed: str | None = None
    """The name under which others may watch, where they may."""
    gives: bool = True
    """The visitor sees and hears; a WHIP publisher only speaks."""
    badge: Badge | None = None


@dataclass(frozen=True, slots=True, eq=False)
class House:
    """What all sessions share."""

    config: Config
    clock: Clock
    casting: Casting
    spec: EngineSpec
    inference: Inference
    metrics: Metrics
    codecs: CodecThreads
    ice: IceSettings
    station: Station
    loop_lag_ms: Callable[[], float]


def clip_id(avatar_id: str, name: str) -> str:
    """A clip of an avatar is an avatar of its own, under this id."""
    return f"{avatar_id}--{name}"


class Registry:
    """Owns the sessions. `run` must be running before `open` is called."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._sessions: dict[str, Session] = {}
        self._seated: WeakSet[Session] = WeakSet()
        """Sessions of seats, which their rooms run."""
        self._opening = 0
        self._answering = asyncio.Lock()
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()
        self._left = asyncio.Event()
        """Somebody has gone since the last sweep."""
        self.draining = False
        house.metrics.slots_total.set(house.config.limits.sessions)

    @property
    def active(self) -> int:
        """Slots taken: sessions that run and offers being answered."""
        return len(self._sessions) + self._opening

    @property
    def limit(self) -> int:
        return self._house.config.limits.sessions

    def list(self) -> list[Session]:
        return list(self._sessions.values())

    def get(self, session_id: str) -> Session:
        """The session under this id. Raises SessionNotFound."""
        found = self._sessions.get(session_id)
        if found is None:
            raise SessionNotFound
        return found

    async def open(self, offer: Offer) -> tuple[Session, str, bool]:
        """Admit, cast and answer. Returns the session, the SDP answer and whether the avatar was in memory.

        One offer is answered at a time: a flood of them must not be felt by those who are in.
        Raises ServerDraining, SessionLimit, SignalingError, AvatarError, EngineError; a failed offer holds no slot.
        """
        if self.draining or self._group is None:
            raise ServerDraining
        if self.active >= self.limit:
            raise SessionLimit(self.limit)
        if not self._house.inference.admits(self.active + 1):
            raise SessionLimit(self.active, busy=True)
        self._opening += 1
        try:
            async with self._answering:
                session, answer, hit, feed = await self._answer(offer)
        finally:
            self._opening -= 1
        self._sessions[session.id] = session
        self._count()
        self._group.create_task(self._run(session, feed), name=f"session-{session.id[:8]}")
        return session, answer, hit

    async def recast_all(self) -> None:
        """Bring every session's avatar on stage again; one that cannot be is left as it is."""
        for session in (*self.list(), *self._seated):
            with suppress(StreamerError, AvatarError, EngineError):
                await self.recast(session, session.avatar_id)

    async def recast(self, session: Session, avatar_id: str, canvas_px: int | None = None) -> bool:
        """Put another avatar, or another size, into a live session; True if it was in memory.

        Raises SessionClosed, SignalingError (409: too large for what was agreed on), AvatarError, EngineError.
        """
        cast, hit = await self._house.casting.cast(avatar_id, canvas_px or session.cast.canvas_px, session.cast.badge)
        session.recast(avatar_id, cast)
        return hit

    async def act(self, session: Session, name: str) -> None:
        """Play a named clip of the session's avatar. Raises AvatarError, SignalingError (409), SessionClosed."""
        now = session.cast
        cast, _ = await self._house.casting.cast(clip_id(session.avatar_id, name), now.canvas_px, now.badge)
        if cast.canvas.size_px != session.cast.canvas.size_px:
            raise SignalingError("the clip has another size than the avatar", 409)
        session.play(cast.canvas)

    async def run(self) -> None:
        """Hold the sessions' tasks until `close`, then hang up on all and wait for them."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            sweeping = group.create_task(self._sweep(), name="sweep")
            await self._closing.wait()
            sweeping.cancel()
            for session in self.list():
                session.close()

    async def drain(self) -> None:
        """Take no more sessions, tell those that run, return when all have finished what they had to say."""
        self.draining = True
        async with asyncio.TaskGroup() as group:
            for session in self.list():
                group.create_task(session.drain(), name=f"drain-{session.id[:8]}")

    def close(self) -> None:
        """Take no more sessions and end those that run. Idempotent."""
        self.draining = True
        self._closing.set()

    async def _answer(self, offer: Offer) -> tuple[Session, str, bool, Feed | None]:
        house = self._house
        cast, hit = await house.casting.cast(offer.avatar_id, offer.canvas_px, offer.badge)
        house.metrics.note_cast(hit=hit)
        settings = PeerSettings(
            size_px=cast.canvas.size_px, ice=house.ice, remote_is_local=offer.remote_is_local, gives=offer.gives
        )
        peer = Peer(settings, house.clock, house.codecs)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(peer.close)
            answer = await peer.answer(offer.sdp)
            if self.draining:  # meanwhile: who comes now would not be hung up on any more
                raise ServerDraining
            feed = house.station.open(offer.feed, cast.canvas.size_px) if offer.feed is not None else None
            stack.pop_all()  # answered: from here on the session closes its peer
        parts = self._parts(peer, cast, offer.source, [feed.show] if feed is not None else [])
        return Session(secrets.token_hex(16), offer.avatar_id, parts), answer, hit, feed

    async def new_session(self, avatar_id: str, canvas_px: int, source: Source, outlet: Outlet) -> Session:
        """A session for a seat of a roundtable; it takes no slot, and the caller runs it.

        Raises AvatarError, EngineError.
        """
        cast, _ = await self._house.casting.cast(avatar_id, canvas_px)
        session = Session(secrets.token_hex(16), avatar_id, self._parts(outlet, cast, source, []))
        self._seated.add(session)
        return session

    def _parts(self, outlet: Outlet, cast: Cast, source: Source, watchers: Watchers) -> SessionParts:
        house = self._house
        return SessionParts(
            peer=outlet,
            cast=cast,
            source=source,
            spec=house.spec,
            config=house.config,
            inference=house.inference,
            metrics=house.metrics,
            clock=house.clock,
            loop_lag_ms=house.loop_lag_ms,
            watchers=watchers,
        )

    async def _run(self, session: Session, feed: Feed | None) -> None:
        try:
            await session.run()
        finally:
            if feed is not None:
                self._house.station.close_feed(feed)
            self._sessions.pop(session.id, None)
            self._count()
            self._left.set()

    async def _sweep(self) -> None:
        """Free what visitors leave behind; a crowd that leaves together is swept up once.

        A connection is a knot of references that only the collector undoes: left to itself it comes after dozens.
        """
        clock = self._house.clock
        while True:
            await self._left.wait()
            await clock.sleep_until(clock.now_ns() + SWEEP_AFTER_NS)
            self._left.clear()
            gc.collect()

    def _count(self) -> None:
        self._house.metrics.sessions_active.set(len(self._sessions))
