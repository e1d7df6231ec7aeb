"""What engines over latents cost a frame on one thread: stage by stage, bucket by bucket. CPU time, never waiting.

The contract network in numpy; MuseTalk at full size with made-up weights in torch float32 where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from engines.contract_net import network
from engines.contract_net.contracts import WINDOW_SAMPLES
from engines.logmel import log_mel
from streamer.clock import NS_PER_MS, cpu_ns

BUCKETS = (1, 2, 4, 8)
FULL_BUCKETS = (1, 2)
_RUNS, _FULL_RUNS = 15, 2


def run() -> dict[str, float]:
    """Medians of CPU ms a frame."""
    return _contract_net() | _musetalk()


def _contract_net() -> dict[str, float]:
    chance = np.random.default_rng(0)
    found = {}
    for bucket in BUCKETS:
        samples = (0.1 * chance.normal(size=(bucket, WINDOW_SAMPLES))).astype(np.float32)
        latent = (0.3 * chance.normal(size=(bucket, 8, 32, 32))).astype(np.float32)
        audio = network.features(samples)
        denoised = network.denoise(latent, audio)
        stages: dict[str, Callable[[], object]] = {
            "features": partial(network.features, samples),
            "unet": partial(network.denoise, latent, audio),
            "decoder": partial(network.decode, denoised),
        }
        for stage, call in stages.items():
            found[f"contract_net_{stage}_b{bucket}_cpu_ms"] = _median_ms(call, _RUNS) / bucket
    return found


def _musetalk() -> dict[str, float]:
    """Empty without torch."""
    try:
        from engines.musetalk import rehearsal
    except ImportError:
        return {}
    found = {"log_mel_numpy_cpu_ms": _median_ms(lambda: log_mel(np.zeros(WINDOW_SAMPLES, np.float32), 480_000), _RUNS)}
    stages = rehearsal.Stages()
    apart, size = stages.short_audio_difference()
    found |= {"musetalk_short_audio_mean_difference": apart, "musetalk_audio_mean_size": size}
    for bucket in FULL_BUCKETS:
        for stage in rehearsal.STAGES:
            call = stages.call(stage, bucket)
            found[f"musetalk_{stage}_b{bucket}_cpu_ms"] = _median_ms(call, _FULL_RUNS) / bucket
    return found


def _median_ms(call: Callable[[], object], runs: int) -> float:
    call()
    spent = []
    for _ in range(runs):
        before_ns = cpu_ns()
        call()
        spent.append((cpu_ns() - before_ns) / NS_PER_MS)
    return float(np.median(spent))
