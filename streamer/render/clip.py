"""Pictures of a driving clip at 25 a second, whatever its own rate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from streamer.errors import ConfigError
from streamer.media import FPS
from streamer.render.take import U8

_MAX_SIDE_PX = 1280


def frames_at_25(path: Path) -> Iterator[U8]:
    """(H, W, 3) u8 RGB, repeated or left out so that 25 make a second. Raises ConfigError."""
    index = 0
    last: U8 | None = None
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            if not container.streams.video:
                raise ConfigError(str(path), "there are no pictures in it")
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            start: float | None = None
            for frame in container.decode(stream):
                time_s = float(frame.time) if frame.time is not None else index / FPS
                start = time_s if start is None else start
                while last is not None and index / FPS < time_s - start - 0.5 / FPS:
                    yield last
                    index += 1
                last = _reduced(frame)
                if index / FPS <= time_s - start + 0.5 / FPS:
                    yield last
                    index += 1
    except (av.error.FFmpegError, OSError) as error:
        raise ConfigError(str(path), f"no pictures can be read from it ({error.strerror or error})") from error


def frame_count(path: Path) -> int:
    """About how many that will be: what the file itself says, for progress only. Raises ConfigError."""
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            if not container.streams.video:
                raise ConfigError(str(path), "there are no pictures in it")
            stream = container.streams.video[0]
            if stream.duration is not None and stream.time_base is not None:
                return max(1, round(float(stream.duration * stream.time_base) * FPS))
            return max(1, round((container.duration or 0) / 1_000_000 * FPS))
    except (av.error.FFmpegError, OSError) as error:
        raise ConfigError(str(path), f"it cannot be opened ({error.strerror or error})") from error


def _reduced(frame: av.VideoFrame) -> U8:
    shrink = min(1.0, _MAX_SIDE_PX / max(frame.width, frame.height))
    size = (max(2, round(frame.width * shrink)), max(2, round(frame.height * shrink)))
    return np.ascontiguousarray(frame.reformat(*size, format="rgb24").to_ndarray(), np.uint8)
