"""Pushed sound to speak: bytes of a sound file -> 48 kHz mono. Trusts nothing in them. Runs off the loop."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import av
import numpy as np
import numpy.typing as npt
import soxr
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream

from streamer.errors import SpeechRejected
from streamer.media import S16, SOUND_HZ

F32 = npt.NDArray[np.float32]

BAD, TOO_LARGE, UNSUPPORTED = 400, 413, 415
MIN_RATE_HZ, MAX_RATE_HZ, MAX_CHANNELS = 4_000, 192_000, 8
_CODECS = frozenset(["flac", "opus", "libopus", "vorbis", "mp3", "mp3float", "mp2", "mp2float"])
_NOT_SOUND = (
    "text/",
    "image/",
    "video/",
    "multipart/",
    "application/json",
    "application/xml",
    "application/x-www-form",
)


@dataclass(frozen=True, slots=True)
class SpeechLimits:
    """How much one push may hold."""

    max_bytes: int = 20 * 1024 * 1024
    max_seconds: float = 600.0


DEFAULT_LIMITS = SpeechLimits()


def decode_speech(body: bytes, content_type: str | None, limits: SpeechLimits = DEFAULT_LIMITS) -> S16:
    """(n,) s16 mono at 48 kHz, n > 0: all of `decode_pieces` at once."""
    return np.concatenate(list(decode_pieces(body, content_type, limits)))


def decode_pieces(body: bytes, content_type: str | None, limits: SpeechLimits = DEFAULT_LIMITS) -> Iterator[S16]:
    """(n,) s16 mono at 48 kHz, n > 0, piece by piece, from a WAV, FLAC, MP3 or Ogg (Opus, Vorbis, FLAC) file.

    Only the demuxer that the first bytes name is opened, on memory: no playlist, path or network is ever followed.
    Raises SpeechRejected as soon as it is known, after good pieces perhaps: 400 broken or empty, 413 too large or too
    long, 415 not one of these formats.
    """
    demuxer = _checked(body, content_type, limits)
    empty = True
    try:
        with av.open(io.BytesIO(body), "r", format=demuxer, metadata_errors="replace") as container:
            if not container.streams.audio:
                raise SpeechRejected("there is no sound in the file", BAD)
            stream = container.streams.audio[0]
            _check_codec(stream)
            for piece in _at_48k(_mono_blocks(container.decode(stream)), limits.max_seconds):
                if len(piece):
                    empty = False
                    yield piece
    except (av.error.FFmpegError, ValueError, OverflowError) as error:
        raise SpeechRejected("the sound file is broken", BAD) from error
    if empty:
        raise SpeechRejected("there is no sound in the file", BAD)


def take_seconds(pieces: Iterator[S16], seconds: float) -> S16:
    """The next pieces joined, up to about so many seconds; empty at the end. Raises what the pieces raise."""
    taken: list[S16] = []
    left = int(seconds * SOUND_HZ)
    while left > 0 and (piece := next(pieces, None)) is not None:
        taken.append(piece)
        left -= len(piece)
    return np.concatenate(taken) if taken else np.zeros(0, np.int16)


def _checked(body: bytes, content_type: str | None, limits: SpeechLimits) -> str:
    """The demuxer to use, after what can be refused at sight."""
    if len(body) > limits.max_bytes:
        raise SpeechRejected(f"the sound is larger than {limits.max_bytes // 1_048_576} MB", TOO_LARGE)
    if not body:
        raise SpeechRejected("the sound is empty", BAD)
    if content_type is not None and content_type.strip().lower().startswith(_NOT_SOUND):
        raise SpeechRejected(f"{content_type.split(';')[0].strip()} is not a sound file", UNSUPPORTED)
    return _demuxer(body)


def _demuxer(body: bytes) -> str:
    """The one demuxer the first bytes ask for."""
    if body[:4] in (b"RIFF", b"RF64") and body[8:12] == b"WAVE":
        return "wav"
    if body[:4] == b"fLaC":
        return "flac"
    if body[:4] == b"OggS":
        return "ogg"
    if body[:3] == b"ID3" or (len(body) > 1 and body[0] == 0xFF and body[1] & 0xE6 in (0xE2, 0xE4)):
        return "mp3"
    raise SpeechRejected("send WAV, FLAC, MP3 or Ogg", UNSUPPORTED)


def _check_codec(stream: AudioStream) -> None:
    codec: AudioCodecContext | None = getattr(stream, "codec_context", None)
    if codec is None:  # where the header names a coding that libav has no decoder for
        raise SpeechRejected("sound in an unknown coding is not accepted", UNSUPPORTED)
    if codec.name not in _CODECS and not codec.name.startswith("pcm_"):
        raise SpeechRejected(f"sound coded as {codec.name} is not accepted", UNSUPPORTED)
    codec.thread_count = 1


def _mono_blocks(frames: Iterator[AudioFrame]) -> Iterator[tuple[F32, int]]:
    """Each decoded frame as (n,) f32 in -1..1 and its rate, channels averaged."""
    for frame in frames:
        channels = frame.layout.nb_channels
        if not (MIN_RATE_HZ <= frame.sample_rate <= MAX_RATE_HZ and 1 <= channels <= MAX_CHANNELS):
            raise SpeechRejected(f"{channels} channels at {frame.sample_rate} Hz are not accepted", UNSUPPORTED)
        raw = frame.to_ndarray()
        by_channel = raw if frame.format.is_planar else raw.reshape(-1, channels).T
        if raw.dtype.kind == "u":
            mono = by_channel.astype(np.float32).mean(axis=0) / 128.0 - 1.0
        elif raw.dtype.kind == "i":
            mono = by_channel.mean(axis=0, dtype=np.float64) / float(1 << (8 * raw.dtype.itemsize - 1))
        else:
            # Float files may hold anything; what is far over full scale would overflow further on.
            mono = np.clip(np.nan_to_num(by_channel, nan=0.0), -4.0, 4.0).mean(axis=0)
        yield mono.astype(np.float32), frame.sample_rate


def _at_48k(blocks: Iterator[tuple[F32, int]], max_seconds: float) -> Iterator[S16]:
    """The blocks through one resampler; stops with 413 as soon as more than `max_seconds` came."""
    resampler: soxr.ResampleStream | None = None
    rate_hz = 0
    taken = 0
    for mono, block_rate_hz in blocks:
        if resampler is None:
            rate_hz = block_rate_hz
            resampler = soxr.ResampleStream(rate_hz, SOUND_HZ, 1, dtype="float32", quality="HQ")
        elif block_rate_hz != rate_hz:
            raise SpeechRejected("the sample rate changes inside the file", BAD)
        taken += len(mono)
        if taken > max_seconds * rate_hz:
            raise SpeechRejected(f"the sound is longer than {max_seconds / 60:g} minutes", TOO_LARGE)
        yield _to_s16(resampler.resample_chunk(mono))
    if resampler is not None:
        yield _to_s16(resampler.resample_chunk(np.zeros(0, np.float32), last=True))


def _to_s16(sound: F32) -> S16:
    pcm: S16 = np.round(np.clip(sound * 32768.0, -32768.0, 32767.0)).astype(np.int16)
    return pcm
