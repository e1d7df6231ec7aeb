"""Bursts of speech for the microphone, and when they show on a mouth and return to an ear. Pure: stamps in, ms out."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt
import soxr

from streamer.bench.witness import Reading
from streamer.clock import NS_PER_MS
from streamer.errors import StreamerError
from streamer.media import CHUNK_SAMPLES, S16, SOUND_HZ, SoundBlock
from streamer.soak.client import SentStamp

F32 = npt.NDArray[np.float32]

BURST = "pa.wav"
"""/pa/ of `flite -voice slt -t pa`, cut: sample 0 is the release of the lips."""
LEAD_S, TAIL_S = 2.0, 1.0
PERIOD_S, PERIOD_SPREAD_S = 0.66, 0.04
"""The spread is one frame, so that bursts fall evenly on all phases of the frame grid."""
OPEN_SHARE = 0.25
"""A mouth shows a burst when it has gone this share of its way from rest to the bursts' usual opening."""
WITHIN_NS = 600 * NS_PER_MS
"""A burst that does not show or sound within this time is lost; the next one is not due before."""


@dataclass(frozen=True, slots=True, eq=False)
class BurstMicrophone:
    """What the visitor says: bursts with silence between."""

    pcm48: S16
    """(n,) s16 mono at 48 kHz."""
    onsets: tuple[int, ...]
    """First sample of each burst."""
    burst: S16


def burst_microphone(count: int, seed: int) -> BurstMicrophone:
    """`count` bursts; the same seed gives the same times."""
    burst = _burst()
    draw = np.random.default_rng(seed)
    periods_s = PERIOD_S + draw.uniform(0.0, PERIOD_SPREAD_S, count)
    starts_s = LEAD_S + np.concatenate(([0.0], np.cumsum(periods_s)[:-1]))
    onsets = tuple(int(s * SOUND_HZ) for s in starts_s)
    pcm48 = np.zeros(onsets[-1] + len(burst) + int(TAIL_S * SOUND_HZ), np.int16)
    for onset in onsets:
        pcm48[onset : onset + len(burst)] = burst
    return BurstMicrophone(pcm48, onsets, burst)


def sent_ns(onsets: Sequence[int], stamps: Sequence[SentStamp]) -> list[int]:
    """When the packet with each onset left. Raises StreamerError where one never did."""
    left = {stamp.first_sample // CHUNK_SAMPLES: stamp.sent_ns for stamp in stamps}
    try:
        return [left[onset // CHUNK_SAMPLES] for onset in onsets]
    except KeyError as error:
        raise StreamerError("the visit ended before all bursts were sent") from error


def to_lip_ms(sent: Sequence[int], readings: Sequence[Reading]) -> list[float | None]:
    """For each burst: from its packet's departure to the first decoded picture past the threshold; None: none was."""
    times = np.array([r.decoded_ns for r in readings], np.int64)
    gaps = np.array([r.gap for r in readings])
    spans = [
        (int(a), int(b))
        for a, b in zip(
            np.searchsorted(times, sent), np.searchsorted(times, [s + WITHIN_NS for s in sent]), strict=True
        )
    ]
    rest = float(np.median([gaps[a] for a, b in spans if b > a]))
    usual = float(np.median([gaps[a:b].max() for a, b in spans if b > a]))
    open_now = gaps > rest + OPEN_SHARE * (usual - rest)
    before = np.concatenate(([True], open_now[:-1]))  # a mouth still open from the last burst does not show this one
    parting = open_now & ~before
    found: list[float | None] = []
    for start_ns, (first, last) in zip(sent, spans, strict=True):
        (at,) = np.nonzero(parting[first:last])
        found.append((int(times[first + at[0]]) - start_ns) / NS_PER_MS if len(at) else None)
    return found


def to_ear_ms(sent: Sequence[int], blocks: Sequence[SoundBlock], burst: S16) -> list[float | None]:
    """For each burst: from its packet's departure to the arrival of the packet that brings it back, found by matching
    the received sound with the burst; None where nothing like it came."""
    arrivals = np.array([block.arrived_ns for block in blocks], np.int64)
    ends = np.cumsum([len(block.pcm48) for block in blocks])
    heard = np.concatenate([block.pcm48 for block in blocks]).astype(np.float32)
    wanted = burst.astype(np.float32)
    power = float(wanted @ wanted)
    found: list[float | None] = []
    for start_ns in sent:
        first, last = np.searchsorted(arrivals, (start_ns, start_ns + WITHIN_NS))
        start = int(ends[first - 1]) if first else 0
        stop = int(ends[last - 1]) if last else 0
        if stop - start < len(wanted):
            found.append(None)
            continue
        match = _correlate(heard[start:stop], wanted) / power
        at = start + int(match.argmax())
        block = int(np.searchsorted(ends, at, side="right"))
        found.append((int(arrivals[block]) - start_ns) / NS_PER_MS if match.max() > 0.5 else None)
    return found


def _correlate(sound: F32, wanted: F32) -> F32:
    """Match of `wanted` with `sound` at each lag, by FFT."""
    size = 1 << (len(sound) + len(wanted) - 1).bit_length()
    spectrum = np.fft.rfft(sound, size) * np.conj(np.fft.rfft(wanted, size))
    return np.fft.irfft(spectrum, size)[: len(sound) - len(wanted) + 1].astype(np.float32)


def _burst() -> S16:
    body = resources.files("streamer.bench").joinpath(BURST).read_bytes()
    with wave.open(io.BytesIO(body)) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        rate_hz = file.getframerate()
    sound = soxr.resample(pcm.astype(np.float32), rate_hz, SOUND_HZ)
    burst: S16 = np.clip(np.rint(sound), -32768, 32767).astype(np.int16)
    return burst
