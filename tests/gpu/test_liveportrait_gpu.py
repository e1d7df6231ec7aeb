"""LivePortrait live on a CUDA device: the CPU's pictures, and how long a frame takes at the published size."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.data

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from avatars.faces import FaceMesh  # noqa: E402
from avatars.precompile import precompile_portrait  # noqa: E402
from engines import catalog  # noqa: E402
from engines.contract import FaceJob  # noqa: E402
from streamer.clock import NS_PER_MS, MonotonicClock  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


@pytest.fixture(scope="module")
def packet():
    return precompile_portrait(skimage.data.astronaut(), "astronaut", FaceMesh())


def jobs_of(engine, packet, indices):
    face = engine.attach(packet)
    samples = 0.2 * np.random.default_rng(0).normal(size=engine.spec.window_samples + 640 * len(indices))
    return [FaceJob(face, i, 0, 1 << 62, _window(samples, engine, n)) for n, i in enumerate(indices)]


def _window(samples, engine, n):
    return samples[640 * n : 640 * n + engine.spec.window_samples].astype(np.float32)


def test_the_gpus_pictures_are_the_cpus(packet):
    shown = []
    for device in ("cpu", "cuda"):
        engine = catalog.create("liveportrait", seeded=True, reduced=True, device=device)
        engine.warm_up()
        shown.append(np.stack([p.pixels for p in engine.infer(jobs_of(engine, packet, [5, 6, 7, 8]))]).astype(int))
        engine.close()
    assert np.abs(shown[0] - shown[1]).mean() < 1.0
    assert np.abs(shown[0] - shown[1]).max() <= 16, "convolutions round to ten bits there"


def test_how_long_a_frame_takes_at_the_published_size(packet):
    """Prints figures; frames of a second in blocks of five, motion included."""
    clock = MonotonicClock()
    engine = catalog.create("liveportrait", seeded=True, device="cuda")
    engine.warm_up()
    jobs = jobs_of(engine, packet, range(5, 30))
    times_ms = []
    for job in jobs:
        began_ns = clock.now_ns()
        (patch,) = engine.infer([job])
        times_ms.append((clock.now_ns() - began_ns) / NS_PER_MS)
        assert patch.pixels.shape == (512, 512, 3)
    print(f"mean {np.mean(times_ms):.1f} ms a frame, worst (a new block) {np.max(times_ms):.1f} ms")
    print(f"{torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
    engine.close()
