"""Who may call: bearer token, allowed origins, and the headers that keep a page honest. Knows no route's meaning."""

from __future__ import annotations

import base64
import hmac
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from streamer.config import LOOPBACK_NAMES, Config
from streamer.http.errors import Handler, problem

_CSP = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; "
    "style-src 'self'; script-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'"
)
GUARDED = ("/api/", "/metrics", "/whep/", "/whip/")
"""What needs the token, where there is one."""
HEADERS = {
    "Content-Security-Policy": _CSP,
    "Permissions-Policy": "microphone=(self), camera=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def access(config: Config) -> Middleware:
    """The middleware of one configuration."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = _refuse(request, config)
        response = refused if refused is not None else await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
            origin = request.headers.get("Origin")
            if origin is not None and origin in config.allowed_origins:
                response.headers["Access-Control-Allow-Origin"] = origin
                response.headers["Access-Control-Expose-Headers"] = (
                    "Location, Link, ETag, Accept-Patch, X-Cache-Hit, Retry-After"
                )
                response.headers["Vary"] = "Origin"
        return response

    return check


def _refuse(request: web.Request, config: Config) -> web.Response | None:
    if config.token is None and _host_name(request) not in LOOPBACK_NAMES:
        # A page elsewhere whose name was re-pointed at this machine would pass every origin check.
        return problem(421, "this server answers to localhost only; see --host and --token")
    origin = request.headers.get("Origin")
    if origin is not None and not _same_origin(origin, request) and origin not in config.allowed_origins:
        return problem(403, "this origin may not use this server; see allowed_origins")
    if config.token is None or not request.path.startswith(GUARDED) or request.method == "OPTIONS":
        return None
    if hmac.compare_digest(_given(request), config.token.encode()):
        return None
    return problem(401, "a bearer token is needed", headers={"WWW-Authenticate": 'Bearer realm="liveanchor"'})


def _given(request: web.Request) -> bytes:
    """The token that came along; empty without one. A browser's WebSocket can carry it as a subprotocol only."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip().encode("utf-8", "surrogateescape")
    for offered in request.headers.get("Sec-WebSocket-Protocol", "").split(","):
        name, _, coded = offered.strip().partition(".")
        if name == "bearer":
            try:
                return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
            except ValueError:
                return b""
    return b""


def _host_name(request: web.Request) -> str | None:
    try:
        return urlsplit(f"//{request.host}").hostname
    except ValueError:
        return None


def _same_origin(origin: str, request: web.Request) -> bool:
    return urlsplit(origin).netloc.lower() == request.host.lower()
