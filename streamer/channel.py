"""A bounded channel between two tasks of one loop: it names what happens when it is full and counts every drop."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class WhenFull(Enum):
    """What a full channel does with one item more."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    WAIT = "wait"


class ChannelClosed(Exception):
    """The channel is closed and, for readers, empty."""


class Channel(Generic[T]):
    """Single loop, any number of writers and readers. `put_nowait` never blocks; `put` waits under WAIT."""

    def __init__(self, name: str, capacity: int, when_full: WhenFull) -> None:
        self.name = name
        self.capacity = capacity
        self.when_full = when_full
        self.dropped = 0
        self._items: deque[T] = deque()
        self._closed = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        return self._closed

    def put_nowait(self, item: T) -> bool:
        """Add an item under the drop policy. False if this or an older item was dropped, or the channel is closed."""
        if self._closed:
            return False
        kept = True
        if len(self._items) >= self.capacity:
            self.dropped += 1
            kept = False
            if self.when_full is not WhenFull.DROP_OLDEST:
                return False
            self._items.popleft()
        self._items.append(item)
        self._changed.set()
        return kept

    async def put(self, item: T) -> None:
        """Add an item; under WAIT, wait for room. Raises ChannelClosed."""
        while self.when_full is WhenFull.WAIT and len(self._items) >= self.capacity and not self._closed:
            self._changed.clear()
            await self._changed.wait()
        if self._closed:
            raise ChannelClosed(self.name)
        self.put_nowait(item)

    async def get(self) -> T:
        """The oldest item, waiting for one. Raises ChannelClosed once closed and empty. Cancellation loses nothing."""
        while not self._items:
            if self._closed:
                raise ChannelClosed(self.name)
            self._changed.clear()
            await self._changed.wait()
        item = self._items.popleft()
        self._changed.set()
        return item

    def get_nowait(self) -> T | None:
        """The oldest item, or None."""
        if not self._items:
            return None
        self._changed.set()
        return self._items.popleft()

    def peek(self) -> T | None:
        """The oldest item, which stays; None where there is none."""
        return self._items[0] if self._items else None

    def clear(self) -> int:
        """Drop everything queued; returns how many."""
        count = len(self._items)
        self._items.clear()
        self._changed.set()
        return count

    def close(self) -> None:
        """No more items. Readers drain what is left. Idempotent."""
        self._closed = True
        self._changed.set()
