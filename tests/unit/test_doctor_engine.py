"""The doctor looks at the engine as it would serve, and says what to do where it would not."""

from __future__ import annotations

import pytest

from streamer.config import Config, check
from streamer.doctor import parts
from streamer.doctor.finding import Verdict

pytestmark = pytest.mark.unit


def test_engine_that_is_not_there_is_bad_and_names_those_that_are():
    finding = parts.engine(check(Config(engine="nonesuch")))
    assert finding.verdict is Verdict.BAD
    assert "warp" in finding.remedy


def test_engine_is_looked_at_with_the_options_it_would_serve_with(tmp_path):
    pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
    options = {"seeded": True, "reduced": True, "device": "cpu", "short_audio": True}
    well = Config(engine="musetalk", models=str(tmp_path), engine_options=options)
    assert parts.engine(check(well)).verdict is Verdict.GOOD
    ill = Config(engine="musetalk", models=str(tmp_path), engine_options=options | {"backend": "cudnn"})
    finding = parts.engine(check(ill))
    assert finding.verdict is Verdict.BAD
    assert "cudnn" in finding.found
