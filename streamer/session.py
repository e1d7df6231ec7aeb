"""One session: a visitor's line from sound to picture. It runs the line in a TaskGroup and ends it whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

from streamer.admission import Turns
from streamer.casting import Cast
from streamer.channel import Channel, ChannelClosed
from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.errors import SessionClosed, SpeechRejected, StreamerError
from streamer.events import Event, EventLog
from streamer.live import LiveLine, SessionParts, lookahead_chunks
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, S16, SOUND_HZ, Picture, SoundBlock, Source
from streamer.outlet import Outlet
from streamer.pipeline.interlude import Clip
from streamer.speech_line import SpeechLine
from streamer.utterance import Utterance

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


class Session:
    """What a visitor, and whoever holds the session's id, can do with it."""

    def __init__(self, session_id: str, avatar_id: str, parts: SessionParts) -> None:
        self.id = session_id
        self.avatar_id = avatar_id
        self.source = parts.source
        self.state = State.NEW
        self.interrupts = 0  # speech that was asked for before the last of them is not wanted any more
        self._parts = parts
        self.requests = Turns(parts.clock)
        self._made_ns = parts.clock.now_ns()
        self._log = EventLog(self._age_ms, parts.peer.send_event)
        prebuffer_samples = 2 * FRAME_SAMPLES + lookahead_chunks(parts.spec) * CHUNK_SAMPLES
        self._speech = SpeechLine(self._log.tell, parts.config.limits.queued_speech_s, prebuffer_samples)
        self._line: LiveLine | None = None

    @property
    def peer(self) -> Outlet:
        return self._parts.peer

    @property
    def cast(self) -> Cast:
        """Who is on stage."""
        return self._parts.cast

    @property
    def watchers(self) -> list[Callable[[Picture], None]]:
        """Called on the loop with every picture that is released; they must only deposit."""
        return self._parts.watchers

    @property
    def speaking(self) -> bool:
        """Something is said or waits to be."""
        return self._speech.speaking

    @property
    def queued_s(self) -> float:
        """Seconds of speech that came and were not heard yet."""
        return self._speech.queued_s

    def open_speech(self, seconds: float | None = None) -> Utterance:
        """A new utterance at the end of the line, to be filled. Raises SpeechRejected, SessionClosed."""
        if self.state in (State.DRAINING, State.CLOSED):
            raise SessionClosed
        if self.source is not Source.AGENT:
            raise SpeechRejected(f"this session's source is {self.source}; speech needs source=agent", 409)
        return self._speech.open(seconds)

    def append_speech(self, utterance: Utterance, pcm48: S16) -> None:
        """(n,) s16 mono 48 kHz more of an utterance. Raises SpeechRejected when too much would wait."""
        self._speech.append(utterance, pcm48)

    def finish_speech(self, utterance: Utterance) -> None:
        """An utterance is complete. Idempotent."""
        self._speech.finish(utterance)

    def cancel_speech(self, utterance: Utterance) -> None:
        """Drop one utterance, heard in part or not; the others go on."""
        if self._speech.cancel(utterance) and self._line is not None:
            self._line.void()

    async def room(self, limit_s: float) -> None:
        """Return once less than `limit_s` of speech waits."""
        while self._speech.queued_s >= limit_s:
            self._speech.moved.clear()
            await self._speech.moved.wait()

    def interrupt(self) -> None:
        """Fall silent: whatever is queued, in a batch or composed is void."""
        self.interrupts += 1
        self._speech.interrupt()
        if self._line is not None:
            self._line.void()
        self._log.tell({"event": "interrupted"})

    def recast(self, avatar_id: str, cast: Cast) -> None:
        """Go on with another avatar, or another size of it. Raises SessionClosed, SignalingError (409)."""
        if self.state in (State.DRAINING, State.CLOSED):
            raise SessionClosed
        self._parts.peer.check_size(cast.canvas.size_px)
        self.avatar_id = avatar_id
        self._parts.cast = cast
        if self._line is not None:
            self._line.recast(cast)

    def play(self, clip: Clip) -> None:
        """Show a clip of the avatar once, as soon as nobody speaks. Raises SessionClosed."""
        if self._line is None or self.state is not State.LIVE:
            raise SessionClosed
        self._line.play(clip)

    def follow(self, after: int | None = None) -> Channel[Event]:
        """The session's events behind number `after`; None: from now on. The reader ends with the session."""
        return self._log.follow(after)

    def leave(self, reader: Channel[Event]) -> None:
        self._log.leave(reader)

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
            self._speech.close()
            self._log.close()
            parts.metrics.note_ended(result, parts.peer.stats)
            if self._line is not None:
                self._line.end()
            await parts.peer.close()
            self._line = None  # its pictures go now, not when the collector finds this session

    async def drain(self) -> None:
        """Say that the session is being ended, take nothing more to say, return when all has been said.

        Without end for a mirror or an idle session: whoever looks at it decides, or `close` does.
        """
        if self.state is not State.LIVE:
            self.close()
            return
        self.state = State.DRAINING
        self._log.tell({"event": "draining"})
        if self.source is Source.AGENT:
            while self._speech.speaking:
                self._speech.moved.clear()
                await self._speech.moved.wait()
        else:
            await self._parts.peer.until_gone()

    def close(self) -> None:
        """Hang up: what is being said ends here; `run` then ends. Idempotent."""
        if self.state is State.CLOSED:
            return
        if self.state is not State.DRAINING:
            self.state = State.DRAINING
            self._log.tell({"event": "draining"})
        self._speech.close()
        self._parts.peer.hang_up()

    async def _until_gone(self) -> None:
        await self._parts.peer.run()
        raise _PeerGone

    async def _live(self) -> None:
        parts = self._parts
        await parts.peer.connected(int(parts.config.limits.connect_timeout_s * NS_PER_S))
        first = await self._first_sounds()
        start_ns = _zero_ns(first) if first else parts.clock.now_ns()
        self._line = LiveLine(parts, start_ns, self._speech, self._log)
        self.state = State.LIVE
        parts.metrics.session_setup.observe((parts.clock.now_ns() - self._made_ns) / NS_PER_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name=f"control-{self.id[:8]}")
            self._line.start(group, first, self._barge_in)

    def _barge_in(self) -> None:
        self._log.tell({"event": "barge_in"})
        self.interrupt()

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
            await self.requests.turn()
            if message.get("type") == "interrupt":
                self.interrupt()
            elif message.get("type") == "stats" and self._line is not None:
                self._line.snapshot.note_client(message)
                self._parts.metrics.note_client(message)

    def _age_ms(self) -> int:
        return (self._parts.clock.now_ns() - self._made_ns) // NS_PER_MS


class _PeerGone(Exception):
    """Ends the session's TaskGroup."""


def _zero_ns(blocks: list[SoundBlock]) -> int:
    """When the first sample of some blocks sounded, had they all travelled like the quickest of them."""
    origin = blocks[0].source_sample
    return min(b.arrived_ns - (b.source_sample - origin + len(b.pcm48)) * NS_PER_S // SOUND_HZ for b in blocks)
