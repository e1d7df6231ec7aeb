"""`liveanchor render` with the embedded engine: a film that plays, and one line where there can be none."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest
from typer.testing import CliRunner

from avatars.bundled import bundled_portraits
from avatars.errors import PacketMissing
from streamer.cli import app
from streamer.errors import ConfigError, SpeechRejected
from streamer.graphics.badge import Badge
from streamer.pcm import wav_of

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


@pytest.mark.parametrize(("asked", "marked"), [(("--badge", "AI"), True), ((), False)], ids=["badge", "none"])
def test_badge_is_in_the_corner_of_every_frame_where_it_is_asked_for(tmp_path, asked, marked):
    sound, out = tmp_path / "hum.wav", tmp_path / "film.mp4"
    sound.write_bytes(wav_of((6000 * np.sin(np.arange(48_000 // 5) / 30)).astype(np.int16)))
    assert render(PORTRAIT, sound, out, *asked).exit_code == 0
    with av.open(str(out)) as film:
        frames = [frame.to_ndarray(format="gray") for frame in film.decode(video=0)]
    x1, y1, x2, y2 = Badge("AI").rect((frames[0].shape[1], frames[0].shape[0]))
    corners = [frame[y1:y2, x1:x2] for frame in frames]
    assert {bool(corner.max() > 170 and np.median(corner) < 90) for corner in corners} == {marked}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nobody", SOUND, "film.mp4"), PacketMissing),
        ((PORTRAIT, ROOT / "README.md", "film.mp4"), SpeechRejected),
        ((PORTRAIT, "nothing.wav", "film.mp4"), ConfigError),
        ((PORTRAIT, SOUND, "film.gif"), ConfigError),
        ((PORTRAIT, SOUND, "film.mp4", "--badge", "x" * 21), ConfigError),
    ],
)
def test_what_cannot_be_rendered_is_said_in_one_line(tmp_path, monkeypatch, arguments, error):
    monkeypatch.chdir(tmp_path)
    result = render(*arguments)
    assert isinstance(result.exception, error)
    assert "\n" not in str(result.exception)
