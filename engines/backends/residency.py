"""What avatars keep on a device: bytes under a cap, the least lately used make room, the forgotten give theirs back."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any

import numpy.typing as npt

from engines.backends.chain import Chain, Resident

DEFAULT_CAP_BYTES = 2 << 30


class ResidentPool:
    """Uploads on first use. An owner that nobody holds any more loses its place by itself."""

    def __init__(self, chain: Chain, cap_bytes: int = DEFAULT_CAP_BYTES) -> None:
        self._chain = chain
        self._cap_bytes = cap_bytes
        self._lock = threading.RLock()
        self._held: OrderedDict[int, Resident] = OrderedDict()
        self.uploads = 0

    @property
    def held_bytes(self) -> int:
        """What lies on the device now."""
        with self._lock:
            return sum(resident.nbytes for resident in self._held.values())

    def get(self, owner: object, rows: npt.NDArray[Any]) -> Resident:
        """The owner's rows on the device; `rows` are uploaded where they are not there."""
        key = id(owner)
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self._make_room(rows.nbytes)
                found = self._held[key] = self._chain.upload(rows)
                self.uploads += 1
                weakref.finalize(owner, self._drop, key)
            self._held.move_to_end(key)
            return found

    def close(self) -> None:
        """Give all of it back."""
        with self._lock:
            for key in list(self._held):
                self._drop(key)

    def _make_room(self, wanted_bytes: int) -> None:
        while self._held and self.held_bytes + wanted_bytes > self._cap_bytes:
            self._held.popitem(last=False)[1].free()

    def _drop(self, key: int) -> None:
        with self._lock:
            resident = self._held.pop(key, None)
        if resident is not None:
            resident.free()
