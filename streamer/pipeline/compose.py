"""Compose: decides what each picture shows — the rendered mouth, the last one held, an easing, or the anchor frame.

Never black, never a stalled track, never lost sound: an anchor frame is always there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from streamer.media import (
    FRAME_SAMPLES,
    S16,
    U8,
    AudioWindow,
    FrameSound,
    Picture,
    PictureKind,
    RenderedMouth,
    Stamps,
)
from streamer.pipeline.interlude import Clip, Interlude

HOLD_NS = 200_000_000
OPENING_STEP = 1 / 2
"""Share of a mouth that a frame adds after silence; its first frame lies in the pre-roll."""
CLOSING_STEP = 1 / 3
"""A mouth left open eases to the anchor in two frames."""
FADE_SAMPLES = 480
"""Void sound that was being heard ends in 10 ms, not in a click."""


class Stage(Protocol):
    """The avatar at the size that is streamed."""

    def anchor(self, index: int) -> U8:
        """(H * 3 // 2, W) u8 I420 planes of the anchor frame `index % cycle_frames`, read-only."""
        ...

    def mix(self, a: U8, b: U8, weight: float, index: int) -> U8:
        """New planes: `a` * (1 - weight) + `b` * weight inside the crop of frame `index`, `a` elsewhere."""
        ...


@dataclass(slots=True)
class ComposeCounts:
    """Mouths that could not be shown in their own frame, by reason."""

    late_mouths: int = 0
    failed_mouths: int = 0


_SILENCE = np.zeros(FRAME_SAMPLES, np.int16)
_SILENCE.setflags(write=False)


class _Lips:
    """The newest mouth and how much of it shows."""

    def __init__(self) -> None:
        self.index = -1
        self._planes: U8 | None = None
        self._since_ns = 0
        self._share = 0.0
        self._closing = False

    @property
    def at_rest(self) -> bool:
        return self._planes is None

    def hold(self, planes: U8, index: int, now_ns: int) -> None:
        self._planes, self.index, self._since_ns, self._closing = planes, index, now_ns, False

    def fresh(self, now_ns: int, within_ns: int) -> bool:
        """Whether there is a mouth that may go on being shown."""
        return self._planes is not None and not self._closing and now_ns - self._since_ns <= within_ns

    def rest(self) -> None:
        self._planes, self._share, self._closing = None, 0.0, False

    def open(self, stage: Stage, index: int) -> U8:
        """The mouth held, eased in after silence."""
        assert self._planes is not None
        self._share = min(1.0, self._share + OPENING_STEP)
        if self._share >= 1.0:
            return self._planes
        return stage.mix(self._planes, stage.anchor(index), 1.0 - self._share, index)

    def close(self, stage: Stage, index: int) -> U8:
        """One step towards the anchor frame."""
        anchor = stage.anchor(index)
        self._share -= CLOSING_STEP
        self._closing = True
        if self._planes is None or self._share < CLOSING_STEP / 2:
            self.rest()
            return anchor
        return stage.mix(anchor, self._planes, self._share, index)


class Composer:
    """Collects sounds, windows and mouths by index; gives the picture of an index when asked, whatever has come."""

    def __init__(self, stage: Stage, capacity_frames: int = 64) -> None:
        self._stage = stage
        self._capacity_frames = capacity_frames
        self._sounds: dict[int, FrameSound] = {}
        self._windows: dict[int, AudioWindow] = {}
        self._mouths: dict[int, RenderedMouth] = {}
        self._released = -1
        self._act = 0
        self._lips = _Lips()
        self._voiced = False
        self._sounding = False
        self._clip: Clip | None = None
        self._interlude: Interlude | None = None
        self.generation = 0
        self.counts = ComposeCounts()

    @property
    def waiting_frames(self) -> int:
        """Frames whose sound is here and not yet released."""
        return len(self._sounds)

    def has_sound(self, index: int) -> bool:
        """Whether the sound of a frame is here."""
        return index in self._sounds

    def take_sound(self, sound: FrameSound) -> None:
        """Remember a frame's sound. Older than what was released, or more than can wait: dropped."""
        if sound.index > self._released and len(self._sounds) < self._capacity_frames:
            self._sounds[sound.index] = sound

    def take_window(self, window: AudioWindow) -> None:
        """Remember that a frame's window is made, and whether it is voiced."""
        if window.index > self._released and len(self._windows) < self._capacity_frames:
            self._windows[window.index] = window

    def mouth_sink(self) -> Callable[[RenderedMouth], None]:
        """Where the mouths of the avatar now on stage go; after a recast they go nowhere."""
        return partial(self._take_mouth_of, self._act)

    def take_mouth(self, mouth: RenderedMouth) -> None:
        """Remember a finished mouth; planes None means the engine failed on it.

        One that missed its own frame is still the newest there is while the voice goes on: it is held.
        """
        if mouth.planes is None:
            self.counts.failed_mouths += 1
        elif mouth.generation < self.generation:
            return
        elif mouth.index > self._released:
            self._mouths[mouth.index] = mouth
        else:
            self.counts.late_mouths += 1
            if self._voiced and mouth.index > self._lips.index:
                self._lips.hold(mouth.planes, mouth.index, mouth.rendered_ns)

    def recast(self, stage: Stage) -> None:
        """From the next picture on another avatar, or the same at another size."""
        self._stage = stage
        self._act += 1
        self._mouths.clear()
        self._lips.rest()
        self._clip = self._interlude = None

    def play(self, clip: Clip) -> None:
        """Show a clip of the avatar's own size, once, as soon as nobody speaks; replaces one that still waits."""
        self._clip = clip

    def picture(self, index: int, now_ns: int) -> Picture:
        """The picture to release for `index`. Call with ascending indices."""
        sound, window = self._forget_before(index)
        if sound is None or sound.generation < self.generation:
            pcm48 = self._faded(sound)
            stamps, generation = Stamps(), self.generation
            planes, kind = self._without_voice(index, now_ns)
        else:
            pcm48, generation = sound.pcm48, sound.generation
            stamps = window.stamps if window is not None else sound.stamps
            planes, kind = self._with_sound(sound, window, now_ns)
            self._sounding = True
        stamps.composed_ns = now_ns
        return Picture(index, self._act_out(planes, index), pcm48, kind, generation, stamps)

    def _with_sound(self, sound: FrameSound, window: AudioWindow | None, now_ns: int) -> tuple[U8, PictureKind]:
        mouth = self._mouths.pop(sound.index, None)
        if window is not None and mouth is not None and mouth.planes is not None:
            self._voiced = True
            self._lips.hold(mouth.planes, sound.index, now_ns)
            window.stamps.rendered_ns = mouth.rendered_ns
            return self._lips.open(self._stage, sound.index), PictureKind.VOICED
        # Without a window its look-ahead is late: the frame's own sound says whether a mouth is missing. A shut mouth
        # that should have opened a moment before the first sound is not missed.
        ahead = window is not None and window.voiced and not self._lips.at_rest
        if sound.speech or ahead:
            return self._without_mouth(sound.index, now_ns)
        return self._without_voice(sound.index, now_ns)

    def _take_mouth_of(self, act: int, mouth: RenderedMouth) -> None:
        if act == self._act:
            self.take_mouth(mouth)

    def _forget_before(self, index: int) -> tuple[FrameSound | None, AudioWindow | None]:
        kept: tuple[dict[int, FrameSound], dict[int, AudioWindow], dict[int, RenderedMouth]]
        kept = (self._sounds, self._windows, self._mouths)
        for waiting in kept:
            for stale in [i for i in waiting if i < index]:
                del waiting[stale]
        self._released = index
        return self._sounds.pop(index, None), self._windows.pop(index, None)

    def _faded(self, void: FrameSound | None) -> S16:
        """Silence; where void sound follows what was heard, its first moments as it fades."""
        sounding, self._sounding = self._sounding, False
        if void is None or not sounding:
            return _SILENCE
        pcm48 = np.zeros(FRAME_SAMPLES, np.int16)
        pcm48[:FADE_SAMPLES] = void.pcm48[:FADE_SAMPLES] * np.linspace(1.0, 0.0, FADE_SAMPLES, dtype=np.float32)
        pcm48.flags.writeable = False
        return pcm48

    def _without_mouth(self, index: int, now_ns: int) -> tuple[U8, PictureKind]:
        """Voiced, but the mouth is not there: hold the last one for a while, then ease to the anchor."""
        self._voiced = True
        if self._lips.fresh(now_ns, HOLD_NS):
            return self._lips.open(self._stage, index), PictureKind.HELD
        return self._lips.close(self._stage, index), PictureKind.LATE

    def _without_voice(self, index: int, now_ns: int) -> tuple[U8, PictureKind]:
        """Silent: the anchor, after easing a mouth that may still be open."""
        self._voiced = False
        return self._lips.close(self._stage, index), PictureKind.IDLE

    def _act_out(self, planes: U8, index: int) -> U8:
        """Lay the interlude over a picture; begin one that waits once nobody speaks."""
        resting = not self._voiced and self._lips.at_rest
        if self._clip is not None and self._interlude is None and resting:
            self._interlude, self._clip = Interlude(self._clip, index), None
        if self._interlude is None:
            return planes
        if self._voiced:
            self._interlude.leave(index)
        if self._interlude.over(index):
            self._interlude = None
            return planes
        return self._interlude.lay(planes, index)
