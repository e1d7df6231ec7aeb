"""Avatars in figures: the first frame of a packet, blending, and a fleet of fifty, each beside what it replaces."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import blend_rgb
from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import FaceSettings, frame_face
from avatars.reader import Inspected, open_packet
from avatars.store import AvatarStore
from avatars.writer import LATENT_SHAPE, PacketWriter, write_info
from streamer.bench import blending, fleet
from streamer.clock import NS_PER_MS, MonotonicClock, cpu_ns

U8 = npt.NDArray[np.uint8]

SIDE_PX = 1024
DISTINCT_FRAMES = 25
PATCH = np.full((256, 256, 3), 120, dtype=np.uint8)
_ROUNDS = 50
_COLD_ROUNDS = 12
_PLAIN_ROUNDS = 9
_NAME = "distinct"


def run() -> dict[str, float]:
    """Needs no network and no weights; leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="liveanchor-bench-") as folder:
        root = Path(folder)
        return _first_frame_figures(root) | blending.figures() | fleet.figures(root)


def _first_frame_figures(root: Path) -> dict[str, float]:
    make_distinct(root, DISTINCT_FRAMES)
    path, inspected = root / _NAME, Inspected()
    first_ms, _ = _timed(lambda: first_frame(path, inspected))
    warm = [_timed(lambda: first_frame(path, inspected)) for _ in range(_ROUNDS)]
    plain = [_timed(lambda: plain_first_frame(path, inspected)) for _ in range(_PLAIN_ROUNDS)]
    cold = []
    for _ in range(_COLD_ROUNDS):
        forget_pages(path)
        cold.append(_timed(lambda: first_frame(path, inspected))[0])
    warm_ms, warm_cpu_ms = (float(np.median(column)) for column in zip(*warm, strict=True))
    plain_ms, plain_cpu_ms = (float(np.median(column)) for column in zip(*plain, strict=True))
    still_ms = _still_figure(root)
    return {
        "first_frame_warm_median_ms": warm_ms,
        "first_frame_warm_cpu_ms": warm_cpu_ms,
        "first_frame_cold_median_ms": float(np.median(cold)),
        "first_frame_hashed_ms": first_ms,
        "first_frame_still_warm_median_ms": still_ms,
        "plain_read_first_frame_ms": plain_ms,
        "plain_read_first_frame_cpu_ms": plain_cpu_ms,
        "plain_read_over_first_frame_ratio": plain_cpu_ms / warm_cpu_ms,
    } | _torch_figures(path, warm_ms)


def first_frame(path: Path, inspected: Inspected) -> U8:
    """Map and check a packet, and lay a mouth into its first frame."""
    return Canvas(open_packet(path, path.name, inspected), SIDE_PX).blend(0, PATCH)


def plain_first_frame(path: Path, inspected: Inspected) -> object:
    """The same, with every array read into memory as an eager load does, and the frame blended as RGB."""
    packet = open_packet(path, path.name, inspected)
    frames, masks = packet.frames.copy(), [mask.copy() for mask in packet.masks]
    _ = None if packet.latents is None else packet.latents.copy()
    frame = np.ascontiguousarray(frames[0].transpose(1, 2, 0))
    blended = blend_rgb(frame, PATCH, masks[0], packet.mask_coords[0], packet.coords[0])
    return cv2.cvtColor(blended, cv2.COLOR_RGB2YUV_I420)


def make_distinct(root: Path, count: int, side_px: int = SIDE_PX) -> None:
    """A packet of frames that all differ, with latents, under `root`."""
    portrait = cv2.resize(load_picture(bundled_portraits()[0].path), (side_px, side_px), interpolation=cv2.INTER_CUBIC)
    rgb = np.asarray(portrait, dtype=np.uint8)
    mesh = FaceMesh().find(rgb)[0].points
    rng = np.random.default_rng(1)
    with AvatarStore(root).replacing(_NAME) as folder:
        with PacketWriter(folder) as writer:
            for i in range(count):
                writer.add_frame(np.roll(rgb, i, axis=1))
            for i in range(count):
                moved = mesh + np.array((i, 0), dtype=np.float32)
                writer.add_face(
                    frame_face(rgb, moved, FaceSettings(), None, _NAME),
                    rng.normal(size=LATENT_SHAPE).astype(np.float16),
                )
            writer.finish(range(count))
        write_info(folder, {"avatar_id": _NAME, "latent_encoder": {"name": "random", "revision": "1"}})


def forget_pages(path: Path) -> None:
    """Ask the system to drop its cache of a folder's files."""
    for file in path.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _still_figure(root: Path) -> float:
    store = AvatarStore(root / "still")
    store.make_bundled(bundled_portraits()[0].id)
    inspected = Inspected()
    path = store.root / bundled_portraits()[0].id
    first_frame(path, inspected)
    return float(np.median([_timed(lambda: first_frame(path, inspected))[0] for _ in range(_ROUNDS)]))


_WITH_TORCH = """
import json, pickle, sys, time
from pathlib import Path
import cv2, numpy as np, torch
from avatars.blend import blend_rgb
path, rounds = Path(sys.argv[1]), int(sys.argv[2])
patch = np.full((256, 256, 3), 120, np.uint8)
taken = []
for _ in range(rounds):
    before = time.perf_counter()
    frames, latents, masks = (torch.load(path / f"{n}.pt", weights_only=True) for n in ("frames", "latents", "masks"))
    rows = [pickle.loads((path / f"{n}.pkl").read_bytes()) for n in ("geometry", "coords", "mask_coords")]
    json.loads((path / "avator_info.json").read_text())
    assert len(frames) == len(latents) == len(masks) == len(rows[0]) == len(rows[1]) == len(rows[2])
    assert latents.shape[1:] == (8, 32, 32) and frames.dtype == torch.uint8
    frame = np.ascontiguousarray(frames[0].numpy().transpose(1, 2, 0))
    blended = blend_rgb(frame, patch, masks[0].numpy(), tuple(rows[2][0]), tuple(rows[1][0]))
    cv2.cvtColor(blended, cv2.COLOR_RGB2YUV_I420)
    taken.append(time.perf_counter() - before)
print(json.dumps(1000 * sorted(taken[1:])[len(taken[1:]) // 2]))
"""


def _torch_figures(path: Path, warm_ms: float) -> dict[str, float]:
    """The same against torch itself, in a process of its own; nothing where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return {}
    command = [sys.executable, "-c", _WITH_TORCH, str(path), str(_PLAIN_ROUNDS)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    torch_ms = float(json.loads(told.stdout))
    return {"torch_load_first_frame_ms": torch_ms, "torch_load_over_first_frame_ratio": torch_ms / warm_ms}


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU ms."""
    clock = MonotonicClock()
    wall_ns, before_ns = clock.now_ns(), cpu_ns()
    work()
    return (clock.now_ns() - wall_ns) / NS_PER_MS, (cpu_ns() - before_ns) / NS_PER_MS
