"""One portrait rendered to one motion: keyframes by the network, guarded, and the frames between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch

from engines.errors import EngineOutput
from engines.liveportrait.faults import Faults
from engines.liveportrait.keyframes import EVERY_FRAME, KeyframeSettings, between, choose_keyframes
from engines.liveportrait.plans import OnStep, Planner, Scene
from engines.liveportrait.portrait import LivePortrait
from engines.liveportrait.source import SourcePicture
from engines.liveportrait.temporal import F32, U8, Finding, FrameGuard, TemporalLimits, clip_findings, identity_finding
from engines.liveportrait.tracking import Track

_HELD_KEYS = 3


@dataclass(frozen=True, slots=True, eq=False)
class TakeSettings:
    """How to render."""

    keyframes: KeyframeSettings = EVERY_FRAME
    limits: TemporalLimits = field(default_factory=TemporalLimits)
    identity_every: int = 0
    """Look every so many keyframes whether it is still the same face; 0: never."""
    faults: Faults = field(default_factory=Faults)


@dataclass(slots=True)
class Counts:
    """What happened."""

    rendered: int = 0
    """Keyframes that the network made and that are shown."""
    retried: int = 0
    """Of them, those that were abnormal and, rendered once more, were not."""
    held: int = 0
    """Keyframes for which the previous valid face stands."""
    interpolated: int = 0
    motion_retried: int = 0
    motion_held: int = 0
    windows_retried: int = 0
    windows_held: int = 0


class PortraitTake:
    """First `plan` or `restore`, then `key` or `accept` for every keyframe in order, then `frame`. One thread."""

    name = "liveportrait"

    def __init__(self, engine: LivePortrait, source: SourcePicture, planner: Planner, settings: TakeSettings) -> None:
        self._engine = engine
        self._source = source
        self._planner = planner
        self._settings = settings
        self._portrait = engine.prepare(source.face(engine.sizes.image_px), source.landmarks)
        self._guard = FrameGuard(settings.limits)
        self._track = Track(np.zeros((0, 21, 3), np.float32))
        self._last: U8 | None = None
        self._held_in_row = 0
        self.counts = Counts()
        self.findings: list[Finding] = []

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height of the finished frames."""
        height, width = self._source.picture.shape[:2]
        return width, height

    @property
    def frame_count(self) -> int:
        """Frames of the planned clip."""
        return len(self._track.keypoints)

    @property
    def keypoints(self) -> F32:
        """(n, 21, 3) of the planned clip."""
        return self._track.keypoints

    def plan(self, on_step: OnStep) -> None:
        """Work out the motion."""
        scene = Scene(
            self._engine, self._portrait, self._source.landmarks, self._settings.limits, self._settings.faults
        )
        plan = self._planner(scene, on_step)
        self._track = plan.track
        self.findings += plan.track.findings
        self.counts.motion_retried += plan.track.retried
        self.counts.motion_held += plan.track.held
        self.counts.windows_retried += plan.windows_retried
        self.counts.windows_held += plan.windows_held

    def planned(self) -> dict[str, npt.NDArray[Any]]:
        """The plan as arrays."""
        return {"keypoints": self._track.keypoints}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take up a plan of an earlier run."""
        self._track = Track(np.asarray(arrays["keypoints"], np.float32))

    def keyframes(self) -> list[int]:
        """Indices of the frames that the network renders."""
        return choose_keyframes(self._track.keypoints, self._settings.keyframes)

    def key(self, index: int) -> U8:
        """The face of a keyframe: rendered, once more where that is abnormal, else the previous valid one.

        Raises EngineOutput where there is no valid face yet.
        """
        for attempt in range(2):
            face, finding = self._rendered(index)
            if face is not None and (finding is None or self._held_in_row >= _HELD_KEYS):
                # Abnormal for so long is a new state, not a fault: hold no longer.
                self.counts.retried += attempt if finding is None else 0
                self.counts.rendered += 1
                self.accept(index, face)
                return face
            if finding is not None:
                self.findings.append(finding)
        if self._last is None:
            raise EngineOutput("liveportrait", f"frame {index} could not be rendered, and there is none before it")
        self.counts.held += 1
        self._held_in_row += 1
        self._guard.accept(self._last, self._track.keypoints[index])
        return self._last

    def accept(self, index: int, picture: U8) -> None:
        """This face stands for the keyframe: what `key` gave, now or in an earlier run."""
        self._guard.accept(picture, self._track.keypoints[index])
        self._last = picture
        self._held_in_row = 0

    def frame(self, index: int, before: tuple[int, U8], after: tuple[int, U8]) -> U8:
        """The finished frame (H, W, 3) u8 RGB at `index`, between two keyframes and their faces."""
        if index in (before[0], after[0]):
            return self._source.with_face(before[1] if index == before[0] else after[1])
        self.counts.interpolated += 1
        share = (index - before[0]) / (after[0] - before[0])
        return self._source.with_face(between(before[1], after[1], share))

    def close_clip(self, voiced: npt.NDArray[np.bool_]) -> None:
        """Look at the clip as a whole; `voiced` (n,): somebody speaks in this frame."""
        self.findings += clip_findings(self._track.keypoints, voiced, self._settings.limits)

    def account(self) -> dict[str, Any]:
        """Counts and findings as plain values."""
        return {"counts": asdict(self.counts), "findings": [f.as_json() for f in self.findings]}

    def _rendered(self, index: int) -> tuple[U8 | None, Finding | None]:
        keypoints = self._track.keypoints[index]
        given = self._settings.faults.spoil_rendering(index, torch.from_numpy(keypoints[None].copy()))
        try:
            face = self._engine.render(self._portrait, given)[0]
        except EngineOutput:
            return None, Finding(index, "not_finite", None, None)
        finding = self._guard.check(index, face, keypoints)
        every = self._settings.identity_every
        if finding is None and every and self.counts.rendered % every == 0:
            finding = self._identity(index, face)
        return face, finding

    def _identity(self, index: int, face: U8) -> Finding | None:
        side = self._engine.sizes.image_px
        small = cv2.resize(face, (side, side), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
        seen = self._engine.motion_of(small).kp[0].numpy()
        own = self._portrait.face.info.kp[0].numpy()
        return identity_finding(index, own, seen, self._settings.limits)
