"""How often one address may ask for a session. Pure: takes `now_ns`, says how long to wait."""

from __future__ import annotations

from collections import OrderedDict

from streamer.clock import NS_PER_S

MOST_ADDRESSES = 4096
"""Remembered; the one that has been quiet for longest is forgotten first, which only ever is to its favour."""


class OfferGate:
    """A bucket for each address: `burst` offers at once, then `per_s` a second."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._interval_ns = int(NS_PER_S / per_s)
        self._ahead_ns = (burst - 1) * self._interval_ns
        self._free_ns: OrderedDict[str, int] = OrderedDict()
        """When the bucket of an address will be empty again."""

    def wait_s(self, address: str, now_ns: int) -> float | None:
        """None: come in. Otherwise the seconds after which another try is worth it."""
        free_ns = max(now_ns, self._free_ns.get(address, now_ns))
        early_ns = free_ns - now_ns - self._ahead_ns
        if early_ns > 0:
            return early_ns / NS_PER_S
        self._free_ns[address] = free_ns + self._interval_ns
        self._free_ns.move_to_end(address)
        if len(self._free_ns) > MOST_ADDRESSES:
            self._free_ns.popitem(last=False)
        return None
