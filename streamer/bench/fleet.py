"""Fifty portraits out of the three that come along, and their packets: cost of making, opening and holding."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from avatars.bundled import FIRST, bundled_portraits
from avatars.faces import FaceMesh
from avatars.packet import AvatarPacket
from avatars.picture import load_picture
from avatars.store import AvatarStore
from avatars.workshop import Workshop
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock, cpu_ns

U8 = npt.NDArray[np.uint8]

FLEET = 50
_PASSES = 15


def figures(root: Path) -> dict[str, float]:
    """Make the fleet under `root`, then open it over and over."""
    portraits = write_variants(root / "portraits", FLEET)
    store = AvatarStore(root / "fleet")
    workshop = Workshop(store, finder=FaceMesh())
    wall_ns, before_ns = MonotonicClock().now_ns(), cpu_ns()
    for path in portraits:
        workshop.make(path, path.stem)
    made_cpu_s = (cpu_ns() - before_ns) / NS_PER_S
    made_wall_s = (MonotonicClock().now_ns() - wall_ns) / NS_PER_S
    fresh = AvatarStore(root / "fleet")
    first_ms = _timed_ms(lambda: _open_all(fresh))
    warm_ms = []
    before_ns = cpu_ns()
    for _ in range(_PASSES):
        warm_ms.append(_timed_ms(lambda: _open_all(fresh)))
    warm_cpu_ms = (cpu_ns() - before_ns) / NS_PER_MS / _PASSES
    return {
        "precompile_count": float(len(store.list())),
        "precompile_total_s": made_wall_s,
        "precompile_mean_s": made_cpu_s / FLEET,
        "fifty_open_first_ms": first_ms,
        "fifty_open_warm_ms": float(np.median(warm_ms)),
        "fifty_open_warm_cpu_ms": warm_cpu_ms,
    } | _held_figures(fresh)


def write_variants(folder: Path, count: int) -> list[Path]:
    """Seeded variants of the bundled portraits, one PNG each: other sizes, colours, framing and sides."""
    folder.mkdir(parents=True, exist_ok=True)
    originals = [load_picture(portrait.path) for portrait in bundled_portraits()[:FIRST]]
    paths = []
    for i in range(count):
        rng = np.random.default_rng(i)
        picture = _variant(originals[i % len(originals)], rng)
        path = folder / f"variant{i:02d}.png"
        cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1])
        paths.append(path)
    return paths


def _variant(picture: U8, rng: np.random.Generator) -> U8:
    height, width = picture.shape[:2]
    if rng.random() < 0.5:
        picture = np.ascontiguousarray(picture[:, ::-1])
    move = cv2.getRotationMatrix2D((width / 2, height / 2), rng.uniform(-6, 6), rng.uniform(0.85, 1.15))
    move = move + np.array([[0, 0, rng.uniform(-30, 30)], [0, 0, rng.uniform(-30, 30)]])
    moved = cv2.warpAffine(picture, move, (width, height), borderMode=cv2.BORDER_REPLICATE)
    tinted = np.clip(np.asarray(moved) * rng.uniform(0.8, 1.2, 3), 0, 255).astype(np.uint8)
    side = int(rng.integers(600, 1025))
    return np.asarray(cv2.resize(tinted, (side, side), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _open_all(store: AvatarStore) -> list[AvatarPacket]:
    return [store.open(avatar_id) for avatar_id in store.ids()]


def _timed_ms(work: Callable[[], object]) -> float:
    clock = MonotonicClock()
    before_ns = clock.now_ns()
    work()
    return (clock.now_ns() - before_ns) / NS_PER_MS


def _held_figures(store: AvatarStore) -> dict[str, float]:
    """What fifty open packets add to this process's own memory; mapped files are the system's."""
    gc.collect()
    before = _anonymous_mb()
    held = _open_all(store)
    after = _anonymous_mb()
    del held
    return {} if before is None or after is None else {"fifty_open_anon_rss_mb": max(0.0, after - before)}


def _anonymous_mb() -> float | None:
    """Resident memory that belongs to no file; None where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon")), None)
