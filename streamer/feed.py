"""Pushed speech of a session: utterances wait in line and leave in real time, 20 ms a step. Knows no network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from streamer.channel import Channel
from streamer.clock import NS_PER_S, Clock
from streamer.errors import SpeechRejected
from streamer.media import CHUNK_SAMPLES, S16, SOUND_HZ, SoundBlock

CHUNK_NS = CHUNK_SAMPLES * NS_PER_S // SOUND_HZ

Event = Mapping[str, object]


@dataclass(slots=True)
class Utterance:
    """One piece of speech: (n,) s16 mono at 48 kHz, and how far it has gone."""

    speech_id: str
    pcm48: S16
    played_samples: int = 0

    @property
    def seconds(self) -> float:
        return len(self.pcm48) / SOUND_HZ


@dataclass(slots=True)
class SpeechLine:
    """The line of utterances. Pure: `step` gives the next 20 ms, or None when nobody speaks."""

    limit_s: float = 600.0
    _line: deque[Utterance] = field(default_factory=deque)
    _position: int = 0

    @property
    def queued_s(self) -> float:
        return sum(len(u.pcm48) - u.played_samples for u in self._line) / SOUND_HZ

    @property
    def speaking(self) -> bool:
        return bool(self._line)

    def push(self, utterance: Utterance) -> None:
        """Put an utterance at the end of the line. Raises SpeechRejected when too much is waiting."""
        if self.queued_s + utterance.seconds > self.limit_s:
            raise SpeechRejected(f"more than {self.limit_s:.0f} s of speech would be waiting", 413)
        self._line.append(utterance)

    def step(self, now_ns: int) -> tuple[SoundBlock | None, list[Event]]:
        """The next 20 ms with what happens in them; the last piece of an utterance is padded with silence."""
        if not self._line:
            return None, []
        events: list[Event] = []
        current = self._line[0]
        if current.played_samples == 0:
            events.append({"event": "playback_started", "speech": current.speech_id})
        piece = current.pcm48[current.played_samples : current.played_samples + CHUNK_SAMPLES]
        current.played_samples += len(piece)
        if len(piece) < CHUNK_SAMPLES:
            piece = np.concatenate((piece, np.zeros(CHUNK_SAMPLES - len(piece), np.int16)))
        if current.played_samples >= len(current.pcm48):
            self._line.popleft()
            events.append(_finished(current, interrupted=False))
        block = SoundBlock(piece, self._position, now_ns)
        self._position += CHUNK_SAMPLES
        return block, events

    def interrupt(self) -> list[Event]:
        """Drop everything that waits or plays."""
        events = [_finished(u, interrupted=True) for u in self._line]
        self._line.clear()
        return events


def _finished(utterance: Utterance, *, interrupted: bool) -> Event:
    return {
        "event": "playback_finished",
        "speech": utterance.speech_id,
        "position_s": round(utterance.played_samples / SOUND_HZ, 3),
        "interrupted": interrupted,
    }


async def run(
    line: SpeechLine,
    blocks: Channel[SoundBlock],
    on_event: Callable[[Event], None],
    start_ns: int,
    clock: Clock,
) -> None:
    """Step the line on the session's grid for as long as the session lives."""
    step = 0
    while True:
        await clock.sleep_until(start_ns + step * CHUNK_NS)
        now_ns = clock.now_ns()
        step = max(step + 1, (now_ns - start_ns) // CHUNK_NS - 2)
        block, events = line.step(now_ns)
        if block is not None:
            blocks.put_nowait(block)
        for event in events:
            on_event(event)
