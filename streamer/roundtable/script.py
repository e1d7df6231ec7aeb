"""The sounds of a show's lines: files beside it decoded, texts read aloud, in order, off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from streamer.errors import ConfigError, SpeechRejected
from streamer.media import S16
from streamer.roundtable.rundown import Show
from streamer.speech import SpeechLimits, decode_speech
from streamer.tts import Voices

LIMITS = SpeechLimits(max_bytes=200 * 1024 * 1024, max_seconds=3600.0)


async def gather_sounds(
    show: Show,
    folder: Path,
    voices: Voices,
    executor: Executor,
    on_line: Callable[[int, int], None] = lambda done, total: None,
) -> dict[int, S16]:
    """(n,) s16 mono 48 kHz of each line that speaks, by its number. Raises ConfigError naming the line."""
    voice_of = {seat.seat: seat.voice for seat in show.seats}
    sounds: dict[int, S16] = {}
    loop = asyncio.get_running_loop()
    for number, line in enumerate(show.rundown):
        try:
            if line.text is not None and line.seat is not None:
                sounds[number] = await voices.synthesise(line.text, voice_of[line.seat], executor)
            elif line.audio is not None:
                sounds[number] = await loop.run_in_executor(executor, read_beside, folder, line.audio)
        except (SpeechRejected, ConfigError) as error:
            raise ConfigError(f"line {number + 1} of the rundown", str(error)) from error
        on_line(number + 1, len(show.rundown))
    return sounds


def read_beside(folder: Path, name: str) -> S16:
    """A sound file below a folder. Raises ConfigError, SpeechRejected."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ConfigError(name, "must lie beside the show's file")
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ConfigError(name, f"cannot be read ({error.strerror})") from error
    return decode_speech(body, None, LIMITS)
