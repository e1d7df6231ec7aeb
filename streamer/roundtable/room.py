"""A live room: seats' sessions, the table that brings them together, and the feed it is shown on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from streamer.broadcast.feed import Feed
from streamer.broadcast.station import Station
from streamer.clock import Clock, thread_cpu_ns
from streamer.errors import FloorError, SessionClosed
from streamer.media import S16, Picture
from streamer.pipeline import playout
from streamer.roundtable.contributor import Contributor
from streamer.roundtable.description import RoomDescription, SeatDescription
from streamer.roundtable.floor import Floor, FloorMode
from streamer.roundtable.seat import Port, Voice
from streamer.roundtable.table import Table
from streamer.roundtable.turns import Turns
from streamer.session import Session


@dataclass(slots=True, eq=False)
class Seat:
    """One seat of a live room."""

    description: SeatDescription
    session: Session
    port: Port
    voice: Voice
    feed: Feed
    """The seat alone, for those who want a layout of their own."""
    contributor: Contributor | None = None
    """Who speaks through it, where its source is a microphone or WHIP."""


@dataclass(frozen=True, slots=True, eq=False)
class RoomParts:
    """What a room is made of; the rooms' registry brings it together."""

    name: str
    description: RoomDescription
    seats: dict[str, Seat]
    table: Table
    feed: Feed
    station: Station
    clock: Clock


@dataclass(slots=True)
class RoomCosts:
    """What the room's own work took, on the loop."""

    frames: int = 0
    lay_cpu_ns: int = 0
    """Drawing and mixing."""


class Room:
    """`run` lives as long as the room; everything else is called in between, on the same loop."""

    def __init__(self, parts: RoomParts) -> None:
        self.name = parts.name
        self.description = parts.description
        self.seats = parts.seats
        self.table = parts.table
        self.feed = parts.feed
        self.costs = RoomCosts()
        self.turns = Turns(parts.table.floor, lambda name: parts.seats[name].session)
        self._station = parts.station
        self._clock = parts.clock
        self._over = asyncio.Event()
        self._ticked = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._mixes: dict[str, S16] = {}

    @property
    def floor(self) -> Floor:
        return self.table.floor

    def seat(self, name: str) -> Seat:
        """Raises FloorError (404)."""
        found = self.seats.get(name)
        if found is None:
            raise FloorError(f"there is no seat {name[:40]}", 404)
        return found

    def say(self, name: str, pcm48: S16) -> int | None:
        """Let a seat speak (n,) s16 mono 48 kHz: now, or in its turn, whose id is returned.

        Raises FloorError: 409 the seat is not fed with speech, or has not been given the floor; SpeechRejected.
        """
        seat = self.seat(name)
        if seat.description.source != "speech":
            raise FloorError(f"the seat {name} speaks with {seat.description.source}", 409)
        if self.floor.mode is FloorMode.QUEUE:
            return self.turns.add(name, pcm48)
        if not self.floor.hears(name):
            raise FloorError(f"the seat {name} does not have the floor", 409)
        utterance = seat.session.open_speech(len(pcm48) / 48_000)
        seat.session.append_speech(utterance, pcm48)
        seat.session.finish_speech(utterance)
        return None

    def interrupt(self, name: str) -> None:
        """A seat falls silent; its turns are over."""
        self.seat(name).session.interrupt()
        for turn, holder in self.floor.turns:
            if holder == name:
                self.turns.drop(turn)

    def occupy(self, name: str, contributor: Contributor) -> None:
        """Somebody sits down; raises FloorError (409) where somebody sits, SessionClosed once the room is over."""
        seat = self.seat(name)
        if seat.contributor is not None:
            raise FloorError(f"somebody sits on {name} already", 409)
        if self._group is None or self._over.is_set():
            raise SessionClosed
        seat.contributor = contributor
        self._group.create_task(self._host(seat, contributor), name=f"contributor-{name}")

    async def tick(self) -> None:
        """Return after the room's next frame."""
        self._ticked.clear()
        await self._ticked.wait()

    async def run(self) -> None:
        """Until `close`. Nothing is raised that is a seat's own failure."""
        metronome = playout.Playout(self._clock.now_ns(), 0)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for name, seat in self.seats.items():
                    group.create_task(seat.session.run(), name=f"seat-{self.name}-{name}")
                beating = group.create_task(
                    playout.run(metronome, self._picture, self._release, self._clock), name=f"room-{self.name}"
                )
                await self._over.wait()
                beating.cancel()
                for seat in self.seats.values():
                    seat.session.close()
                    if seat.contributor is not None:
                        seat.contributor.close()
        finally:
            self._group = None
            for feed in (self.feed, *(seat.feed for seat in self.seats.values())):
                self._station.close_feed(feed)

    def close(self) -> None:
        """The room is over. Idempotent."""
        self._over.set()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def _picture(self, index: int, now_ns: int) -> Picture:
        began_ns = thread_cpu_ns()
        self.turns.follow()
        came = {name: seat.port.take(now_ns) for name, seat in self.seats.items()}
        here = {name: picture for name, picture in came.items() if picture is not None}
        listening = [n for n, s in self.seats.items() if s.contributor is not None and s.contributor.strand.listeners]
        mixed = self.table.lay(index, here, listening)
        self._mixes = mixed.without
        self.costs.frames += 1
        self.costs.lay_cpu_ns += thread_cpu_ns() - began_ns
        return mixed.picture

    def _release(self, picture: Picture) -> None:
        self.feed.show(picture)
        for name, pcm48 in self._mixes.items():
            contributor = self.seats[name].contributor
            if contributor is not None:
                contributor.strand.hear(picture.index, pcm48)
        self._ticked.set()

    async def _host(self, seat: Seat, contributor: Contributor) -> None:
        try:
            await contributor.run()
        finally:
            seat.contributor = None
            self.floor.lower_hand(seat.description.seat)
