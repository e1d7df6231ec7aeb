"""MuseTalk on a real GPU, about five minutes: numerics, replayed graphs, pace by batch size, blending, TensorRT.

`pytest -m gpu tests/gpu -s`. Needs torch with CUDA; TensorRT rows say `not run`, and why, where it is not installed.
Weights are made up: the figures are of speed and agreement, not of faces. LIVEANCHOR_REHEARSE=1 goes through all of it
on a CPU with small networks, so that nobody with a GPU is the first to run a line.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")

from avatars.bundled import bundled_portraits  # noqa: E402
from avatars.canvas import Canvas  # noqa: E402
from avatars.faces import FaceMesh  # noqa: E402
from avatars.picture import load_picture  # noqa: E402
from avatars.precompile import precompile_portrait  # noqa: E402
from engines import catalog  # noqa: E402
from engines.backends.chain import Row  # noqa: E402
from engines.backends.torch_chain import TorchChain  # noqa: E402
from engines.contract import FaceJob  # noqa: E402
from engines.musetalk import weights  # noqa: E402
from engines.musetalk.artefacts import GATES  # noqa: E402
from engines.musetalk.export import PARTS_OF, drawn_inputs, export, stage_network  # noqa: E402
from engines.musetalk.features import FeatureExtractor  # noqa: E402
from engines.musetalk.stages import CONTRACTS, FULL, REDUCED, DecoderStage, UnetStage  # noqa: E402
from engines.musetalk.windows import WINDOW_SAMPLES  # noqa: E402

REHEARSAL = os.environ.get("LIVEANCHOR_REHEARSE") == "1"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not REHEARSAL and not torch.cuda.is_available(), reason="torch has no CUDA device here"),
    pytest.mark.timeout(480),
]
TARGET_FRAMES_A_SECOND = 350
if REHEARSAL:
    torch.set_num_threads(1)
    DEVICE, SIZES, PRECISION, BUCKETS, RUNS = "cpu", REDUCED, "fp32", (1, 2), 1
else:
    DEVICE, SIZES, PRECISION, BUCKETS, RUNS = "cuda", FULL, "fp16", (1, 2, 4, 8, 16, 32), 20
DTYPE = {"fp32": torch.float32, "fp16": torch.float16}[PRECISION]
BATCH = min(8, BUCKETS[-1])


@pytest.fixture
def say(capsys):
    """Print past pytest: these lines are what the script is for."""

    def say(line):
        with capsys.disabled():
            print(f"\n{line} ", end="", flush=True)

    return say


@pytest.fixture(scope="module")
def nets():
    made = weights.seeded(SIZES, {"unet", "vae"})
    made.unet.fold_time()
    return made


@pytest.fixture(scope="module")
def unet(nets):
    return UnetStage(nets.unet).to(DEVICE, DTYPE)


@pytest.fixture(scope="module")
def chain(nets, unet):
    made = TorchChain([(CONTRACTS[1], unet), (CONTRACTS[2], DecoderStage(nets.vae))], BUCKETS, DEVICE, DTYPE)
    yield made
    made.close()


def inputs(count, seed=0):
    latent, audio = drawn_inputs("unet", count, seed)
    return latent.numpy().astype(np.float16), audio.numpy()


def idle():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed_ms(call):
    """Median wall ms of a call that ends with the device idle."""
    for _ in range(min(3, RUNS)):
        call()
    idle()
    spent = []
    for _ in range(RUNS):
        before = time.perf_counter()
        call()
        idle()
        spent.append((time.perf_counter() - before) * 1000)
    return float(np.median(spent))


def timed_batch_ms(chain, count):
    """Of a chain from resident latents and sound features to results in this process's memory."""
    latents, audio = inputs(count)
    resident = chain.upload(latents)
    rows = [Row(resident, i) for i in range(count)]
    spent_ms = timed_ms(lambda: chain.run({"latent": rows}, {"audio": audio}))
    resident.free()
    return spent_ms


def test_which_device_this_is(say):
    if DEVICE == "cuda":
        found = torch.cuda.get_device_properties(0)
        name = f"{found.name}, compute capability {found.major}.{found.minor}, {found.total_memory / 2**30:.0f} GiB"
    else:
        name = "a rehearsal on a CPU with small networks: no figure below means anything"
    say(f"{name}; torch {torch.__version__}, {PRECISION}")


@torch.inference_mode()
@pytest.mark.parametrize("stage", ["unet", "decoder"])
def test_numbers_on_the_device_keep_to_the_gate(stage, say):
    reference = stage_network(stage, weights.seeded(SIZES, PARTS_OF[stage]))
    given = drawn_inputs(stage, 3, seed=2)
    wanted = reference(*given)
    found = reference.to(DEVICE, DTYPE)(*(t.to(DEVICE, DTYPE) for t in given))
    found, wanted = (made[-1] if isinstance(made, tuple) else made for made in (found, wanted))
    apart = (found.float().cpu() - wanted).abs()
    gate = 2 * GATES[stage, PRECISION]  # another order of sums than the CPU's
    say(f"{stage} against the CPU in fp32: max {apart.max():.2e}, mean {apart.mean():.2e} (gate {gate:g})")
    assert float(apart.max()) <= gate


def test_a_replayed_graph_gives_what_a_plain_run_gives(chain, nets, unet, say):
    count = min(4, BATCH)
    latents, audio = inputs(count)
    resident = chain.upload(latents)
    rows = [Row(resident, i) for i in range(count)]
    first = chain.run({"latent": rows}, {"audio": audio})["faces"]
    chain.run({"latent": [Row(resident, 0)] * BATCH}, {"audio": inputs(BATCH, seed=3)[1]})  # recordings share memory
    second = chain.run({"latent": rows}, {"audio": audio})["faces"]
    other = chain.run({"latent": rows}, {"audio": audio[::-1].copy()})["faces"]
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    decoder = DecoderStage(nets.vae).to(DEVICE, DTYPE)
    tensors = [torch.from_numpy(a).to(DEVICE, DTYPE) for a in (latents, audio)]
    with torch.inference_mode():
        plain = decoder(unet(*tensors))[0].cpu().numpy()
        plain_ms = timed_ms(lambda: decoder(unet(*tensors))[0].cpu())
    apart = np.abs(plain.astype(int) - first)
    replayed_ms = timed_ms(lambda: chain.run({"latent": rows}, {"audio": audio}))
    say(
        f"CUDA graph, batch of {count}: replayed twice the same bytes, at most {apart.max()} of 255 from a plain run; "
        f"{replayed_ms:.2f} ms replayed with copies, {plain_ms:.2f} ms plain"
    )
    assert apart.max() <= 2


def test_pace_by_batch_size(chain, unet, say):
    alone = TorchChain([(CONTRACTS[1], unet)], BUCKETS, DEVICE, DTYPE)
    paces = []
    say("frames a second, graphs replayed, copies included")
    say(f"batch  UNet alone  of the {TARGET_FRAMES_A_SECOND} claimed  UNet + decoder")
    for bucket in BUCKETS:
        unet_fps = 1000 * bucket / timed_batch_ms(alone, bucket)
        paces.append(1000 * bucket / timed_batch_ms(chain, bucket))
        share = f"{100 * unet_fps / TARGET_FRAMES_A_SECOND:.0f} %"
        say(f"{bucket:5d}  {unet_fps:10.0f}  {share:>18}  {paces[-1]:14.0f}")
    alone.close()
    if DEVICE == "cuda":
        say(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of the device's memory at most so far")
        assert paces[-1] > paces[0], "a batch of 32 is no quicker a frame than one alone"


@pytest.mark.parametrize("short", [False, True], ids=["padded", "short"])
def test_pace_of_sound_features(short, say):
    whisper = weights.seeded(SIZES, {"whisper"}).whisper.to(DTYPE)
    features = FeatureExtractor(whisper, DEVICE, short=short)
    sound = (0.1 * np.random.default_rng(0).normal(size=(BATCH, WINDOW_SAMPLES))).astype(np.float32)
    spent_ms = timed_ms(lambda: features(sound))
    how = "of 1.7 s" if short else "padded to 30 s"
    say(f"sound features {how}, batch of {BATCH}: {spent_ms / BATCH:.2f} ms a frame")
    assert np.isfinite(features(sound)).all()


def test_a_frame_end_to_end_with_blending(say):
    engine = catalog.create(
        "musetalk", seeded=True, reduced=SIZES is REDUCED, device=DEVICE, precision=PRECISION, buckets=BUCKETS
    )
    engine.warm_up()
    packet = precompile_portrait(
        load_picture(bundled_portraits()[0].path), "first", FaceMesh(), makers=catalog.makers(engine)
    )
    canvas, face = Canvas(packet, 512), engine.attach(packet)
    sound = (0.1 * np.random.default_rng(0).normal(size=(BATCH, WINDOW_SAMPLES))).astype(np.float32)
    jobs = [FaceJob(face, i, 0, 1 << 62, samples) for i, samples in enumerate(sound)]
    patches = engine.infer(jobs)
    blend_ms = timed_ms(lambda: [canvas.blend(patch.index, patch.pixels) for patch in patches])
    whole_ms = timed_ms(lambda: [canvas.blend(patch.index, patch.pixels) for patch in engine.infer(jobs)])
    say(f"blending at 512 px, on the CPU: {blend_ms / BATCH:.2f} ms a frame")
    say(f"end to end, sound to blended I420 picture, batches of {BATCH}: {1000 * BATCH / whole_ms:.0f} frames a second")
    engine.close()
    assert [patch.pixels.shape for patch in patches] == [(256, 256, 3)] * BATCH
    assert not np.array_equal(canvas.blend(0, patches[0].pixels), canvas.anchor(0))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Half-precision graphs of both stages, exported when the first TensorRT asks for them."""
    folder = tmp_path_factory.mktemp("graphs")

    def made(stage):
        path = folder / f"{stage}.onnx"
        if not path.is_file():
            export(stage, path, weights.seeded(SIZES, PARTS_OF[stage]), "fp16")
        return path

    return made


@pytest.mark.parametrize("backend", ["tensorrt-rtx", "tensorrt"])
def test_tensorrt_agrees_with_torch(backend, chain, graphs, tmp_path, say):
    from engines.backends import tensorrt_api, tensorrt_build
    from engines.backends.tensorrt_chain import Plan, TensorRtChain
    from engines.errors import EngineUnavailable

    plans = []
    try:
        api = tensorrt_api.find(backend)
        for contract in CONTRACTS[1:]:
            before, plan = time.perf_counter(), tmp_path / f"{contract.stage}.engine"
            graph = graphs(contract.stage)
            plan.write_bytes(tensorrt_build.build(api, graph, contract, tensorrt_build.profiles(contract, (BATCH,))))
            took_s, size = time.perf_counter() - before, plan.stat().st_size
            say(f"{backend} {api.version}: plan of the {contract.stage}, {took_s:.0f} s, {size / 1e6:.0f} MB")
            plans.append(Plan(contract, plan))
        fast = TensorRtChain(api, plans, (BATCH,))
    except EngineUnavailable as missing:
        say(f"{backend}: not run: {missing}")
        pytest.skip(str(missing))
    latents, audio = inputs(BATCH)
    made = {}
    for name, one in (("torch", chain), (backend, fast)):
        resident = one.upload(latents)
        rows = [Row(resident, i) for i in range(BATCH)]
        made[name] = [one.run({"latent": rows}, {"audio": audio})["faces"].astype(int) for _ in range(3)]
        resident.free()
        pace = 1000 * BATCH / timed_batch_ms(one, BATCH)
        say(f"{name}: UNet + decoder, batches of {BATCH}, {pace:.0f} frames a second")
    apart = np.abs(made["torch"][0] - made[backend][0])
    steady = max(int(np.abs(made[backend][0] - again).max()) for again in made[backend][1:])
    say(f"{backend} against torch: at most {apart.max()}, on average {apart.mean():.3f} of 255; its own runs: {steady}")
    fast.close()
    assert apart.mean() <= 1.0
    assert steady <= 2, "plain and replayed runs differ"
