"""Routes of sessions: offer, trickle, list, hang up. Thin: parse, call, answer."""

from __future__ import annotations

import msgspec
from aiohttp import web

from streamer.config import CANVAS_SIZES_PX, Config
from streamer.errors import SignalingError
from streamer.graphics.badge import chosen
from streamer.http.body import json_answer, read_body
from streamer.http.door import OfferDoor
from streamer.http.resource import is_local
from streamer.http.wire import SdpOffer, SessionView
from streamer.media import Source
from streamer.registry import Offer, Registry
from streamer.session import Session


class SessionRoutes:
    """Handlers under /api/sessions."""

    def __init__(self, registry: Registry, config: Config, door: OfferDoor) -> None:
        self._registry = registry
        self._config = config
        self._door = door

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_post("/api/sessions", self.open)
        router.add_get("/api/sessions", self.list)
        router.add_get("/api/sessions/{session}", self.show)
        router.add_patch("/api/sessions/{session}", self.trickle)
        router.add_delete("/api/sessions/{session}", self.hang_up)

    async def open(self, request: web.Request) -> web.Response:
        """An SDP offer in, the answer out."""
        as_json = request.content_type == "application/json"
        if not as_json and request.content_type != "application/sdp":
            raise SignalingError("send the offer as application/sdp or as JSON {sdp, type}", 415)
        with self._door.offer(request):
            offer = self._offer(request, await self._sdp(request, as_json=as_json))
            session, answer, hit = await self._registry.open(offer)
        headers = {"Location": f"/api/sessions/{session.id}", "X-Cache-Hit": str(hit)}
        if as_json:
            return web.json_response(
                {"sdp": answer, "type": "answer", "session": session.id}, status=201, headers=headers
            )
        return web.Response(status=201, text=answer, content_type="application/sdp", headers=headers)

    async def trickle(self, request: web.Request) -> web.Response:
        """RFC 8840 fragment of candidates."""
        session = self._session(request)
        if request.content_type != "application/trickle-ice-sdpfrag":
            raise SignalingError("send candidates as application/trickle-ice-sdpfrag", 415)
        await session.peer.add_candidates(await self._text(request))
        return web.Response(status=204)

    async def list(self, _: web.Request) -> web.Response:
        views = [view_of(session, whole_id=False) for session in self._registry.list()]
        return json_answer({"sessions": views, "limit": self._registry.limit})

    async def show(self, request: web.Request) -> web.Response:
        return json_answer(view_of(self._session(request), whole_id=True))

    async def hang_up(self, request: web.Request) -> web.Response:
        self._session(request).close()
        return web.Response(status=204)

    def _session(self, request: web.Request) -> Session:
        return self._registry.get(request.match_info["session"])

    def _offer(self, request: web.Request, sdp: str) -> Offer:
        query = request.query
        try:
            source = Source(query.get("source", Source.MIRROR))
        except ValueError:
            raise SignalingError(f"source must be one of {', '.join(Source)}", 400) from None
        canvas = query.get("canvas", str(self._config.canvas_px))
        if canvas not in map(str, CANVAS_SIZES_PX):
            raise SignalingError(f"canvas must be one of {', '.join(map(str, CANVAS_SIZES_PX))}", 400)
        avatar_id = query.get("avatar")
        if not avatar_id:
            raise SignalingError("name an avatar: ?avatar=ID", 400)
        badge = chosen(self._config.badge, query.get("badge"))
        return Offer(sdp, avatar_id, source, int(canvas), is_local(request.remote), query.get("feed"), badge=badge)

    async def _sdp(self, request: web.Request, *, as_json: bool) -> str:
        text = await self._text(request)
        if not as_json:
            return text
        try:
            return msgspec.json.decode(text, type=SdpOffer).sdp
        except (msgspec.DecodeError, RecursionError) as error:
            raise SignalingError(f"not a JSON offer: {error}", 400) from error

    async def _text(self, request: web.Request) -> str:
        body = await read_body(request, self._config.limits.offer_bytes)
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SignalingError("the body is not UTF-8", 400) from error


def view_of(session: Session, *, whole_id: bool) -> SessionView:
    """A session as the list shows it."""
    return SessionView(
        session=session.id if whole_id else session.id[:8],
        avatar=session.avatar_id,
        source=str(session.source),
        state=str(session.state),
        canvas=session.cast.canvas_px,
        speaking=session.speaking,
        queued_s=round(session.queued_s, 3),
    )
