"""Routes of publishers: WHIP (RFC 9725) under /whip/{feed}. Thin: parse, call, answer.

What is published is a voice. A seat of a room that waits for it speaks with it; otherwise an avatar does, on a feed.
"""

from __future__ import annotations

import hashlib

from aiohttp import web

from streamer.config import CANVAS_SIZES_PX, Config
from streamer.errors import SessionNotFound, SignalingError
from streamer.graphics.badge import chosen
from streamer.http import resource
from streamer.http.door import OfferDoor
from streamer.media import Source
from streamer.registry import Offer, Registry
from streamer.roundtable.contributor import Contributor
from streamer.roundtable.rooms import Rooms
from streamer.rtc.offer import read_offer
from streamer.session import Session


class WhipRoutes:
    """Handlers under /whip."""

    def __init__(self, registry: Registry, rooms: Rooms, config: Config, door: OfferDoor) -> None:
        self._registry = registry
        self._rooms = rooms
        self._config = config
        self._door = door

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_post("/whip/{feed}", self.publish)
        router.add_route("OPTIONS", "/whip/{feed}", self.endpoint_options)
        router.add_patch("/whip/{feed}/{session}", self.trickle)
        router.add_delete("/whip/{feed}/{session}", self.end)
        router.add_route("OPTIONS", "/whip/{feed}/{session}", self.session_options)

    async def publish(self, request: web.Request) -> web.Response:
        """A publisher's SDP offer in, the answer out. `?avatar=ID&canvas=PX` say who speaks on the feed."""
        feed = request.match_info["feed"]
        with self._door.offer(request):
            sdp = await resource.read_text(request, self._config, resource.SDP)
            local = resource.is_local(request.remote)
            check_voice(sdp, local=local)
            place = self._rooms.seat_for(feed)
            if place is not None:
                contributor, answer = await self._rooms.publish(*place, sdp, local=local)
                session_id, etag = contributor.id, contributor.etag
            else:
                session, answer, _ = await self._registry.open(self._offer(request, feed, sdp, local=local))
                session_id, etag = session.id, _etag(session)
        return resource.created(answer, f"/whip/{feed}/{session_id}", etag, self._config)

    async def trickle(self, request: web.Request) -> web.Response:
        found = self._find(request)
        if isinstance(found, Contributor):
            return await resource.trickle(request, self._config, found.peer, found.etag)
        return await resource.trickle(request, self._config, found.peer, _etag(found))

    async def end(self, request: web.Request) -> web.Response:
        self._find(request).close()
        return web.Response(status=200)

    async def endpoint_options(self, _: web.Request) -> web.Response:
        return resource.options("POST, OPTIONS", self._config, posts=True)

    async def session_options(self, _: web.Request) -> web.Response:
        return resource.options("PATCH, DELETE, OPTIONS", self._config, posts=False)

    def _find(self, request: web.Request) -> Session | Contributor:
        place = self._rooms.seat_for(request.match_info["feed"])
        if place is None:
            return self._registry.get(request.match_info["session"])
        contributor = place[1].contributor
        if contributor is None or contributor.id != request.match_info["session"]:
            raise SessionNotFound
        return contributor

    def _offer(self, request: web.Request, feed: str, sdp: str, *, local: bool) -> Offer:
        canvas = request.query.get("canvas", str(self._config.canvas_px))
        if canvas not in map(str, CANVAS_SIZES_PX):
            raise SignalingError(f"canvas must be one of {', '.join(map(str, CANVAS_SIZES_PX))}", 400)
        avatar = request.query.get("avatar", self._config.broadcast.avatar)
        badge = chosen(self._config.badge, request.query.get("badge"))
        return Offer(sdp, avatar, Source.MIRROR, int(canvas), local, feed=feed, gives=False, badge=badge)


def check_voice(sdp: str, *, local: bool) -> None:
    """An offer to publish has one line of sound that the publisher sends. Raises SignalingError (400, 406, 413)."""
    offer = read_offer(sdp, remote_is_local=local)
    kinds = [line.kind for line in offer.lines]
    if kinds.count("audio") > 1 or kinds.count("video") > 1:
        raise SignalingError("a publication has one line of sound and one of video at most", 406)
    audio = offer.first("audio")
    if audio is None or not audio.gives:
        raise SignalingError("there is no sound in the offer that would be sent: the avatar needs a voice", 406)


def _etag(session: Session) -> str:
    """Of the ICE session, which is the only one a session ever has."""
    return f'"{hashlib.sha256(session.id.encode()).hexdigest()[:16]}"'
