"""Speech with known phone times, made by flite and espeak-ng: what the mouth network learns from and is tested on."""

from __future__ import annotations

import ctypes
import random
import subprocess
import tempfile
import tomllib
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soxr

from engines.contract import ANALYSIS_HZ
from engines.errors import EngineUnavailable
from engines.warp.phones import Phone, phone_from_ipa, phones_from_psdur

F32 = npt.NDArray[np.float32]

TRAINING_FLITE = ("slt", "awb", "kal16")
HELD_OUT_FLITE = "rms"
HELD_OUT_ESPEAK = ("en-us+f3", "en-us+m3")
TRAINING_ESPEAK = (
    "en-us", "gmw/en", "en-us+f2", "en-us+m1", "gmw/en+f4", "en-us+m7", "en-us+linda", "en-us+klatt4",
    "gmw/en-GB-scotland+f5", "en-us+michel", "en-us+steph", "gmw/en-GB-x-rp+m4", "en-us+anika", "en-us+whisper",
    "en-us+grandpa", "gmw/en+belinda",
)  # fmt: skip
FOREIGN_ESPEAK = ("", "+f2", "+m4", "+f5")
REMEDY = "Install the Debian packages flite and espeak-ng."
_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """A recording with the truth about it."""

    samples: F32
    """(n,) f32 in -1..1 at 16 kHz."""
    phones: tuple[Phone, ...]
    voice: str


def flite(text: str, voice: str, *, stretch: float = 1.0, pitch_hz: float | None = None) -> Utterance:
    """`text` read by a flite voice. Raises EngineUnavailable where flite is not installed or fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        command = ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.3f}"]
        if pitch_hz is not None:
            command += ["--setf", f"int_f0_target_mean={pitch_hz:.1f}"]
        command += ["-psdur", "-t", text, "-o", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineUnavailable("warp", f"flite did not speak ({error})", REMEDY) from error
        with wave.open(str(path)) as sound:
            rate_hz = sound.getframerate()
            pcm = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)
    samples = pcm.astype(np.float32) / 32768.0
    if rate_hz != ANALYSIS_HZ:
        samples = soxr.resample(samples, rate_hz, ANALYSIS_HZ).astype(np.float32)
    return Utterance(samples, phones_from_psdur(done.stdout), f"flite {voice}")


class _EspeakEvent(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("unique_identifier", ctypes.c_uint), ("text_position", ctypes.c_int),
        ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int), ("user", ctypes.c_void_p),
        ("phoneme", ctypes.c_char * 8),
    )  # fmt: skip


class Espeak:
    """espeak-ng's library: sound and phone times in one pass. One at a time in a process; close it before the next."""

    _PHONEME_EVENT = 7
    _RETRIEVAL, _PHONEMES_IN_IPA, _UTF8 = 1, 3, 1
    _RATE, _PITCH = 1, 3

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libespeak-ng.so.1")
        except OSError as error:
            raise EngineUnavailable("warp", "libespeak-ng.so.1 is not there", REMEDY) from error
        self._rate_hz = int(self._library.espeak_Initialize(self._RETRIEVAL, 500, None, self._PHONEMES_IN_IPA))
        if self._rate_hz <= 0:
            raise EngineUnavailable("warp", "espeak-ng has no voice data", REMEDY)
        self._pcm: list[npt.NDArray[np.int16]] = []
        self._events: list[tuple[int, str]] = []
        event_pointer = ctypes.POINTER(_EspeakEvent)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, event_pointer)
        self._callback = kind(self._heard)
        self._library.espeak_SetSynthCallback(self._callback)

    def _heard(self, pcm: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_EspeakEvent]) -> int:
        if count > 0:
            self._pcm.append(np.ctypeslib.as_array(pcm, (count,)).copy())
        i = 0
        while events[i].type != 0:
            if events[i].type == self._PHONEME_EVENT:
                self._events.append((events[i].sample, events[i].phoneme.decode("utf-8", "ignore")))
            i += 1
        return 0

    def __enter__(self) -> Espeak:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.espeak_Terminate()

    def say(self, text: str, voice: str, *, words_per_minute: int = 165, pitch: int = 50) -> Utterance:
        """`text` read by an espeak-ng voice. Raises EngineUnavailable for a voice that is not installed."""
        self._pcm.clear()
        self._events.clear()
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise EngineUnavailable("warp", f"espeak-ng has no voice {voice!r}", REMEDY)
        self._library.espeak_SetParameter(self._RATE, words_per_minute, 0)
        self._library.espeak_SetParameter(self._PITCH, pitch, 0)
        body = text.encode()
        self._library.espeak_Synth(body, len(body) + 1, 0, 0, 0, self._UTF8, None, None)
        self._library.espeak_Synchronize()
        samples = np.concatenate(self._pcm).astype(np.float32) / 32768.0
        starts_s = [sample / self._rate_hz for sample, _ in self._events]
        ends_s = [*starts_s[1:], len(samples) / self._rate_hz]
        phones = tuple(
            Phone(start_s, end_s, phone_from_ipa(symbol) or "pau")
            for start_s, end_s, (_, symbol) in zip(starts_s, ends_s, self._events, strict=True)
        )
        samples = soxr.resample(samples, self._rate_hz, ANALYSIS_HZ).astype(np.float32)
        return Utterance(samples, _with_closures(phones, samples), f"espeak-ng {voice}")


_BURST_ROWS = 6
"""How late, in steps of 5 ms, the mark can stand behind the end of the silence."""
_STOPS = frozenset(["p", "b", "t", "d", "k", "g", "ch", "jh", "pau"])


def _with_closures(phones: Sequence[Phone], samples: F32) -> tuple[Phone, ...]:
    """espeak-ng marks a stop at its burst and a pause late; the silence before belongs to it, the lips being shut."""
    step = ANALYSIS_HZ // 200
    power = np.mean(np.square(samples[: len(samples) // step * step].reshape(-1, step)), axis=1)
    quiet = power < 1e-5 * power.max(initial=1e-9)
    mended = list(phones)
    for i in range(1, len(mended)):
        before, phone = mended[i - 1], mended[i]
        if phone.name not in _STOPS:
            continue
        row = min(round(phone.start_s * 200), len(quiet))
        row = next((r for r in range(row, max(row - _BURST_ROWS, 0), -1) if quiet[r - 1]), row)
        while row > 0 and quiet[row - 1] and (row - 1) / 200 > before.start_s:
            row -= 1
        start_s = min(phone.start_s, row / 200)
        mended[i - 1] = Phone(before.start_s, start_s, before.name)
        mended[i] = Phone(start_s, phone.end_s, phone.name)
    return tuple(mended)


def _texts() -> dict[str, dict[str, list[str]]]:
    """language -> {"sentences", "held_out", "words"} of training_text.toml."""
    document = tomllib.loads(resources.files("engines.warp").joinpath("training_text.toml").read_text("utf-8"))
    return {
        language: {
            name: block.split() if name == "words" else [line.strip() for line in block.strip().splitlines()]
            for name, block in blocks.items()
        }
        for language, blocks in document.items()
    }


def _word_salads(words: Sequence[str], count: int, draw: random.Random) -> Iterator[str]:
    """Strings of words no one has said before: every phone beside every other."""
    for _ in range(count):
        yield " ".join(draw.choice(words) for _ in range(draw.randint(5, 9))) + "."


def training_utterances(seed: int, *, without_flite: Sequence[str] = (), scale: float = 1.0) -> list[Utterance]:
    """About 50 minutes at scale 1. `without_flite` leaves voices out, to choose a recipe on a voice unheard."""
    draw = random.Random(seed)
    texts = _texts()
    made: list[Utterance] = []
    for voice in TRAINING_FLITE:
        if voice in without_flite:
            continue
        english = [*texts["en"]["sentences"], *_word_salads(texts["en"]["words"], round(130 * scale), draw)]
        for text in english:
            pitch_hz = draw.uniform(85, 140) if voice != "slt" else draw.uniform(150, 230)
            made.append(flite(text, voice, stretch=draw.uniform(0.8, 1.25), pitch_hz=pitch_hz))
    with Espeak() as espeak:
        for voice in TRAINING_ESPEAK:
            salads = _word_salads(texts["en"]["words"], round(14 * scale), draw)
            english = [*draw.sample(texts["en"]["sentences"], 10), *salads]
            made += [_any_espeak(espeak, text, voice, draw) for text in english]
        for language in sorted(set(texts) - {"en"}):
            for number, text in enumerate(texts[language]["sentences"]):
                made.append(_any_espeak(espeak, text, language + FOREIGN_ESPEAK[number % len(FOREIGN_ESPEAK)], draw))
    return made


def _any_espeak(espeak: Espeak, text: str, voice: str, draw: random.Random) -> Utterance:
    return espeak.say(text, voice, words_per_minute=draw.randint(125, 205), pitch=draw.randint(25, 80))


def held_out_utterances(voice: str, seed: int = 999) -> list[Utterance]:
    """Sentences and a voice that training never hears: `rms` of flite, or an espeak-ng voice."""
    draw = random.Random(seed)
    texts = _texts()["en"]
    lines = [*texts["held_out"], *_word_salads(texts["words"], 20, draw)]
    if "+" in voice:
        with Espeak() as espeak:
            return [espeak.say(text, voice) for text in lines]
    return [flite(text, voice) for text in lines]
