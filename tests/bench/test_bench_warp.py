"""Figures of the embedded engine, and what they must keep to."""

from __future__ import annotations

import pytest

from streamer.bench import warp

pytestmark = pytest.mark.bench

LIMITS = {
    "render_blend_median_cpu_ms": 5.0,
    "render_blend_p99_cpu_ms": 8.0,
    "render_blend_swaying_median_cpu_ms": 5.0,
    "render_blend_swaying_p99_cpu_ms": 8.0,
    "idle_build_worst_cpu_s": 15.0,
    "idle_sidecar_mb": 24.0,
    "idle_picture_mean_cpu_ms": 0.1,
}


def test_warp_figures():
    figures = warp.run()
    for name, value in figures.items():
        print(f"{name:<40} {value:.3f}")
    assert all(value > 0 for value in figures.values())
    for name, most in LIMITS.items():
        assert figures[name] <= most, name
