"""Routes of avatars: list, show, thumbnail, clear. Thin."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import Executor

import msgspec
from aiohttp import web

from avatars.errors import PacketMissing
from avatars.folder import FileIdentity
from streamer.casting import Casting
from streamer.gallery import Gallery
from streamer.http.wire import AvatarView

THUMBNAIL_SIZES_PX = (64, 128, 256, 512, 768)


class AvatarRoutes:
    """Handlers under /api/avatars."""

    def __init__(self, gallery: Gallery, casting: Casting, executor: Executor) -> None:
        self._gallery = gallery
        self._casting = casting
        self._executor = executor
        self._thumbnails: dict[tuple[str, int], tuple[FileIdentity, bytes]] = {}
        """With the making of the packet they show: an avatar may be replaced by another of its name."""

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/api/avatars", self.list)
        router.add_post("/api/avatars/clear", self.clear)
        router.add_get("/api/avatars/{avatar}", self.show)
        router.add_get("/api/avatars/{avatar}/thumbnail", self.thumbnail)

    async def list(self, _: web.Request) -> web.Response:
        return _json({"avatars": self._gallery.list()})

    async def show(self, request: web.Request) -> web.Response:
        """One avatar with the report of its making."""
        view = self._view(request)
        return _json(msgspec.structs.asdict(view) | {"report": self._gallery.report(view)})

    async def thumbnail(self, request: web.Request) -> web.Response:
        """A JPEG; `?size=` is one of THUMBNAIL_SIZES_PX, 256 by default.

        Of a bundled portrait also while it is being prepared: who asks has seen it in a list of a moment ago.
        """
        view = self._view(request)
        size = request.query.get("size", "256")
        if size not in map(str, THUMBNAIL_SIZES_PX):
            raise web.HTTPBadRequest(text=f"size must be one of {', '.join(map(str, THUMBNAIL_SIZES_PX))}")
        key = (view.id, int(size))
        version = self._gallery.version(view.id)
        if key not in self._thumbnails or self._thumbnails[key][0] != version:
            loop = asyncio.get_running_loop()
            jpeg = await loop.run_in_executor(self._executor, self._gallery.thumbnail, *key)
            self._thumbnails[key] = version, jpeg
        jpeg = self._thumbnails[key][1]
        headers = {"Cache-Control": "private, no-cache", "ETag": f'"{hashlib.sha256(jpeg).hexdigest()[:20]}"'}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=jpeg, content_type="image/jpeg", headers=headers)

    async def clear(self, _: web.Request) -> web.Response:
        """Forget what is in memory; live sessions keep theirs."""
        self._thumbnails.clear()
        return _json({"dropped": self._casting.clear()})

    def _view(self, request: web.Request) -> AvatarView:
        avatar_id = request.match_info["avatar"]
        for view in self._gallery.list():
            if view.id == avatar_id:
                return view
        raise PacketMissing(avatar_id)


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
