"""The composition root: makes every object, wires them, starts and stops them in order. Decides nothing else."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from aiohttp import web

from avatars.pool import AvatarPool
from avatars.store import AvatarStore
from engines import catalog
from engines.contract import LipSyncEngine
from streamer import watchdog, webhook
from streamer.broadcast.recordings import Recordings
from streamer.broadcast.station import Station, StationParts
from streamer.casting import Casting
from streamer.channel import Channel, WhenFull
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config
from streamer.draining import drain
from streamer.enlivening import Enlivening
from streamer.errors import ConfigError, StreamerError
from streamer.gallery import Gallery
from streamer.graphics.badge import chosen
from streamer.http import openapi
from streamer.http.access import access
from streamer.http.avatars import AvatarRoutes
from streamer.http.conversation import ConversationRoutes
from streamer.http.door import OfferDoor
from streamer.http.doorstep import STAY_S, Doorstep
from streamer.http.errors import problems
from streamer.http.files import Downloads
from streamer.http.films import FilmRoutes, FilmStudio
from streamer.http.making import MakingRoutes
from streamer.http.pages import PageParts, PageRoutes, load_web_files
from streamer.http.recordings import RecordingRoutes
from streamer.http.rooms import RoomRoutes
from streamer.http.sessions import SessionRoutes
from streamer.http.speech import SpeechRoutes
from streamer.http.whep import WhepRoutes
from streamer.http.whip import WhipRoutes
from streamer.inference import Inference
from streamer.making import Making, MakingJob
from streamer.provenance import signer_of
from streamer.registry import House, Registry
from streamer.roundtable.opening import open_file
from streamer.roundtable.rooms import Rooms, RoomsParts
from streamer.rtc import aiortc_hooks
from streamer.rtc.settings import IceServer, IceSettings
from streamer.rtc.threads import CodecThreads
from streamer.telemetry.lag import LoopLag
from streamer.telemetry.metrics import Metrics
from streamer.telemetry.traces import Traces
from streamer.threads import ERRANDS, FRAMES, one_thread
from streamer.tts import Voices

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Announcements:
    """What the command line wants to hear."""

    on_progress: Callable[[str, float], None]
    """Avatar id and how far its preparation is, 0..1; from another thread."""
    on_ready: Callable[[str], None]
    """The URL, once the server answers and the engine is warm."""


class Server:
    """Everything that runs. `serve` builds, runs and ends one."""

    def __init__(self, config: Config, make_engine: Callable[[], LipSyncEngine] | None = None) -> None:
        """make_engine: a bench may bring an engine of its own; None: the one that `config` names."""
        aiortc_hooks.check()
        self.config = config
        self._make_engine = make_engine or partial(open_engine, config)
        self.clock = MonotonicClock()
        self.avatar_executor = one_thread("avatars", FRAMES)
        self.codecs = CodecThreads()
        self.speech_executor = one_thread("speech", FRAMES)
        self.doorstep = Doorstep()
        self.downloads = Downloads()
        self.metrics = Metrics()
        self.metrics.traces = Traces.to(config.traces)
        self.lag = LoopLag(self.metrics.loop_lag)
        self.engine = self._make_engine()
        self.inference = Inference(self.engine, self.clock)
        self.inference.on_batch = self.metrics.note_batch
        self.store = AvatarStore(config.avatars_dir, sways=config.sway)
        self.signer = signer_of(config.c2pa.certificate, config.c2pa.key)
        self.pool = AvatarPool(self.store)
        self.workshop_executor = one_thread("workshop", ERRANDS)
        self.film_executor = one_thread("films", ERRANDS)
        self.ended_jobs: Channel[MakingJob] = Channel("ended-jobs", 64, WhenFull.DROP_OLDEST)
        self.making = Making(
            self.store, self.workshop_executor, self.ended_jobs.put_nowait, catalog.makers(self.engine)
        )
        self.gallery = Gallery(self.store, self.making)
        self.casting = Casting(self.pool, self.engine, self.avatar_executor)
        self.enlivening = Enlivening(self.store, self.workshop_executor)
        if config.sway:
            self.casting.on_cast = self.enlivening.note
        ice = ice_settings(config)
        self.station = Station(StationParts(config, self.clock, self.codecs, ice))
        self._count_feeds()
        self.registry = Registry(
            House(
                config=config,
                clock=self.clock,
                casting=self.casting,
                spec=self.engine.spec,
                inference=self.inference,
                metrics=self.metrics,
                codecs=self.codecs,
                ice=ice,
                station=self.station,
                loop_lag_ms=self.lag.recent_ms,
            )
        )

        self.rooms = Rooms(RoomsParts(config, self.clock, self.codecs, ice, self.station, self.registry.new_session))

        self.recordings = Recordings(config, ice, self.clock, self.signer)

    def _count_feeds(self) -> None:
        metrics, station = self.metrics, self.station
        metrics.feed_viewers.set_function(lambda: station.viewers)
        metrics.feed_encoder_calls.set_function(lambda: sum(feed.stats.encoder_calls for feed in station.feeds))
        metrics.feed_keyframes.set_function(lambda: sum(feed.stats.keyframes for feed in station.feeds))

    def application(self) -> web.Application:
        """The aiohttp application with all routes."""
        config, version = self.config, metadata.version("liveanchor")
        middlewares = [self.doorstep.asked, access(config), problems]
        app = web.Application(middlewares=middlewares, client_max_size=config.limits.offer_bytes)
        pages = PageParts(
            config=config,
            registry=self.registry,
            inference=self.inference,
            metrics=self.metrics,
            files=load_web_files(web_folder()),
            version=version,
            openapi=lambda: openapi.document(version, with_token=config.token is not None),
            lookahead_samples=self.engine.spec.lookahead_samples,
        )
        PageRoutes(pages).add_to(app)
        AvatarRoutes(self.gallery, self.casting, self.avatar_executor).add_to(app)
        upload_bytes = config.limits.upload_bytes
        MakingRoutes(self.making, self.store, self.pool, self.avatar_executor, upload_bytes).add_to(app)
        studio = FilmStudio(self.pool, self._make_engine, config, self.clock, self.signer)
        FilmRoutes(studio, self.film_executor, config).add_to(app)
        door = OfferDoor(config.limits, self.metrics, self.clock)
        SessionRoutes(self.registry, config, door).add_to(app)
        SpeechRoutes(self.registry, config, self.speech_executor).add_to(app)
        ConversationRoutes(self.registry).add_to(app)
        WhepRoutes(self.station, config, door).add_to(app)
        WhipRoutes(self.registry, self.rooms, config, door).add_to(app)
        RecordingRoutes(self.recordings, self.station, self.registry, self.downloads).add_to(app)
        RoomRoutes(self.rooms, config, door, self.speech_executor, self.clock).add_to(app)
        return app

    async def run(self, announcements: Announcements, stop: asyncio.Event, hurry: asyncio.Event | None = None) -> None:
        """Serve until `stop`; then, where there is a `hurry`, let sessions finish until it is set or time is up.

        Raises ConfigError when the port cannot be had.
        """
        loop = asyncio.get_running_loop()
        runner = web.AppRunner(self.application(), access_log=None, handler_cancellation=True, keepalive_timeout=STAY_S)
        await runner.setup()
        listening: asyncio.Server | None = None
        try:
            listening = await self._bind(runner)
            self.inference.start(loop)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.registry.run(), name="registry")
                group.create_task(self.station.run(), name="station")
                group.create_task(self.rooms.run(), name="rooms")
                group.create_task(self.recordings.run(), name="recordings")
                helpers = [
                    group.create_task(self.lag.run(self.clock), name="loop-lag"),
                    group.create_task(self.making.run(), name="making"),
                    group.create_task(self._tell_ended(), name="webhooks"),
                    group.create_task(self.enlivening.run(), name="enlivening"),
                ]
                await loop.run_in_executor(self.avatar_executor, self.gallery.prepare, announcements.on_progress)
                await self._warm()
                helpers.append(group.create_task(self._guard(), name="watchdog"))
                shows = await self._open_files()
                announcements.on_ready(url_of(listening))
                helpers += [group.create_task(show, name="show") for show in shows]
                await stop.wait()
                if hurry is not None:
                    await drain(self.registry, hurry, self.config.limits.drain_s)
                self.registry.close()
                self.recordings.close()
                self.rooms.close()
                self.station.close()
                for task in helpers:
                    task.cancel()
        finally:
            if listening is not None:
                listening.close()
            await runner.cleanup()
            self.inference.close()
            if self.metrics.traces is not None:
                await loop.run_in_executor(self.film_executor, self.metrics.traces.close)
            self.codecs.close()
            self.downloads.close()
            self.speech_executor.shutdown(wait=True, cancel_futures=True)
            for executor in (self.avatar_executor, self.workshop_executor, self.film_executor):
                executor.shutdown(wait=True, cancel_futures=True)

    async def _open_files(self) -> list[Coroutine[Any, Any, None]]:
        """Open the rooms and shows of the settings; what is returned plays the shows."""
        voices = Voices(self.config.piper_folder)
        return [await open_file(self.rooms, Path(name), voices, self.speech_executor) for name in self.config.open]

    async def _guard(self) -> None:
        """Replace the engine's thread when it is lost; sessions go on with anchor frames and sound meanwhile."""

        async def renewed(engine: LipSyncEngine) -> None:
            self.casting.renew(engine)
            await self.registry.recast_all()

        replacement = watchdog.Replacement(
            make=self._make_engine,
            executor=self.avatar_executor,
            on_failure=lambda failure: self.metrics.engine_restarts.labels(reason=failure).inc(),
            on_renewed=renewed,
        )
        await watchdog.run(self.inference, replacement, watchdog.WatchdogSettings(), self.clock)

    async def _tell_ended(self) -> None:
        """Have what was made come to life, and call the webhooks of ended jobs, one after the other."""
        while True:
            job = await self.ended_jobs.get()
            if self.config.sway and job.state == "ready":
                self.enlivening.ask(job.avatar_id, job.job_id)
            if job.notify is not None:
                message = {"job": job.job_id, "avatar": job.avatar_id, "state": job.state, "error": job.error}
                await webhook.notify(job.notify, message, self.workshop_executor)

    async def _bind(self, runner: web.AppRunner) -> asyncio.Server:
        config = self.config
        assert runner.server is not None  # it is set up
        try:
            return await asyncio.get_running_loop().create_server(
                self.doorstep.open(runner.server), config.host, config.port
            )
        except OSError as error:
            remedy = (
                "stop what uses it or choose another with --port"
                if error.errno in (48, 98)
                else "choose another --host"
            )
            raise ConfigError(
                f"{config.host}:{config.port}", f"cannot listen: {os.strerror(error.errno or 0).lower()}; {remedy}"
            ) from error

    async def _warm(self) -> None:
        """Bring the first avatars on stage, so that the first visitor does not wait, and wait for the engine."""
        for view in self.gallery.list()[:3]:
            if view.state == "ready":
                await self.casting.cast(view.id, self.config.canvas_px, chosen(self.config.badge, None))
        while not self.inference.ready:
            if not self.inference.alive:
                raise StreamerError("the engine could not be warmed up; the log says why")
            await self.clock.sleep_until(self.clock.now_ns() + 20 * NS_PER_MS)


def open_engine(config: Config) -> LipSyncEngine:
    """The configured engine. Raises EngineUnavailable."""
    return catalog.serving(config.engine, config.models_dir, config.engine_options)


def ice_settings(config: Config) -> IceSettings:
    """The media layer's view of the ICE settings."""
    servers = tuple(IceServer(url, s.username, s.credential) for s in config.ice.servers for url in s.urls)
    return IceSettings(servers, config.ice.announce, config.ice.udp_ports)


def web_folder() -> Path:
    """The demo page: inside the package when installed from a wheel, beside it in a checkout."""
    inside = Path(__file__).parent / "web"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "web"


def url_of(listening: asyncio.Server) -> str:
    """The address a person opens."""
    host, port = listening.sockets[0].getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


async def serve(config: Config, announcements: Announcements) -> None:
    """Build a server and run it until SIGINT, or until SIGTERM and the end of what is being said.

    A second signal ends it at once.
    """
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(*, at_once: bool) -> None:
        if at_once or stop.is_set():
            hurry.set()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows has no signal handlers on loops
            loop.add_signal_handler(number, partial(end, at_once=number is signal.SIGINT))

    def on_ready(url: str) -> None:
        # What is loaded by now stays. The collector passes it over from here on: its pauses shrink to milliseconds.
        gc.collect()
        gc.freeze()
        announcements.on_ready(url)

    await Server(config).run(replace(announcements, on_ready=on_ready), stop, hurry)
