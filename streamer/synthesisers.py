"""The speech synthesisers that can be plugged in: what each is called, which voices it has, how it is run.

Each reads text on stdin and makes a WAV. Adding one is a class here and its name in `streamer.tts`. Knows no process.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_FLITE_VOICES = ("slt", "rms", "awb", "kal16", "kal")
_ESPEAK_VOICE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}(\+[A-Za-z0-9]{1,16})?")
_PIPER_VOICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Synthesiser(Protocol):
    """A program that reads aloud."""

    @property
    def name(self) -> str:
        """As in `name/voice`; also its executable."""
        ...

    @property
    def ascii_only(self) -> bool: ...

    @property
    def writes_file(self) -> bool:
        """The WAV is a file whose path it is given; else it comes on stdout."""
        ...

    def installed(self) -> bool:
        """Its executable is on PATH, and it has a voice."""
        ...

    def has_voice(self, voice: str) -> bool:
        """Whether this is one of its voices: a name, never a path or an option."""
        ...

    def default_voice(self) -> str: ...

    def command(self, voice: str, wav: Path) -> list[str]:
        """What to run. `wav` does not exist yet and is not to be used unless `writes_file`."""
        ...


@dataclass(frozen=True, slots=True)
class Flite:
    """Small and quick, English. It goes back to mend the WAV's header after each sentence, so it needs a file."""

    name: str = "flite"
    ascii_only: bool = True
    writes_file: bool = True

    def installed(self) -> bool:
        return shutil.which(self.name) is not None

    def has_voice(self, voice: str) -> bool:
        return voice in _FLITE_VOICES

    def default_voice(self) -> str:
        return _FLITE_VOICES[0]

    def command(self, voice: str, wav: Path) -> list[str]:
        return [self.name, "-voice", voice, "-f", "-", "-o", str(wav)]


@dataclass(frozen=True, slots=True)
class Espeak:
    """A hundred languages, a robot's voice."""

    name: str = "espeak-ng"
    ascii_only: bool = False
    writes_file: bool = False

    def installed(self) -> bool:
        return shutil.which(self.name) is not None

    def has_voice(self, voice: str) -> bool:
        return _ESPEAK_VOICE.fullmatch(voice) is not None

    def default_voice(self) -> str:
        return "en-us"

    def command(self, voice: str, wav: Path) -> list[str]:
        return [self.name, "-b", "1", "-v", voice, "--stdin", "--stdout"]


@dataclass(frozen=True, slots=True)
class Piper:
    """Neural voices that a person has put into a folder: `NAME.onnx` with `NAME.onnx.json` beside it."""

    folder: Path
    name: str = "piper"
    ascii_only: bool = False
    writes_file: bool = True

    def voices(self) -> tuple[str, ...]:
        found = (path.stem for path in self.folder.glob("*.onnx") if path.with_name(f"{path.name}.json").is_file())
        return tuple(sorted(name for name in found if _PIPER_VOICE.fullmatch(name)))

    def installed(self) -> bool:
        return shutil.which(self.name) is not None and bool(self.voices())

    def has_voice(self, voice: str) -> bool:
        return voice in self.voices()

    def default_voice(self) -> str:
        return self.voices()[0]

    def command(self, voice: str, wav: Path) -> list[str]:
        # Spelt so that the C++ program and both Python ones understand it.
        return [self.name, "--model", str(self.folder / f"{voice}.onnx"), "--output_file", str(wav)]
