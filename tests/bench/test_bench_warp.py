"""Figures of the embedded engine."""

from __future__ import annotations

import pytest

from streamer.bench import warp

pytestmark = pytest.mark.bench


def test_warp_figures():
    figures = warp.run()
    for name, value in figures.items():
        print(f"{name:<40} {value:.3f}")
    assert all(value > 0 for value in figures.values())
