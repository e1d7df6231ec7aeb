"""What the mouth does for each phone, and mouth curves from phone times: the truth that training and tests share."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
Times = npt.NDArray[np.floating[Any]]
I64 = npt.NDArray[np.int64]

CHANNELS = ("open", "wide", "round", "fv", "press", "tongue")
VISEMES = ("sil", "PP", "FF", "TH", "DD", "SS", "kk", "CH", "RR", "aa", "E", "I", "O", "U")
COARTICULATION_S = 0.030
"""Standard deviation of the Gaussian that turns phone steps into movement."""


class Mouth(NamedTuple):
    """Target of one phone: its viseme and the six channels, each 0..1."""

    viseme: str
    open: float = 0.0
    wide: float = 0.0
    round: float = 0.0
    fv: float = 0.0
    press: float = 0.0
    tongue: float = 0.0


@dataclass(frozen=True, slots=True)
class Phone:
    """One phone of a recording: ARPAbet in lower case, or a name of `MOUTHS`."""

    start_s: float
    end_s: float
    name: str


_ROWS: tuple[tuple[str, Mouth], ...] = (
    ("pau sil", Mouth("sil")),
    ("p b m", Mouth("PP", press=1.0)),
    ("f v", Mouth("FF", open=0.12, wide=0.10, fv=1.0)),
    ("th dh", Mouth("TH", open=0.20, wide=0.15, tongue=1.0)),
    ("t d n l dx", Mouth("DD", open=0.20, wide=0.20, tongue=0.60)),
    ("s z", Mouth("SS", open=0.10, wide=0.40, tongue=0.20)),
    ("k g ng hh", Mouth("kk", open=0.25, wide=0.10)),
    ("ch jh sh zh", Mouth("CH", open=0.18, round=0.55)),
    ("r er axr", Mouth("RR", open=0.25, round=0.35)),
    ("aa", Mouth("aa", open=1.00, wide=0.10)),
    ("ae", Mouth("aa", open=0.80, wide=0.45)),
    ("ah", Mouth("aa", open=0.60, wide=0.15)),
    ("ay", Mouth("aa", open=0.80, wide=0.30)),
    ("aw", Mouth("aa", open=0.80, round=0.30)),
    ("ao", Mouth("O", open=0.70, round=0.45)),
    ("eh", Mouth("E", open=0.55, wide=0.40)),
    ("ey", Mouth("E", open=0.42, wide=0.55)),
    ("ax", Mouth("aa", open=0.45, wide=0.15)),
    ("ih", Mouth("I", open=0.30, wide=0.40)),
    ("iy", Mouth("I", open=0.18, wide=0.85)),
    ("y", Mouth("I", open=0.18, wide=0.60)),
    ("ow", Mouth("O", open=0.50, round=0.70)),
    ("oy", Mouth("O", open=0.55, round=0.60)),
    ("uw", Mouth("U", open=0.20, round=1.00)),
    ("uh", Mouth("U", open=0.30, round=0.60)),
    ("w", Mouth("U", open=0.10, round=1.00)),
    # Above, ax stands near ah: the phone set of CMU's dictionary and aligners has no schwa and writes AH for both.
    # Below, sounds English has not, under names of their own.
    ("front_rounded_close", Mouth("U", open=0.18, round=0.90)),
    ("front_rounded_mid", Mouth("O", open=0.42, round=0.60)),
    ("front_rounded_open", Mouth("O", open=0.55, round=0.45)),
    ("back_spread_close", Mouth("I", open=0.22, wide=0.35)),
    ("lips_near", Mouth("PP", open=0.08, press=0.50)),
    ("throat", Mouth("kk", open=0.35, wide=0.10)),
)
MOUTHS: dict[str, Mouth] = {name: mouth for names, mouth in _ROWS for name in names.split()}

_IPA_ROWS = """
p p | b b ɓ | m m ɱ | f f | v v ʋ ⱱ | lips_near β ɸ | th θ | dh ð | t t ʈ | d d ɖ | n n ɳ | l l ɫ ɬ ɭ ʎ ɮ | dx ɾ ɽ
s s ts | z z dz | k k q c | g ɡ g ɟ ɢ | ng ŋ ɲ ɴ | hh h ɦ | throat x ɣ χ ʁ ħ ʕ ʀ ç ʝ | pau ʔ | ch tʃ tɕ tʂ
jh dʒ dʑ dʐ | sh ʃ ɕ ʂ ɧ sx | zh ʒ ʑ ʐ | r ɹ r ɻ | er ɜ ɝ | axr ɚ | y j | w w ɥ
aa ɑ ɒ | ae a æ ä | ah ʌ ɐ | ay aɪ ai | aw aʊ au | ao ɔ | eh ɛ | ey e eɪ ei | ax ə ɘ ᵊ | ih ɪ | iy i
ow o oʊ əʊ ou ɤ | oy ɔɪ oɪ ɔø | uw u ʉ | uh ʊ | front_rounded_close y ʏ | front_rounded_mid ø ɵ œy
front_rounded_open œ ɶ | back_spread_close ɯ ɨ
"""
"""One row a name: the name in `MOUTHS`, then the IPA symbols that share its mouth."""
_IPA: dict[str, str] = {
    symbol: row.split()[0]
    for line in _IPA_ROWS.strip().splitlines()
    for row in line.split("|")
    for symbol in row.split()[1:]
}
_IPA_MARKS = frozenset("ˈˌːˑʲʰʷˠˤ.-ᵝ˞̩̯̞̥̬̪̺̤̰̃͜͡'")


def phone_from_ipa(symbol: str) -> str | None:
    """Name in `MOUTHS` for an IPA phone as espeak-ng prints it; None where no part of it is known."""
    plain = "".join(c for c in symbol if c not in _IPA_MARKS)
    if not plain:
        return "pau"
    for length in (len(plain), 2, 1):
        if plain[:length] in _IPA:
            return _IPA[plain[:length]]
    return None


def phones_from_psdur(text: str) -> tuple[Phone, ...]:
    """Phones from the output of `flite -psdur`: `name:end_s` separated by blanks."""
    phones: list[Phone] = []
    start_s = 0.0
    for word in text.split():
        name, _, end = word.rpartition(":")
        phones.append(Phone(start_s, float(end), name.lower()))
        start_s = float(end)
    return tuple(phones)


def read_alignment(path: Path) -> tuple[Phone, ...]:
    """Phones of a pocketsphinx `*.phone.json`: words in `w`, each with phones in its own `w` (b: start, d: seconds)."""
    document: dict[str, Any] = json.loads(path.read_text())
    return tuple(
        Phone(p["b"], p["b"] + p["d"], p["t"].lower() if p["t"].lower() in MOUTHS else "pau")
        for word in document["w"]
        for p in word["w"]
    )


def visemes_at(phones: Sequence[Phone], times_s: Times) -> I64:
    """(n,) index into `VISEMES` of the phone sounding at each time; silence where there is none."""
    classes = np.zeros(len(times_s), np.int64)
    for phone in phones:
        classes[(times_s >= phone.start_s) & (times_s < phone.end_s)] = VISEMES.index(MOUTHS[phone.name].viseme)
    return classes


def mouth_curves(phones: Sequence[Phone], times_s: Times) -> F32:
    """(n, 6) f32 0..1 in the order of `CHANNELS`: each phone's target smoothed by coarticulation, at each time."""
    rate_hz = 1000
    margin = round(4 * COARTICULATION_S * rate_hz)
    last_s = max([float(times_s.max(initial=0.0)), *(p.end_s for p in phones)])
    steps = np.zeros((round(last_s * rate_hz) + 2 * margin + 2, len(CHANNELS)))
    for phone in phones:
        start, end = (margin + round(t * rate_hz) for t in (phone.start_s, phone.end_s))
        steps[start:end] = MOUTHS[phone.name][1:]
    reach = np.arange(-margin, margin + 1) / rate_hz
    kernel = np.exp(-0.5 * (reach / COARTICULATION_S) ** 2)
    kernel /= kernel.sum()
    grid_s = (np.arange(len(steps)) - margin + 0.5) / rate_hz
    smooth = [np.interp(times_s, grid_s, np.convolve(steps[:, c], kernel, "same")) for c in range(len(CHANNELS))]
    return np.stack(smooth, axis=1).astype(np.float32)


def mouth_at(phones: Sequence[Phone], time_s: float) -> F32:
    """(6,) f32 0..1: `mouth_curves` at one time, without making the curves. Cheap where phones are few."""
    scale = 1.0 / (COARTICULATION_S * math.sqrt(2.0))
    mouth = np.zeros(len(CHANNELS))
    for phone in phones:
        share = 0.5 * (math.erf((phone.end_s - time_s) * scale) - math.erf((phone.start_s - time_s) * scale))
        if share > 1e-4:
            mouth += share * np.array(MOUTHS[phone.name][1:])
    return mouth.astype(np.float32)


def openness_curve(phones: Sequence[Phone], fps: float, seconds: float | None = None) -> F32:
    """(n,) f32 0..1: how far the mouth is open in the middle of each frame of a recording."""
    length_s = seconds if seconds is not None else max(p.end_s for p in phones)
    times_s = (np.arange(int(length_s * fps + 1e-9)) + 0.5) / fps
    return mouth_curves(phones, times_s)[:, 0]
