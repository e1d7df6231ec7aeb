"""The held-out table: how well the shipped mouth network follows voices and sounds that training never met."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from engines.contract import ANALYSIS_HZ, FRAME_SAMPLES_16K, Stream
from engines.errors import EngineUnavailable
from engines.warp.augment import coloured_noise, with_noise
from engines.warp.corpus import HELD_OUT_ESPEAK, HELD_OUT_FLITE, Utterance, held_out_utterances
from engines.warp.disturbance import DISTURBANCES, disturbance
from engines.warp.hearing import Hearing
from engines.warp.phones import CHANNELS, VISEMES, mouth_curves, read_alignment, visemes_at
from engines.warp.speech import HOP_SAMPLES, MouthNet

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

ROWS_PER_S = ANALYSIS_HZ // HOP_SAMPLES
OPEN_MOUTH = 0.15
"""Opening from which a viewer sees a gap between the lips."""
NOISE_SNR_DB = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """What the network said of recordings and what was true, one row each 10 ms, recordings end to end."""

    said: F32
    """(n, 6)."""
    true: F32
    """(n, 6)."""
    said_visemes: I64
    true_visemes: I64


def follow(net: MouthNet, samples: F32) -> tuple[F32, F32]:
    """(n, 6) shapes and (n, 14) viseme probabilities, row i for a frame whose middle is at i * 10 ms."""
    count = len(samples) // HOP_SAMPLES
    middle = net.context_samples + FRAME_SAMPLES_16K // 2
    shapes, odds = net.along(np.pad(samples, (middle, net.window_samples)))
    return shapes[:count], odds[:count]


def track(net: MouthNet | Hearing, utterances: Sequence[Utterance]) -> Track:
    """Follow each utterance and lay the truth beside it. What remembers hears them as one session, one by one."""
    streams = {phase: Stream() for phase in range(FRAME_SAMPLES_16K // HOP_SAMPLES)}
    parts: list[tuple[F32, F32, I64, I64]] = []
    for number, utterance in enumerate(utterances):
        if isinstance(net, MouthNet):
            shapes, odds = follow(net, utterance.samples)
        else:
            shapes, odds = hear_along(net, utterance.samples, streams, number)
        times_s = np.arange(len(shapes)) / ROWS_PER_S
        truth = mouth_curves(utterance.phones, times_s)
        parts.append((shapes, truth, odds.argmax(axis=1), visemes_at(utterance.phones, times_s)))
    said, true, said_visemes, true_visemes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Track(said, true, said_visemes, true_visemes)


def hear_along(hearing: Hearing, samples: F32, streams: Mapping[int, Stream], generation: int = 0) -> tuple[F32, F32]:
    """As `follow`, by all that the engine hears with: streams of frames, each so many times 10 ms behind the first.

    Rows of none of the streams stay 0.
    """
    count = len(samples) // HOP_SAMPLES
    shapes, odds = np.zeros((count, len(CHANNELS)), np.float32), np.zeros((count, len(VISEMES)), np.float32)
    for phase, stream in streams.items():
        before = hearing.context_samples + FRAME_SAMPLES_16K // 2 - phase * HOP_SAMPLES
        padded = np.pad(samples, (before, hearing.window_samples))
        for index, row in enumerate(range(phase, count, FRAME_SAMPLES_16K // HOP_SAMPLES)):
            start = index * FRAME_SAMPLES_16K
            said = hearing.hear(padded[start : start + hearing.window_samples], index, generation, stream)
            shapes[row], odds[row] = said.shapes, said.visemes
    return shapes, odds


def pearson(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Correlation; 0 where one side does not move."""
    x, y = a - a.mean(), b - b.mean()
    power = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / power if power > 1e-12 else 0.0


def lag_ms(said: F32, true: F32) -> float:
    """How much later than the truth the mouth moves (best correlation, interpolated); negative: earlier."""
    reach = 15
    shifts = np.arange(-reach, reach + 1)
    inner = slice(reach, len(true) - reach)
    match = np.array([pearson(said[inner.start + s : inner.stop + s], true[inner]) for s in shifts])
    best = int(np.clip(match.argmax(), 1, len(match) - 2))
    left, top, right = match[best - 1 : best + 2]
    bend = left - 2 * top + right
    return float((shifts[best] + (0.5 * (left - right) / bend if bend < 0 else 0.0)) * 1000 / ROWS_PER_S)


def interval(figure: Callable[[I64], float], rows: int, rounds: int = 400) -> tuple[float, float]:
    """95 % bootstrap interval of a figure of chosen rows, drawing blocks of one second."""
    draw = np.random.default_rng(0)
    starts = np.arange(0, max(1, rows - ROWS_PER_S + 1), ROWS_PER_S)
    within = np.arange(min(rows, ROWS_PER_S))
    values = [figure((draw.choice(starts, len(starts))[:, None] + within).ravel()) for _ in range(rounds)]
    low, high = np.quantile(values, (0.025, 0.975))
    return round(float(low), 3), round(float(high), 3)


def row(t: Track) -> dict[str, Any]:
    """One line of the table."""
    voiced = t.true_visemes != 0
    right = t.said_visemes == t.true_visemes
    return {
        "seconds": round(len(t.true) / ROWS_PER_S, 1),
        **{f"r_{name}": round(pearson(t.said[:, c], t.true[:, c]), 3) for c, name in enumerate(CHANNELS)},
        "r_open_interval": interval(lambda i: pearson(t.said[i, 0], t.true[i, 0]), len(t.true)),
        "viseme_accuracy": round(float(right.mean()), 3),
        "viseme_accuracy_interval": interval(lambda i: float(right[i].mean()), len(right)),
        "viseme_accuracy_voiced": round(float(right[voiced].mean()), 3),
        "lag_ms": round(lag_ms(t.said[:, 0], t.true[:, 0]), 1),
    }


def at_level(utterances: Sequence[Utterance], peak_dbfs: float) -> list[Utterance]:
    """The same recordings with their peak at a level."""
    return [
        Utterance(u.samples * np.float32(10.0 ** (peak_dbfs / 20.0) / np.abs(u.samples).max()), u.phones, u.voice)
        for u in utterances
    ]


def in_noise(utterances: Sequence[Utterance], snr_db: float, slope: float = 1.0) -> list[Utterance]:
    """The same recordings in coloured noise (pink at slope 1) that far below the speech."""
    draw = np.random.default_rng(11)
    return [
        Utterance(with_noise(u.samples, coloured_noise(len(u.samples), slope, draw), snr_db), u.phones, u.voice)
        for u in utterances
    ]


def load_clip(sound: Path, alignment: Path) -> Utterance:
    """A recording at 16 kHz mono with its pocketsphinx phone alignment beside it."""
    with av.open(str(sound)) as container:
        parts = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    pcm = np.concatenate(parts)
    samples = pcm.astype(np.float32) / np.float32(32768.0 if pcm.dtype == np.int16 else 1.0)
    return Utterance(samples, read_alignment(alignment), sound.stem)


def load_clips(folder: Path) -> list[Utterance]:
    """All `NAME.phone.json` of a folder that have a `NAME.wav` or `NAME.flac`."""
    clips = []
    for alignment in sorted(folder.glob("*.phone.json")):
        for suffix in (".wav", ".flac"):
            sound = alignment.with_name(alignment.name.removesuffix(".phone.json") + suffix)
            if sound.exists():
                clips.append(load_clip(sound, alignment))
    return clips


def opened_share(net: MouthNet | Hearing, kind: str, crowd: Sequence[F32], level_dbfs: float, seed: int = 5) -> float:
    """Share of 25 fps frames in which a disturbance opens the mouth."""
    sound = disturbance(kind, 20.0, crowd, seed) * np.float32(10.0 ** (level_dbfs / 20.0))
    sound = np.clip(sound, -1.0, 1.0)
    shapes, _ = follow(net, sound) if isinstance(net, MouthNet) else hear_along(net, sound, {2: Stream()})
    return round(float((shapes[2::4, 0] > OPEN_MOUTH).mean()), 3)


def cpu_ms_a_frame(net: MouthNet, rounds: int = 300) -> float:
    """Median CPU time of one `shapes` call for one frame."""
    window = np.random.default_rng(0).standard_normal((1, net.window_samples)).astype(np.float32) * np.float32(0.1)
    spent_ns = []
    for _ in range(rounds):
        before_ns = time.process_time_ns()
        net.shapes(window)
        spent_ns.append(time.process_time_ns() - before_ns)
    return round(float(np.median(spent_ns)) / 1e6, 3)


def held_out_table(net: MouthNet, clips: Path | None, progress: Callable[[str], None]) -> dict[str, Any]:
    """The whole table. `clips` holds human recordings with alignments; without it that part is absent.

    Where pocketsphinx is installed, the same with its phones beside it.
    """
    rms = held_out_utterances(HELD_OUT_FLITE)
    espeak = {voice: held_out_utterances(voice) for voice in HELD_OUT_ESPEAK}
    human = load_clips(clips) if clips is not None else []
    table: dict[str, Any] = {"speech": {}, "opened_share": {}}
    voices: dict[str, Sequence[Utterance]] = {f"flite_{HELD_OUT_FLITE}": rms}
    sets = voices | {f"espeak_{voice.rpartition('+')[2]}": heard for voice, heard in espeak.items()}
    if human:
        voices["human"] = sets["human"] = human
    for name, heard in voices.items():
        sets[f"{name}_pink_10db"] = in_noise(heard, NOISE_SNR_DB)
        sets[f"{name}_white_10db"] = in_noise(heard, NOISE_SNR_DB, slope=0.0)
        sets[f"{name}_minus_40_dbfs"] = at_level(heard, -40.0)
        sets[f"{name}_0_dbfs"] = at_level(heard, 0.0)
    for name, heard in sets.items():
        progress(name)
        table["speech"][name] = row(track(net, heard))
    crowds = {"babble": [u.samples for u in rms[:8]], "babble_of_many": _many(rms, *espeak.values(), human)}
    for kind in (*DISTURBANCES, "babble_of_many"):
        for level in (-15.0, -30.0, -45.0):
            share = opened_share(net, kind.removesuffix("_of_many"), crowds.get(kind, ()), level)
            table["opened_share"][f"{kind}_{-level:.0f}_below_full_scale"] = share
    table["cpu_ms_a_frame"] = cpu_ms_a_frame(net)
    table["lookahead_ms"] = net.lookahead_samples * 1000 / ANALYSIS_HZ
    with_phones = _with_phones(net)
    if with_phones is not None:
        _add_phones(table, with_phones, voices, crowds, progress)
    return table


def _many(*groups: Sequence[Utterance]) -> list[F32]:
    """Eight recordings, of each group in turn."""
    spoken = [group for group in groups if group]
    return [spoken[i % len(spoken)][i // len(spoken)].samples for i in range(8)]


def _with_phones(net: MouthNet) -> Hearing | None:
    try:
        return Hearing("pocketsphinx", net)
    except EngineUnavailable:
        return None


def _add_phones(
    table: dict[str, Any],
    hearing: Hearing,
    voices: dict[str, Sequence[Utterance]],
    crowds: dict[str, list[F32]],
    progress: Callable[[str], None],
) -> None:
    """The unspoilt English voices and the loudest of the other sound once more, as the engine hears with phones."""
    for name, heard in voices.items():
        progress(f"{name}_with_phones")
        table["speech"][f"{name}_with_phones"] = row(track(hearing, heard))
    for kind in (*DISTURBANCES, "babble_of_many"):
        share = opened_share(hearing, kind.removesuffix("_of_many"), crowds.get(kind, ()), -15.0)
        table["opened_share"][f"{kind}_15_below_full_scale_with_phones"] = share
    table["cpu_ms_a_frame_with_phones"] = _cpu_ms_with_phones(hearing, next(iter(voices.values()))[0].samples)
    table["lookahead_with_phones_ms"] = hearing.lookahead_samples * 1000 / ANALYSIS_HZ


def _cpu_ms_with_phones(hearing: Hearing, samples: F32) -> float:
    """Median CPU time of one frame of a stream of speech."""
    stream, spent_ns = Stream(), []
    for index in range((len(samples) - hearing.window_samples) // FRAME_SAMPLES_16K):
        start = index * FRAME_SAMPLES_16K
        before_ns = time.process_time_ns()
        hearing.hear(samples[start : start + hearing.window_samples], index, 0, stream)
        spent_ns.append(time.process_time_ns() - before_ns)
    return round(float(np.median(spent_ns)) / 1e6, 3)
