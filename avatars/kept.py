"""What was made once and is wanted again, within bounds. Threads may share it; it knows no frames."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Shelf(Generic[T]):
    """Things by their keys. Who keeps them says what makes room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under the key, or what `make` makes, which then is."""
        if key in (items := self._items):
            try:
                return items[key]
            except KeyError:
                pass  # another thread has just made room
        # Two threads may make the same; that is cheaper than one waiting for the other's every frame.
        item = make()
        with self._lock:
            self._keep(key, item)
        return item

    def _keep(self, key: Hashable, item: T) -> None:
        raise NotImplementedError


class Kept(_Shelf[T]):
    """Of things that come round in turn, none oftener than another, as many as the bytes allow.

    The newest makes room for the next: were it the oldest, a round a little too long would find none of its things.
    """

    def __init__(self, limit_bytes: int, nbytes: Callable[[T], int]) -> None:
        """nbytes: of one thing. One thing is kept however large it is."""
        super().__init__()
        self._limit_bytes = limit_bytes
        self._nbytes = nbytes
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Of all that is kept."""
        return self._bytes

    def _keep(self, key: Hashable, item: T) -> None:
        items = self._items
        if key not in items:
            more = self._nbytes(item)
            while items and self._bytes + more > self._limit_bytes:
                self._bytes -= self._nbytes(items.popitem()[1])
            items[key] = item
            self._bytes += more


class KeptLately(_Shelf[T]):
    """So many things; the oldest makes room: those that come are new ones."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def _keep(self, key: Hashable, item: T) -> None:
        self._items[key] = item
        while len(self._items) > self._limit:
            del self._items[next(iter(self._items))]
