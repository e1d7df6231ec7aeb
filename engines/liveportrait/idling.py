"""A portrait's living idle loop as frames: it sways, looks about and blinks, and ends where it began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from avatars.precompile import FaceFinder, Footage
from engines.liveportrait.checkpoints import Weights, require_device
from engines.liveportrait.crop import U8
from engines.liveportrait.idle import IdleSettings
from engines.liveportrait.keyframes import QUALITY, KeyframeSettings
from engines.liveportrait.plans import IdlePlanner
from engines.liveportrait.portrait import LivePortrait, one_thread
from engines.liveportrait.source import read_source
from engines.liveportrait.take import PortraitTake, TakeSettings

NAME = "liveportrait"
_REVISION = 1


@dataclass(frozen=True, slots=True)
class IdleLoopSettings:
    """What a loop is like."""

    frames: int = 150
    keyframes: KeyframeSettings = QUALITY
    motion: IdleSettings = field(default_factory=IdleSettings)


class IdleAnimator:
    """Implements avatars.precompile.IdleAnimator."""

    name = NAME

    def __init__(self, engine: LivePortrait, settings: IdleLoopSettings, weights: str) -> None:
        """`weights` says which they are: another word, another revision."""
        self._engine = engine
        self._settings = settings
        self.revision = f"{_REVISION}, {settings.frames} frames, {weights} weights, {settings.motion}"

    def animate(self, rgb: U8, finder: FaceFinder, source: str, face: int) -> Footage:
        """Raises FaceNotFound, EngineOutput."""
        picture = read_source(rgb, finder, source, face)
        planner = IdlePlanner(self._settings.frames, self._settings.motion)
        take = PortraitTake(self._engine, picture, planner, TakeSettings(keyframes=self._settings.keyframes))
        take.plan(lambda stage, done, total: None)
        return _Loop(take, source)


class _Loop:
    """The frames of one take; may be gone through once or often, the networks run each time."""

    def __init__(self, take: PortraitTake, source: str) -> None:
        self._take = take
        self.name = source
        self.size_px = take.size_px
        self.expected_frames = take.frame_count

    def __iter__(self) -> Iterator[U8]:
        first, *others = self._take.keyframes()
        before = (first, self._take.key(first))
        yield self._take.frame(first, before, before)
        for key in others:
            after = (key, self._take.key(key))
            for index in range(before[0] + 1, key + 1):
                yield self._take.frame(index, before, after)
            before = after


def open_animator(weights: Weights, device: str = "cpu", seconds: float = 6.0) -> IdleAnimator:
    """Raises EngineUnavailable, EngineContract."""
    require_device(device)
    if device == "cpu":
        one_thread()
    engine = LivePortrait(weights.sizes, weights.networks(), device)
    which = "made-up" if weights.seeded else "published"
    return IdleAnimator(engine, IdleLoopSettings(max(2, round(25 * seconds))), which)
