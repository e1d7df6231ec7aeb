"""The loop-lag histogram of a server's /metrics page, and its quantiles between two readings."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

LAG = "avatar_event_loop_lag_seconds_bucket"


@dataclass(frozen=True, slots=True)
class LagCounts:
    """The loop-lag histogram: upper edges in seconds, ascending, and how many probes were at most so late."""

    edges_s: tuple[float, ...]
    counts: tuple[float, ...]

    def since(self, before: LagCounts) -> LagCounts:
        """The probes made after `before`."""
        return LagCounts(self.edges_s, tuple(b - a for a, b in zip(before.counts, self.counts, strict=True)))

    def quantile_ms(self, share: float) -> float:
        """Interpolated inside its bucket; beyond the last finite edge, that edge. 0 where nothing was probed."""
        wanted = share * self.counts[-1]
        below_s, below = 0.0, 0.0
        for edge_s, count in zip(self.edges_s, self.counts, strict=True):
            if count >= wanted and count > below:
                if edge_s == float("inf"):
                    return 1000.0 * below_s
                return 1000.0 * (below_s + (edge_s - below_s) * (wanted - below) / (count - below))
            below_s, below = edge_s, count
        return 0.0


def loop_lag(url: str) -> LagCounts:
    """Read the histogram of the server at `url`. Raises OSError."""
    with urllib.request.urlopen(f"{url}metrics", timeout=10) as response:
        return read_lag(response.read().decode())


def read_lag(text: str) -> LagCounts:
    """The histogram in a metrics page."""
    buckets = [
        (float(sample.labels["le"]), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == LAG
    ]
    buckets.sort()
    return LagCounts(tuple(edge for edge, _ in buckets), tuple(count for _, count in buckets))
