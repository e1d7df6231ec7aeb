"""What was made once and is wanted again, within bounds. Threads may share it; it knows no frames."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Of things that come round in turn, none oftener than another, as many as the bytes allow.

    The newest makes room for the next: were it the oldest, a round a little too long would find none of its things.
    """

    def __init__(self, limit_bytes: int, nbytes: Callable[[T], int]) -> None:
        """nbytes: of one thing. One thing is kept however large it is."""
        self._limit_bytes = limit_bytes
        self._nbytes = nbytes
        self._lock = threading.Lock()
        self._items: dict[Hashable, T] = {}
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Of all that is kept."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key in (items := self._items):
            try:
                return items[key]
            except KeyError:
                pass  # another thread has just made room
        # Two threads may make the same; that is cheaper than one waiting for the other's every frame.
        item = make()
        with self._lock:
            if key not in items:
                more = self._nbytes(item)
                while items and self._bytes + more > self._limit_bytes:
                    self._bytes -= self._nbytes(items.popitem()[1])
                items[key] = item
                self._bytes += more
        return item


class KeptLately(Generic[T]):
    """So many things; the oldest makes room: those that come are new ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._items: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key in (items := self._items):
            try:
                return items[key]
            except KeyError:
                pass  # another thread has just made room
        item = make()
        with self._lock:
            items[key] = item
            while len(items) > self._limit:
                del items[next(iter(items))]
        return item
