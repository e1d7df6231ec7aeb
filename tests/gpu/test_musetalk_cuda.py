"""MuseTalk on a real GPU, about five minutes: numerics, replayed graphs, pace by batch size, blending, TensorRT.

`pytest -m gpu tests/gpu -s`. Needs torch with CUDA; TensorRT parts are skipped, and say so, where it is not installed.
Weights are made up: the figures are of speed and agreement, not of faces.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")

from avatars.bundled import bundled_portraits  # noqa: E402
from avatars.canvas import Canvas  # noqa: E402
from avatars.faces import FaceMesh  # noqa: E402
from avatars.picture import load_picture  # noqa: E402
from avatars.precompile import precompile_portrait  # noqa: E402
from engines.backends.chain import Row  # noqa: E402
from engines.backends.torch_chain import TorchChain  # noqa: E402
from engines.musetalk import weights  # noqa: E402
from engines.musetalk.artefacts import GATES  # noqa: E402
from engines.musetalk.export import drawn_inputs, export, stage_network  # noqa: E402
from engines.musetalk.stages import CONTRACTS, FULL, DecoderStage, UnetStage  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no CUDA device here"),
    pytest.mark.timeout(480),
]
BUCKETS = (1, 2, 4, 8, 16, 32)
TARGET_FRAMES_A_SECOND = 350


@pytest.fixture(scope="module")
def nets():
    made = weights.seeded(FULL)
    made.unet.fold_time()
    return made


@pytest.fixture(scope="module")
def chain(nets):
    stages = [(CONTRACTS[1], UnetStage(nets.unet)), (CONTRACTS[2], DecoderStage(nets.vae))]
    made = TorchChain(stages, BUCKETS, "cuda", torch.float16)
    yield made
    made.close()


def inputs(count, seed=0):
    latent, audio = drawn_inputs("unet", count, seed)
    return latent.numpy().astype(np.float16), audio.numpy()


def timed_ms(call, runs=20):
    """Median wall ms of a call that ends with the device idle."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    spent = []
    for _ in range(runs):
        before = time.perf_counter()
        call()
        torch.cuda.synchronize()
        spent.append((time.perf_counter() - before) * 1000)
    return float(np.median(spent))


@torch.inference_mode()
@pytest.mark.parametrize("stage", ["unet", "decoder"])
def test_half_precision_on_the_gpu_keeps_to_the_gate(stage):
    reference = stage_network(stage, weights.seeded(FULL))
    given = drawn_inputs(stage, 3, seed=2)
    wanted = reference(*given)
    found = reference.to("cuda", torch.float16)(*(t.to("cuda", torch.float16) for t in given))
    found, wanted = (made[-1] if isinstance(made, tuple) else made for made in (found, wanted))
    apart = (found.float().cpu() - wanted).abs()
    print(f"{stage} fp16 on {torch.cuda.get_device_name()}: max {apart.max():.2e}, mean {apart.mean():.2e}")
    assert float(apart.max()) <= GATES[stage, "fp16"] * 2  # another order of sums than the CPU's


def test_a_replayed_graph_gives_what_a_plain_run_gives(chain, nets):
    latents, audio = inputs(4)
    resident = chain.upload(latents)
    rows = [Row(resident, i) for i in range(4)]
    first = chain.run({"latent": rows}, {"audio": audio})["faces"]
    second = chain.run({"latent": rows}, {"audio": audio})["faces"]
    other = chain.run({"latent": rows}, {"audio": audio[::-1].copy()})["faces"]
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    with torch.inference_mode():
        tensors = [torch.from_numpy(a).to("cuda", torch.float16) for a in (latents, audio)]
        plain = DecoderStage(nets.vae)(UnetStage(nets.unet).to("cuda", torch.float16)(*tensors))[0].cpu().numpy()
    assert np.abs(plain.astype(int) - first).max() <= 2


def test_pace_by_batch_size(chain, nets, capsys):
    rows = []
    unet = UnetStage(nets.unet).to("cuda", torch.float16)
    for bucket in BUCKETS:
        latents, audio = inputs(bucket)
        resident = chain.upload(latents)
        whole_ms = timed_ms(
            lambda resident=resident, audio=audio, bucket=bucket: chain.run(
                {"latent": [Row(resident, i) for i in range(bucket)]}, {"audio": audio}
            )
        )
        tensors = [torch.from_numpy(a).to("cuda", torch.float16) for a in (latents, audio)]
        with torch.inference_mode():
            unet_ms = timed_ms(lambda tensors=tensors: unet(*tensors))
        rows.append((bucket, 1000 * bucket / unet_ms, 1000 * bucket / whole_ms))
    with capsys.disabled():
        print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}, fp16, frames a second (target 350)")
        print("batch  unet alone  unet+decoder, copies included")
        for bucket, unet_fps, whole_fps in rows:
            print(f"{bucket:5d}  {unet_fps:10.0f}  {whole_fps:10.0f}")
    assert rows[-1][2] > rows[0][2], "a batch of 32 is no quicker a frame than one alone"


def test_a_frame_end_to_end_with_blending(chain, capsys):
    packet = precompile_portrait(load_picture(bundled_portraits()[0].path), "first", FaceMesh())
    canvas = Canvas(packet, 512)
    latents, audio = inputs(8)
    resident = chain.upload(latents)

    def batch():
        faces = chain.run({"latent": [Row(resident, i) for i in range(8)]}, {"audio": audio})["faces"]
        for i, face in enumerate(faces):
            canvas.blend(i, face)

    spent_ms = timed_ms(batch)
    with capsys.disabled():
        print(f"\nend to end with blending at 512 px, batches of 8: {8000 / spent_ms:.0f} frames a second")
    assert spent_ms > 0


@pytest.mark.parametrize("backend", ["tensorrt-rtx", "tensorrt"])
def test_tensorrt_agrees_with_torch(backend, chain, tmp_path, capsys):
    from engines.backends import tensorrt_api, tensorrt_build
    from engines.backends.tensorrt_chain import Plan, TensorRtChain
    from engines.errors import EngineUnavailable

    buckets, plans = (1, 8), []
    try:
        api = tensorrt_api.find(backend)
        for contract in CONTRACTS[1:]:
            graph = tmp_path / f"{contract.stage}.onnx"
            export(contract.stage, graph, weights.seeded(FULL), "fp16")
            plan = tmp_path / f"{contract.stage}.engine"
            plan.write_bytes(tensorrt_build.build(api, graph, contract, tensorrt_build.profiles(contract, buckets)))
            plans.append(Plan(contract, plan))
        fast = TensorRtChain(api, plans, buckets)
    except EngineUnavailable as missing:
        pytest.skip(str(missing))
    latents, audio = inputs(8)
    made = {}
    for name, one in (("torch", chain), (backend, fast)):
        resident = one.upload(latents)
        rows = [Row(resident, i) for i in range(8)]
        made[name] = one.run({"latent": rows}, {"audio": audio})["faces"].astype(int)
        spent_ms = timed_ms(lambda one=one, rows=rows: one.run({"latent": rows}, {"audio": audio}))
        with capsys.disabled():
            print(f"\n{name}: batches of 8, {8000 / spent_ms:.0f} frames a second")
    fast.close()
    assert np.abs(made["torch"] - made[backend]).mean() <= 1.0
