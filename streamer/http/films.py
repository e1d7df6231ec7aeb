"""Route of films: a sound in, a talking MP4 out. One at a time, beside the live sessions. Thin."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web

from avatars.pool import AvatarPool
from engines.contract import LipSyncEngine
from streamer import speech, talk
from streamer.clock import NS_PER_S, Clock
from streamer.config import CANVAS_SIZES_PX, Config
from streamer.errors import NotSigned, SpeechRejected
from streamer.graphics.badge import Badge, chosen
from streamer.http.body import read_body
from streamer.provenance import FilmSigner

logger = logging.getLogger(__name__)

WAITING_FILMS = 4


@dataclass(frozen=True, slots=True)
class FilmWish:
    """What is asked for."""

    avatar_id: str
    canvas_px: int
    badge: Badge | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Film:
    """A finished one."""

    content: bytes
    frames: int
    seconds: float
    hit: bool
    signed: bool


class FilmStudio:
    """Renders on its executor with an engine of its own, made at the first film."""

    def __init__(
        self,
        pool: AvatarPool,
        make_engine: Callable[[], LipSyncEngine],
        config: Config,
        clock: Clock,
        signer: FilmSigner | None = None,
    ) -> None:
        self._pool = pool
        self._make_engine = make_engine
        self._engine: LipSyncEngine | None = None
        self._limits = speech.SpeechLimits(config.limits.speech_bytes, config.limits.queued_speech_s)
        self._clock = clock
        self._signer = signer

    def render(self, wish: FilmWish, sound: bytes, content_type: str) -> Film:
        """Blocking. Raises AvatarError, EngineError, SpeechRejected."""
        began_ns = self._clock.now_ns()
        packet, hit = self._pool.get(wish.avatar_id)
        pcm48 = speech.decode_speech(sound, content_type, self._limits)
        if self._engine is None:
            self._engine = self._make_engine()
            self._engine.warm_up()
        speaker = talk.Speaker.of(self._engine, packet, wish.canvas_px, wish.badge)
        with tempfile.TemporaryDirectory(prefix="liveanchor-film-") as folder:
            path = Path(folder) / "film.mp4"
            frames = talk.film(speaker, pcm48, path, lambda done, total: None)
            signed = self._sign(path)
            content = path.read_bytes()
        return Film(content, frames, (self._clock.now_ns() - began_ns) / NS_PER_S, hit, signed)

    def _sign(self, path: Path) -> bool:
        """Whether the film has a manifest now; one that could not get it goes out without."""
        if self._signer is None:
            return False
        try:
            self._signer.sign(path)
        except NotSigned as error:
            logger.warning("film_not_signed", extra={"reason": error.reason})
            return False
        return True


class FilmRoutes:
    """POST /api/avatars/{avatar}/render."""

    def __init__(self, studio: FilmStudio, executor: Executor, config: Config) -> None:
        """executor: one thread for films alone."""
        self._studio = studio
        self._executor = executor
        self._config = config
        self._waiting = 0

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/api/avatars/{avatar}/render", self.render)

    async def render(self, request: web.Request) -> web.Response:
        """Sound as the body, `?canvas=` the larger side of the film, `?badge=` words in its corner."""
        canvas = request.query.get("canvas", str(self._config.canvas_px))
        if canvas not in map(str, CANVAS_SIZES_PX):
            raise web.HTTPBadRequest(text=f"canvas must be one of {', '.join(map(str, CANVAS_SIZES_PX))}")
        badge = chosen(self._config.badge, request.query.get("badge"))
        sound = await read_body(request, self._config.limits.speech_bytes)
        if self._waiting >= WAITING_FILMS:
            raise SpeechRejected(f"{WAITING_FILMS} films wait already; try again later", 503)
        wish = FilmWish(request.match_info["avatar"], int(canvas), badge)
        work = partial(self._studio.render, wish, sound, request.content_type)
        self._waiting += 1
        try:
            film = await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._waiting -= 1
        headers = {
            "X-Cache-Hit": str(film.hit),
            "X-Frames": str(film.frames),
            "X-Signed": str(film.signed),
            "X-Render-Seconds": f"{film.seconds:.3f}",
            "Content-Disposition": 'attachment; filename="liveanchor.mp4"',
        }
        return web.Response(body=film.content, content_type="video/mp4", headers=headers)
