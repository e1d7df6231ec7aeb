"""The embedded engine: sound to mouth shape by a small network, mouth shape to picture by warping. One CPU thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cv2
import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket
from engines.contract import ANALYSIS_HZ, EngineSpec, FaceJob, FacePatch, TensorContract
from engines.errors import EngineContract, EngineOutput
from engines.warp.face import WarpFace
from engines.warp.hearing import Hearing
from engines.warp.life import Life
from engines.warp.mesh import MESH_POINTS
from engines.warp.moulds import cast
from engines.warp.pose import shows_face
from engines.warp.shape import MouthShape

F32 = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]

NAME = "warp"
MOUTH_PX = 256


class WarpEngine:
    """Implements engines.contract.LipSyncEngine. Keeps no state between jobs, unless it hears phones."""

    def __init__(self, mouth_px: int = MOUTH_PX, phones: str | None = None) -> None:
        """mouth_px: side of the patch, a multiple of 4 from 128 to 512. phones: None, or "pocketsphinx" (English).

        Raises EngineUnavailable where that is not installed.
        """
        if mouth_px % 4 or not 128 <= mouth_px <= 512:
            raise EngineContract("mouth_px", "a multiple of 4 from 128 to 512", str(mouth_px))
        cv2.setNumThreads(1)  # a frame is too small to share out, and the other cores have sessions of their own
        self._hearing = Hearing(phones)
        self._moulds = cast()
        self._spec = EngineSpec(
            name=NAME,
            mouth_px=mouth_px,
            buckets=(1,),
            context_samples=self._hearing.context_samples,
            lookahead_samples=self._hearing.lookahead_samples,
            tensors=_tensors(self._hearing.window_samples, mouth_px),
        )

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def attach(self, packet: AvatarPacket) -> WarpFace:
        landmarks = packet.landmarks
        wanted = (packet.cycle_frames, MESH_POINTS, 2)
        if landmarks is None or landmarks.shape != wanted:
            found = "none" if landmarks is None else str(landmarks.shape)
            raise EngineContract("landmarks", f"{wanted} float32, MediaPipe mesh in frame pixels", found)
        if not any(shows_face(points, box) for points, box in _distinct(packet, landmarks)):
            raise EngineContract("landmarks", "a face inside its face box in at least one frame", "none")
        return WarpFace(packet, landmarks, self._spec.mouth_px, Life(packet.avatar_id), self._moulds)

    def warm_up(self) -> None:
        self._hearing.warm_up()

    def infer(self, jobs: Sequence[FaceJob]) -> list[FacePatch]:
        return [self._render(job) for job in jobs]

    def close(self) -> None:
        """Nothing to give back."""

    def _render(self, job: FaceJob) -> FacePatch:
        face = job.face
        if not isinstance(face, WarpFace) or face.patch_px != self._spec.mouth_px:
            raise EngineContract("face", f"a face this {NAME} engine attached", type(face).__name__)
        if job.samples.shape != (self._spec.window_samples,):
            raise EngineContract(
                "samples", f"({self._spec.window_samples},) at {ANALYSIS_HZ} Hz", str(job.samples.shape)
            )
        if not np.isfinite(job.samples).all():
            raise EngineOutput(NAME, "the sound is not finite")
        said = self._hearing.hear(job.samples, job.index, job.generation, job.stream)
        shape = MouthShape(*(float(element) for element in said.shapes))
        return FacePatch(job.index, job.generation, face.speak(shape, job.index), face.overlays(job.index))


def _distinct(packet: AvatarPacket, landmarks: F32) -> Iterator[tuple[F32, Box]]:
    """Mesh and face box of every frame, of the first only where all are the same."""
    still = packet.frames.strides[0] == 0
    return zip(landmarks[:1] if still else landmarks, packet.coords, strict=False)


def _tensors(window_samples: int, mouth_px: int) -> tuple[TensorContract, ...]:
    return (
        TensorContract("samples", (window_samples,), "float32", "sample at 16 kHz", "-1..1", "streamer"),
        TensorContract("shape", (len(MouthShape._fields),), "float32", ", ".join(MouthShape._fields), "0..1", NAME),
        TensorContract("pixels", (mouth_px, mouth_px, 3), "uint8", "row, column, RGB", "0..255", NAME),
    )
