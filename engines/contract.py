"""What a lip-sync engine is, as executable types. Knows no asyncio, no server; every engine passes tests/contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

FPS = 25
ANALYSIS_HZ = 16_000
FRAME_SAMPLES_16K = ANALYSIS_HZ // FPS
"""640 samples at 16 kHz are one frame of the grid."""


@dataclass(frozen=True, slots=True)
class TensorContract:
    """One tensor a stage takes or gives: the second source document's executable documentation."""

    name: str
    shape: tuple[int | str, ...]
    """Sizes; a string names a free axis, for example ("B", 8, 32, 32)."""
    dtype: str
    axes: str
    """What each axis means, for example "batch, channel, row, column"."""
    value_range: str
    owner: str


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine needs and gives."""

    name: str
    mouth_px: int
    """Side of the square patch, pixels."""
    buckets: tuple[int, ...]
    """Batch sizes it runs, ascending; the planner takes at most the last."""
    context_samples: int
    """16 kHz samples it wants before the frame's first sample."""
    lookahead_samples: int
    """16 kHz samples it needs after the frame's last sample. Declared truthfully: it is latency."""
    latent_encoder: str | None = None
    """The `latent_encoder` of packets it accepts; None: it needs no latents."""
    tensors: tuple[TensorContract, ...] = ()
    fps: int = FPS
    shows_faces: bool = True
    """False: its patches are a bench's signals, not to be compared with the avatar's own face."""

    @property
    def window_samples(self) -> int:
        """Length of `FaceJob.samples`: context, one frame, look-ahead."""
        return self.context_samples + FRAME_SAMPLES_16K + self.lookahead_samples


@runtime_checkable
class Face(Protocol):
    """Engine-side handle of an attached packet: what the engine prepared for it. Opaque to everybody else.

    One that is also an `avatars.canvas.Living` blinks while nobody speaks.
    """

    @property
    def packet(self) -> AvatarPacket: ...


@runtime_checkable
class StagedFace(Face, Protocol):
    """A face that shows more of its packet than the packet's own box and mask, such as the whole head."""

    @property
    def stage(self) -> AvatarPacket:
        """The packet with the same frames and this face's boxes and masks: what a canvas is made of."""
        ...


def stage_of(face: Face) -> AvatarPacket:
    """The packet as the face is to be shown."""
    return face.stage if isinstance(face, StagedFace) else face.packet


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stream:
    """Whose sound a job brings. An engine may remember what it heard of a stream while somebody holds it."""


@dataclass(frozen=True, slots=True, eq=False)
class FaceJob:
    """One mouth to render."""

    face: Face
    index: int
    """Frame index on the session's grid; the anchor frame is `index % packet.cycle_frames`."""
    generation: int
    deadline_ns: int
    """Monotonic ns at which the patch stops being useful."""
    samples: F32
    """(spec.window_samples,) f32 in -1..1 at 16 kHz; the frame starts at `spec.context_samples`."""
    stream: Stream | None = None
    """The session's, whose jobs come in the order of their indices, some missing; None: this job stands alone."""


@dataclass(frozen=True, slots=True, eq=False)
class FaceOverlay:
    """A small cached picture over the face, such as closed lids."""

    rect: tuple[int, int, int, int]
    """x1, y1, x2, y2 in the patch, pixels."""
    pixels: U8
    """(h, w, 3) u8 RGB."""
    mask: F32
    """(h, w) f32 0..1."""


@dataclass(frozen=True, slots=True, eq=False)
class FacePatch:
    """What an engine gives back for a job."""

    index: int
    generation: int
    pixels: U8
    """(mouth_px, mouth_px, 3) u8 RGB: the staged face box, axis-aligned, stretched to a square; roll is baked in."""
    overlays: tuple[FaceOverlay, ...] = ()


class LipSyncEngine(Protocol):
    """A synchronous engine. `attach` may run on any thread; `infer` only on the inference thread."""

    @property
    def spec(self) -> EngineSpec: ...

    def attach(self, packet: AvatarPacket) -> Face:
        """Prepare a packet. Raises EngineContract where the packet does not fit (no landmarks, foreign latents)."""
        ...

    def warm_up(self) -> None:
        """Pay first-call costs for every bucket."""
        ...

    def infer(self, jobs: Sequence[FaceJob]) -> list[FacePatch]:
        """Render jobs in order. Raises EngineOutput if the output is not finite or otherwise unusable."""
        ...

    def close(self) -> None: ...
