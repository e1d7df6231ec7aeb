"""The contract network's weights, 2 MB: a function of their names alone, the same numbers on every machine."""

from __future__ import annotations

import hashlib
import zlib
from functools import cache

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

WIDTH = 48
HEAD = 48
TOKEN = 384
BANDS_A_STEP = 160
LAYERS = 5
SHAPES: dict[str, tuple[int, ...]] = {
    "audio.project.weight": (LAYERS, BANDS_A_STEP, TOKEN),
    "audio.key.weight": (TOKEN, HEAD),
    "audio.value.weight": (TOKEN, WIDTH),
    "conv_in.weight": (WIDTH, 8, 3, 3),
    "query.weight": (WIDTH, HEAD),
    "block.0.weight": (WIDTH, WIDTH, 3, 3),
    "block.1.weight": (WIDTH, WIDTH, 3, 3),
    "block.2.weight": (WIDTH, WIDTH, 3, 3),
    "block.3.weight": (WIDTH, WIDTH, 3, 3),
    "conv_out.weight": (4, WIDTH, 3, 3),
    "decoder.in.weight": (32, 4, 3, 3),
    "decoder.out.weight": (3, 32, 3, 3),
}


@cache
def weights() -> dict[str, F32]:
    """All weights by name, read-only, each normal with the variance that keeps a layer's loudness."""
    return {name: _drawn(name, shape) for name, shape in SHAPES.items()}


@cache
def revision() -> str:
    """Changes whenever a weight does."""
    digest = hashlib.sha256()
    for name in sorted(SHAPES):
        digest.update(name.encode() + weights()[name].tobytes())
    return digest.hexdigest()[:12]


def _drawn(name: str, shape: tuple[int, ...]) -> F32:
    """Sums of uniforms out of a counter: library generators may change their streams, integers do not."""
    count = int(np.prod(shape))
    uniform = _mixed(np.arange(4 * count, dtype=np.uint64) + np.uint64(zlib.crc32(name.encode())) * np.uint64(1 << 32))
    normal = (uniform.reshape(4, count).sum(axis=0) - 2.0) * np.sqrt(3.0)
    fan_in = shape[-2] if len(shape) < 4 else int(np.prod(shape[1:]))
    drawn: F32 = (normal / np.sqrt(fan_in)).astype(np.float32).reshape(shape)
    drawn.flags.writeable = False
    return drawn


def _mixed(counter: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Numbers in 0..1 from whole numbers: two rounds of multiply and shift over 64 bits."""
    value = counter * np.uint64(0x9E3779B97F4A7C15)
    value ^= value >> np.uint64(31)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(29)
    return np.asarray((value >> np.uint64(11)).astype(np.float64) / float(1 << 53))
