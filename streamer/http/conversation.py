"""Routes of a running conversation: its events as Server-Sent Events, its avatar, its actions. Thin."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import ClientConnectionResetError, web

from streamer.channel import ChannelClosed
from streamer.config import CANVAS_SIZES_PX
from streamer.errors import SignalingError
from streamer.http.body import WRITE_WITHIN_S, json_answer
from streamer.http.sessions import view_of
from streamer.registry import Registry
from streamer.session import Session

BEAT_S = 15.0
"""A stream without events says something this often, so that nobody between takes it for dead."""


class ConversationRoutes:
    """Handlers under /api/sessions/{session}: events, avatar, action."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/api/sessions/{session}/events", self.events, allow_head=False)
        router.add_post("/api/sessions/{session}/avatar", self.recast)
        router.add_post("/api/sessions/{session}/action", self.act)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Server-Sent Events from the session's beginning, or behind `Last-Event-ID`; ends with the session."""
        session = self._session(request)
        after = request.headers.get("Last-Event-ID", request.query.get("after", "0"))
        if not after.isdigit() or len(after) > 12:
            raise SignalingError("Last-Event-ID and ?after= take the number of an event", 400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        reader = session.follow(int(after))
        try:
            await response.prepare(request)
            while True:
                try:
                    async with asyncio.timeout(BEAT_S):
                        event = await reader.get()
                except TimeoutError:
                    line = b": still here\n\n"
                else:
                    line = b"id: %d\ndata: %b\n\n" % (event["seq"], msgspec.json.encode(event))
                async with asyncio.timeout(WRITE_WITHIN_S):
                    await response.write(line)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            return response
        except (ChannelClosed, ClientConnectionResetError, ConnectionResetError):
            return response
        finally:
            session.leave(reader)

    async def recast(self, request: web.Request) -> web.Response:
        """Another avatar, or the same at another size, without a new offer."""
        session = self._session(request)
        avatar_id = request.query.get("avatar", session.avatar_id)
        canvas = request.query.get("canvas", str(session.cast.canvas_px))
        if canvas not in map(str, CANVAS_SIZES_PX):
            raise SignalingError(f"canvas must be one of {', '.join(map(str, CANVAS_SIZES_PX))}", 400)
        hit = await self._registry.recast(session, avatar_id, int(canvas))
        return json_answer(view_of(session, whole_id=True), headers={"X-Cache-Hit": str(hit)})

    async def act(self, request: web.Request) -> web.Response:
        """A named clip of the avatar, once, as soon as nobody speaks."""
        name = request.query.get("name")
        if not name:
            raise SignalingError("name the action: ?name=NAME", 400)
        await self._registry.act(self._session(request), name)
        return web.Response(status=202)

    def _session(self, request: web.Request) -> Session:
        return self._registry.get(request.match_info["session"])
