"""What WHIP (RFC 9725) and WHEP have in common on the wire: offers, answers, trickle, preflights. Knows no feed."""

from __future__ import annotations

import ipaddress

from aiohttp import web

from streamer.config import Config
from streamer.errors import SignalingError
from streamer.http.body import read_body
from streamer.outlet import Outlet

FRAGMENT = "application/trickle-ice-sdpfrag"
SDP = "application/sdp"


def is_local(remote: str | None) -> bool:
    """Whether a request comes from this machine."""
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


async def read_text(request: web.Request, config: Config, content_type: str) -> str:
    """The body, which must be of this type. Raises SignalingError (415, 400); HTTP 413."""
    if request.content_type != content_type:
        raise SignalingError(f"the body must be {content_type}", 415)
    body = await read_body(request, config.limits.offer_bytes)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SignalingError("the body is not UTF-8", 400) from error


def created(answer: str, location: str, etag: str, config: Config) -> web.Response:
    """201 with the answer, where the session is, its ICE session and the ICE servers."""
    response = web.Response(status=201, text=answer, content_type=SDP)
    response.headers["Location"] = location
    response.headers["ETag"] = etag
    response.headers["Accept-Patch"] = FRAGMENT
    add_ice_servers(response, config)
    return response


def add_ice_servers(response: web.Response, config: Config) -> None:
    """One Link header a server, as RFC 9725 section 4.6 writes them."""
    for server in config.ice.servers:
        for url in server.urls:
            link = f'<{url}>; rel="ice-server"'
            if server.username and server.credential:
                name, secret = _quoted(server.username), _quoted(server.credential)
                link += f'; username={name}; credential={secret}; credential-type="password"'
            response.headers.add("Link", link)


async def trickle(request: web.Request, config: Config, peer: Outlet, etag: str) -> web.Response:
    """Candidates for a session. 412 for another ICE session, 428 without If-Match where that is asked for.

    An ICE restart, which comes with `If-Match: *` and another ufrag, is answered 422.
    """
    text = await read_text(request, config, FRAGMENT)
    given = request.headers.get("If-Match")
    if given is None and config.broadcast.require_if_match:
        raise SignalingError("say with If-Match for which ICE session the candidates are", 428)
    if given is not None and given.strip() != "*" and etag not in [tag.strip() for tag in given.split(",")]:
        raise SignalingError("the candidates are for another ICE session", 412)
    await peer.add_candidates(text)
    return web.Response(status=204)


def options(allow: str, config: Config, *, posts: bool) -> web.Response:
    """The answer to OPTIONS, a browser's preflight among them."""
    response = web.Response(status=204 if not posts else 200)
    response.headers["Allow"] = allow
    response.headers["Access-Control-Allow-Methods"] = allow
    response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, If-Match"
    response.headers["Access-Control-Max-Age"] = "600"
    if posts:
        response.headers["Accept-Post"] = SDP
        add_ice_servers(response, config)
    else:
        response.headers["Accept-Patch"] = FRAGMENT
    return response


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
