"""The contract network as a live engine: the whole way of 8-channel latents on a CPU, without any download.

For tests of that way. The picture is a blurred face whose mouth region flickers with the sound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket
from avatars.precompile import Makers
from engines.contract import FRAME_SAMPLES_16K, EngineSpec, FaceJob, FacePatch
from engines.contract_net import network
from engines.contract_net.contracts import CONTRACTS, WINDOW_SAMPLES
from engines.contract_net.weights import revision, weights
from engines.errors import EngineOutput
from engines.latents import LatentFace, attach, gather

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]

NAME = "contract_net"
ENCODER = "contract"
_AROUND_SAMPLES = (WINDOW_SAMPLES - FRAME_SAMPLES_16K) // 2


class ContractEncoder:
    """Implements avatars.precompile.LatentEncoder."""

    @property
    def name(self) -> str:
        return ENCODER

    @property
    def revision(self) -> str:
        return revision()

    def encode(self, crops: U8) -> F16:
        return network.encode(crops)


class ContractEngine:
    """Implements engines.contract.LipSyncEngine. Keeps no state between jobs."""

    def __init__(self) -> None:
        self._spec = EngineSpec(
            name=NAME,
            mouth_px=network.PATCH_PX,
            buckets=(1, 2, 4),
            context_samples=_AROUND_SAMPLES,
            lookahead_samples=_AROUND_SAMPLES,
            latent_encoder=ENCODER,
            tensors=tuple(dict.fromkeys(t for stage in CONTRACTS for t in (*stage.inputs, *stage.outputs))),
        )

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def makers(self) -> Makers:
        """What it brings to precompilation."""
        return Makers(latents=ContractEncoder())

    def attach(self, packet: AvatarPacket) -> LatentFace:
        return attach(packet, self._spec, revision())

    def warm_up(self) -> None:
        weights()
        self._faces(np.zeros((1, 8, 32, 32), np.float16), np.zeros((1, WINDOW_SAMPLES), np.float32))

    def infer(self, jobs: Sequence[FaceJob]) -> list[FacePatch]:
        if not jobs:
            return []
        batch = gather(jobs, self._spec)
        faces = self._faces(batch.latents, batch.samples)
        return [FacePatch(job.index, job.generation, face) for job, face in zip(jobs, faces, strict=True)]

    def close(self) -> None:
        """Nothing to give back."""

    def _faces(self, latents: F16, samples: npt.NDArray[np.float32]) -> U8:
        denoised = network.denoise(latents.astype(np.float32), network.features(samples))
        if not np.isfinite(denoised).all():
            raise EngineOutput(NAME, "the latents are not finite")
        return network.decode(denoised)
