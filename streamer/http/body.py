"""Bodies and answers that several routes share: bounded reading, JSON writing."""

from __future__ import annotations

import msgspec
from aiohttp import web

WRITE_WITHIN_S = 20.0
"""A reader who takes nothing for so long after its buffers are full is hung up on."""


async def read_body(request: web.Request, limit: int) -> bytes:
    """At most `limit` bytes of body; HTTP 413 as soon as there are more."""
    if request.content_length is not None and request.content_length > limit:
        raise _too_large(limit, request.content_length)
    body = bytearray()
    async for piece in request.content.iter_chunked(64 * 1024):
        body += piece
        if len(body) > limit:
            raise _too_large(limit, len(body))
    return bytes(body)


def json_answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A struct or a plain value as JSON."""
    return web.Response(
        status=status, body=msgspec.json.encode(value), content_type="application/json", headers=headers
    )


def _too_large(limit: int, size: int) -> web.HTTPRequestEntityTooLarge:
    return web.HTTPRequestEntityTooLarge(limit, size, text=f"the body may have {limit} bytes at most")
