"""Our own encoders: VP8, H.264 and Opus set for low latency on one thread. They run in the codec executor."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
from av.audio.codeccontext import AudioCodecContext
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from streamer.media import CHUNK_SAMPLES, FPS, FRAME_SAMPLES, FRAME_TICKS, S16, SOUND_HZ, U8, VIDEO_CLOCK_HZ

VIDEO_TIME_BASE = Fraction(1, VIDEO_CLOCK_HZ)
OPUS_BPS = 64_000
MAX_KEYFRAME_GAP_FRAMES = 3000

H264_MAX_MACROBLOCKS = 3600
"""Largest picture of level 3.1, the level that browsers and this server agree on."""


@dataclass(frozen=True, slots=True)
class VideoCodec:
    """What was negotiated: "VP8", or "H264" with the profile-level-id of the answer."""

    name: str
    profile_level_id: str = "42e01f"


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPicture:
    """One frame, ready for the packetiser: pts in 90 kHz ticks is in the packet."""

    packet: av.Packet[Any]
    keyframe: bool


def fits_h264(size_px: tuple[int, int]) -> bool:
    """Whether a picture is small enough for the level this server answers with."""
    return -(-size_px[0] // 16) * -(-size_px[1] // 16) <= H264_MAX_MACROBLOCKS


def picture_size_px(planes: U8) -> tuple[int, int]:
    """(width, height) of (H * 3 // 2, W) planes."""
    return planes.shape[1], planes.shape[0] * 2 // 3


class VideoEncoder:
    """Encodes I420 pictures; remade when the bitrate or the pictures' size changes, which costs a keyframe."""

    def __init__(self) -> None:
        self._size_px = (0, 0)
        self._context: VideoCodecContext | None = None
        self._bitrate_bps = 0
        self.rebuilds = -1

    def encode(self, codec: VideoCodec, planes: U8, index: int, bitrate_bps: int, *, keyframe: bool) -> EncodedPicture:
        """(H * 3 // 2, W) u8 I420 planes of frame `index`. Raises av.FFmpegError if the codec gives up."""
        size_px = picture_size_px(planes)
        if self._context is None or (size_px, bitrate_bps) != (self._size_px, self._bitrate_bps):
            make = _vp8 if codec.name == "VP8" else _h264
            self._context = make(codec, size_px, bitrate_bps)
            self._size_px, self._bitrate_bps = size_px, bitrate_bps
            self.rebuilds += 1
        frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
        frame.pts = index * FRAME_TICKS
        frame.time_base = VIDEO_TIME_BASE
        frame.pict_type = PictureType.I if keyframe else PictureType.NONE
        parts = self._context.encode(frame)
        data = b"".join(bytes(part) for part in parts)
        whole = any(part.is_keyframe for part in parts)
        if whole and codec.name == "H264":
            data = _stamp_profile(data, codec.profile_level_id)
        packet = av.Packet(data)
        packet.pts = index * FRAME_TICKS
        packet.time_base = VIDEO_TIME_BASE
        return EncodedPicture(packet, whole)

    def reset(self) -> None:
        """Forget a codec that failed; the next picture gets a new one."""
        self._context = None


def _context(name: str, size_px: tuple[int, int], bitrate_bps: int) -> VideoCodecContext:
    context = av.CodecContext.create(name, "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height = size_px
    context.pix_fmt = "yuv420p"
    context.bit_rate = bitrate_bps
    context.framerate = Fraction(FPS)
    context.time_base = VIDEO_TIME_BASE
    context.gop_size = MAX_KEYFRAME_GAP_FRAMES
    context.thread_count = 1  # libvpx spins in its worker threads: ruinous when the cores are shared
    return context


def _vp8(_codec: VideoCodec, size_px: tuple[int, int], bitrate_bps: int) -> VideoCodecContext:
    context = _context("libvpx", size_px, bitrate_bps)
    context.qmin, context.qmax = 7, 56  # below 7 a face costs twice the bits for what nobody sees (48 dB already)
    context.options = {
        "deadline": "realtime",
        "cpu-used": "-8",
        "lag-in-frames": "0",
        "noise-sensitivity": "0",
        "static-thresh": "1",
        "error-resilient": "default",  # a lost frame spoils no entropy state of the ones after it
        "minrate": str(bitrate_bps),
        "maxrate": str(bitrate_bps),
        "bufsize": str(bitrate_bps),  # one second; half of it goes to the first picture, so that it is not a blur
        "rc_init_occupancy": str(bitrate_bps * 3 // 4),
        "undershoot-pct": "100",
        "overshoot-pct": "15",
    }
    return context


def _h264(codec: VideoCodec, size_px: tuple[int, int], bitrate_bps: int) -> VideoCodecContext:
    context = _context("libx264", size_px, bitrate_bps)
    context.profile = "Baseline"
    context.qmin = 15  # as with VP8: 48 dB in a tenth of the bits
    context.options = {
        "preset": "superfast",
        "tune": "zerolatency",
        "level": str(int(codec.profile_level_id[4:6], 16)),
        "forced-idr": "1",
        "maxrate": str(bitrate_bps),
        "bufsize": str(bitrate_bps // 2),
        "x264-params": "scenecut=0:sliced-threads=0",
    }
    return context


def _stamp_profile(data: bytes, profile_level_id: str) -> bytes:
    """Write the negotiated profile-level-id into the SPS: the stream keeps to it, x264 words the flags otherwise."""
    at = data.find(b"\x00\x00\x01\x67")
    if at < 0:
        return data
    return data[: at + 4] + bytes.fromhex(profile_level_id) + data[at + 7 :]


class SoundEncoder:
    """Encodes 40 ms of mono sound into two Opus packets of 20 ms."""

    TIME_BASE = Fraction(1, SOUND_HZ)

    def __init__(self) -> None:
        self._context: AudioCodecContext | None = None

    def encode(self, pcm48: S16, index: int) -> list[av.Packet[Any]]:
        """(1920,) s16 of frame `index`; pts at 48 kHz is in the packets. Raises av.FFmpegError."""
        if self._context is None:
            self._context = _opus()
        packets: list[av.Packet[Any]] = []
        for first in range(0, FRAME_SAMPLES, CHUNK_SAMPLES):
            frame = av.AudioFrame.from_ndarray(
                pcm48[first : first + CHUNK_SAMPLES].reshape(1, -1), format="s16", layout="mono"
            )
            frame.sample_rate = SOUND_HZ
            frame.pts = index * FRAME_SAMPLES + first
            frame.time_base = self.TIME_BASE
            packet = av.Packet(b"".join(bytes(part) for part in self._context.encode(frame)))
            packet.pts = index * FRAME_SAMPLES + first
            packet.time_base = self.TIME_BASE
            packets.append(packet)
        return packets


def _opus() -> AudioCodecContext:
    context = av.CodecContext.create("libopus", "w")
    assert isinstance(context, AudioCodecContext)
    context.format = "s16"
    context.layout = "mono"
    context.sample_rate = SOUND_HZ
    context.bit_rate = OPUS_BPS
    context.time_base = SoundEncoder.TIME_BASE
    # At this rate Opus codes speech in CELT either way; "lowdelay" spares the 4 ms that "voip" keeps for SILK.
    context.options = {"application": "lowdelay", "frame_duration": "20", "vbr": "on"}
    return context
