"""LivePortrait live, on a GPU: streaming JoyVASA moves the whole head, and the patch is the whole face crop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from avatars.packet import AvatarPacket
from engines.contract import ANALYSIS_HZ, EngineSpec, FaceJob, FacePatch, TensorContract
from engines.errors import EngineContract, EngineOutput, EngineUnavailable
from engines.liveportrait.checkpoints import Weights
from engines.liveportrait.drive import LIP_POINTS, Drive, DriveSettings
from engines.liveportrait.joyvasa.audio import FRAME_SAMPLES
from engines.liveportrait.joyvasa.checkpoint import Talker
from engines.liveportrait.joyvasa.coefficients import MOTION_FEATURES, motion_of
from engines.liveportrait.joyvasa.streaming import MotionStream, StreamSettings, presence
from engines.liveportrait.keypoints import MotionInfo
from engines.liveportrait.live_face import LiveFace
from engines.liveportrait.pixels import U8
from engines.liveportrait.portrait import LivePortrait, Portrait, one_thread

NAME = "liveportrait"
_FLAT_LEVELS = 4.0
"""A face with less spread of grey levels is no face."""
_DRIVE = DriveSettings(lips_absolute=True, region_keeps_place=False)


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How the live engine runs."""

    stream: StreamSettings = field(default_factory=StreamSettings)
    buckets: tuple[int, ...] = (1, 2, 4)


def open_engine(
    models: Path | None = None, device: str = "cuda", *, seeded: bool = False, reduced: bool = False
) -> LivePortraitEngine:
    """The engine with the weights in `models`, or with made-up ones. Raises EngineUnavailable, EngineContract."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        remedy = "Serve from a machine with an NVIDIA GPU and torch built for CUDA, or choose --engine warp."
        raise EngineUnavailable(NAME, "it is live on a CUDA device only, and there is none", remedy)
    if device == "cpu":
        one_thread()
    weights = Weights(models, seeded, reduced)
    portrait = LivePortrait(weights.sizes, weights.networks(), device)
    stream = StreamSettings(heard_frames=8) if reduced else StreamSettings()
    return LivePortraitEngine(portrait, weights.talker(), LiveSettings(stream), device)


class LivePortraitEngine:
    """Implements engines.contract.LipSyncEngine. What it remembers between jobs is motion, found again by its sound."""

    def __init__(self, portrait: LivePortrait, talker: Talker, settings: LiveSettings, device: str = "cpu") -> None:
        self._portrait = portrait
        self._template = talker.template
        self._stream = MotionStream(talker, settings.stream, device)
        self._device = device
        stream = settings.stream
        self._spec = EngineSpec(
            name=NAME,
            mouth_px=portrait.sizes.picture_px,
            buckets=settings.buckets,
            context_samples=stream.context_frames * FRAME_SAMPLES,
            lookahead_samples=stream.lookahead_frames * FRAME_SAMPLES,
            tensors=_tensors(stream, portrait.sizes.picture_px),
        )

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def attach(self, packet: AvatarPacket) -> LiveFace:
        return LiveFace(packet, self._portrait)

    def warm_up(self) -> None:
        """Run every stage at every batch size on a grey face that hears nothing."""
        side_px = self._portrait.sizes.image_px
        grey = np.full((side_px, side_px, 3), 128, np.uint8)
        source = self._portrait.prepare(grey, np.zeros((0, 2), np.float32), stitching=False, close_lips=False)
        self._stream.at(0, np.zeros(self._spec.window_samples, np.float32))
        for size in self._spec.buckets:
            self._portrait.render([source] * size, source.face.keypoints.expand(size, -1, -1))

    def infer(self, jobs: Sequence[FaceJob]) -> list[FacePatch]:
        faces = [self._checked(job) for job in jobs]
        sources = [face.source(job.index) for face, job in zip(faces, jobs, strict=True)]
        moving = [i for i, source in enumerate(sources) if source is not None]
        heads: dict[int, U8] = {}
        if moving:
            here = [source for source in sources if source is not None]
            points = torch.cat([self._points(jobs[i], source) for i, source in zip(moving, here, strict=True)])
            heads = dict(zip(moving, self._portrait.render(here, points), strict=True))
        return [self._patch(job, faces[i], heads.get(i)) for i, job in enumerate(jobs)]

    def close(self) -> None:
        """Give the device's spare memory back; the networks go with the engine."""
        if self._device.startswith("cuda"):
            torch.cuda.empty_cache()

    def _checked(self, job: FaceJob) -> LiveFace:
        face = job.face
        if not isinstance(face, LiveFace):
            raise EngineContract("face", f"a face this {NAME} engine attached", type(face).__name__)
        if job.samples.shape != (self._spec.window_samples,):
            expected = f"({self._spec.window_samples},) at {ANALYSIS_HZ} Hz"
            raise EngineContract("samples", expected, str(job.samples.shape))
        if not np.isfinite(job.samples).all():
            raise EngineOutput(NAME, "the sound is not finite")
        return face

    def _points(self, job: FaceJob, source: Portrait) -> Tensor:
        """(1, 21, 3) keypoints of a job's frame."""
        moment = self._stream.at(job.index, job.samples)
        kp = source.face.info.kp
        first = motion_of(moment.first, self._template, kp)
        now = motion_of(moment.row, self._template, kp)
        present = presence(job.samples, self._spec.context_samples)
        with torch.inference_mode():
            points = Drive(source.face, _DRIVE, first).next(_eased(first, now, present))
        if not bool(torch.isfinite(points).all()):
            raise EngineOutput(NAME, "keypoints are not finite")
        return points

    def _patch(self, job: FaceJob, face: LiveFace, head: U8 | None) -> FacePatch:
        if head is None:
            return FacePatch(job.index, job.generation, face.bare(job.index))
        if float(head.std()) < _FLAT_LEVELS:
            raise EngineOutput(NAME, "a face came out flat")
        return FacePatch(job.index, job.generation, face.patch(head))


def _eased(first: MotionInfo, now: MotionInfo, share: float) -> MotionInfo:
    """The head's motion by `share`, so that it leaves the anchor frame and finds it again softly; lips stay."""
    exp = first.exp + share * (now.exp - first.exp)
    exp[:, list(LIP_POINTS)] = now.exp[:, list(LIP_POINTS)]
    eased = {
        name: getattr(first, name) + share * (getattr(now, name) - getattr(first, name))
        for name in ("pitch_deg", "yaw_deg", "roll_deg", "t", "scale")
    }
    return replace(now, exp=exp, **eased)


def _tensors(stream: StreamSettings, patch_px: int) -> tuple[TensorContract, ...]:
    samples = (stream.context_frames + 1 + stream.lookahead_frames) * FRAME_SAMPLES
    return (
        TensorContract("samples", (samples,), "float32", "sample at 16 kHz", "-1..1", "streamer"),
        TensorContract(
            "coefficients", (stream.block_frames, MOTION_FEATURES), "float32", "frame at 25 fps, coefficient", "any",
            "motion stream; CPU",
        ),
        TensorContract("kp_driving", ("B", 21, 3), "float32", "job, keypoint, x y z", "any", "drive; CPU to device"),
        TensorContract("pixels", (patch_px, patch_px, 3), "uint8", "row, column, RGB", "0..255", NAME),
    )  # fmt: skip
