"""Telling another server that a job has ended: one bounded POST that cannot be pointed into a private network."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from streamer.errors import ConfigError

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv6 to IPv4 (RFC 6052)."""


def check_url(url: str) -> str:
    """The URL itself if it may be called. Raises ConfigError; addresses are judged again when it is called."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigError("notify", "must be a plain http or https URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or len(url) > 2000:
        raise ConfigError("notify", "must be a plain http or https URL")
    try:
        literal = ipaddress.ip_address(parts.hostname)
    except ValueError:
        if parts.hostname == "localhost" or parts.hostname.endswith((".localhost", ".local", ".internal")):
            raise ConfigError("notify", "must not name this machine or its network") from None
    else:
        if not _is_public(literal):
            raise ConfigError("notify", "must not point at a private address")
    return url


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only, so that the address judged is the address called."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look_up = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        infos = await asyncio.get_running_loop().run_in_executor(self._executor, look_up)
        found = [info for info in infos if _is_public(ipaddress.ip_address(info[4][0]))]
        if not found:
            raise OSError(f"{host} has no public address")
        return [
            ResolveResult(
                hostname=host, host=str(i[4][0]), port=port, family=i[0], proto=i[2], flags=socket.AI_NUMERICHOST
            )
            for i in found
        ]

    async def close(self) -> None: ...


async def notify(url: str, message: Mapping[str, Any], executor: Executor) -> bool:
    """POST a JSON message; no redirect is followed and no answer is read. Returns whether it was taken."""
    connector = aiohttp.TCPConnector(resolver=PublicResolver(executor), use_dns_cache=False, limit=1)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as http,
            http.post(check_url(url), json=dict(message), allow_redirects=False) as response,
        ):
            return response.status < 400
    except (aiohttp.ClientError, OSError, TimeoutError, ConfigError) as error:
        logger.info("webhook_failed", extra={"error": type(error).__name__})
        return False


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Judges the IPv4 address inside where a network would unpack one."""
    inner = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    judged = address if inner is None else inner
    return judged.is_global and not judged.is_multicast
