"""The rooms of a server: made from descriptions, looked up, ended. Seats are filled here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from streamer.broadcast.feed import Feed
from streamer.broadcast.station import Station
from streamer.broadcast.strand import Strand
from streamer.clock import Clock
from streamer.config import Config
from streamer.errors import FloorError, SessionClosed, SessionNotFound, StreamerError
from streamer.graphics.badge import Badge, Marker
from streamer.media import Picture, Source
from streamer.outlet import Outlet
from streamer.roundtable.contributor import Contributor
from streamer.roundtable.description import RoomDescription
from streamer.roundtable.floor import Floor
from streamer.roundtable.placing import face_place
from streamer.roundtable.room import Room, RoomParts, Seat
from streamer.roundtable.seat import Port, Voice
from streamer.roundtable.table import Table
from streamer.rtc.peer import Peer
from streamer.rtc.settings import IceSettings, PeerSettings
from streamer.rtc.threads import CodecThreads
from streamer.session import Session

logger = logging.getLogger(__name__)

SEAT_CANVAS_PX = 512


@dataclass(frozen=True, slots=True, eq=False)
class RoomsParts:
    """What all rooms share. `new_session` makes a session that nobody runs yet."""

    config: Config
    clock: Clock
    codecs: CodecThreads
    ice: IceSettings
    station: Station
    new_session: Callable[[str, int, Source, Outlet], Awaitable[Session]]


class Rooms:
    """Owns the rooms. `run` must be running before `open` is called."""

    def __init__(self, parts: RoomsParts) -> None:
        self._parts = parts
        self._rooms: dict[str, Room] = {}
        self._opening = 0
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    def list(self) -> list[Room]:
        return list(self._rooms.values())

    def get(self, name: str) -> Room:
        """Raises FloorError (404)."""
        room = self._rooms.get(name)
        if room is None:
            raise FloorError("there is no such room", 404)
        return room

    async def open(self, name: str, description: RoomDescription) -> Room:
        """A room and its feeds, NAME and NAME.SEAT.

        Raises FloorError (503), FeedUnavailable, AvatarError, EngineError.
        """
        parts = self._parts
        if self._group is None or self._closing.is_set():
            raise SessionClosed
        if len(self._rooms) + self._opening >= parts.config.limits.rooms:
            raise FloorError(f"there are {parts.config.limits.rooms} rooms already", 503)
        self._opening += 1
        try:
            async with AsyncExitStack() as stack:
                room = await self._build(name, description, stack)
                if self._closing.is_set():
                    raise SessionClosed
                stack.pop_all()
        finally:
            self._opening -= 1
        self._rooms[name] = room
        self._group.create_task(self._run(room), name=f"room-{name}")
        return room

    async def join(self, room: Room, seat_name: str, offer_sdp: str, *, local: bool) -> tuple[Contributor, str]:
        """A participant sits down: speaks into the seat, sees the room, hears all others. Returns the SDP answer.

        Raises FloorError (404, 409), SignalingError, SessionClosed.
        """
        seat = room.seat(seat_name)
        if seat.description.source != "mic":
            raise FloorError(f"the seat {seat_name} speaks with {seat.description.source}", 409)
        strand = Strand(self._parts.clock, self._parts.codecs)
        settings = PeerSettings(room.feed.size_px, remote_is_local=local, ice=self._parts.ice)
        peer = Peer(settings, self._parts.clock, self._parts.codecs, room.feed.relay(strand))
        return await self._sit(room, seat, peer, strand, offer_sdp)

    def seat_for(self, publication: str) -> tuple[Room, Seat] | None:
        """The seat that waits for what is published under a name by WHIP."""
        source = f"whip:{publication}"
        for room in self._rooms.values():
            for seat in room.seats.values():
                if seat.description.source == source:
                    return room, seat
        return None

    async def publish(self, room: Room, seat: Seat, offer_sdp: str, *, local: bool) -> tuple[Contributor, str]:
        """A WHIP publisher speaks through a seat. Raises FloorError (409), SignalingError, SessionClosed."""
        settings = PeerSettings(room.feed.size_px, remote_is_local=local, ice=self._parts.ice, gives=False)
        peer = Peer(settings, self._parts.clock, self._parts.codecs)
        return await self._sit(room, seat, peer, Strand(self._parts.clock, self._parts.codecs), offer_sdp)

    async def run(self) -> None:
        """Hold the rooms' tasks until `close`, then end them all."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._closing.wait()
            for room in self.list():
                room.close()

    def close(self) -> None:
        """Idempotent."""
        self._closing.set()

    async def _sit(self, room: Room, seat: Seat, peer: Peer, strand: Strand, offer_sdp: str) -> tuple[Contributor, str]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(peer.close)
            if seat.contributor is not None:
                raise FloorError(f"somebody sits on {seat.description.seat} already", 409)
            answer = await peer.answer(offer_sdp)
            contributor = Contributor(peer, seat.voice, strand, self._parts.config.limits.connect_timeout_s)
            room.occupy(seat.description.seat, contributor)
            stack.pop_all()
        return contributor, answer

    async def _build(self, name: str, description: RoomDescription, stack: AsyncExitStack) -> Room:
        parts, station = self._parts, self._parts.station
        feed = station.open(name, (description.width, description.height))
        stack.callback(station.close_feed, feed)
        floor = Floor([seat.seat for seat in description.seats], description.floor)
        look = description.look(parts.config.badge)
        mark = Badge(look.badge, look.lettering) if look.badge else None
        seats, sitters = {}, {}
        for number, described in enumerate(description.seats):
            port = Port(parts.clock)
            source = Source.AGENT if described.source == "speech" else Source.MIRROR
            session = await parts.new_session(described.avatar, SEAT_CANVAS_PX, source, port)
            own = station.open(f"{name}.{described.seat}", session.cast.canvas.size_px)
            stack.callback(station.close_feed, own)
            port.watchers.append(_marked(own, mark))
            voice = Voice(port, partial(floor.hears, described.seat))
            seats[described.seat] = Seat(described, session, port, voice, own)
            sitters[described.seat] = description.sitter(number, face_place(session.cast.packet))
        table = Table(look, sitters, description.layout, floor)
        for described in description.seats:
            table.mixer.gains_db[described.seat] = described.gain_db
        return Room(RoomParts(name, description, seats, table, feed, station, parts.clock))

    async def _run(self, room: Room) -> None:
        try:
            await room.run()
        except* StreamerError as errors:
            reason = type(errors.exceptions[0]).__name__
            logger.warning("room_ended", extra={"room": room.name, "reason": reason})
        finally:
            self._rooms.pop(room.name, None)

    def find_contributor(self, room: Room, seat_name: str, contributor_id: str) -> Contributor:
        """Raises FloorError (404), SessionNotFound."""
        contributor = room.seat(seat_name).contributor
        if contributor is None or contributor.id != contributor_id:
            raise SessionNotFound
        return contributor


def _marked(feed: Feed, mark: Badge | None) -> Callable[[Picture], None]:
    """Shows a seat's pictures on its own feed, with the room's badge: the room cuts its tile out of what has none."""
    if mark is None:
        return feed.show
    marker = Marker(mark)

    def show(picture: Picture) -> None:
        feed.show(replace(picture, planes=marker.marked(picture.planes)) if feed.watched else picture)

    return show
