"""Video files to upright RGB frames on the 25 fps grid, one at a time: any rate, any rotation, never a playlist."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import av.container
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace
from av.video.stream import VideoStream

from avatars.errors import PortraitRejected

U8 = npt.NDArray[np.uint8]

FPS = 25
MAX_CLIP_FRAMES = 1500
"""One minute."""
MAX_WATCHED_FRAMES = 3600 * FPS
"""Of a clip that is only looked at, such as one whose motion is taken."""
MAX_PACKET_BYTES = 4 << 30

_FORMATS = "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,asf,ogg,gif,apng,mpegvideo,h264,hevc"
"""FFmpeg's playlists (HLS, concat, DASH) can name other files and hosts: they are not among these."""
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
_PICTURES = ("image2", "png_pipe", "jpeg_pipe", "webp_pipe")
_UNSPECIFIED = 2
"""AVCOL_SPC_UNSPECIFIED"""
_HD_ROWS = 720
"""From here on untagged video is BT.709."""


class ClipFile:
    """A clip, opened and sized. Iterating decodes it once, in constant memory."""

    def __init__(
        self, path: Path, max_width_px: int, max_height_px: int, name: str | None = None, *, for_packet: bool = True
    ) -> None:
        """Raises PortraitRejected where the file holds no video, or more than a packet (or else an hour) can take."""
        self.name = name or path.name
        self._for_packet = for_packet
        self._path = path
        try:
            with self._open() as container:
                stream = _video(container, self.name)
                self._rotation_deg = _rotation(container, stream)
                self.size_px = _fitted(stream, self._rotation_deg, max_width_px, max_height_px)
                """(width, height) of the frames given out."""
                self.expected_frames = _expected_frames(container, stream)
                """Frames on the grid as far as the header tells; 0 where it does not."""
        except av.FFmpegError as error:
            raise PortraitRejected(self.name, f"not a readable clip ({error.strerror})", "convert it to MP4") from None
        except (OSError, ValueError) as error:
            raise PortraitRejected(self.name, f"not a readable clip ({error})", "convert it to MP4") from None
        self.check_size(self.expected_frames)

    def check_size(self, frames: int) -> None:
        """Refuse a clip too long or too large for a packet, saying what would fit. Raises PortraitRejected."""
        width, height = self.size_px
        most = MAX_CLIP_FRAMES if self._for_packet else MAX_WATCHED_FRAMES
        if frames > most:
            seconds = frames / FPS
            remedy = f"cut it to {most // FPS} s"
            raise PortraitRejected(self.name, f"the clip has {frames} frames at 25 fps ({seconds:.0f} s)", remedy)
        cycle = max(1, 2 * frames - 2)
        packet_bytes = cycle * width * height * 3 if self._for_packet else 0
        if packet_bytes > MAX_PACKET_BYTES:
            fits = int(height * (MAX_PACKET_BYTES / packet_bytes) ** 0.5) & ~1
            reason = f"{cycle} frames of {width} x {height} take {packet_bytes / 1e9:.1f} GB, more than 4.3"
            raise PortraitRejected(self.name, reason, f"use --max-height {fits}, or a shorter clip")

    def __iter__(self) -> Iterator[U8]:
        """(H, W, 3) u8 RGB for each frame of the grid. Raises PortraitRejected where it is damaged or too long."""
        count = 0
        shown: tuple[VideoFrame, U8] | None = None
        try:
            with self._open() as container:
                for frame in _on_grid(container, _video(container, self.name)):
                    count += 1
                    self.check_size(count)
                    if shown is None or shown[0] is not frame:
                        shown = (frame, self._to_rgb(frame))
                    yield shown[1]
        except av.FFmpegError as error:
            if count == 0:
                raise PortraitRejected(
                    self.name, f"it does not decode ({error.strerror})", "convert it to MP4"
                ) from None
        if count == 0:
            raise PortraitRejected(self.name, "the clip has no frames", "use another clip")

    def _open(self) -> av.container.InputContainer:
        return av.open(str(self._path), options=_OPTIONS, metadata_errors="replace")

    def _to_rgb(self, frame: VideoFrame) -> U8:
        width, height = self.size_px
        if self._rotation_deg % 180:
            width, height = height, width
        untagged = frame.colorspace == _UNSPECIFIED
        source = Colorspace.ITU709 if untagged and frame.height >= _HD_ROWS else None
        rgb = frame.reformat(width, height, "rgb24", src_colorspace=source, interpolation="AREA").to_ndarray()
        return np.ascontiguousarray(np.rot90(rgb, self._rotation_deg // 90))


def is_clip(path: Path) -> bool:
    """Whether a file is a video or an animation rather than a still picture."""
    try:
        with av.open(str(path), options={**_OPTIONS, "format_whitelist": _FORMATS}) as container:
            if not container.streams.video or container.format.name in _PICTURES:
                return False
            frames = container.decode(_alone(container.streams.video[0]))
            next(frames)
            return next(frames, None) is not None
    except (av.FFmpegError, OSError, ValueError, StopIteration):
        return False


def _video(container: av.container.InputContainer, name: str) -> VideoStream:
    if not container.streams.video:
        raise PortraitRejected(name, "the file has no picture in it", "use a picture or a video")
    return _alone(container.streams.video[0])


def _alone(stream: VideoStream) -> VideoStream:
    """Decoded by the thread that asks: a decoder given up early, its own threads still at work, may never end."""
    stream.codec_context.thread_count = 1
    return stream


def _rotation(container: av.container.InputContainer, stream: VideoStream) -> int:
    """Degrees, counter-clockwise, a multiple of 90, by which decoded frames are to be turned."""
    first = next(container.decode(stream), None)
    return 0 if first is None else round(first.rotation / 90) * 90 % 360


def _fitted(stream: VideoStream, rotation_deg: int, max_width_px: int, max_height_px: int) -> tuple[int, int]:
    aspect = stream.sample_aspect_ratio or Fraction(1)
    width, height = stream.width * max(aspect, Fraction(1)), stream.height / min(aspect, Fraction(1))
    if rotation_deg % 180:
        width, height = height, width
    shrink = min(Fraction(1), Fraction(max_width_px) / width, Fraction(max_height_px) / height)
    return max(2, round(width * shrink) & ~1), max(2, round(height * shrink) & ~1)


def _expected_frames(container: av.container.InputContainer, stream: VideoStream) -> int:
    if stream.duration is not None and stream.time_base is not None:
        return int(stream.duration * stream.time_base * FPS)
    return 0 if container.duration is None else int(container.duration * FPS // av.time_base)


def _on_grid(container: av.container.InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """For each grid instant the frame on screen at it; a frame may come several times or never."""
    step = Fraction(1, FPS)
    rate = stream.average_rate or Fraction(FPS)
    start: Fraction | None = None
    shown: VideoFrame | None = None
    index = 0
    now = Fraction(0)
    for number, frame in enumerate(container.decode(stream)):
        if frame.pts is not None and frame.time_base is not None:
            stamp = frame.pts * frame.time_base
        else:
            stamp = Fraction(number) / rate
        start = stamp if start is None else start
        # Half a step of grace, so that 25 fps with rounded stamps is taken frame by frame.
        now = max(now, stamp - start)
        while shown is not None and index * step < now - step / 2:
            yield shown
            index += 1
        shown = frame
    end = now + 1 / rate
    while shown is not None and index * step < end - step / 2:
        yield shown
        index += 1
