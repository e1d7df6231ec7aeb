"""`liveanchor render` with the embedded engine: a film that plays, and one line where there can be none."""

from __future__ import annotations

import json
from pathlib import Path

import av
import pytest
from typer.testing import CliRunner

from avatars.bundled import bundled_portraits
from avatars.errors import PacketMissing
from streamer.cli import app
from streamer.errors import ConfigError, SpeechRejected

ROOT = Path(__file__).parents[2]
SOUND = ROOT / "tests" / "data" / "flite_rms_evening.flac"
PORTRAIT = bundled_portraits()[1].path


def render(*arguments):
    return CliRunner().invoke(app, ["render", *map(str, arguments)])


def test_portrait_and_sound_become_a_film_in_step(tmp_path):
    out = tmp_path / "film.mp4"
    result = render(PORTRAIT, SOUND, out, "--json")
    report = json.loads(result.stdout)
    assert report["engine"] == "warp"
    with av.open(str(out)) as film:
        video, audio = film.streams.video[0], film.streams.audio[0]
        assert video.frames == report["frames"]
        assert abs(float(video.duration * video.time_base) - float(audio.duration * audio.time_base)) < 0.1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nobody", SOUND, "film.mp4"), PacketMissing),
        ((PORTRAIT, ROOT / "README.md", "film.mp4"), SpeechRejected),
        ((PORTRAIT, "nothing.wav", "film.mp4"), ConfigError),
        ((PORTRAIT, SOUND, "film.gif"), ConfigError),
    ],
)
def test_what_cannot_be_rendered_is_said_in_one_line(tmp_path, monkeypatch, arguments, error):
    monkeypatch.chdir(tmp_path)
    result = render(*arguments)
    assert isinstance(result.exception, error)
    assert "\n" not in str(result.exception)
