"""Backends run chains of stages alike, keep avatars' rows on the device under a cap, and plans whole or not at all."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="graphs need the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

from engines.backends.chain import Flow, Row, bucket_for  # noqa: E402
from engines.backends.cuda import Cuda  # noqa: E402
from engines.backends.onnx_chain import OnnxChain  # noqa: E402
from engines.backends.plan_cache import MANIFEST_NAME, PLAN_NAME, PlanCache, PlanKey, graph_sha256  # noqa: E402
from engines.backends.residency import ResidentPool  # noqa: E402
from engines.backends.tensorrt_api import find  # noqa: E402
from engines.contract_net import graph, network  # noqa: E402
from engines.contract_net.contracts import CONTRACTS, LATENT  # noqa: E402
from engines.errors import EngineContract, EngineError, EngineUnavailable  # noqa: E402
from engines.stage import StageContract  # noqa: E402

pytestmark = pytest.mark.unit
LIVE = CONTRACTS[1:]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    for name, made in (("unet", graph.unet()), ("decoder", graph.decoder())):
        onnx.save(made, folder / f"{name}.onnx")
    return [(contract, folder / f"{contract.stage}.onnx") for contract in LIVE]


@pytest.fixture(scope="module")
def chain(graphs):
    return OnnxChain(graphs, (1, 2, 4), ["CPUExecutionProvider"])


def drawn(count, seed=0):
    chance = np.random.default_rng(seed)
    latents = (0.3 * chance.normal(size=(count, 8, 32, 32))).astype(np.float16)
    return latents, chance.normal(size=(count, 50, 384)).astype(np.float32)


def test_a_graph_gives_the_numbers_of_the_network_it_was_written_from(chain):
    latents, audio = drawn(3)
    resident = chain.upload(latents)
    faces = chain.run({"latent": [Row(resident, i) for i in range(3)]}, {"audio": audio})["faces"]
    wanted = network.decode(network.denoise(latents.astype(np.float32), audio))
    assert faces.shape == (3, 256, 256, 3)
    assert np.abs(faces.astype(int) - wanted).max() <= 1
    assert (faces != wanted).mean() < 0.001


def test_padding_changes_nobodys_picture(chain):
    latents, audio = drawn(3)
    resident = chain.upload(latents)
    rows = [Row(resident, i) for i in range(3)]
    together = chain.run({"latent": rows}, {"audio": audio})["faces"]
    alone = [chain.run({"latent": rows[i : i + 1]}, {"audio": audio[i : i + 1]})["faces"][0] for i in range(3)]
    assert np.abs(together.astype(int) - np.stack(alone)).max() <= 1


@pytest.mark.parametrize(
    ("resident", "given"),
    [({}, {"audio": 1}), ({"latent": 1}, {}), ({"latent": 2}, {"audio": 1}), ({"latent": 1}, {"audio": 1, "x": 1})],
)
def test_inputs_that_do_not_fit_are_refused_by_name(chain, resident, given):
    rows = {name: [Row(chain.upload(drawn(1)[0]), 0)] * count for name, count in resident.items()}
    with pytest.raises(EngineContract):
        chain.run(rows, {name: drawn(count)[1] for name, count in given.items()})


def test_more_rows_than_the_largest_batch_are_refused(chain):
    latents, audio = drawn(5)
    resident = chain.upload(latents)
    with pytest.raises(EngineContract, match="1 to 4 rows"):
        chain.run({"latent": [Row(resident, i) for i in range(5)]}, {"audio": audio})


def test_torch_refuses_more_rows_than_its_largest_batch_too():
    torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
    from engines.backends.torch_chain import TorchChain

    doubled = StageContract("doubled", (replace(LATENT, name="x"),), (replace(LATENT, name="y"),))

    class Twice(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    made = TorchChain([(doubled, Twice())], (1, 2))
    rows = np.ones((3, 8, 32, 32), np.float32)
    assert (made.run({}, {"x": rows[:2]})["y"] == 2).all()
    with pytest.raises(EngineContract, match="1 to 2 rows"):
        made.run({}, {"x": rows})


def test_a_batch_size_is_the_smallest_that_holds_the_rows():
    assert [bucket_for(count, (1, 2, 4)) for count in (1, 2, 3, 4)] == [1, 2, 4, 4]
    for count in (0, 5):
        with pytest.raises(EngineContract, match="1 to 4 rows"):
            bucket_for(count, (1, 2, 4))


def test_a_graph_of_four_channels_is_refused_when_it_is_bound(graphs, tmp_path):
    made = graph.unet()
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    onnx.save(made, tmp_path / "unet.onnx")
    with pytest.raises(EngineError, match=r"latent|unet"):
        OnnxChain([(LIVE[0], tmp_path / "unet.onnx")], (1,), ["CPUExecutionProvider"])


def test_a_flow_knows_what_comes_from_outside():
    flow = Flow(LIVE)
    assert flow.outer == ("latent", "audio")
    assert flow.outputs == ("faces",)


class Owner:
    pass


class CountingChain:
    """Rows that remember whether they were given back."""

    def __init__(self):
        self.freed = 0

    def upload(self, rows):
        chain = self

        class Rows:
            nbytes = rows.nbytes

            def free(self):
                chain.freed += 1

        return Rows()


ROWS = np.zeros((1, 1000), np.uint8)


def test_avatars_stay_on_the_device_until_room_is_needed():
    pool = ResidentPool(CountingChain(), cap_bytes=2500)
    owners = [Owner() for _ in range(3)]
    pool.get(owners[0], ROWS)
    pool.get(owners[1], ROWS)
    assert pool.get(owners[0], ROWS) is pool.get(owners[0], ROWS)
    pool.get(owners[2], ROWS)
    assert pool.held_bytes == 2000
    pool.get(owners[0], ROWS)
    assert pool.uploads == 3
    pool.get(owners[1], ROWS)
    assert pool.uploads == 4


def test_an_avatar_that_nobody_holds_gives_its_memory_back():
    chain = CountingChain()
    pool = ResidentPool(chain)
    live, gone = Owner(), Owner()
    pool.get(live, ROWS)
    pool.get(gone, ROWS)
    del gone
    gc.collect()
    assert (pool.held_bytes, chain.freed) == (1000, 1)
    pool.close()
    assert (pool.held_bytes, chain.freed) == (0, 2)


KEY = PlanKey("unet", "a" * 64, "fp16", "tensorrt-rtx", "1.7.1", (1, 2))


def test_a_plan_is_built_once_and_again_when_anything_it_depends_on_changes(tmp_path):
    cache, built = PlanCache(tmp_path), []

    def build():
        built.append(1)
        return b"plan" * 100

    assert cache.ensure(KEY, build).fresh
    again = cache.ensure(KEY, build)
    assert not again.fresh
    assert again.path.read_bytes() == b"plan" * 100
    for changed in (
        replace(KEY, onnx_sha256="b" * 64), replace(KEY, version="1.8"), replace(KEY, buckets=(1,)),
        replace(KEY, precision="fp32"), replace(KEY, gpu="other"), replace(KEY, compute_capability="9.0"),
    ):  # fmt: skip
        assert cache.ensure(changed, build).fresh
    assert len(built) == 7


def test_a_build_that_fails_leaves_nothing_and_a_damaged_plan_is_built_again(tmp_path):
    cache = PlanCache(tmp_path)

    def fail():
        raise EngineUnavailable("tensorrt-rtx", "it builds no plan", "")

    with pytest.raises(EngineUnavailable):
        cache.ensure(KEY, fail)
    assert list(tmp_path.iterdir()) == []
    stored = cache.ensure(KEY, lambda: b"whole plan")
    assert json.loads((stored.path.parent / MANIFEST_NAME).read_text())["onnx_sha256"] == "a" * 64
    stored.path.write_bytes(b"whole")
    assert cache.get(KEY) is None
    assert cache.ensure(KEY, lambda: b"whole plan").fresh
    assert sorted(p.name for p in stored.path.parent.iterdir()) == [MANIFEST_NAME, PLAN_NAME]


def test_a_graphs_hash_covers_the_weights_beside_it(tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(b"graph")
    alone = graph_sha256(path)
    (tmp_path / "a.onnx.data").write_bytes(b"weights")
    assert graph_sha256(path) != alone


def test_without_a_gpu_one_line_says_what_is_missing():
    pytest.importorskip("cuda.bindings", reason="the [gpu] extra is not installed")
    try:
        Cuda()
    except EngineUnavailable as error:
        missing = error
    else:
        pytest.skip("there is a GPU here")
    assert "GPU" in str(missing) or "driver" in str(missing)
    assert "\n" not in str(missing)
    assert "warp" in missing.remedy


def test_nothing_is_kept_for_the_runtimes_maker(tmp_path, graphs):
    """ONNX Runtime 1.32 writes a device id and events into the home folder and sends them, unless it is told not to."""
    lines = (
        "import sys, engines.graphs.running",
        "from engines.backends.onnx_chain import OnnxChain",
        "from engines.contract_net.contracts import CONTRACTS",
        "from pathlib import Path",
        "OnnxChain([(CONTRACTS[1], Path(sys.argv[1]))], (1,), ['CPUExecutionProvider'])",
    )
    homes = {name: str(tmp_path) for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME")}
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    command = [sys.executable, "-c", "\n".join(lines), str(graphs[0][1])]
    subprocess.run(command, check=True, env=inherited | homes)
    assert list(tmp_path.rglob("*")) == []


def test_onnx_runtime_has_one_door():
    root = Path(__file__).parents[2]
    importers = [
        path.relative_to(root).as_posix()
        for top in ("streamer", "engines", "avatars")
        for path in (root / top).rglob("*.py")
        if re.search(r"^\s*(import|from) onnxruntime", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert importers == ["engines/backends/runtime.py"]


def test_a_backend_that_is_not_installed_says_what_to_install():
    with pytest.raises(EngineUnavailable, match="Choose one of"):
        find("cudnn")
    if importlib.util.find_spec("tensorrt") is None:
        with pytest.raises(EngineUnavailable, match="pip install"):
            find("tensorrt")


def test_an_open_axis_beside_the_batch_has_no_profile():
    from engines.backends.tensorrt_build import profiles

    assert [p.shapes["latent"][0] for p in profiles(LIVE[0], (1, 8))] == [1, 8]
    odd = StageContract("odd", (replace(LATENT, shape=("B", 8, "H", 32)),), ())
    with pytest.raises(EngineContract):
        profiles(odd, (1,))
