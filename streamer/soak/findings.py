"""A soak's record as figures, series and verdicts: the JSON report. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamer.errors import ConfigError
from streamer.media import FPS
from streamer.soak.plan import Profile
from streamer.soak.record import Record, Track
from streamer.soak.trend import over_time, parts, percentile, ratio, slope
from streamer.soak.watch import Counts, ServerSample

PERCENTS = (50.0, 95.0, 99.0)
SETTLED_SHARE = 0.1
"""Slopes leave out the first tenth: a server fills its pools."""
LATENCIES = ("mic_to_ear_ms", "mic_to_lip_ms", "interrupt_to_silence_ms", "frame_gap_ms", "sound_gap_ms", "setup_ms")
HOLDINGS = ("rss_mb", "tasks", "threads", "descriptors")
BINS = 60
Figures = dict[str, float]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}
_LIMIT = re.compile(r"([a-z0-9_]+)\s*(<=|>=)\s*(-?[0-9.]+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold: a figure, `<=` or `>=`, a number."""

    figure: str
    sign: str
    value: float

    def met(self, figures: Figures) -> bool | None:
        """None where the soak has no such figure."""
        found = figures.get(self.figure)
        return None if found is None else _OPERATORS[self.sign](found, self.value)


NOTHING_LEFT = ("leaked_sessions<=0", "leaked_tasks<=0", "leaked_threads<=0", "leaked_descriptors<=0")
CYCLE_LIMITS = (*NOTHING_LEFT, "failures<=0")
"""Where clients only come and go: whole seconds of one call, of which frames are a share, there are none."""
DEFAULT_LIMITS = (*NOTHING_LEFT, "failures<=0", "frames_shown_percent>=98", "sound_silent_s<=0")


def read_limit(text: str) -> Limit:
    """`frame_gap_p99_ms<=120`. Raises ConfigError."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise ConfigError("--limit", f"{text}: write for example frame_gap_p99_ms<=120")
    return Limit(found[1], found[2], float(found[3]))


def checks(limits: Sequence[Limit], figures: Figures) -> list[dict[str, Any]]:
    """What became of each threshold. A figure the soak does not have is a threshold not met."""
    return [
        {
            "limit": f"{limit.figure} {limit.sign} {limit.value:g}",
            "found": figures.get(limit.figure),
            "passed": limit.met(figures) is True,
        }
        for limit in limits
    ]


def figures_of(record: Record, seconds: float) -> Figures:
    """Every number worth a threshold, by name with its unit."""
    found: dict[str, float | None] = {}
    for name in (*LATENCIES, "residual_ms"):
        values = record.tracks[name].values
        stem = name.removesuffix("_ms")
        for percent in PERCENTS:
            found[f"{stem}_p{percent:.0f}_ms"] = percentile(values, percent)
        found[f"{stem}_max_ms"] = round(max(values), 3) if values else None
    offset = record.tracks["av_offset_ms"].values
    found["av_offset_median_ms"] = percentile(offset, 50)
    found["av_offset_p99_abs_ms"] = percentile(np.abs(np.asarray(offset, np.float64)), 99)
    for name in ("mic_to_ear_ms", "mic_to_lip_ms", "frame_gap_ms"):
        first, *_, last = thirds(record.tracks[name], seconds, 99)
        found[f"{name.removesuffix('_ms')}_p99_last_over_first"] = ratio(last, first)
    found |= _client_figures(record) | _server_figures(record.server)
    return {name: float(value) for name, value in found.items() if value is not None}


def thirds(track: Track, seconds: float, percent: float) -> list[float | None]:
    """A percentile of each third of the run."""
    return [percentile(part, percent) for part in parts(track.t_s, track.values, seconds)]


def _client_figures(record: Record) -> dict[str, float | None]:
    clients = record.clients.values()
    live_s = sum(tally.live_s for tally in clients)
    # A joiner's second may hold the end of one call and the beginning of the next.
    steady = [tally for tally in clients if tally.profile != Profile.JOINER and tally.live_s]
    due = sum(tally.live_s for tally in steady) * FPS
    shown = sum(tally.pictures or tally.frames for tally in steady)
    return {
        "clients": float(len(clients)),
        "client_hours": round(live_s / 3600, 4),
        "calls": float(sum(tally.calls for tally in clients)),
        "refused": float(sum(tally.refused for tally in clients)),
        "failures": float(sum(len(tally.failures) for tally in clients)),
        "frames_shown_percent": round(min(100.0, 100 * shown / due), 2) if due else None,
        "sound_silent_s": round(sum(tally.silent_s for tally in steady), 1),
    }


def _server_figures(server: list[ServerSample]) -> dict[str, float | None]:
    if len(server) < 2:
        return {}
    first, last = server[0], server[-1]
    spent_s = last.values.get("cpu_s", 0.0) - first.values.get("cpu_s", 0.0)
    found: dict[str, float | None] = {
        "server_core_percent": round(100 * spent_s / max(1e-9, last.t_s - first.t_s), 2),
        "engine_restarts": last.restarts - first.restarts,
    }
    for name in ("server_mic_to_lip", "loop_lag"):
        counts = last.histograms.get(name, Counts()).since(first.histograms.get(name, Counts()))
        for share in (0.5, 0.95, 0.99):
            quantile = counts.quantile_ms(share)
            found[f"{name}_p{100 * share:.0f}_ms"] = None if quantile is None else round(quantile, 3)
    kinds = {kind: last.frames[kind] - first.frames.get(kind, 0.0) for kind in last.frames}
    mouths = sum(kinds.get(kind, 0.0) for kind in ("voiced", "held", "late"))
    if mouths:
        found["held_and_late_percent"] = round(100 * (mouths - kinds.get("voiced", 0.0)) / mouths, 3)
    for name in ("tasks", "threads", "descriptors", "sessions"):
        if name in first.values and name in last.values:
            found[f"leaked_{name}"] = last.values[name] - first.values[name]
    for name, sample in (("first", first), ("last", last)):
        found[f"rss_{name}_mb"] = round(sample.values.get("rss_bytes", 0.0) / 1e6, 2)
    return found


def holdings(record: Record) -> dict[str, Track]:
    """What the server holds over time: memory, tasks, threads, descriptors."""
    found = {name: Track() for name in (*HOLDINGS, "sessions")}
    for sample in record.server:
        for name, track in found.items():
            value = sample.values["rss_bytes"] / 1e6 if name == "rss_mb" else sample.values.get(name)
            track.add(sample.t_s, value)
    return found


def slopes_of(record: Record, seconds: float) -> dict[str, dict[str, float]]:
    """Changes an hour with 95 % confidence, the first tenth and the ends left out."""
    tracks = {name: track for name, track in holdings(record).items() if name in HOLDINGS}
    tracks |= {name: record.tracks[name] for name in ("av_offset_ms", "mic_to_ear_ms", "mic_to_lip_ms")}
    found = {}
    for name, track in tracks.items():
        low, high = SETTLED_SHARE * seconds, seconds
        kept = [(t, v) for t, v in zip(track.t_s, track.values, strict=True) if low <= t <= high]
        line = slope([t for t, _ in kept], [v for _, v in kept])
        if line is not None:
            found[name] = {"per_hour": line.per_hour, "low": line.low, "high": line.high}
    return found


def with_cycles(figures: Figures, slopes: dict[str, dict[str, float]], seconds: float) -> Figures:
    """Memory by cycles, where clients came and went."""
    calls = figures.get("calls", 0.0)
    if "rss_mb" in slopes and calls > figures.get("clients", 0.0) and seconds > 0:
        an_hour = calls / (seconds / 3600)
        return figures | {"rss_mb_per_100_cycles": round(100 * slopes["rss_mb"]["per_hour"] / an_hour, 4)}
    return figures


def series_of(record: Record, seconds: float) -> dict[str, dict[str, Any]]:
    """What the charts show, by name: percentiles of each step, or plain values."""
    found: dict[str, dict[str, Any]] = {}
    for name in (*LATENCIES, "av_offset_ms"):
        track = record.tracks[name]
        points = over_time(track.t_s, track.values, seconds, PERCENTS)
        found[name] = {"percents": list(PERCENTS), "points": points}
    for name, track in holdings(record).items():
        found[name] = {"percents": [50.0], "points": over_time(track.t_s, track.values, seconds, (50.0,), 120)}
    lag = [
        (after.t_s, after.histograms["loop_lag"].since(before.histograms["loop_lag"]).quantile_ms(0.99))
        for before, after in zip(record.server[:-1], record.server[1:], strict=True)
        if "loop_lag" in after.histograms and "loop_lag" in before.histograms
    ]
    points = over_time([t for t, v in lag if v is not None], [v for _, v in lag if v is not None], seconds, (50.0,))
    found["loop_lag_p99_ms"] = {"percents": [50.0], "points": points}
    return found


def histograms_of(record: Record) -> dict[str, dict[str, list[float]]]:
    """Counts of each latency in equal bins from 0 to just beyond its 99.5th percentile; the last bin has the rest."""
    found = {}
    for name in LATENCIES:
        values = np.asarray(record.tracks[name].values, np.float64)
        if len(values):
            top = max(1.0, float(np.percentile(values, 99.5)) * 1.1)
            counts, edges = np.histogram(np.clip(values, 0, top), BINS, (0, top))
            found[name] = {"edges": [round(float(e), 3) for e in edges], "counts": [float(c) for c in counts]}
    return found


def stages_of(record: Record) -> dict[str, dict[str, float]]:
    """The server's own stages over the whole run: p50, p95, p99."""
    if len(record.server) < 2:
        return {}
    first, last = record.server[0].histograms, record.server[-1].histograms
    found = {}
    for key, counts in last.items():
        if key.startswith("stage:"):
            spent = counts.since(first.get(key, Counts()))
            quantiles = {f"p{100 * share:.0f}": spent.quantile_ms(share) for share in (0.5, 0.95, 0.99)}
            found[key.removeprefix("stage:")] = {k: round(v, 3) for k, v in quantiles.items() if v is not None}
    return found
