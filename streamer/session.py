"""One session: the only place where the stages meet. It wires one pipeline, runs it in a TaskGroup, ends it whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engines.contract import EngineSpec
from streamer import feed
from streamer.casting import Cast
from streamer.channel import Channel, ChannelClosed, WhenFull
from streamer.clock import NS_PER_MS, NS_PER_S, Clock
from streamer.config import Config
from streamer.errors import SessionClosed, SpeechRejected, StreamerError
from streamer.feed import Event, SpeechLine, Utterance
from streamer.inference import Inference
from streamer.media import (
    CHUNK_SAMPLES,
    FRAME_NS,
    S16,
    SOUND_HZ,
    AudioChunk,
    AudioWindow,
    GatedChunk,
    Picture,
    SoundBlock,
    Source,
)
from streamer.pipeline import compose, ingest, lipsync, playout, vad, window
from streamer.rtc.peer import Peer
from streamer.telemetry.latency import LatencyRecord
from streamer.telemetry.metrics import Metrics
from streamer.telemetry.snapshot import Snapshot

logger = logging.getLogger(__name__)

FIRST_SOUND_WAIT_S = 0.3
"""How long going live waits for the microphone's first packets, to put the grid in step with them."""
FIRST_SOUND_BLOCKS = 6
"""The earliest of so many sets the grid: connecting keeps both sides busy, and the first packets come late for it."""


class State(StrEnum):
    """Never back."""

    NEW = "new"
    CONNECTING = "connecting"
    LIVE = "live"
    DRAINING = "draining"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, eq=False)
class SessionParts:
    """What a session is made of; the registry brings it together."""

    peer: Peer
    cast: Cast
    source: Source
    spec: EngineSpec
    config: Config
    inference: Inference
    metrics: Metrics
    clock: Clock
    loop_lag_ms: Callable[[], float]


class Session:
    """A visitor's line from sound to picture."""

    def __init__(self, session_id: str, avatar_id: str, parts: SessionParts) -> None:
        self.id = session_id
        self.avatar_id = avatar_id
        self.source = parts.source
        self.state = State.NEW
        self.generation = 0
        self._parts = parts
        self._line = SpeechLine(parts.config.limits.queued_speech_s)
        self._spoken = 0
        self._pipeline: _Pipeline | None = None
        self._made_ns = parts.clock.now_ns()

    @property
    def peer(self) -> Peer:
        return self._parts.peer

    def speak(self, pcm48: S16) -> Utterance:
        """Queue speech (n,) s16 mono 48 kHz. Raises SpeechRejected, SessionClosed."""
        if self.state in (State.DRAINING, State.CLOSED):
            raise SessionClosed
        if self.source is not Source.AGENT:
            raise SpeechRejected(f"this session's source is {self.source}; speech needs source=agent", 409)
        self._spoken += 1
        utterance = Utterance(f"s{self._spoken}", pcm48)
        self._line.push(utterance)
        self._tell({"event": "speech_queued", "speech": utterance.speech_id, "seconds": round(utterance.seconds, 3)})
        return utterance

    def interrupt(self) -> None:
        """Void everything that is queued, in a batch or composed: older generations fall out at every stage."""
        self.generation += 1
        for event in self._line.interrupt():
            self._tell(event)
        if self._pipeline is not None:
            self._pipeline.void_before(self.generation)
        self._tell({"event": "interrupted"})

    async def run(self) -> None:
        """From the answer to the end. Returns the way the session ended is logged and counted; nothing is raised."""
        parts, result = self._parts, "finished"
        self.state = State.CONNECTING
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_gone(), name=f"peer-{self.id[:8]}")
                group.create_task(self._live(), name=f"live-{self.id[:8]}")
        except* _PeerGone:
            pass
        except* StreamerError as errors:
            result = type(errors.exceptions[0]).__name__
            logger.info("session_failed", extra={"session": self.id[:8], "reason": result})
        except* Exception:  # one of the five borders: a session's failure is that session's end, not the server's
            result = "error"
            logger.exception("session_error", extra={"session": self.id[:8]})
        finally:
            self.state = State.CLOSED
            parts.metrics.sessions.labels(result=result).inc()
            await parts.peer.close()

    def close(self) -> None:
        """Hang up; `run` then ends."""
        if self.state is not State.CLOSED:
            self.state = State.DRAINING
            self._parts.peer.hang_up()

    async def _until_gone(self) -> None:
        await self._parts.peer.run()
        raise _PeerGone

    async def _live(self) -> None:
        parts = self._parts
        await parts.peer.connected(int(parts.config.limits.connect_timeout_s * NS_PER_S))
        first = await self._first_sounds()
        start_ns = _zero_ns(first) if first else parts.clock.now_ns()
        self._pipeline = _Pipeline(parts, start_ns, self._tell)
        self.state = State.LIVE
        parts.metrics.session_setup.observe((parts.clock.now_ns() - self._made_ns) / NS_PER_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name=f"control-{self.id[:8]}")
            self._pipeline.start(group, self._line, first)

    async def _first_sounds(self) -> list[SoundBlock]:
        blocks: list[SoundBlock] = []
        if self.source is not Source.MIRROR:
            return blocks
        try:
            async with asyncio.timeout(FIRST_SOUND_WAIT_S):
                while len(blocks) < FIRST_SOUND_BLOCKS:
                    blocks.append(await self._parts.peer.inbound.get())
        except (TimeoutError, ChannelClosed):
            pass
        return blocks

    async def _listen(self) -> None:
        """Requests of the browser's `control` channel."""
        while True:
            try:
                message = await self._parts.peer.control.get()
            except ChannelClosed:
                return
            if message.get("type") == "interrupt":
                self.interrupt()
            elif message.get("type") == "stats" and self._pipeline is not None:
                self._pipeline.snapshot.note_client(message)

    def _tell(self, event: Event) -> None:
        now_ms = (self._parts.clock.now_ns() - self._made_ns) // NS_PER_MS
        self._parts.peer.send_event({"type": "event", "t_ms": now_ms, **event})


class _PeerGone(Exception):
    """Ends the session's TaskGroup."""


class _Pipeline:
    """The stages of one live session, joined by bounded channels."""

    def __init__(self, parts: SessionParts, start_ns: int, tell: Callable[[Event], None]) -> None:
        spec = parts.spec
        self._parts = parts
        self._tell = tell
        self._start_ns = start_ns
        delay_ns = playout_delay_ns(spec.lookahead_samples, parts.config.playout_slack_ms)
        vad_config = parts.config.vad
        self._ingest = ingest.Ingest(start_ns)
        self._vad = vad.Vad(
            vad.VadSettings(vad_config.aggressiveness, vad_config.minimum_speech_ms, vad_config.hangover_ms)
        )
        self._windower = window.Windower(
            window.WindowSettings(spec.context_samples, spec.lookahead_samples, vad_config.preroll_ms)
        )
        self._playout = playout.Playout(start_ns, delay_ns)
        self._lipsync = lipsync.LipSync(parts.cast.face, self._playout.deadline_ns)
        self._composer = compose.Composer(parts.cast.canvas)
        self._renderer = parts.inference.session(parts.cast.canvas)
        self._record = LatencyRecord(delay_ns / NS_PER_MS, start_ns)
        self._blocks: Channel[SoundBlock] = Channel("blocks", 64, WhenFull.DROP_OLDEST)
        self._chunks: Channel[AudioChunk] = Channel("chunks", 64, WhenFull.DROP_OLDEST)
        self._gated: Channel[GatedChunk] = Channel("gated", 64, WhenFull.DROP_OLDEST)
        self._windows: Channel[AudioWindow] = Channel("windows", 32, WhenFull.DROP_OLDEST)
        self.snapshot = Snapshot(self._record, parts.peer, delay_ns / NS_PER_MS, spec.lookahead_samples / 16)

    def void_before(self, generation: int) -> None:
        """Interrupt: everything older than `generation` falls out wherever it is."""
        self._blocks.clear()
        self._ingest.generation = generation
        self._lipsync.generation = generation
        self._composer.generation = generation

    def start(self, group: asyncio.TaskGroup, line: SpeechLine, first: list[SoundBlock]) -> None:
        """Start one task a stage. `first` are blocks already taken: they begin the grid."""
        parts, clock = self._parts, self._parts.clock
        mirror = parts.source is Source.MIRROR
        blocks = parts.peer.inbound if mirror else self._blocks
        if first:
            self._ingest.anchor_at_start()
        for block in first:
            for chunk in self._ingest.push(block, clock.now_ns()):
                self._chunks.put_nowait(chunk)
        tasks = {
            "ingest": ingest.run(self._ingest, blocks, self._chunks, clock),
            "fill": ingest.run_fill(self._ingest, self._chunks, clock),
            "vad": vad.run(self._vad, self._chunks, self._gated, clock),
            "window": window.run(self._windower, self._gated, self._windows, clock),
            "lipsync": lipsync.run(self._lipsync, self._windows, self._composer, self._renderer, clock),
            "playout": playout.run(self._playout, self._composer.picture, parts.peer.show, clock),
            "snapshot": self._report(line),
        }
        if not mirror:
            tasks["unheard"] = _discard(parts.peer.inbound)
        if parts.source is Source.AGENT:
            tasks["feed"] = feed.run(line, self._blocks, self._tell, self._start_ns, clock)
        for name, coroutine in tasks.items():
            group.create_task(coroutine, name=name)
        parts.peer.on_sent = self._note_sent

    def _note_sent(self, picture: Picture) -> None:
        times_ms = self._record.note(picture.index, picture.kind, picture.stamps)
        self._parts.metrics.note_picture(picture.kind, times_ms)

    async def _report(self, line: SpeechLine) -> None:
        """One snapshot a second on the telemetry channel."""
        clock = self._parts.clock
        at_ns = clock.now_ns()
        while True:
            at_ns += NS_PER_S
            await clock.sleep_until(at_ns)
            now_ms = (clock.now_ns() - self._start_ns) / NS_PER_MS
            message = self.snapshot.message(now_ms, self._parts.loop_lag_ms(), speaking=line.speaking)
            self._parts.peer.send_event(message)


def playout_delay_ns(lookahead_samples: int, slack_ms: float) -> int:
    """From a frame's first sample to its release: the frame, the look-ahead in whole packets, and the slack."""
    packet = CHUNK_SAMPLES // 3
    lookahead_ms = -(-lookahead_samples // packet) * 20
    return FRAME_NS + int((lookahead_ms + slack_ms) * NS_PER_MS)


def _zero_ns(blocks: list[SoundBlock]) -> int:
    """When the first sample of some blocks sounded, had they all travelled like the quickest of them."""
    origin = blocks[0].source_sample
    return min(b.arrived_ns - (b.source_sample - origin + len(b.pcm48)) * NS_PER_S // SOUND_HZ for b in blocks)


async def _discard(blocks: Channel[SoundBlock]) -> None:
    """Keep a channel nobody listens to from filling up."""
    while True:
        try:
            await blocks.get()
        except ChannelClosed:
            return
