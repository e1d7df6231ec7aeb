"""From options to a MuseTalk engine: plans are asked for once, own ones are read with care, what is unclear is told."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

from engines import catalog  # noqa: E402
from engines.backends import tensorrt_api, tensorrt_chain  # noqa: E402
from engines.backends.plan_cache import PlanCache, graph_sha256  # noqa: E402
from engines.backends.tensorrt_api import TensorRt  # noqa: E402
from engines.backends.torch_chain import TorchChain  # noqa: E402
from engines.errors import EngineUnavailable  # noqa: E402
from engines.musetalk import artefacts, own_plans, weights  # noqa: E402
from engines.musetalk.artefacts import Artefacts, plan_key  # noqa: E402
from engines.musetalk.features import FeatureExtractor  # noqa: E402
from engines.musetalk.opening import BACKENDS, Options  # noqa: E402
from engines.musetalk.windows import WINDOW_SAMPLES, positions  # noqa: E402

pytestmark = pytest.mark.unit
torch.set_num_threads(1)
MADE_UP = {"seeded": True, "reduced": True, "device": "cpu"}
RTX = TensorRt("tensorrt-rtx", SimpleNamespace(__version__="1.7"))


@pytest.fixture
def proven(tmp_path):
    """Graphs that somebody found good."""
    folder = Artefacts(tmp_path / "graphs")
    folder.folder.mkdir()
    for stage in ("unet", "decoder"):
        folder.path(stage, "fp16").write_bytes(f"graph of {stage}".encode())
        folder.pass_(stage, "fp16", {"passed": True})
    return folder


def test_a_graph_of_gigabytes_is_read_once_to_find_its_plan(proven, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(artefacts, "graph_sha256", lambda path: read.append(path.name) or graph_sha256(path))
    monkeypatch.setattr(tensorrt_api, "find", lambda backend: RTX)
    options = MADE_UP | {"backend": "tensorrt-rtx", "artefacts": str(proven.folder), "buckets": [2, 1]}
    with pytest.raises(EngineUnavailable, match="no plan of unet") as raised:
        catalog.serving("musetalk", tmp_path, options)
    assert read == ["unet.fp16.onnx"]
    plans = tmp_path / "musetalk" / "plans"
    assert f"--backend tensorrt-rtx --buckets 1,2 --plans {plans}" in raised.value.remedy, "or it is looked for in vain"


def test_a_plans_key_is_the_graph_that_was_proven(proven):
    graph = proven.verified("unet", "fp16")
    assert graph.sha256 == json.loads(proven.word("unet", "fp16").read_text())["onnx_sha256"]
    assert plan_key("unet", graph.sha256, RTX, "fp16", (1, 2)).onnx_sha256 == graph_sha256(graph.path)


class StandIn:
    """In place of a chain of plans, which only a GPU loads."""

    def __init__(self, api, plans, buckets):
        self.plans, self.buckets = plans, buckets

    def close(self):
        pass


def test_plans_that_were_built_are_used_without_a_word_in_the_config(proven, tmp_path, monkeypatch):
    monkeypatch.setattr(tensorrt_api, "find", lambda backend: RTX)
    monkeypatch.setattr(tensorrt_chain, "TensorRtChain", StandIn)
    cache = PlanCache(tmp_path / "musetalk" / "plans")
    options = MADE_UP | {"artefacts": str(proven.folder), "buckets": [1, 2], "device": "meta"}

    def opened():
        made = catalog.serving("musetalk", tmp_path, options)
        made.close()
        return made._parts.chain

    for stage in ("unet", "decoder"):
        assert isinstance(opened(), TorchChain), "plans of both stages or none"
        key = plan_key(stage, proven.verified(stage, "fp16").sha256, RTX, "fp16", (1, 2))
        cache.ensure(key, lambda: b"plan")
    chain = opened()
    assert isinstance(chain, StandIn)
    assert [plan.contract.stage for plan in chain.plans] == ["unet", "decoder"]


def test_on_a_cpu_plans_are_left_alone(tmp_path):
    (tmp_path / "musetalk" / "plans").mkdir(parents=True)
    made = catalog.serving("musetalk", tmp_path, MADE_UP)
    assert isinstance(made._parts.chain, TorchChain)
    assert made.spec.buckets == (1,), "nobody waits a quarter of an hour for batches of 32 to be tried on a CPU"
    made.close()


def test_avatars_are_prepared_without_the_networks_that_make_them_speak(tmp_path, monkeypatch):
    made, opened = weights.networks, []
    monkeypatch.setattr(weights, "networks", lambda *given, **more: opened.append(made(*given, **more)) or opened[-1])
    alone = catalog.preparing("musetalk", tmp_path, **MADE_UP)
    (nets,) = opened
    assert {part for part in ("unet", "vae", "whisper") if not next(getattr(nets, part).parameters()).is_meta} == {
        "vae"
    }
    engine = catalog.serving("musetalk", tmp_path, MADE_UP)
    assert alone.latents.revision == engine.makers().latents.revision
    assert alone.official_margin is engine.makers().official_margin is True
    engine.close()


@pytest.mark.parametrize("buckets", [[], [0, 1], [1, 33], ["1"], 4, [1, True]])
def test_batch_sizes_that_are_none_are_refused(tmp_path, buckets):
    with pytest.raises(EngineUnavailable, match="batch sizes"):
        catalog.serving("musetalk", tmp_path, MADE_UP | {"buckets": buckets})


def test_a_plan_built_elsewhere_is_read_from_the_config(tmp_path):
    path = tmp_path / "unet_b32_fp16.engine"
    path.write_bytes(b"plan")
    names = {"latent": "sample", "audio": "encoder_hidden_states"}
    found = own_plans.read({"unet": {"path": str(path), "names": names, "positions": "outside"}})
    assert (found["unet"].path, found["unet"].names, found["unet"].positions_inside) == (path, names, False)
    assert own_plans.read({"unet": {"path": str(path), "positions": "inside"}})["unet"].positions_inside
    assert own_plans.read({"decoder": {"path": str(path)}})["decoder"].names == {}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"unet": {"path": "PATH"}}, "where the sound's positions are added"),
        ({"unet": {"path": "PATH", "positions": "maybe"}}, "positions are added"),
        ({"unet": {"path": "PATH", "positions": "inside", "name": {}}}, "other keys"),
        ({"decoder": {"names": {}}}, "takes a path"), ({"vae": {"path": "PATH"}}, "no stage"),
        ({"decoder": {"path": "nowhere.engine"}}, r"no file nowhere\.engine"),
    ],
)  # fmt: skip
def test_a_plan_built_elsewhere_that_is_unclear_is_refused(tmp_path, entry, words):
    path = tmp_path / "unet.engine"
    path.write_bytes(b"plan")
    filled = {s: {k: str(path) if v == "PATH" else v for k, v in e.items()} for s, e in entry.items()}
    with pytest.raises(EngineUnavailable, match=words):
        catalog.serving("musetalk", tmp_path, MADE_UP | {"backend": "tensorrt-rtx", "own_plans": filled})


def test_plans_built_elsewhere_are_not_passed_over_by_another_backend(tmp_path):
    path = tmp_path / "decoder.engine"
    path.write_bytes(b"plan")
    with pytest.raises(EngineUnavailable, match="own_plans are not for torch"):
        catalog.serving(
            "musetalk", tmp_path, MADE_UP | {"backend": "torch", "own_plans": {"decoder": {"path": str(path)}}}
        )


def test_the_official_unet_gets_its_sound_with_positions():
    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.any = torch.nn.Parameter(torch.zeros(1))

        def forward(self, mel):
            return torch.ones(len(mel), 1500, 5, 384)

    sound = np.zeros((2, WINDOW_SAMPLES), np.float32)
    plain, positioned = (FeatureExtractor(Encoder(), positioned=p)(sound) for p in (False, True))
    assert np.array_equal(plain, np.ones((2, 50, 384), np.float32))
    assert np.allclose(positioned, 1.0 + positions(), atol=1e-6)
    assert positioned.dtype == np.float32


def test_the_config_in_the_documents_is_one_that_is_understood(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "musetalk.md").read_text("utf-8")
    (tmp_path / "unet_b32_fp16.engine").write_bytes(b"plan")
    options = tomllib.loads(page.split("```toml\n")[1].split("```")[0])["engine_options"]
    options["own_plans"]["unet"]["path"] = str(tmp_path / options["own_plans"]["unet"]["path"])
    assert options["backend"] in BACKENDS
    known = Options(tmp_path, {name: value for name, value in options.items() if name not in ("backend", "precision")})
    assert known.buckets == (1, 2, 4, 8, 16, 32)
    assert not known.own["unet"].positions_inside
