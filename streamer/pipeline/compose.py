"""Compose: decides what each picture shows — the rendered mouth, the last one held, an easing, or the anchor frame.

Never black, never a stalled track, never lost sound: an anchor frame is always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from streamer.media import FRAME_NS, FRAME_SAMPLES, U8, AudioWindow, Picture, PictureKind, RenderedMouth, Stamps

HOLD_NS = 200_000_000
EASE_FRAMES = 2


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
    """Mouths that could not be shown, by reason."""

    late_mouths: int = 0
    failed_mouths: int = 0


_SILENCE = np.zeros(FRAME_SAMPLES, np.int16)
_SILENCE.setflags(write=False)


class Composer:
    """Collects windows and mouths by index; gives the picture of an index when asked, whatever has come."""

    def __init__(self, stage: Stage, capacity_frames: int = 64) -> None:
        self._stage = stage
        self._capacity_frames = capacity_frames
        self._windows: dict[int, AudioWindow] = {}
        self._mouths: dict[int, RenderedMouth] = {}
        self._released = -1
        self._held: U8 | None = None
        self._held_ns = 0
        self._ease_left = 0
        self.generation = 0
        self.counts = ComposeCounts()

    @property
    def waiting_frames(self) -> int:
        """Frames whose sound is here and not yet released."""
        return len(self._windows)

    def take_window(self, window: AudioWindow) -> None:
        """Remember a frame's sound. Older than what was released, or of an older generation: dropped."""
        if window.index > self._released and len(self._windows) < self._capacity_frames:
            self._windows[window.index] = window

    def take_mouth(self, mouth: RenderedMouth) -> None:
        """Remember a finished mouth; planes None means the engine failed on it."""
        if mouth.index <= self._released:
            self.counts.late_mouths += 1
        elif mouth.planes is None:
            self.counts.failed_mouths += 1
        elif mouth.generation >= self.generation:
            self._mouths[mouth.index] = mouth

    def picture(self, index: int, now_ns: int) -> Picture:
        """The picture to release for `index`. Call with ascending indices."""
        window = self._forget_before(index)
        if window is None or window.generation < self.generation:
            planes, kind = self._without_voice(index, now_ns)
            return Picture(index, planes, _SILENCE, kind, self.generation, Stamps(composed_ns=now_ns))
        mouth = self._mouths.pop(index, None)
        if mouth is not None and mouth.planes is not None:
            self._held, self._held_ns, self._ease_left = mouth.planes, now_ns, 0
            planes, kind = mouth.planes, PictureKind.VOICED
            window.stamps.rendered_ns = mouth.rendered_ns
        elif window.voiced:
            planes, kind = self._without_mouth(index, now_ns)
        else:
            planes, kind = self._without_voice(index, now_ns)
        window.stamps.composed_ns = now_ns
        return Picture(index, planes, window.pcm48, kind, window.generation, window.stamps)

    def _forget_before(self, index: int) -> AudioWindow | None:
        for stale in [i for i in self._windows if i < index]:
            del self._windows[stale]
        for stale in [i for i in self._mouths if i < index]:
            del self._mouths[stale]
        self._released = index
        return self._windows.pop(index, None)

    def _without_mouth(self, index: int, now_ns: int) -> tuple[U8, PictureKind]:
        """Voiced, but the mouth is not there: hold the last one for a while, then ease to the anchor."""
        if self._held is not None and self._ease_left == 0 and now_ns - self._held_ns <= HOLD_NS:
            return self._held, PictureKind.HELD
        return self._ease(index), PictureKind.LATE

    def _without_voice(self, index: int, now_ns: int) -> tuple[U8, PictureKind]:
        """Silent: the anchor, after easing a mouth that may still be open."""
        recent = now_ns - self._held_ns <= 2 * FRAME_NS
        if self._held is not None and (self._ease_left or recent):
            return self._ease(index), PictureKind.IDLE
        self._held, self._ease_left = None, 0
        return self._stage.anchor(index), PictureKind.IDLE

    def _ease(self, index: int) -> U8:
        """One step of EASE_FRAMES from the held mouth to the anchor frame."""
        anchor = self._stage.anchor(index)
        if self._held is None:
            return anchor
        self._ease_left = self._ease_left - 1 if self._ease_left else EASE_FRAMES
        if self._ease_left == 0:
            self._held = None
            return anchor
        done = (EASE_FRAMES + 1 - self._ease_left) / (EASE_FRAMES + 1)
        return self._stage.mix(anchor, self._held, 1.0 - done, index)
