"""A server whose engine flashes with the sound: the sharpest lip-sync there is, for seeing how sound and picture keep
time. `python -m streamer.bench.flash AVATARS_DIR [RECORDINGS_DIR]` serves it on a free port and says where on stdout.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

import numpy as np

from avatars.packet import AvatarPacket
from engines.contract import FRAME_SAMPLES_16K, EngineSpec, Face, FaceJob, FacePatch
from streamer.app import Announcements, Server
from streamer.config import Config, check
from streamer.media import F32, U8

PATCH_PX = 64
LOUD_RMS = 0.03


class FlashFace:
    """What is held of an avatar: the packet alone."""

    def __init__(self, packet: AvatarPacket) -> None:
        self.packet = packet


class FlashEngine:
    """White while the frame's own sound is loud, black else."""

    spec = EngineSpec("flash", PATCH_PX, buckets=(1,), context_samples=0, lookahead_samples=840, shows_faces=False)

    def attach(self, packet: AvatarPacket) -> Face:
        return FlashFace(packet)

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def infer(self, jobs: Sequence[FaceJob]) -> list[FacePatch]:
        return [FacePatch(job.index, job.generation, _patch(job.samples[:FRAME_SAMPLES_16K])) for job in jobs]


def _patch(samples: F32) -> U8:
    loud = float(np.sqrt(np.mean(np.square(samples)))) > LOUD_RMS
    patch = np.full((PATCH_PX, PATCH_PX, 3), 255 if loud else 0, np.uint8)
    patch[0, 0] = 128  # a patch of one colour is refused
    return patch


async def serve(avatars_dir: str, recordings_dir: str = "storage/recordings") -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    def say(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()

    config = Config(port=0, avatars=avatars_dir, recordings=recordings_dir)
    server = Server(check(config), FlashEngine)
    await server.run(Announcements(lambda avatar, done: None, say), stop)


if __name__ == "__main__":
    import uvloop  # the same loop as the real server

    uvloop.run(serve(*sys.argv[1:3]))
