"""Loop lag: how late the event loop wakes a sleeper. The cheapest sign that something blocks."""

from __future__ import annotations

from collections import deque

from prometheus_client import Histogram

from streamer.clock import NS_PER_MS, NS_PER_S, Clock

PERIOD_NS = 50 * NS_PER_MS


class LoopLag:
    """Probes the loop it runs on."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._recent: deque[int] = deque(maxlen=40)

    def recent_ms(self) -> float:
        """The worst lag of the last two seconds."""
        return max(self._recent, default=0) / NS_PER_MS

    async def run(self, clock: Clock) -> None:
        """Probe for ever."""
        while True:
            due_ns = clock.now_ns() + PERIOD_NS
            await clock.sleep_until(due_ns)
            lag_ns = max(0, clock.now_ns() - due_ns)
            self._recent.append(lag_ns)
            self._histogram.observe(lag_ns / NS_PER_S)
