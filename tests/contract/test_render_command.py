"""`liveanchor render` with the embedded engine: a film that plays, and one line where there can be none."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
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


@pytest.fixture
def hum(tmp_path):
    """A fifth of a second of sound."""
    path = tmp_path / "hum.wav"
    path.write_bytes(wav_of((6000 * np.sin(np.arange(48_000 // 5) / 30)).astype(np.int16)))
    return path


def has_badge(frame):
    """(H, W) u8: bright letters on a dark plate in the corner."""
    x1, y1, x2, y2 = Badge("AI").rect((frame.shape[1], frame.shape[0]))
    corner = frame[y1:y2, x1:x2]
    return bool(corner.max() > 170 and np.median(corner) < 90)


def frames_of(path):
    with av.open(str(path)) as film:
        return [frame.to_ndarray(format="gray") for frame in film.decode(video=0)]


def test_portrait_and_sound_become_a_film_in_step(tmp_path):
    sound, out = tmp_path / "evening.flac", tmp_path / "film.mp4"
    samples, rate_hz = soundfile.read(SOUND)
    soundfile.write(sound, samples[:rate_hz], rate_hz)
    result = render(PORTRAIT, sound, out, "--json")
    report = json.loads(result.stdout)
    assert (report["engine"], report["frames"]) == ("warp", 25)
    with av.open(str(out)) as film:
        video, audio = film.streams.video[0], film.streams.audio[0]
        assert video.frames == report["frames"]
        assert abs(float(video.duration * video.time_base) - float(audio.duration * audio.time_base)) < 0.1
    assert not any(map(has_badge, frames_of(out))), "nobody asked for one"


def test_badge_is_in_the_corner_of_every_frame(tmp_path, hum):
    out = tmp_path / "film.mp4"
    assert render(PORTRAIT, hum, out, "--badge", "AI").exit_code == 0
    assert all(map(has_badge, frames_of(out)))


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
