"""How often one address may ask for a session, and one session for anything. Pure but for `Turns`, which waits."""

from __future__ import annotations

from collections import OrderedDict

from streamer.clock import NS_PER_S, Clock

REQUESTS_PER_S, REQUESTS_BURST = 200.0, 200
"""So many requests of one session are obeyed; those of a flood wait where they came from."""
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


class Pace:
    """A bucket for one session: `burst` messages at once, then `per_s` a second, as late as it takes."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._interval_ns = int(NS_PER_S / per_s)
        self._ahead_ns = burst * self._interval_ns
        self._free_ns = 0
        """When the bucket will be empty again."""

    def due_ns(self, now_ns: int) -> int:
        """When one more message is to be obeyed: `now_ns`, or later for one of a flood."""
        self._free_ns = max(now_ns, self._free_ns) + self._interval_ns
        return max(now_ns, self._free_ns - self._ahead_ns)


class Turns:
    """One session's requests, each in its turn, so that a flood of them neither holds the loop nor fills a log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pace = Pace(REQUESTS_PER_S, REQUESTS_BURST)

    async def turn(self) -> None:
        """Return when one more may be obeyed; others have run meanwhile."""
        await self._clock.sleep_until(self._pace.due_ns(self._clock.now_ns()))
