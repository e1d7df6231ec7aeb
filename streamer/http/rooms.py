"""Routes of roundtables: rooms, layouts, the floor, seats, participants. Thin: parse, call, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

import msgspec
from aiohttp import web

from streamer.clock import NS_PER_MS, Clock
from streamer.config import Config
from streamer.errors import ConfigError, FloorError
from streamer.http import resource
from streamer.http.body import WRITE_WITHIN_S, json_answer, read_body
from streamer.http.door import OfferDoor
from streamer.http.wire import FloorChange, LayoutChange, RoomView, SeatView
from streamer.media import S16
from streamer.roundtable.description import RoomDescription, check_room
from streamer.roundtable.room import Room, Seat
from streamer.roundtable.rooms import Rooms
from streamer.speech import SpeechLimits, decode_speech
from streamer.tts import Voices

T = TypeVar("T")

NEWS_NS = 200 * NS_PER_MS
"""Time between two states on a room's event stream."""
ACTIONS: dict[str, Callable[[Room, str], None]] = {
    "hand": lambda room, seat: room.floor.raise_hand(seat),
    "lower": lambda room, seat: room.floor.lower_hand(seat),
    "grant": lambda room, seat: room.floor.grant(seat),
    "revoke": lambda room, seat: room.floor.revoke(seat),
    "mute": lambda room, seat: room.floor.mute(seat),
    "unmute": lambda room, seat: room.floor.mute(seat, muted=False),
    "interrupt": lambda room, seat: room.interrupt(seat),
}


class RoomRoutes:
    """Handlers under /api/rooms."""

    def __init__(self, rooms: Rooms, config: Config, door: OfferDoor, executor: Executor, clock: Clock) -> None:
        """`executor`: where pushed sound is decoded."""
        self._rooms = rooms
        self._config = config
        self._door = door
        self._executor = executor
        self._clock = clock
        self._voices = Voices(config.piper_folder)

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/api/rooms", self.list)
        router.add_post("/api/rooms", self.open)
        router.add_get("/api/rooms/{room}", self.show)
        router.add_delete("/api/rooms/{room}", self.close)
        router.add_get("/api/rooms/{room}/events", self.events)
        router.add_post("/api/rooms/{room}/layout", self.layout)
        router.add_post("/api/rooms/{room}/floor", self.floor)
        seat = "/api/rooms/{room}/seats/{seat}"
        router.add_post(f"{seat}/speech", self.speak)
        router.add_post(f"{seat}/gain", self.gain)
        router.add_post(f"{seat}/join", self.join)
        router.add_patch(f"{seat}/join/{{session}}", self.trickle)
        router.add_delete(f"{seat}/join/{{session}}", self.leave)
        router.add_post(f"{seat}/{{action:{'|'.join(ACTIONS)}}}", self.act)

    async def list(self, _: web.Request) -> web.Response:
        return json_answer({"rooms": [view_of(room) for room in self._rooms.list()]})

    async def open(self, request: web.Request) -> web.Response:
        """`?room=NAME`, and a JSON description."""
        body = await read_body(request, self._config.limits.offer_bytes)
        try:
            description = msgspec.json.decode(body, type=RoomDescription)
        except (msgspec.DecodeError, RecursionError) as error:
            raise FloorError(f"not a room: {error}", 400) from error
        name = request.query.get("room", "")
        try:
            check_room(description, "the room", local_files=False)
        except ConfigError as error:
            raise FloorError(str(error), 400) from error
        room = await self._rooms.open(name, description)
        return json_answer(view_of(room), 201, {"Location": f"/api/rooms/{name}"})

    async def show(self, request: web.Request) -> web.Response:
        return json_answer(view_of(self._room(request)))

    async def close(self, request: web.Request) -> web.Response:
        self._room(request).close()
        return web.Response(status=204)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The room's state five times a second, as Server-Sent Events, to its end."""
        room = self._room(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        try:
            while not room.over:
                async with asyncio.timeout(WRITE_WITHIN_S):
                    await response.write(b"data: " + msgspec.json.encode(view_of(room)) + b"\n\n")
                await self._clock.sleep_until(self._clock.now_ns() + NEWS_NS)
            await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionResetError:
            pass
        return response

    async def layout(self, request: web.Request) -> web.Response:
        room, change = self._room(request), await self._json(request, LayoutChange)
        for seat in change.featured:
            room.seat(seat)
        room.table.set_layout(change.layout, change.featured)
        return json_answer(view_of(room))

    async def floor(self, request: web.Request) -> web.Response:
        room, change = self._room(request), await self._json(request, FloorChange)
        room.floor.set_mode(change.mode)
        return json_answer(view_of(room))

    async def act(self, request: web.Request) -> web.Response:
        """One of ACTIONS on a seat."""
        room = self._room(request)
        seat = room.seat(request.match_info["seat"]).description.seat
        ACTIONS[request.match_info["action"]](room, seat)
        return json_answer(seat_view(room, room.seat(seat)))

    async def gain(self, request: web.Request) -> web.Response:
        """`?db=` -60 to 20."""
        room, seat = self._room(request), request.match_info["seat"]
        room.seat(seat)
        try:
            gain_db = float(request.query.get("db", ""))
        except ValueError:
            raise FloorError("say how loud: ?db=-6", 400) from None
        if not -60.0 <= gain_db <= 20.0:
            raise FloorError("db must be -60 to 20", 400)
        room.table.mixer.gains_db[seat] = gain_db
        return json_answer(seat_view(room, room.seat(seat)))

    async def speak(self, request: web.Request) -> web.Response:
        """A sound file, or a text to be synthesised, for a seat."""
        room, seat = self._room(request), request.match_info["seat"]
        voice = room.seat(seat).description.voice
        pcm48 = await self._sound(request, voice)
        turn = room.say(seat, pcm48)
        return json_answer({"turn": turn, "seconds": round(len(pcm48) / 48_000, 3)}, 202)

    async def join(self, request: web.Request) -> web.Response:
        """A participant's SDP offer in, the answer out."""
        with self._door.offer(request):
            room, seat = self._room(request), request.match_info["seat"]
            sdp = await resource.read_text(request, self._config, resource.SDP)
            contributor, answer = await self._rooms.join(room, seat, sdp, local=resource.is_local(request.remote))
        location = f"/api/rooms/{room.name}/seats/{seat}/join/{contributor.id}"
        return resource.created(answer, location, contributor.etag, self._config)

    async def trickle(self, request: web.Request) -> web.Response:
        match = request.match_info
        contributor = self._rooms.find_contributor(self._room(request), match["seat"], match["session"])
        return await resource.trickle(request, self._config, contributor.peer, contributor.etag)

    async def leave(self, request: web.Request) -> web.Response:
        match = request.match_info
        self._rooms.find_contributor(self._room(request), match["seat"], match["session"]).close()
        return web.Response(status=200)

    def _room(self, request: web.Request) -> Room:
        return self._rooms.get(request.match_info["room"])

    async def _json(self, request: web.Request, kind: type[T]) -> T:
        body = await read_body(request, 16 * 1024)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise FloorError(str(error), 400) from error

    async def _sound(self, request: web.Request, voice: str | None) -> S16:
        body = await read_body(request, self._config.limits.speech_bytes)
        if request.content_type == "text/plain":
            try:
                return await self._voices.synthesise(body.decode("utf-8"), voice, self._executor)
            except UnicodeDecodeError as error:
                raise FloorError("the text is not UTF-8", 400) from error
        limits = SpeechLimits(self._config.limits.speech_bytes, self._config.limits.queued_speech_s)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, decode_speech, body, request.content_type, limits)


def view_of(room: Room) -> RoomView:
    """A room as it is now."""
    table, costs = room.table, room.costs
    speaker = table.speaker
    return RoomView(
        room=room.name,
        title=room.description.title,
        width=room.description.width,
        height=room.description.height,
        layout=table.layout,
        featured=table.featured,
        floor=room.floor.mode,
        hands=room.floor.hands,
        turns=tuple(seat for _, seat in room.floor.turns),
        active=speaker.active if speaker.speaking else None,
        viewers=room.feed.stats.viewers,
        frames=costs.frames,
        lay_ms=round(costs.lay_cpu_ns / NS_PER_MS / max(1, costs.frames), 3),
        seats=tuple(seat_view(room, seat) for seat in room.seats.values()),
    )


def seat_view(room: Room, seat: Seat) -> SeatView:
    """A seat as it is now."""
    described, name = seat.description, seat.description.seat
    return SeatView(
        seat=name,
        avatar=seat.session.avatar_id,
        name=described.name,
        role=described.role,
        source=described.source,
        occupied=described.source == "speech" or seat.contributor is not None,
        heard=room.floor.hears(name),
        muted=room.floor.muted(name),
        granted=room.floor.granted(name),
        hand=name in room.floor.hands,
        speaking=room.table.speaker.speaking and room.table.speaker.active == name,
        level=round(max(room.table.mixer.levels[name], seat.voice.level if seat.contributor else 0.0), 4),
        gain_db=room.table.mixer.gains_db[name],
        queued_s=round(seat.session.queued_s, 3),
        repeated=seat.port.repeated,
    )
