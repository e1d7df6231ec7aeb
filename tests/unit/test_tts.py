"""Text to speech: what is installed speaks, within bounds; nothing in a text or a voice name reaches further."""

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from streamer import tts
from streamer.errors import SpeechRejected

pytestmark = pytest.mark.unit

needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.fixture
def fake_espeak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which espeak-ng is a script of the test's own; returns where to write it."""
    script = tmp_path / "espeak-ng"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return script


def install(script: Path, body: str) -> None:
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


async def rejected(text: str, voice: str | None, executor: Executor) -> int:
    with pytest.raises(SpeechRejected) as caught:
        await tts.Voices().synthesise(text, voice, executor)
    return caught.value.status


@needs_flite
@pytest.mark.parametrize("voice", [None, "flite", "flite/rms"])
async def test_flite_speaks_every_sentence(voice: str | None, executor: Executor) -> None:
    one = await tts.Voices().synthesise("Good evening.", voice, executor)
    two = await tts.Voices().synthesise("Good evening. Here is the news.", voice, executor)

    assert one.dtype == np.int16
    assert 0.5 * 48_000 < len(one) < 2 * 48_000
    assert len(two) > len(one) + 48_000 // 2
    assert np.abs(one).max() > 3000


@needs_espeak
async def test_espeak_speaks_other_languages(executor: Executor) -> None:
    pcm = await tts.Voices().synthesise("Schönen guten Abend, meine Damen und Herren.", "espeak-ng/de+f2", executor)

    assert 1.5 * 48_000 < len(pcm) < 6 * 48_000


@needs_flite
async def test_typographic_signs_and_accents_are_read_not_lost(executor: Executor) -> None:
    fancy = await tts.Voices().synthesise("“It’s a café” — really…", "flite", executor)

    assert len(fancy) > 48_000


@pytest.mark.parametrize("text", ["", "   \n\t", "\x00\x1b\x07", "...!?", "[[]]"])
async def test_a_text_with_nothing_to_say_is_a_bad_request(text: str, executor: Executor) -> None:
    assert await rejected(text, None, executor) in (400, 501)


@needs_espeak
async def test_a_text_over_the_limit_is_too_large(executor: Executor) -> None:
    assert await rejected("a" * 2001, "espeak-ng", executor) == 413


@needs_flite
@needs_espeak
@pytest.mark.parametrize(
    "voice",
    ["flite/../../etc/passwd", "flite//tmp/x.flitevox", "flite/http://127.0.0.1/x", "flite/-x", "espeak-ng/../x",
     "espeak-ng/--help", "espeak-ng/en us", "espeak-ng/gmw/en", "sh", "sh/-c", "/bin/sh", "piper"],
)  # fmt: skip
async def test_a_voice_is_a_name_never_a_path_or_an_option(voice: str, executor: Executor) -> None:
    assert await rejected("hello", voice, executor) == 400


@needs_espeak
async def test_a_voice_that_does_not_exist_is_said_so(executor: Executor) -> None:
    assert await rejected("hello", "espeak-ng/zz", executor) == 503


async def test_without_a_synthesiser_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executor: Executor
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert tts.Voices().available() == ()
    with pytest.raises(SpeechRejected, match="install flite or espeak-ng"):
        await tts.Voices().synthesise("hello", None, executor)


async def test_control_characters_and_options_arrive_as_plain_text_on_stdin(
    fake_espeak: Path, tmp_path: Path, executor: Executor
) -> None:
    install(fake_espeak, f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/text; exit 1')

    assert await rejected("--help\n-f /etc/passwd \x1b]0;x\x07 [[t]] $(id)", "espeak-ng/en", executor) == 503
    assert (tmp_path / "arguments").read_text().split() == ["-b", "1", "-v", "en", "--stdin", "--stdout"]
    assert (tmp_path / "text").read_text() == "--help -f /etc/passwd ]0;x t $(id)\n"


async def test_a_synthesiser_that_hangs_is_killed(
    fake_espeak: Path, tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(fake_espeak, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    monkeypatch.setattr(tts, "TIMEOUT_S", 0.2)

    assert await rejected("hello", "espeak-ng/en", executor) == 503
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_synthesiser_that_never_stops_writing_is_cut_off(fake_espeak: Path, executor: Executor) -> None:
    install(fake_espeak, "exec cat /dev/zero")

    assert await rejected("hello", "espeak-ng/en", executor) == 413


async def test_cancelling_kills_the_child(fake_espeak: Path, tmp_path: Path, executor: Executor) -> None:
    os.mkfifo(tmp_path / "started")
    install(fake_espeak, f"echo $$ > {tmp_path}/started; exec sleep 60")
    async with asyncio.TaskGroup() as group:
        speaking = group.create_task(tts.Voices().synthesise("hello", "espeak-ng/en", executor))
        pid = int(await asyncio.get_running_loop().run_in_executor(executor, (tmp_path / "started").read_text))
        speaking.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_sound_that_is_no_sound_is_refused(fake_espeak: Path, executor: Executor) -> None:
    install(fake_espeak, "cat > /dev/null; echo nonsense")

    assert await rejected("hello", "espeak-ng/en", executor) == 415


PIPER = """#!{python}
import pathlib, subprocess, sys

model, wav = (sys.argv[sys.argv.index(flag) + 1] for flag in ("--model", "--output_file"))
if not pathlib.Path(model).is_file() or not pathlib.Path(model + ".json").is_file():
    sys.exit("there is no such voice")
subprocess.run(["flite", "-f", "-", "-o", wav], input=sys.stdin.buffer.read(), check=True)
"""
"""Piper's command line, with another voice behind it."""


@pytest.fixture
def piper_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Piper and two voices; a third lacks its settings, a fourth is called as no voice may be."""
    program = tmp_path / "bin" / "piper"
    program.parent.mkdir()
    program.write_text(PIPER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "voices"
    folder.mkdir()
    for name in ("en_GB-alan-low", "en_US-joe-medium", "half", "--help"):
        (folder / f"{name}.onnx").write_bytes(b"weights")
        if name != "half":
            (folder / f"{name}.onnx.json").write_text("{}")
    return folder


@needs_flite
@pytest.mark.parametrize("voice", [None, "piper", "piper/en_US-joe-medium"])
async def test_piper_speaks_first_where_it_has_a_voice(
    voice: str | None, piper_folder: Path, executor: Executor
) -> None:
    voices = tts.Voices(piper_folder)
    pcm = await voices.synthesise("Good evening.", voice, executor)

    assert voices.available()[0] == "piper"
    assert 0.5 * 48_000 < len(pcm) < 2 * 48_000
    assert np.abs(pcm).max() > 3000


@pytest.mark.parametrize("voice", ["piper/half", "piper/--help", "piper/../bin/piper", "piper/en_US-joe-medium.onnx"])
async def test_piper_has_only_the_voices_of_its_folder(voice: str, piper_folder: Path, executor: Executor) -> None:
    with pytest.raises(SpeechRejected, match="has no voice"):
        await tts.Voices(piper_folder).synthesise("hello", voice, executor)


@needs_flite
def test_piper_without_a_voice_or_a_folder_is_not_offered(piper_folder: Path, tmp_path: Path) -> None:
    assert "piper" not in tts.Voices().available()
    assert "piper" not in tts.Voices(tmp_path).available()
