"""Where a take's motion comes from: sound, somebody else's face, or nothing but waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import torch

from engines.liveportrait.crop import U8
from engines.liveportrait.drive import Drive, DriveSettings
from engines.liveportrait.driving import motion_of_clip
from engines.liveportrait.faults import Faults
from engines.liveportrait.idle import IdleSettings, idle_keypoints
from engines.liveportrait.joyvasa.checkpoint import Talker
from engines.liveportrait.portrait import LivePortrait, Portrait
from engines.liveportrait.source import FaceFinder
from engines.liveportrait.speaking import SpeakingSettings, motion_of_speech
from engines.liveportrait.temporal import F32, TemporalLimits
from engines.liveportrait.tracking import Track, of_keypoints, track

OnStep = Callable[[str, int, int], None]
"""Hears a stage's name, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The portrait that is to move, and what may be asked of its motion."""

    engine: LivePortrait
    portrait: Portrait
    landmarks: F32
    limits: TemporalLimits
    faults: Faults


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A clip's motion."""

    track: Track
    windows_retried: int = 0
    windows_held: int = 0


class Planner(Protocol):
    """Works out the motion of a scene; slow."""

    def __call__(self, scene: Scene, on_step: OnStep) -> Plan: ...


@dataclass(frozen=True, slots=True, eq=False)
class SpeechPlanner:
    """The face speaks a sound."""

    talker: Talker
    samples: F32
    """(n,) f32 at 16 kHz."""
    settings: SpeakingSettings = field(default_factory=SpeakingSettings)

    def __call__(self, scene: Scene, on_step: OnStep) -> Plan:
        kp = scene.portrait.face.info.kp
        spoken = motion_of_speech(
            self.talker, self.samples, kp, self.settings, lambda done, n: on_step("motion", done, n), scene.faults
        )
        drive = Drive(scene.portrait.face, DriveSettings(lips_absolute=True, region_keeps_place=False))
        retried = sum(f.retried for f in spoken.faults)
        return Plan(track(drive, spoken.motion, scene.limits, scene.faults), retried, len(spoken.faults) - retried)


@dataclass(frozen=True, slots=True, eq=False)
class ClipPlanner:
    """The face does what another face in a clip does. Raises FaceNotFound where there is none."""

    frames: Callable[[], Iterable[U8]]
    """(H, W, 3) u8 RGB, 25 a second."""
    count: int
    """About how many."""
    finder: FaceFinder
    settings: DriveSettings = field(default_factory=DriveSettings)

    def __call__(self, scene: Scene, on_step: OnStep) -> Plan:
        def watch(index: int) -> None:
            on_step("motion", index + 1, max(self.count, index + 1))

        motion = motion_of_clip(scene.engine, self.frames(), self.finder, watch)
        return Plan(track(Drive(scene.portrait.face, self.settings), motion, scene.limits, scene.faults))


@dataclass(frozen=True, slots=True, eq=False)
class IdlePlanner:
    """The face waits, in a loop without a seam."""

    frames: int
    settings: IdleSettings = field(default_factory=IdleSettings)

    def __call__(self, scene: Scene, on_step: OnStep) -> Plan:
        with torch.inference_mode():
            points = idle_keypoints(scene.engine, scene.portrait, scene.landmarks, self.frames, self.settings)
        on_step("motion", self.frames, self.frames)
        return Plan(of_keypoints(points, scene.limits))
