"""Routes of recordings and of feeds pushed out. Thin: parse, call, answer."""

from __future__ import annotations

from pathlib import Path

import msgspec
from aiohttp import web

from streamer.broadcast.recordings import Recording, Recordings
from streamer.broadcast.station import Station
from streamer.errors import FeedUnavailable, SignalingError
from streamer.http.body import json_answer, read_body
from streamer.http.files import Downloads
from streamer.http.wire import PushOrder, RecordingView
from streamer.media import FPS
from streamer.registry import Registry


class RecordingRoutes:
    """Handlers under /api/recordings and /api/pushes."""

    def __init__(self, recordings: Recordings, station: Station, registry: Registry, downloads: Downloads) -> None:
        self._recordings = recordings
        self._station = station
        self._registry = registry
        self._downloads = downloads

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/api/recordings", self.list)
        router.add_post("/api/recordings", self.start)
        router.add_get("/api/recordings/{recording}", self.show)
        router.add_delete("/api/recordings/{recording}", self.stop)
        router.add_get("/api/recordings/{recording}/file", self.file)
        router.add_post("/api/pushes", self.push)

    async def list(self, _: web.Request) -> web.Response:
        return json_answer({"recordings": [view_of(recorder) for recorder in self._recordings.list()]})

    async def start(self, request: web.Request) -> web.Response:
        """`?feed=NAME` or `?session=ID`, `&format=mp4|webm&badge=AI`."""
        query = request.query
        kind, words = query.get("format", "mp4"), query.get("badge")
        if ("feed" in query) == ("session" in query):
            raise SignalingError("name what to record: ?feed=NAME or ?session=ID", 400)
        if "feed" in query:
            recorder = self._recordings.record_feed(self._station.get(query["feed"]), kind, words)
        else:
            recorder = self._recordings.record_session(self._registry.get(query["session"]), kind, words)
        return json_answer(view_of(recorder), 201, {"Location": f"/api/recordings/{recorder.id}"})

    async def show(self, request: web.Request) -> web.Response:
        return json_answer(view_of(self._find(request)))

    async def stop(self, request: web.Request) -> web.Response:
        """The file stays."""
        recorder = self._find(request)
        recorder.stop()
        return json_answer(view_of(recorder), 202)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """The film, as far as it is written."""
        recorder = self._find(request)
        if "://" in recorder.order.target:
            raise FeedUnavailable("this feed is pushed out; there is no file", 404)
        return await self._downloads.answer(request, Path(recorder.order.target))

    async def push(self, request: web.Request) -> web.Response:
        """JSON `{"feed", "url"}`."""
        body = await read_body(request, 4096)
        try:
            order = msgspec.json.decode(body, type=PushOrder)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SignalingError(str(error), 400) from error
        recorder = self._recordings.push(self._station.get(order.feed), order.url, order.token)
        return json_answer(view_of(recorder), 201, {"Location": f"/api/recordings/{recorder.id}"})

    def _find(self, request: web.Request) -> Recording:
        return self._recordings.get(request.match_info["recording"])


def view_of(recorder: Recording) -> RecordingView:
    """A recording as it is now; of an address only what it begins with, for it may hold a key."""
    target = recorder.order.target
    shown = target.split("://", 1)[0] + "://…" if "://" in target else Path(target).name
    return RecordingView(
        recording=recorder.id,
        source=recorder.order.source,
        file=shown,
        state=recorder.state,
        error=recorder.error,
        seconds=round(recorder.frames / FPS, 2),
        missing=recorder.missing,
        given_up=recorder.given_up,
        signed=recorder.signed,
    )
