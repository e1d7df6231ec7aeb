"""The floor: who may speak. Open to all, given by a moderator, or to one after the other in turn. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum

from streamer.errors import FloorError


class FloorMode(StrEnum):
    """Who decides."""

    OPEN = "open"
    """Everybody who is not muted is heard."""
    MODERATED = "moderated"
    """Who was given the floor is heard."""
    QUEUE = "queue"
    """Whose turn it is is heard: turns follow one another."""


class Floor:
    """Knows seats by name and turns by id. Raises FloorError where something is asked for that makes no sense."""

    MOST_TURNS = 500

    def __init__(self, seats: Sequence[str], mode: FloorMode = FloorMode.OPEN) -> None:
        self._seats = tuple(seats)
        self.mode = mode
        self._muted: set[str] = set()
        self._granted: set[str] = set()
        self._hands: list[str] = []
        self._turns: deque[tuple[int, str]] = deque()
        self._numbered = 0

    @property
    def hands(self) -> tuple[str, ...]:
        """Seats that ask for the floor, the first to ask first."""
        return tuple(self._hands)

    @property
    def turns(self) -> tuple[tuple[int, str], ...]:
        """(turn, seat) in order; the first has the floor in mode `queue`."""
        return tuple(self._turns)

    @property
    def audible(self) -> frozenset[str]:
        """Seats that are heard now."""
        return frozenset(seat for seat in self._seats if self.hears(seat))

    def hears(self, seat: str) -> bool:
        """Whether what this seat says is heard, and moves its mouth."""
        if seat in self._muted or seat not in self._seats:
            return False
        match self.mode:
            case FloorMode.OPEN:
                return True
            case FloorMode.MODERATED:
                return seat in self._granted
            case _:
                return bool(self._turns) and self._turns[0][1] == seat

    def muted(self, seat: str) -> bool:
        return seat in self._muted

    def granted(self, seat: str) -> bool:
        return seat in self._granted

    def set_mode(self, mode: FloorMode) -> None:
        """Another way to decide; mutes stay, and so do hands and turns."""
        self.mode = mode

    def mute(self, seat: str, muted: bool = True) -> None:
        """Shut a seat up, or let it speak again, in every mode."""
        self._known(seat)
        (self._muted.add if muted else self._muted.discard)(seat)

    def raise_hand(self, seat: str) -> None:
        """Ask for the floor; idempotent."""
        self._known(seat)
        if seat not in self._hands and seat not in self._granted:
            self._hands.append(seat)

    def lower_hand(self, seat: str) -> None:
        """Ask no more; idempotent."""
        self._known(seat)
        if seat in self._hands:
            self._hands.remove(seat)

    def grant(self, seat: str) -> None:
        """Give a seat the floor: its hand goes down. Others that have it keep it."""
        self._known(seat)
        self._granted.add(seat)
        self.lower_hand(seat)

    def revoke(self, seat: str) -> None:
        """Take the floor from a seat; idempotent."""
        self._known(seat)
        self._granted.discard(seat)

    def take_turn(self, seat: str) -> int:
        """A turn at the end of the queue; its id."""
        self._known(seat)
        if len(self._turns) >= self.MOST_TURNS:
            raise FloorError(f"{self.MOST_TURNS} turns wait already", 413)
        self._numbered += 1
        self._turns.append((self._numbered, seat))
        return self._numbered

    def end_turn(self, turn: int) -> None:
        """A turn is over, or not wanted any more; idempotent."""
        self._turns = deque(t for t in self._turns if t[0] != turn)

    def _known(self, seat: str) -> None:
        if seat not in self._seats:
            raise FloorError(f"there is no seat {seat}", 404)
