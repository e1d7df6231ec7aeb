"""Speech that waits for its turn: begins when the floor reaches it, hands the floor on once it has been heard. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamer.errors import SessionClosed, SpeechRejected
from streamer.media import S16
from streamer.roundtable.floor import Floor, FloorMode
from streamer.session import Session
from streamer.utterance import Utterance

AFTER_FRAMES = 4
"""A turn lasts so much longer than its speech is played out at the seat: the last of it is still on its way."""


@dataclass(slots=True, eq=False)
class _Turn:
    seat: str
    sound: S16 | None
    utterance: Utterance | None = None
    over_for: int = 0


class Turns:
    """Call `follow` once a frame."""

    def __init__(self, floor: Floor, session: Callable[[str], Session]) -> None:
        self._floor = floor
        self._session = session
        self._turns: dict[int, _Turn] = {}

    def add(self, seat: str, pcm48: S16) -> int:
        """A turn at the end of the queue; its id. Raises FloorError."""
        turn = self._floor.take_turn(seat)
        self._turns[turn] = _Turn(seat, pcm48)
        return turn

    def drop(self, turn: int) -> None:
        """A turn is not wanted; what of it is being said ends. Idempotent."""
        gone = self._turns.pop(turn, None)
        if gone is not None and gone.utterance is not None:
            self._session(gone.seat).cancel_speech(gone.utterance)
        self._floor.end_turn(turn)

    def waits(self, turn: int) -> bool:
        """The turn is not over yet."""
        return turn in self._turns

    def follow(self) -> None:
        """Begin the turn that has the floor, end the one that has been heard."""
        if self._floor.mode is not FloorMode.QUEUE or not self._floor.turns:
            return
        number, seat = self._floor.turns[0]
        turn = self._turns.get(number)
        if turn is None:
            return  # given by a moderator; ended by one
        if turn.utterance is None and not self._floor.muted(seat):
            self._begin(number, turn)
        elif turn.utterance is not None and _heard(turn.utterance):
            turn.over_for += 1
            if turn.over_for > AFTER_FRAMES:
                self.drop(number)

    def _begin(self, number: int, turn: _Turn) -> None:
        session, sound, turn.sound = self._session(turn.seat), turn.sound, None
        if sound is None:
            return
        try:
            turn.utterance = session.open_speech(len(sound) / 48_000)
            session.append_speech(turn.utterance, sound)
            session.finish_speech(turn.utterance)
        except (SpeechRejected, SessionClosed):
            self.drop(number)


def _heard(utterance: Utterance) -> bool:
    return utterance.voided or (utterance.ended and utterance.heard_samples >= utterance.received_samples)
