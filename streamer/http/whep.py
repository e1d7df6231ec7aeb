"""Routes of viewers: WHEP under /whep/{feed}, and the list of feeds. Thin: parse, call, answer."""

from __future__ import annotations

from aiohttp import web

from streamer.broadcast.feed import Feed
from streamer.broadcast.station import Station
from streamer.config import Config
from streamer.http import resource
from streamer.http.body import json_answer
from streamer.http.door import OfferDoor
from streamer.http.wire import FeedView


class WhepRoutes:
    """Handlers under /whep and /api/feeds."""

    def __init__(self, station: Station, config: Config, door: OfferDoor) -> None:
        self._station = station
        self._config = config
        self._door = door

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/api/feeds", self.list)
        router.add_post("/whep/{feed}", self.watch)
        router.add_route("OPTIONS", "/whep/{feed}", self.endpoint_options)
        router.add_patch("/whep/{feed}/{viewer}", self.trickle)
        router.add_delete("/whep/{feed}/{viewer}", self.leave)
        router.add_route("OPTIONS", "/whep/{feed}/{viewer}", self.session_options)

    async def list(self, _: web.Request) -> web.Response:
        return json_answer({"feeds": [view_of(feed) for feed in self._station.feeds]})

    async def watch(self, request: web.Request) -> web.Response:
        """A viewer's SDP offer in, the answer out."""
        with self._door.offer(request):
            text = await resource.read_text(request, self._config, resource.SDP)
            local = resource.is_local(request.remote)
            viewing, answer = await self._station.watch(request.match_info["feed"], text, remote_is_local=local)
        location = f"/whep/{viewing.feed_name}/{viewing.id}"
        return resource.created(answer, location, viewing.etag, self._config)

    async def trickle(self, request: web.Request) -> web.Response:
        viewing = self._station.viewing(request.match_info["viewer"])
        return await resource.trickle(request, self._config, viewing.peer, viewing.etag)

    async def leave(self, request: web.Request) -> web.Response:
        self._station.viewing(request.match_info["viewer"]).close()
        return web.Response(status=200)

    async def endpoint_options(self, _: web.Request) -> web.Response:
        return resource.options("POST, OPTIONS", self._config, posts=True)

    async def session_options(self, _: web.Request) -> web.Response:
        return resource.options("PATCH, DELETE, OPTIONS", self._config, posts=False)


def view_of(feed: Feed) -> FeedView:
    """A feed as the list shows it."""
    stats = feed.stats
    return FeedView(feed.name, feed.live, *feed.size_px, stats.viewers, stats.rungs, stats.encoder_calls)
