"""MuseTalk v1.5 as a live engine: sound features, one UNet pass and the decoder, all frames of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from avatars.packet import AvatarPacket
from avatars.precompile import FaceParser, LatentEncoder, Makers
from engines.backends.chain import Chain, Row
from engines.backends.residency import DEFAULT_CAP_BYTES, ResidentPool
from engines.contract import EngineSpec, FaceJob, FacePatch
from engines.errors import EngineOutput
from engines.latents import LatentFace, attach, gather
from engines.musetalk import latents
from engines.musetalk.features import FeatureExtractor
from engines.musetalk.stages import CONTRACTS
from engines.musetalk.windows import CONTEXT_SAMPLES, LOOKAHEAD_SAMPLES, TOKENS, WIDTH, WINDOW_SAMPLES

NAME = "musetalk"
MOUTH_PX = 256
BUCKETS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What an engine is made of; see opening.open_engine."""

    features: FeatureExtractor
    chain: Chain
    encoder: Callable[[], LatentEncoder]
    """Made when an avatar is: a server of finished packets needs none."""
    parser: Callable[[], FaceParser | None]
    revision: str
    """Of the latent encoder's weights."""


class MuseTalkEngine:
    """Implements engines.contract.LipSyncEngine. Keeps no state between jobs but what avatars have on the device."""

    def __init__(self, parts: Parts, cap_bytes: int = DEFAULT_CAP_BYTES) -> None:
        """cap_bytes: of avatars' latents on the device."""
        self._parts = parts
        self._pool = ResidentPool(parts.chain, cap_bytes)
        self._spec = EngineSpec(
            name=NAME,
            mouth_px=MOUTH_PX,
            buckets=parts.chain.buckets,
            context_samples=CONTEXT_SAMPLES,
            lookahead_samples=LOOKAHEAD_SAMPLES,
            latent_encoder=latents.NAME,
            tensors=tuple(dict.fromkeys(t for stage in CONTRACTS for t in (*stage.inputs, *stage.outputs))),
        )

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    @property
    def resident_bytes(self) -> int:
        """Avatars' latents on the device."""
        return self._pool.held_bytes

    def makers(self) -> Makers:
        """What it brings to precompilation."""
        return Makers(latents=self._parts.encoder(), parser=self._parts.parser(), official_margin=True)

    def attach(self, packet: AvatarPacket) -> LatentFace:
        return attach(packet, self._spec, self._parts.revision)

    def warm_up(self) -> None:
        for bucket in self._spec.buckets:
            sound = np.zeros((bucket, WINDOW_SAMPLES), np.float32)
            resident = self._parts.chain.upload(np.zeros((1, 8, 32, 32), np.float16))
            try:
                self._parts.chain.run({"latent": [Row(resident, 0)] * bucket}, {"audio": self._parts.features(sound)})
            finally:
                resident.free()

    def infer(self, jobs: Sequence[FaceJob]) -> list[FacePatch]:
        if not jobs:
            return []
        batch = gather(jobs, self._spec)
        audio = self._parts.features(batch.samples)
        if audio.shape != (len(jobs), TOKENS, WIDTH) or not np.isfinite(audio).all():
            raise EngineOutput(NAME, "the sound features are not finite")
        made = self._parts.chain.run({"latent": list(map(self._row, batch.faces, batch.rows))}, {"audio": audio})
        if not np.isfinite(made["level"]).all():
            raise EngineOutput(NAME, "the picture is not finite")
        return [FacePatch(job.index, job.generation, face) for job, face in zip(jobs, made["faces"], strict=True)]

    def close(self) -> None:
        self._pool.close()
        self._parts.chain.close()

    def _row(self, face: LatentFace, row: int) -> Row:
        still = face.latents.strides[0] == 0
        rows = face.latents[:1] if still else face.latents
        return Row(self._pool.get(face, rows), 0 if still else row)
