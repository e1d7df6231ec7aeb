"""Pictures with their sound to a file, frame by frame, in constant memory. Synchronous; knows no session.

Every frame of the grid gets its 40 ms: one that is missing shows the picture before it, in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np

from streamer.errors import ConfigError
from streamer.media import FPS, FRAME_SAMPLES, S16, SOUND_HZ, U8

MOST_MISSING = FPS * 60
"""A longer hole is cut out: the source stood still, and nobody wants to watch that."""


@dataclass(frozen=True, slots=True)
class FilmKind:
    """A container, its codecs, and what they are told."""

    container: str
    video: str
    video_options: dict[str, str]
    audio: str
    container_options: dict[str, str] = field(default_factory=dict)
    gop_frames: int | None = None
    audio_bps: int = 96_000


FILM = FilmKind("mp4", "libx264", {"preset": "veryfast", "crf": "20", "threads": "1"}, "aac", {"movflags": "faststart"})
"""For players and editors: whole once it is finished."""

RECORDINGS = {
    "mp4": FilmKind(
        "mp4", "libx264", {"preset": "superfast", "crf": "21", "threads": "1"}, "aac",
        # A fragment a second, each written when it is whole: what is on disk plays, whatever happens to the process.
        {"movflags": "frag_keyframe+delay_moov+default_base_moof", "flush_packets": "1"}, FPS,
    ),
    "webm": FilmKind(
        "webm", "libvpx",
        # One thread: libvpx spins in its worker threads, ruinous when the cores are shared.
        {"deadline": "realtime", "cpu-used": "-8", "crf": "10", "b": "3M", "lag-in-frames": "0", "threads": "1"},
        "libopus",
        {"cluster_time_limit": "1000", "flush_packets": "1"}, FPS,
    ),
}  # fmt: skip
"""For what goes on without end: fragments or clusters of one second."""

RTMP = FilmKind(
    "flv", "libx264",
    {
        "preset": "superfast", "tune": "zerolatency", "threads": "1",
        "b": "2500k", "maxrate": "2500k", "bufsize": "2500k",
    },
    "aac", {"flush_packets": "1", "flvflags": "no_duration_filesize"}, 2 * FPS,
)  # fmt: skip
"""For servers that take RTMP."""


class Sink(Protocol):
    """What takes a film's bytes in order."""

    def write(self, data: bytes) -> int: ...


class Film:
    """Use `recording`. Frames are numbered from the first that is added."""

    def __init__(self, output: Any, kind: FilmKind, size_px: tuple[int, int]) -> None:
        self._output = output
        self.size_px = size_px
        self._video = output.add_stream(kind.video, rate=FPS, options=dict(kind.video_options))
        self._video.width, self._video.height = size_px
        self._video.pix_fmt = "yuv420p"
        self._video.codec_context.time_base = Fraction(1, FPS)
        if kind.gop_frames is not None:
            self._video.gop_size = kind.gop_frames
        self._audio = output.add_stream(kind.audio, rate=SOUND_HZ, layout="mono")
        self._audio.bit_rate = kind.audio_bps
        self._first: int | None = None
        self._planes: U8 = np.zeros((size_px[1] * 3 // 2, size_px[0]), np.uint8)
        self.frames = 0
        """Written so far, those that were missing included."""
        self.missing_frames = 0

    def add(self, index: int, planes: U8 | None, pcm48: S16) -> None:
        """Frame `index`: (H * 3 // 2, W) u8 I420 of the film's own size, None for the picture before; (1920,) s16."""
        if self._first is None:
            self._first = index
        missing = index - self._first - self.frames
        if missing < 0:
            return
        if missing > MOST_MISSING:
            self._first += missing
            missing = 0
        for _ in range(missing):
            self._write(self._planes, np.zeros(FRAME_SAMPLES, np.int16))
        self.missing_frames += missing
        if planes is not None:
            self._planes = planes
        self._write(self._planes, pcm48)

    def finish(self) -> None:
        """Write what the coders still hold."""
        self._output.mux(self._video.encode(None))
        self._output.mux(self._audio.encode(None))

    def _write(self, planes: U8, pcm48: S16) -> None:
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(planes), format="yuv420p")
        frame.pts, frame.time_base = self.frames, Fraction(1, FPS)
        self._output.mux(self._video.encode(frame))
        sound = av.AudioFrame.from_ndarray(np.ascontiguousarray(pcm48[None]), format="s16", layout="mono")
        sound.sample_rate, sound.time_base = SOUND_HZ, Fraction(1, SOUND_HZ)
        sound.pts = self.frames * FRAME_SAMPLES
        self._output.mux(self._audio.encode(sound))
        self.frames += 1


@contextmanager
def recording(target: Path | Sink, size_px: tuple[int, int], kind: FilmKind) -> Iterator[Film]:
    """A film for a file or a sink. Raises ConfigError where it cannot be written."""
    to_file = isinstance(target, Path)
    try:
        with av.open(
            str(target) if to_file else target, "w", format=kind.container, options=dict(kind.container_options)
        ) as output:
            film = Film(output, kind, size_px)
            output.start_encoding()  # opens the target: what cannot be written is known at once
            yield film
            film.finish()
    except (OSError, av.FFmpegError) as error:
        name = str(target) if to_file else "the film"
        raise ConfigError(name, f"cannot be written ({error.strerror or type(error).__name__})") from error
