"""Errors to HTTP: one table from our errors to statuses, one middleware that answers `application/problem+json`."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from avatars.errors import (
    AvatarError,
    AvatarIdInvalid,
    FaceNotFound,
    PacketInvalid,
    PacketMissing,
    PacketUnwritable,
    PacketVersion,
    PortraitRejected,
)
from engines.errors import EngineContract, EngineError, EngineUnavailable
from streamer.errors import (
    MakingFull,
    ServerDraining,
    SessionClosed,
    SessionLimit,
    SessionNotFound,
    SignalingError,
    SpeechRejected,
    StreamerError,
    TooManyOffers,
)

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (PacketMissing, 404),
    (AvatarIdInvalid, 400),
    (PortraitRejected, 422),
    (FaceNotFound, 422),
    (PacketInvalid, 409),
    (PacketVersion, 409),
    (PacketUnwritable, 507),
    (AvatarError, 422),
    (EngineUnavailable, 503),
    (EngineContract, 409),
    (EngineError, 503),
    (SessionLimit, 503),
    (ServerDraining, 503),
    (TooManyOffers, 429),
    (MakingFull, 503),
    (SessionNotFound, 404),
    (SessionClosed, 410),
    (StreamerError, 400),
)
"""First match wins; SignalingError and SpeechRejected carry their own status."""


def status_of(error: Exception) -> int | None:
    """The HTTP status of one of our errors; None for a foreign one."""
    if isinstance(error, SignalingError | SpeechRejected):
        return error.status
    return next((status for kind, status in STATUSES if isinstance(error, kind)), None)


def problem(
    status: int, detail: str, *, kind: str = "about:blank", headers: dict[str, str] | None = None
) -> web.Response:
    """An RFC 9457 answer."""
    body = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return web.Response(status=status, text=json.dumps(body), content_type="application/problem+json", headers=headers)


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a problem document; nothing of the server's inside leaks."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        keep = {
            k: v for k, v in error.headers.items() if k in ("Allow", "WWW-Authenticate", "Retry-After", "Accept-Post")
        }
        return problem(
            error.status,
            error.text if error.text and error.text != f"{error.status}: {error.reason}" else error.reason,
            headers=keep,
        )
    except Exception as error:  # one of the five borders
        status = status_of(error)
        if status is None:
            logger.exception("http_error", extra={"route": _route(request)})
            return problem(500, "the server failed; its log says more")
        wait_s = getattr(error, "retry_after_s", None) or (5 if status in (429, 503) else None)
        headers = {"Retry-After": str(wait_s)} if wait_s else None
        return problem(status, str(error), kind=f"urn:liveanchor:{type(error).__name__}", headers=headers)


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"
