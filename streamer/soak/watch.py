"""The server as its /metrics page shows it, read every few seconds. Works for any server; knows no client."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

_GAUGES = {
    "process_resident_memory_bytes": "rss_bytes",
    "process_open_fds": "descriptors",
    "process_cpu_seconds_total": "cpu_s",
    "avatar_tasks": "tasks",
    "avatar_threads": "threads",
    "avatar_sessions_active": "sessions",
}
_HISTOGRAMS = {
    "avatar_e2e_latency_seconds": "server_mic_to_lip",
    "avatar_event_loop_lag_seconds": "loop_lag",
    "avatar_av_skew_seconds": "server_av_skew",
}
_STAGES = "avatar_stage_latency_seconds"


@dataclass(frozen=True, slots=True)
class Counts:
    """A histogram: upper edges in seconds, ascending, and how many were at most so much."""

    edges_s: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()

    def since(self, before: Counts) -> Counts:
        """What came after `before`; all, where `before` is of another kind or of an earlier life of the server."""
        if before.edges_s != self.edges_s or before.counts[-1] > self.counts[-1]:
            return self
        return Counts(self.edges_s, tuple(b - a for a, b in zip(before.counts, self.counts, strict=True)))

    def quantile_ms(self, share: float) -> float | None:
        """Interpolated inside its bucket; beyond the last finite edge, that edge. None where nothing was counted."""
        if not self.counts or self.counts[-1] <= 0:
            return None
        wanted, below_s, below = share * self.counts[-1], min(0.0, self.edges_s[0]), 0.0
        for edge_s, count in zip(self.edges_s, self.counts, strict=True):
            if count >= wanted and count > below:
                if edge_s == float("inf"):
                    break
                return 1000.0 * (below_s + (edge_s - below_s) * (wanted - below) / (count - below))
            below_s, below = edge_s, count
        return 1000.0 * below_s


@dataclass(frozen=True, slots=True)
class ServerSample:
    """One reading."""

    t_s: float
    values: dict[str, float] = field(default_factory=dict)
    """rss_bytes, descriptors, cpu_s, tasks, threads, sessions: what the server tells of these."""
    frames: dict[str, float] = field(default_factory=dict)
    """Pictures sent so far, by kind."""
    histograms: dict[str, Counts] = field(default_factory=dict)
    """server_mic_to_lip, loop_lag, server_av_skew and stage:NAME, since the server's start."""
    restarts: float = 0.0
    """Of its engine."""


def read_metrics(text: str, t_s: float) -> ServerSample:
    """A metrics page as a sample."""
    values: dict[str, float] = {}
    frames: dict[str, float] = {}
    buckets: dict[str, list[tuple[float, float]]] = {}
    restarts = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name
            if name in _GAUGES:
                values[_GAUGES[name]] = sample.value
            elif name == "avatar_frames_total":
                frames[sample.labels["kind"]] = sample.value
            elif name == "avatar_engine_restarts_total":
                restarts += sample.value
            elif name.endswith("_bucket"):
                key = _histogram_key(name.removesuffix("_bucket"), sample.labels)
                if key is not None:
                    buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
    histograms = {}
    for key, found in buckets.items():
        found.sort()
        histograms[key] = Counts(tuple(edge for edge, _ in found), tuple(count for _, count in found))
    return ServerSample(t_s, values, frames, histograms, restarts)


def _histogram_key(family: str, labels: dict[str, str]) -> str | None:
    if family == _STAGES:
        return f"stage:{labels['stage']}"
    return _HISTOGRAMS.get(family)
