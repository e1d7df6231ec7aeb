"""Lip-sync: turns voiced windows into jobs for the inference thread and hands on what returns. Silence passes by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engines.contract import Face, FaceJob, Stream
from streamer.channel import Channel, ChannelClosed
from streamer.clock import Clock
from streamer.media import AudioWindow, FrameSound, RenderedMouth


class Renderer(Protocol):
    """Where jobs go: the inference thread. `deliver` is called on the event loop, once, unless the job is dropped."""

    def submit(self, job: FaceJob, deliver: Callable[[RenderedMouth], None]) -> None: ...

    def void(self, generation: int) -> None:
        """Jobs older than this are not wanted any more."""
        ...

    def leave(self) -> None:
        """No job is wanted any more."""
        ...


class LipSync:
    """Makes the jobs of one session and remembers which window each belongs to."""

    def __init__(self, face: Face, renderer: Renderer, deadline_ns: Callable[[int], int]) -> None:
        self._face = face
        self._renderer = renderer
        self._deadline_ns = deadline_ns
        self._stream = Stream()
        self.generation = 0

    def recast(self, face: Face, renderer: Renderer) -> None:
        """From now on another avatar speaks."""
        self._renderer.leave()
        self._face, self._renderer = face, renderer

    def void(self, generation: int) -> None:
        """What is older than this generation is not rendered."""
        self.generation = generation
        self._renderer.void(generation)

    def leave(self) -> None:
        """Nothing more is wanted."""
        self._renderer.leave()

    def job(self, window: AudioWindow, now_ns: int) -> FaceJob | None:
        """The job of a window; None where it is silent, of an older generation, or too late to be of use."""
        deadline_ns = self._deadline_ns(window.index)
        if not window.voiced or window.generation < self.generation or deadline_ns <= now_ns:
            return None
        window.stamps.queued_ns = now_ns
        return FaceJob(self._face, window.index, window.generation, deadline_ns, window.samples16, self._stream)

    def submit(self, job: FaceJob, deliver: Callable[[RenderedMouth], None]) -> None:
        self._renderer.submit(job, deliver)


def take(lipsync: LipSync, made: FrameSound | AudioWindow, composer: MouthSink, now_ns: int) -> None:
    """Show a frame's sound or window to the composer at once; ask for the mouth of a voiced one."""
    if isinstance(made, FrameSound):
        composer.take_sound(made)
        return
    composer.take_window(made)
    job = lipsync.job(made, now_ns)
    if job is not None:
        lipsync.submit(job, composer.mouth_sink())


async def run(lipsync: LipSync, windows: Channel[FrameSound | AudioWindow], composer: MouthSink, clock: Clock) -> None:
    """Take sounds and windows as they come."""
    while True:
        try:
            made = await windows.get()
        except ChannelClosed:
            return
        take(lipsync, made, composer, clock.now_ns())


class MouthSink(Protocol):
    """The composer, as this stage sees it."""

    def take_sound(self, sound: FrameSound) -> None: ...

    def take_window(self, window: AudioWindow) -> None: ...

    def mouth_sink(self) -> Callable[[RenderedMouth], None]:
        """Where the mouths of the avatar now on stage go."""
        ...
