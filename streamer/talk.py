"""Sound to a talking film, faster than real time: the live line's own stages, driven by samples instead of a clock.

Synchronous; run it on a thread of its own with an engine of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from avatars.canvas import Canvas
from engines.contract import Face, FaceJob, LipSyncEngine
from streamer.errors import ConfigError, SpeechRejected
from streamer.media import (
    CHUNK_SAMPLES,
    FPS,
    FRAME_NS,
    FRAME_SAMPLES,
    S16,
    SOUND_HZ,
    AudioChunk,
    AudioWindow,
    FrameSound,
    Picture,
    RenderedMouth,
)
from streamer.pipeline.compose import Composer
from streamer.pipeline.lipsync import LipSync
from streamer.pipeline.resample import Decimator
from streamer.pipeline.vad import Vad
from streamer.pipeline.window import Windower, WindowSettings

NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """An avatar and the engine that moves it."""

    engine: LipSyncEngine
    face: Face
    canvas: Canvas


def pictures(speaker: Speaker, pcm48: S16) -> Iterator[Picture]:
    """Every frame of a sound (n,) s16 mono 48 kHz, each with its own 40 ms of it. The last frame is padded."""
    spec = speaker.engine.spec
    frames = -(-len(pcm48) // FRAME_SAMPLES)
    lookahead_chunks = -(-spec.lookahead_samples // (CHUNK_SAMPLES // 3))
    padded = np.zeros(frames * FRAME_SAMPLES + lookahead_chunks * CHUNK_SAMPLES, np.int16)
    padded[: len(pcm48)] = pcm48
    vad, decimator = Vad(), Decimator()
    windower = Windower(WindowSettings(spec.context_samples, spec.lookahead_samples))
    composer = Composer(speaker.canvas)
    lipsync = LipSync(speaker.face, _Now(speaker), lambda index: NEVER_NS)
    for first in range(0, len(padded), CHUNK_SAMPLES):
        piece = padded[first : first + CHUNK_SAMPLES]
        samples16 = decimator.push(piece.astype(np.float32) / 32768.0)
        chunk = AudioChunk(samples16, piece, first, captured_ns=0)
        for made in windower.push(vad.push(chunk, 0), 0):
            if isinstance(made, FrameSound):
                composer.take_sound(made)
            else:
                yield _picture(composer, lipsync, made)


def _picture(composer: Composer, lipsync: LipSync, window: AudioWindow) -> Picture:
    composer.take_window(window)
    job = lipsync.job(window, 0)
    if job is not None:
        lipsync.submit(job, composer.take_mouth)
    return composer.picture(window.index, window.index * FRAME_NS)


class _Now:
    """A renderer (see pipeline.lipsync) without a thread: the mouth is there when `submit` returns."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    def submit(self, job: FaceJob, deliver: Callable[[RenderedMouth], None]) -> None:
        (patch,) = self._speaker.engine.infer([job])
        planes = self._speaker.canvas.blend(patch.index, patch.pixels, patch.overlays)
        deliver(RenderedMouth(job.index, job.generation, planes, job.index * FRAME_NS))

    def void(self, generation: int) -> None:
        """Nothing ever waits."""

    def leave(self) -> None:
        """Nothing ever waits."""


def film(speaker: Speaker, pcm48: S16, path: Path, on_frame: Callable[[int, int], None]) -> int:
    """Write a sound as a talking MP4 (H.264, AAC); tells `on_frame` how many of how many. Returns the frame count.

    Raises SpeechRejected for an empty sound, ConfigError where the file cannot be written.
    """
    if not len(pcm48):
        raise SpeechRejected("there is nothing to say")
    total = -(-len(pcm48) // FRAME_SAMPLES)
    try:
        with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as output:
            width_px, height_px = speaker.canvas.size_px
            video = output.add_stream("libx264", rate=FPS, options={"preset": "veryfast", "crf": "20", "threads": "1"})
            video.width, video.height, video.pix_fmt = width_px, height_px, "yuv420p"
            audio = output.add_stream("aac", rate=SOUND_HZ, layout="mono")
            for picture in pictures(speaker, pcm48):
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture.planes), format="yuv420p")
                frame.pts, frame.time_base = picture.index, Fraction(1, FPS)
                output.mux(video.encode(frame))
                sound = av.AudioFrame.from_ndarray(picture.pcm48[None], format="s16", layout="mono")
                sound.sample_rate, sound.time_base = SOUND_HZ, Fraction(1, SOUND_HZ)
                sound.pts = picture.index * FRAME_SAMPLES
                output.mux(audio.encode(sound))
                on_frame(picture.index + 1, total)
            output.mux(video.encode(None))
            output.mux(audio.encode(None))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be written ({error.strerror or error})") from error
    return total
