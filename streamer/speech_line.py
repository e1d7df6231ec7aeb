"""The line of utterances: what waits, what is on its way to the listener, what was heard, and the events of all that.

Pure. Positions follow what playout has released, never what was queued.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamer.errors import SpeechRejected
from streamer.events import Event
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, S16, SOUND_HZ
from streamer.utterance import Utterance

MOST_UTTERANCES = 256
PROGRESS_SAMPLES = SOUND_HZ
"""How much sound lies between two `playback_progress`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """20 ms of the grid and whose speech lies in them: samples [.., until) of an utterance."""

    first_sample: int
    utterance: Utterance
    until: int


class SpeechLine:
    """One session's speech. `take` fills the grid, `released` says what became of it."""

    def __init__(self, tell: Callable[[Event], None], limit_s: float, prebuffer_samples: int) -> None:
        """prebuffer_samples: how much of a growing utterance must be there before it starts or goes on."""
        self._tell = tell
        self._limit_s = limit_s
        self._prebuffer_samples = prebuffer_samples
        self._line: deque[Utterance] = deque()
        self._flying: deque[_Piece] = deque()
        self._opened = 0
        self._closed = False
        self.moved = asyncio.Event()
        """Set whenever something was heard or voided: there may be room for more."""

    @property
    def queued_s(self) -> float:
        """Seconds that came and were not heard yet."""
        return sum(u.unheard_s for u in self._line)

    @property
    def speaking(self) -> bool:
        """Somebody speaks or waits to."""
        return bool(self._line)

    @property
    def flowing(self) -> bool:
        """Speech is on its way to the listener, or could be."""
        front = self._front()
        return bool(self._flying) or (front is not None and self._can_give(front))

    @property
    def running(self) -> bool:
        """In the middle of an utterance: its next sound follows on what was taken."""
        front = self._front()
        return bool(self._flying) or (front is not None and front.flowing)

    @property
    def audible(self) -> bool:
        """The listener hears the first of the line."""
        return bool(self._line) and self._line[0].started

    def open(self, seconds: float | None = None) -> Utterance:
        """A new utterance at the end of the line; `seconds` where its length is known. Raises SpeechRejected."""
        if self._closed:
            raise SpeechRejected("the session takes no more speech", 409)
        if len(self._line) >= MOST_UTTERANCES:
            raise SpeechRejected(f"{MOST_UTTERANCES} utterances wait already", 413)
        self._check_room(seconds or 0.0)
        self._opened += 1
        utterance = Utterance(f"s{self._opened}")
        self._line.append(utterance)
        self._tell({"event": "speech_queued", "speech": utterance.speech_id, "seconds": seconds})
        return utterance

    def append(self, utterance: Utterance, pcm48: S16) -> None:
        """More of an utterance; nothing where it was interrupted. Raises SpeechRejected when too much would wait."""
        if not utterance.voided:
            self._check_room(len(pcm48) / SOUND_HZ)
            utterance.append(pcm48)

    def finish(self, utterance: Utterance) -> None:
        """No more of this utterance will come. Idempotent."""
        utterance.ended = True
        self._settle()

    def take(self, first_sample: int) -> S16 | None:
        """(960,) s16 for the slot at `first_sample` of the grid, or None while nobody has anything to say.

        The last piece of an utterance is padded with silence.
        """
        utterance = self._front()
        if utterance is None:
            return None
        if not self._can_give(utterance):
            if utterance.flowing:
                utterance.flowing = False
                self._tell({"event": "degraded", "reason": "speech_underrun", "speech": utterance.speech_id})
            return None
        utterance.flowing = True
        piece = utterance.take(CHUNK_SAMPLES)
        self._flying.append(_Piece(first_sample, utterance, utterance.taken_samples))
        if len(piece) < CHUNK_SAMPLES:
            piece = np.concatenate((piece, np.zeros(CHUNK_SAMPLES - len(piece), np.int16)))
        return piece

    def released(self, index: int, *, with_sound: bool) -> bool:
        """Playout has released frame `index`. False where speech of this or an earlier frame was lost on its way.

        What was lost, and all behind it, waits in line again; the caller voids what is still on its way.
        """
        while self._flying and self._flying[0].first_sample < (index + 1) * FRAME_SAMPLES:
            piece = self._flying.popleft()
            if not with_sound or piece.first_sample < index * FRAME_SAMPLES:
                self.rewind()
                return False
            self._hear(piece)
        self._settle()
        return True

    def rewind(self) -> None:
        """What is on its way will not arrive: take it again."""
        self._flying.clear()
        for utterance in self._line:
            utterance.rewind()

    def interrupt(self) -> None:
        """Nobody speaks any more: what plays, waits or is still to come of these utterances is void."""
        gone = tuple(self._line)
        self._flying.clear()
        self._line.clear()
        self.moved.set()
        for utterance in gone:
            utterance.void()
            self._tell(_finished(utterance, interrupted=True))

    def cancel(self, utterance: Utterance) -> bool:
        """One utterance alone is void. True if any speech was on its way: it is to be voided and waits again."""
        if utterance not in self._line:
            return False
        on_its_way = bool(self._flying)
        self._line.remove(utterance)
        utterance.void()
        self._tell(_finished(utterance, interrupted=True))
        self.rewind()
        return on_its_way

    def close(self) -> None:
        """The session ends: all utterances end with it. Idempotent."""
        self._closed = True
        self.interrupt()

    def _check_room(self, seconds: float) -> None:
        if self.queued_s + seconds > self._limit_s:
            raise SpeechRejected(f"more than {self._limit_s:.0f} s of speech would be waiting", 413)

    def _front(self) -> Utterance | None:
        """The first utterance that has more to say, now or later."""
        return next((u for u in self._line if u.waiting_samples or not u.ended), None)

    def _can_give(self, utterance: Utterance) -> bool:
        if utterance.ended:
            return True
        least = CHUNK_SAMPLES if utterance.flowing else self._prebuffer_samples
        return utterance.waiting_samples >= least

    def _hear(self, piece: _Piece) -> None:
        utterance = piece.utterance
        before = utterance.heard_samples
        if not utterance.started:
            utterance.started = True
            self._tell({"event": "playback_started", "speech": utterance.speech_id})
        utterance.hear(piece.until)
        self.moved.set()
        if before // PROGRESS_SAMPLES != utterance.heard_samples // PROGRESS_SAMPLES:
            self._tell(
                {"event": "playback_progress", "speech": utterance.speech_id, "position_s": utterance.position_s}
            )
        self._settle()

    def _settle(self) -> None:
        while self._line and self._line[0].ended and self._line[0].heard_samples >= self._line[0].received_samples:
            self._tell(_finished(self._line.popleft(), interrupted=False))
            self.moved.set()


def _finished(utterance: Utterance, *, interrupted: bool) -> Event:
    return {
        "event": "playback_finished",
        "speech": utterance.speech_id,
        "position_s": utterance.position_s,
        "interrupted": interrupted,
    }
