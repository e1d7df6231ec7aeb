"""What engines over 8-channel latents share: which packets they take, and how jobs become one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket
from engines.contract import ANALYSIS_HZ, EngineSpec, FaceJob
from engines.errors import EngineContract, EngineOutput

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]

LATENT_SHAPE = (8, 32, 32)
"""Channels 0..3 of the face with its lower half masked, 4..7 of the whole face."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LatentFace:
    """Implements engines.contract.Face: a packet whose latents the engine's own encoder made."""

    packet: AvatarPacket
    latents: F16
    """(N, 8, 32, 32) f16."""
    owner: str


@dataclass(frozen=True, slots=True, eq=False)
class LatentBatch:
    """Jobs side by side, checked."""

    faces: tuple[LatentFace, ...]
    rows: tuple[int, ...]
    """Which of its face's latents each job takes."""
    samples: F32
    """(n, window) f32 at 16 kHz."""

    @property
    def latents(self) -> F16:
        """(n, 8, 32, 32) f16, for engines that keep none where they compute."""
        return np.stack([face.latents[row] for face, row in zip(self.faces, self.rows, strict=True)])


def attach(packet: AvatarPacket, spec: EngineSpec, revision: str) -> LatentFace:
    """Raises EngineContract where there are no latents, or another encoder or another revision of it made them."""
    latents = packet.latents
    if latents is None:
        raise EngineContract("latents", f"latents of the encoder {spec.latent_encoder!r}", _remade("none", spec))
    wanted = (packet.cycle_frames, *LATENT_SHAPE)
    if latents.shape != wanted or latents.dtype != np.float16:
        raise EngineContract("latents", f"{wanted} float16", f"{latents.shape} {latents.dtype}")
    made_by = packet.info.get("latent_encoder")
    found = made_by if isinstance(made_by, dict) else {"name": made_by, "revision": None}
    if found.get("name") != spec.latent_encoder:
        described = _remade(f"those of {found.get('name')!r}", spec)
        raise EngineContract("latents", f"latents of the encoder {spec.latent_encoder!r}", described)
    if found.get("revision") != revision:
        described = _remade(f"those of its revision {found.get('revision')}", spec)
        raise EngineContract("latents", f"latents of {spec.latent_encoder!r} at revision {revision}", described)
    return LatentFace(packet, latents, spec.name)


def gather(jobs: Sequence[FaceJob], spec: EngineSpec) -> LatentBatch:
    """Jobs as they are, none added. Raises EngineContract, EngineOutput (sound that is not finite)."""
    if len(jobs) > spec.buckets[-1]:
        raise EngineContract("batch", f"1 to {spec.buckets[-1]} jobs", str(len(jobs)))
    faces, samples = [], []
    for job in jobs:
        face = job.face
        if not isinstance(face, LatentFace) or face.owner != spec.name:
            raise EngineContract("face", f"a face this {spec.name} engine attached", type(face).__name__)
        if job.samples.shape != (spec.window_samples,):
            raise EngineContract("samples", f"({spec.window_samples},) at {ANALYSIS_HZ} Hz", str(job.samples.shape))
        if not np.isfinite(job.samples).all():
            raise EngineOutput(spec.name, "the sound is not finite")
        faces.append(face)
        samples.append(job.samples)
    rows = tuple(job.index % face.packet.cycle_frames for job, face in zip(jobs, faces, strict=True))
    return LatentBatch(tuple(faces), rows, np.stack(samples))


def _remade(found: str, spec: EngineSpec) -> str:
    return f"{found}; make the avatar again with `liveanchor precompile --engine {spec.name}`"
