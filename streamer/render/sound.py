"""The sound of a render: any local file to 48 kHz for the result and 16 kHz for the engine, and who speaks when."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import soxr

from streamer.errors import ConfigError
from streamer.media import ANALYSIS_HZ, CHUNK_SAMPLES, F32, FRAME_SAMPLES, S16, SOUND_HZ, AudioChunk
from streamer.pipeline.vad import Vad

MAX_SECONDS = 3600.0
_FORMATS = "wav,w64,aiff,au,caf,flac,mp3,ogg,aac,ac3,eac3,amr,opus,mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,asf"
"""FFmpeg's playlists (HLS, concat, DASH) can name other files and hosts: they are not among these."""
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}


def read_sound(path: Path) -> S16:
    """(n,) s16 mono at 48 kHz, n > 0, of a sound file or the sound of a clip. Raises ConfigError."""
    blocks: list[S16] = []
    samples = 0
    try:
        with av.open(str(path), options=_OPTIONS, metadata_errors="replace") as container:
            if not container.streams.audio:
                raise ConfigError(str(path), "there is no sound in it")
            stream = container.streams.audio[0]
            resampler = av.AudioResampler("s16", "mono", SOUND_HZ)
            for frame in container.decode(stream):
                for part in resampler.resample(frame):
                    blocks.append(part.to_ndarray().reshape(-1).astype(np.int16, copy=False))
                    samples += blocks[-1].size
                if samples > MAX_SECONDS * SOUND_HZ:
                    raise ConfigError(str(path), f"it is longer than {MAX_SECONDS / 60:.0f} minutes")
            blocks += [p.to_ndarray().reshape(-1).astype(np.int16, copy=False) for p in resampler.resample(None)]
    except (av.error.FFmpegError, OSError) as error:
        raise ConfigError(str(path), f"no sound can be read from it ({error.strerror or error})") from error
    sound = np.concatenate(blocks) if blocks else np.zeros(0, np.int16)
    if sound.size == 0:
        raise ConfigError(str(path), "its sound is empty")
    return sound


def for_analysis(sound: S16) -> F32:
    """The same in -1..1 at 16 kHz, a whole number of frames long, rounded up with silence."""
    padded = fitted(sound, -(-len(sound) // FRAME_SAMPLES))
    low: F32 = soxr.resample(padded.astype(np.float32) / 32768.0, SOUND_HZ, ANALYSIS_HZ)
    return np.ascontiguousarray(low[: len(padded) * ANALYSIS_HZ // SOUND_HZ], np.float32)


def fitted(sound: S16, frames: int) -> S16:
    """Cut, or filled up with silence, to `frames` of 40 ms."""
    wanted = frames * FRAME_SAMPLES
    return np.pad(sound[:wanted], (0, max(0, wanted - len(sound))))


def voiced_frames(sound: S16, frames: int) -> npt.NDArray[np.bool_]:
    """(frames,): the live line's own detector hears speech in it."""
    whole = fitted(sound, frames)
    low = for_analysis(whole)
    vad = Vad()
    heard = np.zeros((frames, 2), np.bool_)
    low_chunk = CHUNK_SAMPLES * ANALYSIS_HZ // SOUND_HZ
    for i in range(2 * frames):
        chunk = AudioChunk(
            low[i * low_chunk : (i + 1) * low_chunk],
            whole[i * CHUNK_SAMPLES : (i + 1) * CHUNK_SAMPLES], i * CHUNK_SAMPLES, 0,
        )  # fmt: skip
        heard[i // 2, i % 2] = vad.push(chunk, 0).speech
    either: npt.NDArray[np.bool_] = heard[:, 0] | heard[:, 1]
    return either
