"""What happens in a session, in order and once each: a numbered log that readers follow, live or from where they left.

Pure; knows no transport. A reader that falls too far behind is cut off, never served with a hole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamer.channel import Channel, WhenFull

Event = Mapping[str, Any]
Sink = Callable[[Event], None]

KEPT_EVENTS = 512
"""So many past events can be asked for again; a reader may fall so far behind."""


class EventLog:
    """One session's events. `tell` numbers an event from 1 on and hands it to every reader."""

    def __init__(self, now_ms: Callable[[], int], sink: Sink | None = None) -> None:
        self._now_ms = now_ms
        self._sink = sink
        self._last = 0
        self._kept: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._readers: list[Channel[Event]] = []
        self._closed = False

    @property
    def last(self) -> int:
        """Number of the newest event; 0 before the first."""
        return self._last

    def tell(self, event: Event) -> None:
        """Something has happened: {"event": name, …}. After `close` nothing happens any more."""
        if self._closed:
            return
        self._last += 1
        message: Event = {"type": "event", "seq": self._last, "t_ms": self._now_ms(), **event}
        self._kept.append(message)
        if self._sink is not None:
            self._sink(message)
        for reader in tuple(self._readers):
            if not reader.put_nowait(message):
                self.leave(reader)

    def tell_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.tell(event)

    def follow(self, after: int | None = None) -> Channel[Event]:
        """A reader of the events behind number `after` (None: only what is still to come). Closed with the log.

        Events older than the last KEPT_EVENTS are gone.
        """
        reader: Channel[Event] = Channel("events", 2 * KEPT_EVENTS, WhenFull.DROP_NEWEST)
        if after is not None:
            for message in self._kept:
                if message["seq"] > after:
                    reader.put_nowait(message)
        if self._closed:
            reader.close()
        else:
            self._readers.append(reader)
        return reader

    def leave(self, reader: Channel[Event]) -> None:
        """Stop following. The reader keeps what it has not yet read."""
        if reader in self._readers:
            self._readers.remove(reader)
        reader.close()

    def close(self) -> None:
        """The session is over: readers come to their end. Idempotent."""
        self._closed = True
        for reader in tuple(self._readers):
            self.leave(reader)
