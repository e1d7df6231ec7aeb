"""Figures of avatars."""

from __future__ import annotations

import pytest

from streamer.bench import avatars

pytestmark = pytest.mark.bench


def test_avatar_figures():
    figures = avatars.run()
    for name, value in figures.items():
        print(f"{name:<40} {value:.3f}")
    assert figures["precompile_count"] == 50
    assert figures["blend_max_error_levels"] <= 2
