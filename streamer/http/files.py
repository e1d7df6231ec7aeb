"""Files to download: whole or in part, read in pieces on a thread of their own, closed whatever becomes of the call."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from aiohttp import ETag, web

from streamer.threads import ERRANDS, one_thread

PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A file as it was when it was asked for: one that grows meanwhile is sent up to here."""

    file: BinaryIO
    size: int
    modified_s: float
    etag: str


class Downloads:
    """Answers with files, as RFC 9110 wants it: ranges, conditions, HEAD. Uses no thread but its own."""

    def __init__(self) -> None:
        self._executor = one_thread("downloads", ERRANDS)

    async def answer(self, request: web.Request, path: Path) -> web.StreamResponse:
        """The file, or what the request's conditions make of it. Raises HTTPNotFound."""
        async with self._opened(path) as opened:
            refusal = _refusal(request, opened)
            if refusal is not None:
                return _described(web.Response(status=refusal), opened)
            try:
                part = _part(request, opened)
            except ValueError:
                return web.Response(status=416, headers={"Content-Range": f"bytes */{opened.size}"})
            first, end = part or (0, opened.size)
            response = _described(web.StreamResponse(status=206 if part else 200), opened)
            response.content_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            response.content_length = end - first
            if part:
                response.headers["Content-Range"] = f"bytes {first}-{end - 1}/{opened.size}"
            await response.prepare(request)
            if request.method != "HEAD":
                await self._send(response, opened.file, first, end)
            return response

    def close(self) -> None:
        """Return once everything is closed. Idempotent."""
        self._executor.shutdown()

    @asynccontextmanager
    async def _opened(self, path: Path) -> AsyncIterator[_Opened]:
        opening = self._executor.submit(_open, path)
        try:
            opened = await asyncio.wrap_future(opening)
        except OSError as error:
            raise web.HTTPNotFound(text="there is no such file") from error
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        try:
            yield opened
        finally:
            self._close(opened.file)

    def _close(self, file: BinaryIO) -> None:
        """After what may still be read for a call that was given up."""
        try:
            self._executor.submit(file.close)
        except RuntimeError:  # it has been shut down, and reads nothing more
            file.close()

    async def _send(self, response: web.StreamResponse, file: BinaryIO, first: int, end: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            while first < end:
                piece = await loop.run_in_executor(self._executor, _read, file, first, min(PIECE_BYTES, end - first))
                await response.write(piece)
                first += len(piece)
        except (OSError, EOFError):  # the visitor has left, or the file cannot be read or is shorter now
            response.force_close()


def _open(path: Path) -> _Opened:
    file = path.open("rb", buffering=0)
    about = os.fstat(file.fileno())
    return _Opened(file, about.st_size, about.st_mtime, f"{about.st_mtime_ns:x}-{about.st_size:x}")


def _read(file: BinaryIO, first: int, count: int) -> bytes:
    """At least one byte."""
    file.seek(first)
    piece = file.read(count)
    if not piece:
        raise EOFError
    return piece


def _close_unwanted(opening: Future[_Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().file.close()


def _described(response: web.StreamResponse, opened: _Opened) -> web.StreamResponse:
    response.etag, response.last_modified = opened.etag, opened.modified_s
    response.headers["Accept-Ranges"] = "bytes"
    return response


def _refusal(request: web.Request, opened: _Opened) -> int | None:
    """412 or 304 where the request's conditions say so (RFC 9110, 13.2.2)."""
    if request.if_match is not None:
        if not _names(request.if_match, opened, weak=False):
            return 412
    elif request.if_unmodified_since is not None and opened.modified_s > request.if_unmodified_since.timestamp():
        return 412
    if request.if_none_match is not None:
        return 304 if _names(request.if_none_match, opened, weak=True) else None
    since = request.if_modified_since
    return 304 if since is not None and opened.modified_s <= since.timestamp() else None


def _names(tags: Iterable[ETag], opened: _Opened, *, weak: bool) -> bool:
    return any(tag.value == "*" or (tag.value == opened.etag and (weak or not tag.is_weak)) for tag in tags)


def _part(request: web.Request, opened: _Opened) -> tuple[int, int] | None:
    """First byte and end of what is asked for; None: all. Raises ValueError where there is no such part (416)."""
    if "Range" not in request.headers or not _unchanged(request, opened):
        return None
    asked = request.http_range
    first = max(0, asked.start + opened.size) if asked.start < 0 else asked.start
    end = opened.size if asked.stop is None else min(asked.stop, opened.size)
    if first >= end:
        raise ValueError(first)
    return first, end


def _unchanged(request: web.Request, opened: _Opened) -> bool:
    """Of a part that goes on from an earlier one: the file is still the same (If-Range, a tag or a date)."""
    if "If-Range" not in request.headers:
        return True
    since = request.if_range
    if since is not None:
        return opened.modified_s <= since.timestamp()
    return request.headers["If-Range"].strip() == f'"{opened.etag}"'
