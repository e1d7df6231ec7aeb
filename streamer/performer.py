"""One avatar speaking out of time: the live line's own stages, driven by samples instead of a clock. Pure.

Rendering is left to the caller, so that the mouths of several performers can go through the engine together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatars.backdrop import Mark
from avatars.canvas import Canvas
from avatars.packet import AvatarPacket
from engines.contract import Face, FaceJob, FacePatch, LipSyncEngine, Stream
from streamer.casting import staged
from streamer.media import CHUNK_SAMPLES, FRAME_NS, S16, AudioChunk, AudioWindow, FrameSound, Picture, RenderedMouth
from streamer.pipeline.compose import Composer
from streamer.pipeline.resample import Decimator
from streamer.pipeline.vad import Vad
from streamer.pipeline.window import Windower, WindowSettings, lookahead_chunks


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """An avatar and the engine that moves it."""

    engine: LipSyncEngine
    face: Face
    canvas: Canvas

    @classmethod
    def of(cls, engine: LipSyncEngine, packet: AvatarPacket, canvas_px: int, mark: Mark | None = None) -> Speaker:
        """Attach a packet and stage it. Raises EngineContract."""
        face = engine.attach(packet)
        return cls(engine, face, staged(face, canvas_px, mark))


@dataclass(frozen=True, slots=True, eq=False)
class Beat:
    """A frame on its way: what it needs rendered, if anything."""

    window: AudioWindow
    job: FaceJob | None


class Performer:
    """`push` 20 ms after 20 ms; render the jobs of the beats it gives; `picture` makes each beat a frame, in order."""

    NEVER_NS = 1 << 62

    def __init__(self, speaker: Speaker) -> None:
        spec = speaker.engine.spec
        self.lookahead_chunks = lookahead_chunks(spec.lookahead_samples)
        """So many chunks after a frame's own its beat comes."""
        self._speaker = speaker
        self._stream = Stream()
        self._vad, self._decimator = Vad(), Decimator()
        self._windower = Windower(WindowSettings(spec.context_samples, spec.lookahead_samples))
        self._composer = Composer(speaker.canvas)
        self._next_first = 0

    def push(self, pcm48: S16) -> list[Beat]:
        """(960,) s16, the next 20 ms."""
        samples16 = self._decimator.push(pcm48.astype(np.float32) / 32768.0)
        chunk = AudioChunk(samples16, pcm48, self._next_first, captured_ns=0)
        self._next_first += CHUNK_SAMPLES
        beats = []
        for made in self._windower.push(self._vad.push(chunk, 0), 0):
            if isinstance(made, FrameSound):
                self._composer.take_sound(made)
                continue
            self._composer.take_window(made)
            job = None
            if made.voiced:
                job = FaceJob(self._speaker.face, made.index, 0, self.NEVER_NS, made.samples16, self._stream)
            beats.append(Beat(made, job))
        return beats

    def picture(self, beat: Beat, patch: FacePatch | None) -> Picture:
        """The frame of a beat, with its own 40 ms of sound. `patch`: what its job gave."""
        index = beat.window.index
        if beat.job is not None and patch is not None:
            planes = self._speaker.canvas.blend(patch.index, patch.pixels, patch.overlays)
            self._composer.take_mouth(RenderedMouth(index, 0, planes, index * FRAME_NS))
        return self._composer.picture(index, index * FRAME_NS)


def render(engine: LipSyncEngine, beats: Sequence[Beat]) -> list[FacePatch | None]:
    """The patches of some beats' jobs, in as few batches as the engine's largest bucket allows; None: no job."""
    jobs = [beat.job for beat in beats if beat.job is not None]
    largest = engine.spec.buckets[-1]
    patches = [patch for first in range(0, len(jobs), largest) for patch in engine.infer(jobs[first : first + largest])]
    rest = iter(patches)
    return [next(rest) if beat.job is not None else None for beat in beats]
