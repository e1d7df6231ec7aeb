"""Routes of the page and of the machine: web files, health, metrics, capabilities. Files are read once, at start."""

from __future__ import annotations

import asyncio
import hashlib
import json
import mimetypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from streamer.config import CANVAS_SIZES_PX, Config
from streamer.errors import ConfigError
from streamer.guard import REASONS
from streamer.http.wire import Capabilities, EngineView, IceServerView, Sample, SlotsView
from streamer.inference import Inference
from streamer.registry import Registry
from streamer.telemetry.metrics import Metrics
from streamer.tts import Voices

_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
}


@dataclass(frozen=True, slots=True)
class WebFile:
    body: bytes
    content_type: str
    etag: str


def load_web_files(folder: Path) -> dict[str, WebFile]:
    """Every file below `folder` by its relative path. Raises ConfigError where there is no page."""
    if not (folder / "index.html").is_file():
        raise ConfigError(str(folder), "the demo page is missing; the installation is incomplete")
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            body = path.read_bytes()
            guessed = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            files[path.relative_to(folder).as_posix()] = WebFile(body, guessed, etag)
    return files


@dataclass(frozen=True, slots=True, eq=False)
class PageParts:
    """What the page's routes look at."""

    config: Config
    registry: Registry
    inference: Inference
    metrics: Metrics
    files: dict[str, WebFile]
    version: str
    openapi: Callable[[], dict[str, Any]]
    lookahead_samples: int


class PageRoutes:
    """Handlers of everything that is not /api/sessions or /api/avatars."""

    def __init__(self, parts: PageParts) -> None:
        self._parts = parts
        self._openapi_body = json.dumps(parts.openapi()).encode()
        self._samples = _samples(parts.files)

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/", self.index)
        router.add_get("/web/{path:.+}", self.file)
        router.add_get("/favicon.ico", self.favicon)
        router.add_get("/healthz", self.healthz)
        router.add_get("/readyz", self.readyz)
        router.add_get("/metrics", self.metrics)
        router.add_get("/openapi.json", self.openapi)
        router.add_get("/api/capabilities", self.capabilities)

    async def index(self, request: web.Request) -> web.Response:
        return self._serve(request, "index.html")

    async def favicon(self, request: web.Request) -> web.Response:
        return self._serve(request, "favicon.svg")

    async def file(self, request: web.Request) -> web.Response:
        return self._serve(request, request.match_info["path"])

    async def healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(self, _: web.Request) -> web.Response:
        """200 when a session would get a moving face, 503 with the reason otherwise."""
        parts = self._parts
        if parts.registry.draining:
            return web.json_response({"status": "draining"}, status=503)
        if not parts.inference.ready:
            return web.json_response({"status": "engine is not ready"}, status=503)
        return web.json_response({"status": "ready", "free": parts.registry.limit - parts.registry.active})

    async def metrics(self, _: web.Request) -> web.Response:
        parts, inference = self._parts, self._parts.inference
        counts = inference.counts
        parts.metrics.engine_ready.set(1 if inference.ready else 0)
        parts.metrics.tasks.set(len(asyncio.all_tasks()))
        parts.metrics.threads.set(threading.active_count())
        parts.metrics.queue_depth.labels(stage="engine").set(inference.queued_jobs)
        parts.metrics.resident_bytes.set(inference.resident_bytes)
        parts.metrics.queue_wait_p99.set(inference.queue_wait_p99_ms / 1000)
        for reason in ("expired", "dropped", "unwanted", "failed", "retried", *REASONS):
            parts.metrics.engine_errors.labels(reason=reason).set(getattr(counts, reason))
        return web.Response(
            body=parts.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def openapi(self, _: web.Request) -> web.Response:
        return web.Response(body=self._openapi_body, content_type="application/json")

    async def capabilities(self, _: web.Request) -> web.Response:
        parts = self._parts
        engine = EngineView(parts.config.engine, parts.inference.ready, round(parts.lookahead_samples / 16, 1))
        found = Capabilities(
            version=parts.version,
            engine=engine,
            tts=Voices(parts.config.piper_folder).available(),
            samples=self._samples,
            canvas=CANVAS_SIZES_PX,
            sessions=SlotsView(parts.registry.active, parts.registry.limit),
            ice_servers=tuple(IceServerView(s.urls, s.username, s.credential) for s in parts.config.ice.servers),
        )
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    def _serve(self, request: web.Request, path: str) -> web.Response:
        found = self._parts.files.get(path)
        if found is None:
            raise web.HTTPNotFound(text="there is no such file")
        headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == found.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, headers={**headers, "Content-Type": _with_charset(found.content_type)})


def _with_charset(content_type: str) -> str:
    is_text = content_type.startswith("text/") or content_type == "application/json"
    return f"{content_type}; charset=utf-8" if is_text else content_type


def _samples(files: dict[str, WebFile]) -> tuple[Sample, ...]:
    listing = files.get("samples/samples.json")
    if listing is None:
        return ()
    entries = json.loads(listing.body)
    return tuple(
        Sample(e["id"], e["title"], f"/web/samples/{e['file']}", float(e["seconds"]), e.get("text")) for e in entries
    )
