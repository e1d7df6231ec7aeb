"""Text to speech by what the machine has: flite or espeak-ng, as a bounded child process. Text goes in by stdin."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import unicodedata
from concurrent.futures import Executor
from pathlib import Path

from streamer.errors import SpeechRejected
from streamer.media import S16
from streamer.speech import SpeechLimits, decode_speech

FLITE, ESPEAK = "flite", "espeak-ng"
FLITE_VOICES = ("slt", "rms", "awb", "kal16", "kal")
DEFAULT_VOICE = {FLITE: "slt", ESPEAK: "en-us"}
MAX_CHARACTERS = 2_000
TIMEOUT_S = 20.0
LIMITS = SpeechLimits(max_bytes=40_000_000)
"""Ten minutes at espeak-ng's rate."""
_ESPEAK_VOICE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}(\+[A-Za-z0-9]{1,16})?")
_READ_BYTES = 1 << 16


def available() -> tuple[str, ...]:
    """Names of the synthesisers on PATH, the better voice first; empty where there is none."""
    return tuple(name for name in (FLITE, ESPEAK) if shutil.which(name) is not None)


async def synthesise(text: str, voice: str | None, executor: Executor) -> S16:
    """(n,) s16 mono at 48 kHz of `text` read aloud. `voice` is None, "flite", "flite/rms", "espeak-ng/de+f2" and so on.

    The child's sound is decoded in `executor`. Raises SpeechRejected: 400 nothing to say or no such voice,
    413 too long, 503 no synthesiser here or it failed.
    """
    engine, name = _engine_and_voice(voice)
    body = _cleaned(text, ascii_only=engine == FLITE).encode()
    with tempfile.TemporaryDirectory(prefix="liveanchor-tts-") as folder:
        # flite goes back to mend its header after each sentence, so it needs a file; espeak-ng writes to a pipe.
        wav = Path(folder) / "speech.wav"
        if engine == FLITE:
            await _run([FLITE, "-voice", name, "-f", "-", "-o", str(wav)], body)
            sound = await asyncio.get_running_loop().run_in_executor(executor, _read_bounded, wav)
        else:
            sound = await _run([ESPEAK, "-b", "1", "-v", name, "--stdin", "--stdout"], body)
    return await asyncio.get_running_loop().run_in_executor(executor, decode_speech, sound, "audio/wav", LIMITS)


def _engine_and_voice(voice: str | None) -> tuple[str, str]:
    here = available()
    if not here:
        raise SpeechRejected("no speech synthesiser is installed here: install flite or espeak-ng", 503)
    engine, _, name = (voice or here[0]).partition("/")
    if engine not in here:
        raise SpeechRejected(f"there is no synthesiser {engine!r} here; there is {', '.join(here)}")
    name = name or DEFAULT_VOICE[engine]
    if not (name in FLITE_VOICES if engine == FLITE else _ESPEAK_VOICE.fullmatch(name)):
        raise SpeechRejected(f"{engine} has no voice {name!r}")
    return engine, name


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
