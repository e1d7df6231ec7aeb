"""The latency bench runs through and gives every figure it promises."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

PROMISED = {
    "mic_to_lip_median_ms",
    "mic_to_lip_p95_ms",
    "echo_median_ms",
    "mic_to_ear_median_ms",
    "mic_to_lip_loss3_median_ms",
    "look_ahead_ms",
    "stage_capture_gate_ms",
    "stage_gate_window_ms",
    "stage_window_queue_ms",
    "stage_queue_render_ms",
    "stage_render_compose_ms",
    "stage_compose_encode_ms",
    "stage_encode_send_ms",
    "residual_ms",
    "session_core_percent",
    "loop_lag_p99_ms",
    "loop_lag_p99_1_ms",
    "loop_lag_p99_2_ms",
}


def test_latency_bench_prints_one_object_with_every_figure():
    command = (sys.executable, "-m", "streamer.cli", "bench", "latency", "--json")
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(printed)
    figures = report["figures"]
    print(json.dumps(figures, indent=1))
    assert report["bench"] == "latency"
    assert figures.keys() >= PROMISED
    assert all(math.isfinite(figure) for figure in figures.values())
    assert figures["bursts_sent"] >= 60
