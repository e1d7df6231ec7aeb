"""Makes a LivePortrait take of what the command line asks for. The only place where engine and files meet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

from avatars.clipfile import ClipFile
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from engines.liveportrait.checkpoints import Weights, require_device
from engines.liveportrait.faults import Faults
from engines.liveportrait.keyframes import EVERY_FRAME, PREVIEW, QUALITY
from engines.liveportrait.plans import ClipPlanner, IdlePlanner, Planner, SpeechPlanner
from engines.liveportrait.portrait import LivePortrait, one_thread
from engines.liveportrait.source import read_source
from engines.liveportrait.speaking import SpeakingSettings
from engines.liveportrait.take import PortraitTake, TakeSettings
from streamer.errors import ConfigError
from streamer.media import FPS, S16
from streamer.render.sound import MAX_SECONDS, for_analysis, read_sound
from streamer.render.take import Take

_TIERS = {"preview": PREVIEW, "quality": QUALITY, "full": EVERY_FRAME}
_IDENTITY_EVERY = 25
_MAX_SIDE_PX = 1280


class Wishes(Protocol):
    """What is wanted; see `commands/render.py`."""

    @property
    def portrait(self) -> Path: ...
    @property
    def audio(self) -> Path | None: ...
    @property
    def driving(self) -> Path | None: ...
    @property
    def idle_s(self) -> float | None: ...
    @property
    def tier(self) -> str: ...
    @property
    def models(self) -> Path | None: ...
    @property
    def seeded(self) -> bool: ...
    @property
    def reduced(self) -> bool: ...
    @property
    def seed(self) -> int: ...
    @property
    def inject(self) -> tuple[str, ...]: ...
    @property
    def device(self) -> str: ...


def take_of(wishes: Wishes) -> tuple[Take, S16 | None]:
    """The take and the sound to lay under it. Raises ConfigError, AvatarError or EngineError."""
    if wishes.reduced and not wishes.seeded:
        raise ConfigError("--reduced", "there are no published weights of these widths; add --seeded")
    require_device(wishes.device)
    if wishes.device == "cpu":
        one_thread()
    try:
        faults = Faults(wishes.inject)
    except ValueError as error:
        raise ConfigError("--inject", str(error)) from error
    picture = load_picture(wishes.portrait, max_side_px=_MAX_SIDE_PX)
    finder = FaceMesh()
    source = read_source(picture, finder, wishes.portrait.name)
    sound = read_sound(wishes.audio) if wishes.audio is not None else None
    planner = _planner(wishes, sound, finder)
    settings = TakeSettings(
        keyframes=_TIERS[wishes.tier], identity_every=0 if wishes.seeded else _IDENTITY_EVERY, faults=faults
    )
    weights = _weights(wishes)
    return PortraitTake(
        LivePortrait(weights.sizes, weights.networks(), wishes.device), source, planner, settings
    ), sound


def _planner(wishes: Wishes, sound: S16 | None, finder: FaceMesh) -> Planner:
    if wishes.driving is not None:
        clip = ClipFile(wishes.driving, _MAX_SIDE_PX, _MAX_SIDE_PX, for_packet=False)
        return ClipPlanner(partial(iter, clip), max(1, clip.expected_frames), finder)
    if wishes.idle_s is not None:
        if not 0.0 < wishes.idle_s <= MAX_SECONDS:
            raise ConfigError("--idle", f"{wishes.idle_s} is no length; give seconds, up to {MAX_SECONDS:.0f}")
        return IdlePlanner(max(2, round(wishes.idle_s * FPS)))
    if sound is None:
        raise ConfigError("AUDIO", "a face needs something to say: give a sound, --driving or --idle")
    return SpeechPlanner(_weights(wishes).talker(), for_analysis(sound), SpeakingSettings(seed=wishes.seed))


def _weights(wishes: Wishes) -> Weights:
    return Weights(wishes.models, wishes.seeded, wishes.reduced)
