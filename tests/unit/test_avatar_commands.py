"""`liveanchor precompile` and `liveanchor avatars` on the command line: what they print, make and exit with."""

from __future__ import annotations

import json
import shutil

import av
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from avatars.bundled import bundled_portraits
from avatars.errors import AvatarIdReserved, PacketMissing
from avatars.store import AvatarStore
from engines.errors import EngineUnavailable
from streamer.cli import app
from streamer.commands.batch import slug
from streamer.errors import ConfigError

pytestmark = pytest.mark.unit

SIDE_PX = bundled_portraits()[0].side_px


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with three bundled avatars, made by the command itself."""
    folder = tmp_path_factory.mktemp("cli") / "avatars"
    run = CliRunner().invoke(
        app, ["precompile", "--avatars", str(folder), "--jobs", "2", "--specific", "ruby,blaze,mateo"]
    )
    assert run.exit_code == 0, run.output
    return folder, run.stdout


def call(*arguments):
    """Output of a command that succeeds; our own errors are raised."""
    run = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if run.exception is not None and not isinstance(run.exception, SystemExit):
        raise run.exception
    return run


def test_all_are_made_with_a_summary(made):
    folder, output = made
    assert "3/3 avatars" in output
    assert all(name in output for name in ("ruby", "blaze", "mateo"))
    assert len(AvatarStore(folder).list()) == 3


def test_a_second_run_makes_nothing(made):
    folder, _ = made
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.pt")}
    output = call("precompile", "--avatars", folder, "--specific", "ruby,blaze").stdout
    assert output.count("up to date") == 2
    assert "mateo" not in output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.pt")} == before


def test_what_fails_is_named_and_the_rest_is_made(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    shutil.copy(bundled_portraits()[0].path, sources / "Anna Müller.webp")
    Image.fromarray(np.zeros((300, 300, 3), np.uint8)).save(sources / "nobody.png")
    (sources / "notes.txt").write_text("not a source")
    run = call("precompile", sources, "--avatars", tmp_path / "out")
    assert run.exit_code == 3
    assert "1/2 avatars" in run.stdout
    assert "FAILED" in run.stdout
    assert "no face found" in " ".join(run.stdout.split())
    assert AvatarStore(tmp_path / "out").ids() == ["anna-m-ller"]


def test_a_name_nobody_has_and_two_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no source for nobody; there are ruby"):
        call("precompile", "--specific", "ruby,nobody", "--avatars", tmp_path)
    for suffix in ("png", "jpg"):
        Image.fromarray(np.zeros((300, 300, 3), np.uint8)).save(tmp_path / f"a.{suffix}")
    with pytest.raises(ConfigError, match="another source is called a too"):
        call("precompile", tmp_path, "--avatars", tmp_path / "out")


def test_name_that_is_an_address_of_the_server_is_refused_when_made_and_brought_in(made, tmp_path):
    folder, _ = made
    shutil.copy(bundled_portraits()[0].path, tmp_path / "Jobs.webp")
    run = call("precompile", tmp_path / "Jobs.webp", "--avatars", tmp_path / "out")
    assert run.exit_code == 3
    assert "cannot be named 'jobs'" in " ".join(run.stdout.split())
    with pytest.raises(AvatarIdReserved, match="another name than clear, jobs"):
        call("avatars", "import", folder / "ruby", "--id", "jobs", "--avatars", tmp_path / "out")
    assert AvatarStore(tmp_path / "out").ids() == []


def test_an_engine_without_its_weights_says_what_to_install(tmp_path):
    with pytest.raises(EngineUnavailable, match="Install"):
        call("precompile", "--engine", "musetalk-of-nobody", "--avatars", tmp_path)


def test_list_show_and_verify_tell_what_there_is(made):
    folder, _ = made
    listed = call("avatars", "list", "--avatars", folder).stdout
    assert f"{SIDE_PX} x {SIDE_PX}" in listed
    info = json.loads(call("avatars", "show", "ruby", "--avatars", folder).stdout)
    assert info["cycle_frames"] == 25
    assert info["report"]["grade"] == "A"
    checked = call("avatars", "verify", "--avatars", folder).stdout
    assert checked.count("sound") == 3
    with pytest.raises(PacketMissing):
        call("avatars", "show", "nobody", "--avatars", folder)


def test_verify_finds_a_damaged_one_and_list_shows_the_trouble(made, tmp_path):
    folder, _ = made
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "ruby" / "coords.pkl").write_bytes(b"junk")
    (copy / "blaze" / "avator_info.json").write_text("junk")
    run = call("avatars", "verify", "--avatars", copy)
    assert run.exit_code == 3
    assert "ruby: avatar packet refused: coords.pkl" in run.stdout
    assert "mateo: sound" in run.stdout
    assert "JSON object" in " ".join(call("avatars", "list", "--avatars", copy).stdout.split())


def test_preview_draws_the_packet_and_other_shifts(made, tmp_path):
    folder, _ = made
    call("avatars", "preview", "ruby", tmp_path / "one.png", "--avatars", folder)
    call("avatars", "preview", "ruby", tmp_path / "more.png", "--shifts", "-9,9", "--avatars", folder)
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "more.png") as more:
        assert more.width == 2 * one.width
    with pytest.raises(ConfigError, match="whole numbers"):
        call("avatars", "preview", "ruby", tmp_path / "x.png", "--shifts", "a", "--avatars", folder)


def test_preview_shows_an_avatar_speaking(made, tmp_path, monkeypatch):
    folder, _ = made
    monkeypatch.chdir(tmp_path)
    assert call("avatars", "preview", "ruby", "--avatars", folder).stdout.split() == ["ruby-mouths.png", "ruby.mp4"]
    with Image.open("ruby-mouths.png") as sheet:
        assert sheet.width == 11 * sheet.height
    with av.open("ruby.mp4") as film:
        assert film.streams.video[0].frames == 125
        assert 4.9 < film.streams.audio[0].duration * film.streams.audio[0].time_base < 5.2


def test_import_brings_a_packet_in_under_another_name_and_remove_takes_it_away(made, tmp_path):
    folder, _ = made
    output = call("avatars", "import", folder / "ruby", "--id", "rubina", "--avatars", tmp_path).stdout
    assert f"rubina: 25 frames of {SIDE_PX} x {SIDE_PX}" in output
    assert AvatarStore(tmp_path).ids() == ["rubina"]
    call("avatars", "remove", "rubina", "--yes", "--avatars", tmp_path)
    assert AvatarStore(tmp_path).ids() == []
    assert "run `liveanchor precompile`" in call("avatars", "list", "--avatars", tmp_path).stdout


@pytest.mark.parametrize(
    ("stem", "avatar_id"),
    [("Ruby", "ruby"), ("Anna Müller 2", "anna-m-ller-2"), ("../../etc", "etc"), ("___", "avatar"), ("日本", "avatar")],
)
def test_file_names_become_ids(stem, avatar_id):
    assert slug(stem) == avatar_id
