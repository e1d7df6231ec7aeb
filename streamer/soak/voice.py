"""What synthetic clients say, and how they time what they hear of it. Pure: sound and stamps in, milliseconds out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from streamer.bench.bursts import WITHIN_NS, to_ear_ms
from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, S16, SOUND_HZ, SoundBlock
from streamer.soak.client import SentStamp

MARK_S = 0.25
"""So much of the speech is looked for in what comes back."""
MARKS_APART_S = 1.2
KEPT_NS = 3 * NS_PER_S
LOUD_RMS = 250.0
SETTLE_NS = NS_PER_S
"""After an interrupt, before the last sound is looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """Speech that is said over and over, and the places in it by which it is timed."""

    pcm48: S16
    """(n,) s16 mono at 48 kHz, a whole number of frames."""
    marks: tuple[int, ...]
    """First samples, each the first of a packet."""

    def mark(self, first_sample: int) -> S16 | None:
        """The mark that begins with this sample of the endless voice, if one does."""
        at = first_sample % len(self.pcm48)
        return self.pcm48[at : at + int(MARK_S * SOUND_HZ)] if at in self.marks else None


def voice_of(sound: S16, seconds: float) -> Voice:
    """The first seconds of some speech, marked where it is loud."""
    pcm48 = sound[: int(seconds * SOUND_HZ)]
    pcm48 = pcm48[: len(pcm48) // FRAME_SAMPLES * FRAME_SAMPLES]
    length = int(MARK_S * SOUND_HZ) // CHUNK_SAMPLES
    power = np.square(pcm48.reshape(-1, CHUNK_SAMPLES).astype(np.float64)).mean(axis=1)
    over = np.convolve(power, np.ones(length), "valid")
    marks: list[int] = []
    apart = int(MARKS_APART_S * SOUND_HZ) // CHUNK_SAMPLES
    for start in range(0, len(over) - apart, apart):
        marks.append((start + int(over[start : start + apart - length].argmax())) * CHUNK_SAMPLES)
    return Voice(pcm48, tuple(marks))


class EarTimer:
    """From the departure of a mark to the arrival of the packet that brings it back."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._sent: deque[tuple[int, S16]] = deque(maxlen=16)
        self._heard: deque[SoundBlock] = deque()
        self.missed = 0

    def spoken(self, stamp: SentStamp) -> None:
        mark = self._voice.mark(stamp.first_sample)
        if mark is not None:
            self._sent.append((stamp.sent_ns, mark))

    def heard(self, block: SoundBlock) -> None:
        self._heard.append(block)
        while self._heard and block.arrived_ns - self._heard[0].arrived_ns > KEPT_NS:
            self._heard.popleft()

    def take(self, now_ns: int) -> list[float]:
        """Times of the marks whose time is up, milliseconds; marks that did not come back are counted as missed."""
        found: list[float] = []
        while self._sent and self._sent[0][0] + WITHIN_NS < now_ns:
            sent_ns, mark = self._sent.popleft()
            (time_ms,) = to_ear_ms([sent_ns], list(self._heard), mark) if self._heard else (None,)
            if time_ms is None:
                self.missed += 1
            else:
                found.append(round(time_ms, 1))
        return found


class SilenceTimer:
    """From an interrupt to the arrival of the last loud packet."""

    def __init__(self) -> None:
        self._asked_ns: int | None = None
        self._loud_ns = 0

    def interrupted(self, now_ns: int) -> None:
        self._asked_ns = self._loud_ns = now_ns

    def heard(self, block: SoundBlock) -> None:
        if float(np.sqrt(np.mean(np.square(block.pcm48, dtype=np.float32)))) > LOUD_RMS:
            self._loud_ns = block.arrived_ns

    def take(self, now_ns: int) -> list[float]:
        """The time of an interrupt that has settled, milliseconds."""
        if self._asked_ns is None or now_ns - self._asked_ns < SETTLE_NS:
            return []
        asked_ns, self._asked_ns = self._asked_ns, None
        return [round(max(0, self._loud_ns - asked_ns) / NS_PER_MS, 1)]
