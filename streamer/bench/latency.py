"""`liveanchor bench latency`: from a sound at the microphone to the lip that shows it and the ear that hears it.

Server, echo and visitor are processes of their own, on cores of their own where there are two. All times are from the
departure of the RTP packet that carries a burst's first sample: to the decoded picture whose lips have parted, and to
the arrival of the packet that brings the burst back.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from streamer.app import web_folder
from streamer.bench.call import BurstCall, BurstTimes, measure, pin, talk
from streamer.bench.cost import loop_lag
from streamer.bench.served import Served, serve_command, served
from streamer.errors import StreamerError
from streamer.media import SOUND_HZ
from streamer.rtc.control import Message
from streamer.speech import decode_speech

AVATAR = "ruby"
CANVAS_PX = 512
BURSTS = 64
UPLINK_LOSS = 0.03
COST_S = 60.0
CROWD_S = 20.0
SAMPLE = "evening-news.ogg"
STAGES = (
    "capture_gate", "gate_window", "window_queue", "queue_render", "render_compose", "compose_encode", "encode_send",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cores:
    """Who runs where; empty sets leave it to the system."""

    server: frozenset[int]
    visitor: frozenset[int]

    @classmethod
    def shared_out(cls) -> Cores:
        """The last core for the visitor, the others for the server."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(cores) < 2:
            return cls(frozenset(), frozenset())
        return cls(frozenset(cores[:-1]), frozenset(cores[-1:]))


def run() -> dict[str, float]:
    """All figures, milliseconds unless the name says otherwise. About four and a half minutes."""
    cores = Cores.shared_out()
    spawn = get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as store,
        ProcessPoolExecutor(1, spawn, initializer=pin, initargs=(cores.visitor,)) as visitors,
    ):
        with served(serve_command(Path(store))) as server:
            server.pin(cores.server)
            call = BurstCall(session_url(server), square=False, bursts=BURSTS, seed=1)
            times = visitors.submit(measure, call).result()
            lossy = BurstCall(call.url, square=False, bursts=BURSTS, seed=2, uplink_loss=UPLINK_LOSS)
            loss_times = visitors.submit(measure, lossy).result()
            cost = _cost(server, visitors)
        with served([sys.executable, "-m", "streamer.bench.echo"]) as echo:
            echo.pin(cores.server)
            call = BurstCall(echo.url, square=True, bursts=BURSTS, seed=3)
            echo_times = visitors.submit(measure, call).result()
    return {**_lips(times), **_echo(echo_times), **_loss(loss_times), **stages(times), **cost}


def session_url(server: Served) -> str:
    """Where an offer is posted for one mirror session."""
    query = {"avatar": AVATAR, "source": "mirror", "canvas": CANVAS_PX}
    return f"{server.url}api/sessions?{urlencode(query)}"


def stages(times: BurstTimes) -> dict[str, float]:
    """Medians by stage as the server stamps them, and what the visitor sees beyond their sum.

    `gather` is the part of the server's own mic-to-lip before the first stamp: the frame's sound and its look-ahead
    coming in. `residual` is what no stamp covers: network, decoding, and how long a mouth takes to part.
    """
    spreads = _object(times.snapshot, "stages_ms")
    found = {f"stage_{name}_ms": _number(_object(spreads, name), "p50") for name in STAGES}
    inside = _number(_object(times.snapshot, "mic_to_lip_ms"), "p50")
    found["stage_gather_ms"] = inside - sum(found.values())
    residual = median(times.to_lip_ms) - sum(found.values())
    return {
        **found,
        "residual_ms": residual,
        "look_ahead_ms": _number(times.snapshot, "look_ahead_ms"),
        "playout_delay_ms": _number(times.snapshot, "playout_delay_ms"),
    }


def median(values: Sequence[float | None]) -> float:
    """Of the bursts that were seen. Raises StreamerError where none was."""
    return statistics.median(_seen(values))


def _seen(values: Sequence[float | None]) -> list[float]:
    seen = [v for v in values if v is not None]
    if len(seen) < 2:
        raise StreamerError("no burst came through: the machine is too busy to measure anything")
    return seen


def _lips(times: BurstTimes) -> dict[str, float]:
    seen = _seen(times.to_lip_ms)
    frames = _object(times.snapshot, "frames")
    voiced, spoiled = _number(frames, "voiced"), _number(frames, "held") + _number(frames, "late")
    return {
        "mic_to_lip_median_ms": statistics.median(seen),
        "mic_to_lip_p95_ms": statistics.quantiles(seen, n=20, method="inclusive")[-1],
        "mic_to_ear_median_ms": median(times.to_ear_ms),
        "bursts_seen": len(seen),
        "bursts_sent": len(times.to_lip_ms),
        "held_and_late_percent": 100.0 * spoiled / max(1.0, voiced + spoiled),
    }


def _echo(times: BurstTimes) -> dict[str, float]:
    return {"echo_median_ms": median(times.to_lip_ms), "echo_to_ear_median_ms": median(times.to_ear_ms)}


def _loss(times: BurstTimes) -> dict[str, float]:
    return {
        "mic_to_lip_loss3_median_ms": median(times.to_lip_ms),
        "mic_to_ear_loss3_median_ms": median(times.to_ear_ms),
    }


def _cost(server: Served, visitors: ProcessPoolExecutor) -> dict[str, float]:
    """CPU of one session over a minute of speech, and the loop's lag with one, two and four."""
    sample = decode_speech((web_folder() / "samples" / SAMPLE).read_bytes(), None)
    speech = np.tile(sample, 1 + int(COST_S * SOUND_HZ) // len(sample))
    figures: dict[str, float] = {}
    for sessions, seconds in ((1, COST_S), (2, CROWD_S), (4, CROWD_S)):
        before, lag_before = server.read(), loop_lag(server.url)
        urls = [session_url(server)] * sessions
        visitors.submit(talk, urls, speech, seconds).result()
        after, lag_after = server.read(), loop_lag(server.url)
        figures[f"loop_lag_p99_{sessions}_ms"] = lag_after.since(lag_before).quantile_ms(0.99)
        if sessions == 1:
            figures["session_core_percent"] = 100.0 * (after.cpu_s - before.cpu_s) / seconds
            figures["server_rss_mb"] = after.rss_bytes / 1e6
    figures["loop_lag_p99_ms"] = figures["loop_lag_p99_4_ms"]
    return figures


def _object(message: Message, name: str) -> Message:
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def _number(message: Message, name: str) -> float:
    value = message.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
