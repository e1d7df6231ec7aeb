"""A running soak at the terminal: a table that renews itself, or a line now and then where there is no terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from streamer.soak.record import Record, Track

RECENT_S = 10.0
LINE_EVERY_S = 10.0


class View:
    """Use as a context manager; `show` takes the record about once a second."""

    def __init__(self, seconds: float, clients: int) -> None:
        self._console = Console(stderr=True)
        self._seconds = seconds
        self._clients = clients
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._said_s = 0.0

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, record: Record, now_s: float) -> None:
        rows = _rows(record, now_s)
        if self._live is not None:
            self._live.update(_table(rows, f"soak  {max(0.0, now_s):.0f} of {self._seconds:.0f} s"), refresh=True)
        elif now_s - self._said_s >= LINE_EVERY_S:
            self._said_s = now_s
            said = "  ".join(f"{name} {value}" for name, value in rows.items())
            self._console.print(f"{now_s:6.0f} s  {said}", highlight=False, soft_wrap=True)


def _rows(record: Record, now_s: float) -> dict[str, str]:
    tracks = record.tracks
    found = {"live": f"{record.live_clients}/{len(record.clients)}"}
    for name, said in (
        ("mic_to_ear_ms", "ear"), ("mic_to_lip_ms", "lip"), ("frame_gap_ms", "gap"), ("av_offset_ms", "a/v"),
    ):  # fmt: skip
        recent = _recent(tracks[name], now_s)
        if len(recent):
            p50, p99 = np.percentile(recent, (50, 99))
            found[f"{said} p50/p99 ms"] = f"{p50:.0f}/{p99:.0f}"
    if record.server:
        values = record.server[-1].values
        found["rss MB"] = f"{values.get('rss_bytes', 0) / 1e6:.0f}"
        for name in ("tasks", "threads", "descriptors"):
            found[name] = f"{values.get(name, 0):.0f}"
    failures = sum(len(tally.failures) for tally in record.clients.values())
    refused = sum(tally.refused for tally in record.clients.values())
    calls = sum(tally.calls for tally in record.clients.values())
    return found | {"calls": str(calls), "refused": str(refused), "failures": str(failures)}


def _recent(track: Track, now_s: float) -> Any:
    """Times only grow, nearly: the last few thousand are enough to look through."""
    t, v = np.asarray(track.t_s[-4000:]), np.asarray(track.values[-4000:])
    return v[t > now_s - RECENT_S] if len(t) else v


def _table(rows: dict[str, str], title: str) -> Table:
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
