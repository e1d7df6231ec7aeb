"""How many talking sessions one engine carries, by its pace: the batch planner in virtual time.

`python -m streamer.bench.batch OUT.svg` draws waits and losses against sessions for several cards.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from streamer.batching import BatchPlanner
from streamer.bench.chart import Line, Panel, draw
from streamer.bench.simulation import ISSUE, Crowd, Device, simulate

HOUR_S = 3600.0
CHECKED_SESSIONS = 9
MOST_SESSIONS = 64
PLOTTED_S = 120.0
SHARE_OF_PEAK = 0.4
"""What good kernels get of a card's peak; see docs/performance.md."""
_LAUNCH_MS = 5.0
_FULL_GFLOP, _SMALL_GFLOP = 800.0, 213.0

CARDS = (
    ISSUE,
    Device("RTX 5090, small decoder", _LAUNCH_MS, _SMALL_GFLOP / (209.5 * SHARE_OF_PEAK)),
    Device("RTX 5090", _LAUNCH_MS, _FULL_GFLOP / (209.5 * SHARE_OF_PEAK)),
    Device("H200", _LAUNCH_MS, _FULL_GFLOP / (790.0 * SHARE_OF_PEAK)),
    Device("L4, small decoder", _LAUNCH_MS, _SMALL_GFLOP / (121.0 * SHARE_OF_PEAK)),
    Device("L4", _LAUNCH_MS, _FULL_GFLOP / (121.0 * SHARE_OF_PEAK)),
)
"""GFLOP a frame over TFLOP/s is milliseconds. Paces by arithmetic, none of them measured."""


def run() -> dict[str, float]:
    """An hour of the admitted crowd, twice as many, and one session alone beside an engine that does not batch."""
    admitted = admitted_sessions(ISSUE)
    crowd = simulate(ISSUE, Crowd(CHECKED_SESSIONS, HOUR_S))
    speaking = simulate(ISSUE, Crowd(CHECKED_SESSIONS, HOUR_S / 6, voiced_share=1.0))
    overload = simulate(ISSUE, Crowd(2 * CHECKED_SESSIONS, HOUR_S / 6, voiced_share=1.0))
    alone = simulate(ISSUE, Crowd(1, HOUR_S / 6))
    unbatched = simulate(replace(ISSUE, buckets=(1,)), Crowd(1, HOUR_S / 6))
    return {
        "sessions": float(CHECKED_SESSIONS),
        "admitted_sessions": float(admitted),
        "deadline_miss_ratio": crowd.miss_ratio,
        "queue_wait_p50_ms": crowd.wait_ms(50),
        "queue_wait_p99_ms": crowd.wait_ms(99),
        "mean_batch": len(crowd.done_ns) / crowd.batches,
        "all_speaking_deadline_miss_ratio": speaking.miss_ratio,
        "all_speaking_queue_wait_p99_ms": speaking.wait_ms(99),
        "overload_sessions": float(2 * CHECKED_SESSIONS),
        "overload_deadline_miss_ratio": overload.miss_ratio,
        "overload_luckiest_miss_ratio": min(overload.miss_ratios),
        "overload_unluckiest_miss_ratio": max(overload.miss_ratios),
        "alone_done_max_ms": max(alone.done_ns) / 1e6,
        "alone_unbatched_done_max_ms": max(unbatched.done_ns) / 1e6,
    } | {f"admitted_{_slug(card.name)}_sessions": float(admitted_sessions(card)) for card in CARDS[1:]}


def admitted_sessions(device: Device) -> int:
    """How many sessions a server with this engine takes."""
    planner: BatchPlanner[None] = BatchPlanner(device.buckets)
    for bucket in device.buckets:
        planner.times.note(bucket, device.took_ns(bucket))
    return next((n - 1 for n in range(1, MOST_SESSIONS + 1) if not planner.admits(n)), MOST_SESSIONS)


def plot() -> str:
    """The chart as SVG: p99 wait and lost mouths against sessions, one line a card; a mark where admission stops."""
    waits, losses = [], []
    for card in CARDS:
        admitted = admitted_sessions(card)
        points = [(n, simulate(card, Crowd(n, PLOTTED_S))) for n in range(1, min(2 * admitted + 4, 33))]
        label = f"{card.name}: {card.fixed_ms:g} + {card.frame_ms:.1f}·b ms, admits {admitted}"
        waits.append(Line(label, tuple((float(n), o.wait_ms(99)) for n, o in points), float(admitted)))
        losses.append(Line(label, tuple((float(n), 100 * o.miss_ratio) for n, o in points), float(admitted)))
    return draw(
        (Panel("queue wait, p99, ms", tuple(waits), 60.0), Panel("mouths lost, %", tuple(losses), 20.0)),
        "sessions, 60 % voiced, spurts of 3 s, playout delay 120 ms; dots: where admission stops",
    )


def _slug(name: str) -> str:
    return name.lower().replace(",", "").replace(" ", "_")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(plot(), "utf-8")
