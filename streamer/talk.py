"""Sound to a talking film, faster than real time: the live line's own stages, driven by samples instead of a clock.

Synchronous; run it on a thread of its own with an engine of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from streamer.errors import SpeechRejected
from streamer.film import FILM, recording
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, S16, Picture
from streamer.performer import Performer, Speaker, render

__all__ = ["Speaker", "film", "pictures"]


def pictures(speaker: Speaker, pcm48: S16) -> Iterator[Picture]:
    """Every frame of a sound (n,) s16 mono 48 kHz, each with its own 40 ms of it. The last frame is padded."""
    performer = Performer(speaker)
    frames = -(-len(pcm48) // FRAME_SAMPLES)
    padded = np.zeros(frames * FRAME_SAMPLES + performer.lookahead_chunks * CHUNK_SAMPLES, np.int16)
    padded[: len(pcm48)] = pcm48
    for first in range(0, len(padded), CHUNK_SAMPLES):
        for beat in performer.push(padded[first : first + CHUNK_SAMPLES]):
            (patch,) = render(speaker.engine, [beat])
            yield performer.picture(beat, patch)


def film(speaker: Speaker, pcm48: S16, path: Path, on_frame: Callable[[int, int], None]) -> int:
    """Write a sound as a talking MP4 (H.264, AAC); tells `on_frame` how many of how many. Returns the frame count.

    Raises SpeechRejected for an empty sound, ConfigError where the file cannot be written.
    """
    if not len(pcm48):
        raise SpeechRejected("there is nothing to say")
    total = -(-len(pcm48) // FRAME_SAMPLES)
    with recording(path, speaker.canvas.size_px, FILM) as output:
        for picture in pictures(speaker, pcm48):
            output.add(picture.index, picture.planes, picture.pcm48)
            on_frame(picture.index + 1, total)
    return total
