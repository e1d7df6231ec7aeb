"""One file over HTTP: goes on where an earlier try broke off, believes no server, puts the whole file or nothing."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from engines.models.errors import ModelRefused, ModelUnreachable

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 30.0
_TRIES_WITHOUT_PROGRESS = 4
_RANGE = re.compile(r"^bytes (\d+)-\d+/(\d+)$")
_SHA256, _GIT_BLOB = re.compile(r"^[0-9a-f]{64}$"), re.compile(r"^[0-9a-f]{40}$")
OnBytes = Callable[[int, int | None], None]
"""Hears how many bytes there are, and of how many where that is known."""


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file must be."""

    name: str
    """For messages."""
    size_bytes: int | None = None
    sha256: str | None = None


@dataclass(slots=True)
class _Offer:
    """What servers say of the file."""

    size_bytes: int | None = None
    version: str | None = None
    """ETag of the server that has the bytes, for going on."""
    digests: list[str] = field(default_factory=list)
    """ETags that are a sha256 or a git blob's sha1, the first server's first."""

    def note(self, headers: Any) -> None:
        """Take up what one answer announces, a redirection included: a hub knows the digest, its storage may not."""
        for name in ("X-Linked-Etag", "ETag"):
            word = (headers.get(name) or "").removeprefix("W/").strip('"')
            if _SHA256.match(word) or _GIT_BLOB.match(word):
                self.digests.append(word)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to other web servers only, and listens on the way."""

    def __init__(self, offer: _Offer) -> None:
        self._offer = offer

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        self._offer.note(headers)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(url: str, path: Path, wanted: Wanted, on_bytes: OnBytes = lambda done, total: None) -> str:
    """Bring a file to `path`; returns its sha256. What came of a broken try stays in PATH.part.

    Raises ModelUnreachable (no server, no such file, breaks without end), ModelRefused (another file than wanted).
    """
    if not url.startswith(("https://", "http://")):
        raise ModelUnreachable(wanted.name, f"{url.split(':', 1)[0]}: is no web address")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    offer = _Offer(wanted.size_bytes)
    idle, reason = 0, ""
    while idle < _TRIES_WITHOUT_PROGRESS:
        before = part.stat().st_size if part.is_file() else 0
        if wanted.size_bytes is not None and before == wanted.size_bytes:
            break
        try:
            done = _go_on(url, part, wanted, offer, on_bytes)
        except urllib.error.HTTPError as error:
            if error.code not in (408, 416, 425, 429, 500, 502, 503, 504):
                raise ModelUnreachable(wanted.name, f"the server says {error.code} {error.reason}") from error
            if error.code == 416:
                part.unlink(missing_ok=True)
            done, reason = False, f"the server says {error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            done, reason = False, str(getattr(error, "reason", error)) or type(error).__name__
        if done:
            break
        after = part.stat().st_size if part.is_file() else 0
        idle = 0 if after > before else idle + 1
        reason = reason or "it breaks off"
    else:
        raise ModelUnreachable(wanted.name, reason)
    digest = _checked(part, wanted, offer)
    part.replace(path)
    return digest


def check(path: Path, wanted: Wanted) -> str:
    """The sha256 of a file that is there. Raises ModelRefused where it is not the one wanted."""
    size = path.stat().st_size
    if wanted.size_bytes is not None and size != wanted.size_bytes:
        raise ModelRefused(wanted.name, f"{wanted.size_bytes} bytes", f"{size}")
    digest = _digest(path, hashlib.sha256())
    if wanted.sha256 is not None and digest != wanted.sha256:
        raise ModelRefused(wanted.name, f"sha256 {wanted.sha256}", digest)
    return digest


def _go_on(url: str, part: Path, wanted: Wanted, offer: _Offer, on_bytes: OnBytes) -> bool:
    """One connection. True once the file is as long as it is to be."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "liveanchor"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if offer.version:
            request.add_header("If-Range", offer.version)
    offer.digests.clear()
    with urllib.request.build_opener(_Redirects(offer)).open(request, timeout=_TIMEOUT_S) as answer:
        start = _read_offer(answer, have, wanted, offer)
        on_bytes(start, offer.size_bytes)
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            file.truncate()
            at = start
            while chunk := answer.read(_CHUNK_BYTES):
                at += len(chunk)
                if offer.size_bytes is not None and at > offer.size_bytes:
                    raise ModelRefused(wanted.name, f"{offer.size_bytes} bytes", "more")
                file.write(chunk)
                on_bytes(at, offer.size_bytes)
    # A body that ends early is a broken connection, whatever the server called it.
    return offer.size_bytes is None or at == offer.size_bytes


def _read_offer(answer: Any, have: int, wanted: Wanted, offer: _Offer) -> int:
    """Take up what the server says of the file; returns where its bytes begin."""
    headers = answer.headers
    start, total = 0, None
    if answer.status == 206:
        match = _RANGE.match(headers.get("Content-Range", ""))
        if match is None or int(match[1]) != have:
            raise ModelRefused(wanted.name, f"the file from byte {have}", headers.get("Content-Range", "no range"))
        start, total = have, int(match[2])
    elif headers.get("Content-Length", "").isdigit():
        total = int(headers["Content-Length"])
    if wanted.size_bytes is not None and total is not None and total != wanted.size_bytes:
        raise ModelRefused(wanted.name, f"{wanted.size_bytes} bytes", f"{total}")
    offer.note(headers)
    version = headers.get("ETag") or ""
    offer.version = version if version.startswith('"') else None
    offer.size_bytes = total if total is not None else offer.size_bytes
    return start


def _checked(part: Path, wanted: Wanted, offer: _Offer) -> str:
    """Hold a complete file against everything that is known of it; what does not fit is removed."""
    try:
        digest = check(part, wanted)
        announced = offer.digests[0] if offer.digests else None
        if wanted.sha256 is None:
            if announced is None:
                raise ModelRefused(wanted.name, "a digest, from the description or the server", "none")
            found = digest if len(announced) == 64 else _digest(part, _git_blob(part.stat().st_size))
            if found != announced:
                raise ModelRefused(wanted.name, f"the digest that the server announces, {announced}", found)
    except ModelRefused:
        part.unlink(missing_ok=True)
        raise
    return digest


def _git_blob(size_bytes: int) -> _Hash:
    return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)


def _digest(path: Path, found: _Hash) -> str:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()
