"""Bodies and answers that several routes share: bounded reading, JSON writing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web

from streamer.clock import NS_PER_S, MonotonicClock

WRITE_WITHIN_S = 20.0
"""A reader who takes nothing for so long after its buffers are full is hung up on."""
READ_WITHIN_S, SLOWEST_BYTES_PER_S = 20.0, 16 * 1024
"""What a body has of the server's patience; every byte that comes gives back what it takes at the slowest pace."""
PIECE_BYTES = 64 * 1024


async def pieces(request: web.Request) -> AsyncIterator[bytes]:
    """The body as it comes; HTTP 408 where it trickles. What the reader does between two pieces costs no patience."""
    clock, patience_s = MonotonicClock(), READ_WITHIN_S
    while True:
        began_ns = clock.now_ns()
        try:
            async with asyncio.timeout(patience_s):
                piece = await request.content.read(PIECE_BYTES)
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="the body does not arrive") from None
        if not piece:
            return
        spent_s = (clock.now_ns() - began_ns) / NS_PER_S
        patience_s = min(READ_WITHIN_S, patience_s - spent_s + len(piece) / SLOWEST_BYTES_PER_S)
        yield piece


async def read_body(request: web.Request, limit: int) -> bytes:
    """At most `limit` bytes of body; HTTP 413 as soon as there are more, 408 where they trickle."""
    if request.content_length is not None and request.content_length > limit:
        raise _too_large(limit, request.content_length)
    body = bytearray()
    async for piece in pieces(request):
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
