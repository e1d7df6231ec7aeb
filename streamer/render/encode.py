"""Frames and sound to a file that players play: H.264 and AAC in .mp4, VP9 and Opus in .webm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from avatars.backdrop import Mark
from avatars.colour import split_planes
from streamer.errors import ConfigError
from streamer.media import FPS, FRAME_SAMPLES, S16, SOUND_HZ
from streamer.render.take import U8


@dataclass(frozen=True, slots=True)
class Container:
    """A kind of file and what goes in."""

    format: str
    video: str
    video_options: dict[str, str]
    audio: str
    audio_bits: int


CONTAINERS = {
    ".mp4": Container(
        "mp4", "libx264", {"preset": "veryfast", "crf": "18", "threads": "1"}, "aac", 128_000
    ),
    ".webm": Container(
        "webm", "libvpx-vp9",
        {"deadline": "good", "cpu-used": "5", "crf": "30", "b": "0", "threads": "1", "lag-in-frames": "0"},
        "libopus", 96_000,
    ),
}  # fmt: skip


class Encoder:
    """Takes 25 frames a second, each with its own 40 ms of sound. Use `encoding`."""

    def __init__(self, output: Any, kind: Container, size_px: tuple[int, int], mark: Mark | None = None) -> None:
        self._output = output
        self._mark = mark
        self._video = output.add_stream(kind.video, rate=FPS, options=dict(kind.video_options))
        self._video.width, self._video.height = size_px
        self._video.pix_fmt = "yuv420p"
        self._video.codec_context.time_base = Fraction(1, FPS)
        self._audio = output.add_stream(kind.audio, rate=SOUND_HZ, layout="mono")
        self._audio.bit_rate = kind.audio_bits
        self.frames = 0

    def add(self, picture: U8, pcm48: S16) -> None:
        """The next frame (H, W, 3) u8 RGB and its sound (1920,) s16."""
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        if self._mark is not None:
            planes = frame.reformat(format="yuv420p").to_ndarray().astype(np.uint8, copy=False)
            self._mark.lay(split_planes(planes))
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
        frame.pts, frame.time_base = self.frames, Fraction(1, FPS)
        self._output.mux(self._video.encode(frame))
        sound = av.AudioFrame.from_ndarray(np.ascontiguousarray(pcm48[None]), format="s16", layout="mono")
        sound.sample_rate, sound.pts, sound.time_base = SOUND_HZ, self.frames * FRAME_SAMPLES, Fraction(1, SOUND_HZ)
        self._output.mux(self._audio.encode(sound))
        self.frames += 1

    def finish(self) -> None:
        """Write what the coders still hold."""
        self._output.mux(self._video.encode(None))
        self._output.mux(self._audio.encode(None))


def container_of(path: Path) -> Container:
    """What the file's suffix asks for. Raises ConfigError."""
    kind = CONTAINERS.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(str(path), f"write to a file that ends in {' or '.join(CONTAINERS)}")
    return kind


@contextmanager
def encoding(path: Path, width_px: int, height_px: int, mark: Mark | None = None) -> Iterator[Encoder]:
    """An encoder for `path`; the file is there, whole, only once the block has ended well. Raises ConfigError."""
    kind = container_of(path)
    part = path.with_name(path.name + ".part")
    try:
        with av.open(str(part), "w", format=kind.format) as output:
            encoder = Encoder(output, kind, (width_px, height_px), mark)
            yield encoder
            encoder.finish()
        part.replace(path)
    except (av.error.FFmpegError, OSError) as error:
        raise ConfigError(str(path), f"it cannot be written ({error.strerror or error})") from error
    finally:
        part.unlink(missing_ok=True)
