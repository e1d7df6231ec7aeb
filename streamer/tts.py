"""Text to speech by what the machine has, as a bounded child process. Text goes in by stdin."""

from __future__ import annotations

import asyncio
import tempfile
import unicodedata
from concurrent.futures import Executor
from pathlib import Path

from streamer.errors import SpeechRejected
from streamer.media import S16
from streamer.speech import SpeechLimits, decode_speech
from streamer.synthesisers import Espeak, Flite, Piper, Synthesiser

MAX_CHARACTERS = 2_000
TIMEOUT_S = 20.0
LIMITS = SpeechLimits(max_bytes=40_000_000)
"""Ten minutes at espeak-ng's rate."""
_READ_BYTES = 1 << 16


class Voices:
    """The synthesisers of this machine, the better voice first."""

    def __init__(self, piper_folder: Path | None = None) -> None:
        """piper_folder: where Piper's voices lie; None: Piper is not used."""
        piper: tuple[Synthesiser, ...] = () if piper_folder is None else (Piper(piper_folder),)
        self._known: tuple[Synthesiser, ...] = (*piper, Flite(), Espeak())

    def available(self) -> tuple[str, ...]:
        """Names of those that are installed; empty where there is none."""
        return tuple(each.name for each in self._known if each.installed())

    async def synthesise(self, text: str, voice: str | None, executor: Executor) -> S16:
        """(n,) s16 mono at 48 kHz of `text` read aloud. `voice` is None, "flite", "flite/rms", "piper/NAME" and so on.

        The child's sound is decoded in `executor`. Raises SpeechRejected: 400 nothing to say or no such voice,
        413 too long, 501 no synthesiser here, 503 it failed.
        """
        synthesiser, name = self._chosen(voice)
        body = _cleaned(text, ascii_only=synthesiser.ascii_only).encode()
        loop = asyncio.get_running_loop()
        with tempfile.TemporaryDirectory(prefix="liveanchor-tts-") as folder:
            wav = Path(folder) / "speech.wav"
            sound = await _run(synthesiser.command(name, wav), body)
            if synthesiser.writes_file:
                sound = await loop.run_in_executor(executor, _read_bounded, wav)
        return await loop.run_in_executor(executor, decode_speech, sound, "audio/wav", LIMITS)

    def _chosen(self, voice: str | None) -> tuple[Synthesiser, str]:
        here = {each.name: each for each in self._known if each.installed()}
        if not here:
            raise SpeechRejected("no speech synthesiser is installed here: install flite or espeak-ng", 501)
        wanted, _, name = (voice or next(iter(here))).partition("/")
        synthesiser = here.get(wanted)
        if synthesiser is None:
            raise SpeechRejected(f"there is no synthesiser {wanted!r} here; there is {', '.join(here)}")
        name = name or synthesiser.default_voice()
        if not synthesiser.has_voice(name):
            raise SpeechRejected(f"{wanted} has no voice {name!r}")
        return synthesiser, name


def _cleaned(text: str, *, ascii_only: bool) -> str:
    """Plain words on plain lines: no control characters, no espeak-ng `[[phonemes]]`. Raises SpeechRejected."""
    if len(text) > MAX_CHARACTERS:
        raise SpeechRejected(f"the text is longer than {MAX_CHARACTERS} characters", 413)
    text = text.translate(
        {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2013: ", ", 0x2014: ", ", 0x2026: "..."}
    )
    plain = "".join(c if unicodedata.category(c)[0] not in "CZ" else " " for c in text)
    if ascii_only:
        plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    plain = " ".join(plain.replace("[[", " ").replace("]]", " ").split())
    if not any(c.isalnum() for c in plain):
        raise SpeechRejected("there is nothing to say in the text")
    return plain + "\n"


async def _run(command: list[str], body: bytes) -> bytes:
    """What the child writes to stdout. It is killed when it is slow, writes too much, or this task is cancelled."""
    try:
        child = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError as error:
        raise SpeechRejected(f"{command[0]} does not start", 503) from error
    try:
        async with asyncio.timeout(TIMEOUT_S):
            said = await _exchange(child, body)
            status = await child.wait()
    except TimeoutError as error:
        raise SpeechRejected(f"{command[0]} took longer than {TIMEOUT_S:.0f} s", 503) from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if status != 0:
        raise SpeechRejected(f"{command[0]} failed", 503)
    return said


async def _exchange(child: asyncio.subprocess.Process, body: bytes) -> bytes:
    """Write the text, then read stdout up to the limit. The text is smaller than a pipe, so the order cannot lock."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(body)
        await child.stdin.drain()
        child.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return b""
    said = bytearray()
    while piece := await child.stdout.read(_READ_BYTES):
        said += piece
        if len(said) > LIMITS.max_bytes:
            raise SpeechRejected("the text makes too long a speech", 413)
    return bytes(said)


def _read_bounded(path: Path) -> bytes:
    if not path.exists():
        raise SpeechRejected("the synthesiser said nothing", 503)
    if path.stat().st_size > LIMITS.max_bytes:
        raise SpeechRejected("the text makes too long a speech", 413)
    return path.read_bytes()
