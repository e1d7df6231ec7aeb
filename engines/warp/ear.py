"""Hears English phones in streams of sound with pocketsphinx, as far as they are certain in time. Knows no picture.

Optional: `pip install 'liveanchor[pocketsphinx]'`. A decoder a stream, fed what is new of each window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from engines.contract import ANALYSIS_HZ, FRAME_SAMPLES_16K, Stream
from engines.errors import EngineUnavailable
from engines.warp.level import SteadyGain, raised
from engines.warp.phones import MOUTHS, Phone

F32 = npt.NDArray[np.float32]

SURE_SAMPLES = 1280
"""A phone is read 80 ms behind the newest sound: the decoder trails by 50 ms, and may change its mind after that.

Of the middle of a frame that is 60 ms after the frame's last sample, which a session waits for the network anyway.
"""
LOOKAHEAD_SAMPLES = SURE_SAMPLES - FRAME_SAMPLES_16K // 2
ROW_S = 0.01
"""The decoder's own step."""
PRIMING_SAMPLES = 3200
"""Sound before a frame that a decoder is given when it begins there."""
LONG_SAMPLES, LONGEST_SAMPLES = 15 * ANALYSIS_HZ, 40 * ANALYSIS_HZ
"""Age at which a decoder, which slows down as it goes, begins anew: in the next pause, or at once."""
LEARNING_WINDOWS = 12
NEWEST_PHONES = 12
REMEDY = "Install the extra: pip install 'liveanchor[pocketsphinx]'."


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A frame's sound, as in `engines.contract.FaceJob`."""

    samples: F32
    context_samples: int
    index: int
    generation: int


class Decoder(Protocol):
    """What is used of `pocketsphinx.Decoder`."""

    def start_utt(self) -> None: ...

    def process_raw(self, pcm: bytes, no_search: bool, full_utt: bool) -> int: ...

    def end_utt(self) -> None: ...

    def seg(self) -> Any: ...

    def get_cmn(self, update: bool) -> Any: ...


def open_decoder() -> Decoder:
    """A phone decoder with the model of the package. Raises EngineUnavailable where it is not installed."""
    try:
        import pocketsphinx
    except ImportError as error:
        raise EngineUnavailable("warp", "phones need pocketsphinx", REMEDY) from error
    made: Decoder = pocketsphinx.Decoder(
        hmm=pocketsphinx.get_model_path("en-us/en-us"),
        allphone=pocketsphinx.get_model_path("en-us/en-us-phone.lm.bin"),
        lm=None,
        dict=None,
        # The package's own advice for phones.
        lw=2.0,
        pip=0.3,
        beam=1e-20,
        pbeam=1e-20,
        loglevel="FATAL",
    )
    return made


class Ear:
    """Follows one stream. Positions are samples at 16 kHz since the stream's frame 0."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._gain = SteadyGain()
        self._open = False
        self._generation = 0
        self._windows = 0
        self._began = 0
        self._heard = 0

    def phones(self, window: Window) -> tuple[Phone, ...]:
        """The newest phones, timed from the middle of the window's frame, the last one going on; none at first.

        Windows come in order; where some are missing, what they brought is taken from this one's context, and where
        that is too short the ear begins anew.
        """
        frame = window.index * FRAME_SAMPLES_16K
        start = frame - window.context_samples
        end = start + len(window.samples)
        if not self._open or window.generation != self._generation or not start <= self._heard <= end:
            self._begin(max(start, frame - PRIMING_SAMPLES))
            self._generation = window.generation
        if self._heard < end:
            new = raised(window.samples[self._heard - start :], self._gain.gain_db(window.samples))
            pcm = (np.clip(new, -1.0, 1.0) * 32767).astype(np.int16)
            self._decoder.process_raw(pcm.tobytes(), False, False)
            self._heard = end
            self._learn_the_voice()
        found = self._found((frame + FRAME_SAMPLES_16K // 2 - self._began) / ANALYSIS_HZ)
        age = end - self._began
        if age > LONGEST_SAMPLES or (age > LONG_SAMPLES and found and found[-1].name == "pau"):
            self._begin(end)
        return found

    def _learn_the_voice(self) -> None:
        """Left alone, a decoder takes up a microphone and a voice only after 8 s of an utterance, or at its end."""
        self._windows += 1
        if self._windows % LEARNING_WINDOWS == 0:
            self._decoder.get_cmn(True)

    def _begin(self, position: int) -> None:
        if self._open:
            self._decoder.end_utt()
        self._decoder.start_utt()
        self._open = True
        self._began = self._heard = position

    def _found(self, middle_s: float) -> tuple[Phone, ...]:
        segments = list(self._decoder.seg() or ())[-NEWEST_PHONES:]
        timed = [
            Phone(
                segment.start_frame * ROW_S - middle_s,
                (segment.end_frame + 1) * ROW_S - middle_s if segment is not segments[-1] else np.inf,
                _name(segment.word),
            )
            for segment in segments
        ]
        return tuple(timed) if timed and timed[0].start_s <= 0.0 else ()


def _name(word: str) -> str:
    """The decoder's phone in the table; its silence and its noises are a pause."""
    name = word.lower()
    return name if name in MOUTHS and name != "sil" else "pau"


class Ears:
    """The ears of all streams; one that has ended takes its own with it. For one thread."""

    def __init__(self) -> None:
        """Raises EngineUnavailable where pocketsphinx is not installed."""
        self._spare: Decoder | None = open_decoder()
        self._of: WeakKeyDictionary[Stream, Ear] = WeakKeyDictionary()

    def phones(self, window: Window, stream: Stream | None) -> tuple[Phone, ...]:
        """As `Ear.phones`; a window of no stream stands alone."""
        ear = self._of.get(stream) if stream is not None else None
        if ear is None:
            decoder, self._spare = self._spare or open_decoder(), None
            ear = Ear(decoder)
            if stream is not None:
                self._of[stream] = ear
        return ear.phones(window)
