"""The doorstep: who connects must ask for something in time, and may stay between two questions. Knows no route."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

ASK_WITHIN_S = 10.0
"""From the connection to the end of its first request's headers."""
STAY_S = 75.0
"""From an answer to the end of the next request's headers: longer than a reverse proxy keeps a connection idle."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Doorstep:
    """`open` gives what a listening socket makes of each connection; `asked` is the outermost middleware."""

    def __init__(self) -> None:
        self._waiting: dict[object, asyncio.TimerHandle] = {}
        """Connections that have not asked for anything yet."""

    def open(self, server: web.Server) -> Callable[[], asyncio.Protocol]:
        """A protocol factory around an aiohttp server's own."""
        loop = asyncio.get_running_loop()

        def come_in() -> asyncio.Protocol:
            connection = server()
            self._waiting[connection] = loop.call_later(ASK_WITHIN_S, self._show_out, connection)
            return connection

        return come_in

    @web.middleware
    async def asked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Headers are whole."""
        waiting = self._waiting.pop(request.protocol, None)
        if waiting is not None:
            waiting.cancel()
        return await handler(request)

    def _show_out(self, connection: web.RequestHandler) -> None:
        """Also one that has left by itself meanwhile."""
        del self._waiting[connection]
        connection.force_close()
