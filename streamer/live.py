"""The stages of one live session, joined by bounded channels: the only place where they meet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from engines.contract import EngineSpec
from streamer import feed
from streamer.barge_in import BargeIn, BargeInSettings
from streamer.budget import FIRST_FRAMES, LEAST_FRAMES, LatencyBudget
from streamer.casting import Cast
from streamer.channel import Channel, ChannelClosed
from streamer.clock import NS_PER_MS, NS_PER_S, Clock
from streamer.config import Config
from streamer.events import EventLog
from streamer.inference import Inference
from streamer.listening import SLOT_NS, Listener
from streamer.media import (
    FRAME_NS,
    AudioWindow,
    FrameSound,
    Picture,
    PictureKind,
    RenderedMouth,
    SoundBlock,
    Source,
)
from streamer.outlet import Outlet
from streamer.passage import Passage, Stages
from streamer.pipeline import compose, ingest, interlude, lipsync, playout, vad, window
from streamer.quality import QualityWatch
from streamer.speech_line import SpeechLine
from streamer.telemetry.latency import LatencyRecord
from streamer.telemetry.metrics import Metrics
from streamer.telemetry.snapshot import Snapshot

QUIET_FRAMES = 6
"""So many idle pictures in a row before sound may be moved on the grid."""


@dataclass(slots=True, eq=False)
class SessionParts:
    """What a session is made of; the registry brings it together. Only the cast ever changes."""

    peer: Outlet
    cast: Cast
    source: Source
    spec: EngineSpec
    config: Config
    inference: Inference
    metrics: Metrics
    clock: Clock
    loop_lag_ms: Callable[[], float]
    watchers: list[Callable[[Picture], None]] = field(default_factory=list)
    """Called with every picture that is released; must only deposit."""


class LiveLine:
    """From sound to pictures, for as long as `start`'s tasks run."""

    def __init__(self, parts: SessionParts, start_ns: int, speech: SpeechLine, log: EventLog) -> None:
        """`speech` is taken from and told what was heard; `log` gets what happens to pictures."""
        spec = parts.spec
        self._parts = parts
        self._speech = speech
        self._log = log
        self._start_ns = start_ns
        frames = FIRST_FRAMES if parts.source is Source.MIRROR else LEAST_FRAMES
        self._budget = LatencyBudget(int(parts.config.playout_slack_ms * NS_PER_MS), frames)
        self._lookahead_ns = lookahead_chunks(spec) * FRAME_NS // 2
        self._playout = playout.Playout(start_ns, self._delay_ns())
        self._ingest = ingest.Ingest(start_ns, ingest.IngestSettings(fill_margin_ms=self._patience_ms()))
        self._budget.arrivals_ns = self._ingest.lateness_ns
        tail_frames = 1 + -(-parts.config.vad.hangover_ms * NS_PER_MS // FRAME_NS)
        self._feed = feed.Feed(speech, self._playout.next_release_ns, lookahead_chunks(spec), tail_frames)
        self._feed.render_frames = self._budget.render_frames
        self._stages = _stages(parts, self._playout.deadline_ns)
        self._passage = Passage(self._stages, self, parts.clock)
        self._record = LatencyRecord()
        self._quality = QualityWatch()
        self._windows = parts.metrics.traces.window() if parts.metrics.traces is not None else None
        self._ear = _ear(parts, self._delay_ns())
        self._quiet_frames = 0
        self._generation = 0
        self.snapshot = Snapshot(self._record, parts.peer, self._delay_ns() / NS_PER_MS, spec.lookahead_samples / 16)

    def void(self) -> None:
        """Whatever is on its way to the listener falls out, wherever it is: it is of an older generation now."""
        self._generation += 1
        self._ingest.generation = self._generation
        self._feed.void(self._generation)
        self._stages.lipsync.void(self._generation)
        self._stages.composer.generation = self._generation

    def end(self) -> None:
        """The engine need not go on with what it was asked for."""
        self._stages.lipsync.leave()
        if self._windows is not None:
            self._windows.end()

    def recast(self, cast: Cast) -> None:
        """Another avatar, or the same at another size, from the next picture on."""
        self._stages.lipsync.recast(cast.face, self._parts.inference.session(cast.canvas, cast.face))
        self._stages.composer.recast(cast.canvas)

    def play(self, clip: interlude.Clip) -> None:
        """Show a clip once, as soon as nobody speaks."""
        self._stages.composer.play(clip)

    def start(self, group: asyncio.TaskGroup, first: list[SoundBlock], on_barge_in: Callable[[], None]) -> None:
        """Start one task a stage. `first` are blocks already taken: they begin the grid."""
        parts, clock, chunks = self._parts, self._parts.clock, self._passage.chunks
        tasks = self._passage.tasks()
        tasks["playout"] = playout.run(self._playout, self._picture, self._release, clock)
        tasks["snapshot"] = self._report()
        if parts.source is Source.MIRROR:
            if first:
                self._ingest.anchor_at_start()
            for block in first:
                for chunk in self._ingest.push(block, clock.now_ns()):
                    chunks.put_nowait(chunk)
            tasks["ingest"] = ingest.run(self._ingest, parts.peer.inbound, chunks, clock)
            tasks["fill"] = ingest.run_fill(self._ingest, chunks, clock)
        elif self._ear is not None:
            listener = Listener(self._ear, lambda: self._speech.audible, on_barge_in)
            tasks["listen"] = listener.run(parts.peer.inbound, self._start_ns, clock)
        else:
            tasks["unheard"] = _discard(parts.peer.inbound)
        if parts.source is Source.AGENT:
            tasks["feed"] = feed.run(self._feed, chunks, clock)
        for name, coroutine in tasks.items():
            group.create_task(coroutine, name=name)
        parts.peer.on_sent = self._note_sent

    def take_sound(self, sound: FrameSound) -> None:
        """Part of lipsync.MouthSink."""
        self._stages.composer.take_sound(sound)

    def take_window(self, window: AudioWindow) -> None:
        """Part of lipsync.MouthSink."""
        self._stages.composer.take_window(window)

    def mouth_sink(self) -> Callable[[RenderedMouth], None]:
        """Part of lipsync.MouthSink: the composer, with an eye on how long mouths take."""
        take = self._stages.composer.mouth_sink()
        asked_ns = self._parts.clock.now_ns()

        def sink(mouth: RenderedMouth) -> None:
            if mouth.index > self._feed.released and mouth.planes is not None:
                earliest_ns = self._playout.deadline_ns(mouth.index) - self._budget.room_ns
                self._budget.note(mouth.rendered_ns - earliest_ns, mouth.rendered_ns - asked_ns)
            take(mouth)

        return sink

    def _picture(self, index: int, now_ns: int) -> Picture:
        if not self._stages.composer.has_sound(index):
            if self._speech.running:
                for chunk in self._feed.emit(now_ns):
                    self._passage.chunks.put_nowait(chunk)
            self._passage.hurry(now_ns)
        return self._stages.composer.picture(index, now_ns)

    def _release(self, picture: Picture) -> None:
        self._parts.peer.show(picture)
        for watcher in tuple(self._parts.watchers):
            watcher(picture)
        self._feed.released = picture.index
        with_sound = picture.stamps.windowed_ns > 0
        if self._ear is not None:
            self._ear.play(picture.index, picture.pcm48 if with_sound else None)
        if not self._speech.released(picture.index, with_sound=with_sound):
            self.void()  # speech was lost to a stall; it is in line again
        self._log.tell_all(self._quality.note(picture.index, picture.kind))
        if with_sound and picture.kind in (PictureKind.HELD, PictureKind.LATE):
            self._budget.note_missing(asked=picture.stamps.queued_ns > 0)
        self._quiet_frames = self._quiet_frames + 1 if picture.kind is PictureKind.IDLE else 0
        self._follow_budget()

    def _follow_budget(self) -> None:
        idle = self._quiet_frames > QUIET_FRAMES and not self._speech.flowing and not self._stages.vad.speech
        # Pushed speech is only asked for earlier; a microphone's sound would have to be torn apart.
        pause = self._parts.source is Source.AGENT or (self._quiet_frames > 1 and not self._stages.vad.speech)
        change = self._budget.step(self._parts.clock.now_ns(), idle=idle, pause=pause)
        if change:
            self._ingest.shift(change)
            self._ingest.fill_margin_ns = int(self._patience_ms() * NS_PER_MS)
            self._feed.render_frames = self._budget.render_frames
            self.snapshot.playout_delay_ms = self._delay_ns() / NS_PER_MS

    def _delay_ns(self) -> int:
        """From a frame's first sample to its release."""
        return FRAME_NS + self._lookahead_ns + self._budget.room_ns

    def _patience_ms(self) -> float:
        """How long sound may be waited for: to the release of the frame it ends, less a moment to cut it."""
        return max(10.0, (self._lookahead_ns + self._budget.room_ns) / NS_PER_MS - 10.0)

    def _note_sent(self, picture: Picture) -> None:
        stamps = picture.stamps
        spoken_ns = stamps.captured_ns
        if self._parts.source is Source.MIRROR:
            spoken_ns = self._start_ns + picture.index * FRAME_NS + FRAME_NS // 2 - self._ingest.lead_ns
        times_ms = self._record.note(picture.kind, stamps, spoken_ns)
        self._parts.metrics.note_picture(picture.kind, times_ms)
        if self._windows is not None:
            self._windows.note(picture.kind, stamps, spoken_ns)

    async def _report(self) -> None:
        """One snapshot a second on the telemetry channel."""
        clock = self._parts.clock
        at_ns = clock.now_ns()
        while True:
            at_ns += NS_PER_S
            await clock.sleep_until(at_ns)
            now_ms = (clock.now_ns() - self._start_ns) / NS_PER_MS
            message = self.snapshot.message(now_ms, self._parts.loop_lag_ms(), speaking=self._speech.speaking)
            self._parts.peer.send_event(message)


def _stages(parts: SessionParts, deadline_ns: Callable[[int], int]) -> Stages:
    spec, cast, vad_config = parts.spec, parts.cast, parts.config.vad
    return Stages(
        vad.Vad(vad.VadSettings(vad_config.aggressiveness, vad_config.minimum_speech_ms, vad_config.hangover_ms)),
        window.Windower(window.WindowSettings(spec.context_samples, spec.lookahead_samples, vad_config.preroll_ms)),
        lipsync.LipSync(cast.face, parts.inference.session(cast.canvas, cast.face), deadline_ns),
        compose.Composer(cast.canvas),
    )


def _ear(parts: SessionParts, release_ns: int) -> BargeIn | None:
    config = parts.config.barge_in
    if parts.source is not Source.AGENT or not config.enabled:
        return None
    return BargeIn(release_ns // SLOT_NS, BargeInSettings(minimum_speech_ms=config.minimum_speech_ms))


def lookahead_chunks(spec: EngineSpec) -> int:
    """The look-ahead in whole chunks of 20 ms."""
    return window.lookahead_chunks(spec.lookahead_samples)


async def _discard(blocks: Channel[SoundBlock]) -> None:
    """Keep a channel nobody listens to from filling up."""
    while True:
        try:
            await blocks.get()
        except ChannelClosed:
            return
