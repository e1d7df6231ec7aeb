"""Routes that change the store: upload a portrait or clip, follow its making, delete an avatar. Thin."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import Executor
from pathlib import Path

from aiohttp import web

from avatars.errors import PacketMissing, PacketUnwritable
from avatars.pool import AvatarPool
from avatars.store import AvatarStore, check_new_id
from streamer.http.body import json_answer, pieces
from streamer.http.wire import MakingView
from streamer.making import Making, MakingJob
from streamer.webhook import check_url

PIECE_BYTES = 1 << 20


class MakingRoutes:
    """Handlers of POST and DELETE under /api/avatars, and of its jobs."""

    def __init__(self, making: Making, store: AvatarStore, pool: AvatarPool, executor: Executor, limit: int) -> None:
        """executor: one thread for files; limit: bytes of one upload."""
        self._making = making
        self._store = store
        self._pool = pool
        self._executor = executor
        self._limit = limit

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_post("/api/avatars", self.upload)
        router.add_get("/api/avatars/jobs/{job}", self.show)
        router.add_delete("/api/avatars/{avatar}", self.remove)

    async def upload(self, request: web.Request) -> web.Response:
        """A picture or clip as the body, `?avatar=ID` the name it gets; `?notify=URL` is called when it is made."""
        avatar_id = check_new_id(request.query.get("avatar", ""))
        notify = request.query.get("notify")
        if notify is not None:
            check_url(notify)
        if (
            not request.content_type.startswith(("image/", "video/"))
            and request.content_type != "application/octet-stream"
        ):
            raise web.HTTPUnsupportedMediaType(text="send a picture or a clip as the body, with its content type")
        with self._making.arriving() as folder:
            source = folder / avatar_id
            try:
                await self._receive(request, source)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                raise PacketUnwritable(avatar_id, error.strerror or str(error)) from error
            job = self._making.submit(avatar_id, source, notify)
        return json_answer(_view(job), status=202, headers={"Location": f"/api/avatars/jobs/{job.job_id}"})

    async def show(self, request: web.Request) -> web.Response:
        job = self._making.get(request.match_info["job"])
        if job is None:
            raise web.HTTPNotFound(text="there is no such job; finished ones are forgotten after a while")
        return json_answer(_view(job))

    async def remove(self, request: web.Request) -> web.Response:
        """Delete an avatar, or what is left of one that could not be made; sessions that show it go on."""
        avatar_id = request.match_info["avatar"]
        had_failed = self._making.forget(avatar_id)
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._store.remove, avatar_id)
        except PacketMissing:
            if not had_failed:
                raise
        self._pool.drop(avatar_id)
        return web.Response(status=204)

    async def _receive(self, request: web.Request, path: Path) -> None:
        """Write the body to a file, a megabyte at a time; refused as soon as it is too large."""
        loop = asyncio.get_running_loop()
        too_large = web.HTTPRequestEntityTooLarge(
            self._limit, 0, text=f"an upload may have {self._limit} bytes at most"
        )
        if (request.content_length or 0) > self._limit:
            raise too_large
        size, piece = 0, bytearray()
        async for part in pieces(request):
            piece += part
            size += len(part)
            if size > self._limit:
                raise too_large
            if len(piece) >= PIECE_BYTES:
                await loop.run_in_executor(self._executor, _append, path, bytes(piece))
                piece.clear()
        if not size:
            raise web.HTTPBadRequest(text="the body is empty; send a picture or a clip")
        await loop.run_in_executor(self._executor, _append, path, bytes(piece))


def _append(path: Path, piece: bytes) -> None:
    with path.open("ab") as file:
        file.write(piece)


def _view(job: MakingJob) -> MakingView:
    return MakingView(job.job_id, job.avatar_id, job.state, job.progress, job.error, job.report)
