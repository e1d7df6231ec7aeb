"""The film bench gives the protocol document's figure."""

from __future__ import annotations

import pytest

from streamer.bench import film

pytestmark = pytest.mark.bench


def test_film_bench_gives_wall_time_and_rate_for_hit_and_miss():
    figures = film.run()
    for name in ("miss", "hit"):
        assert figures[f"warp_{name}_wall_s"] > 0
        assert figures[f"warp_{name}_frames_per_cpu_s"] > 0
