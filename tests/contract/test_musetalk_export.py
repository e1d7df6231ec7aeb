"""MuseTalk's stages as graphs: any batch, proven against torch, an unproven one not used, plans from them."""

from __future__ import annotations

import importlib.util
import json

import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

from typer.testing import CliRunner  # noqa: E402

from engines import catalog  # noqa: E402
from engines.errors import EngineContract  # noqa: E402
from engines.musetalk.artefacts import GATES, Artefacts  # noqa: E402
from streamer.cli import app  # noqa: E402

pytestmark = [pytest.mark.contract, pytest.mark.long]
torch.set_num_threads(1)
SMALL = ["--seeded", "--reduced"]


def liveanchor(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("onnx")
    for stage, precision in GATES:
        out = made / f"{stage}.{precision}.onnx"
        done = liveanchor("engines", "export", stage, out, *SMALL, "--precision", precision)
        assert done.exit_code == 0, done.output
    return made


@pytest.mark.parametrize(("stage", "precision"), GATES, ids="-".join)
def test_a_graph_computes_what_torch_does_at_every_batch_size(folder, stage, precision):
    path = folder / f"{stage}.{precision}.onnx"
    done = liveanchor("engines", "verify", path, "--weights", "seeded-reduced", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["passed"]
    assert {row["batch"] for row in found["rows"]} == {1, 3, 8}
    assert Artefacts(folder).verified(stage, precision).path == path


def test_a_live_engine_runs_proven_graphs_and_refuses_changed_ones(folder, tmp_path):
    options = {
        "seeded": True, "reduced": True, "device": "cpu", "buckets": (1, 2), "short_audio": True, "backend": "onnx",
        "artefacts": str(folder),
    }  # fmt: skip
    for stage in ("unet", "decoder"):
        assert (
            liveanchor("engines", "verify", folder / f"{stage}.fp32.onnx", "--weights", "seeded-reduced").exit_code == 0
        )
    engine = catalog.serving("musetalk", tmp_path, options)
    engine.warm_up()
    engine.close()
    word = Artefacts(folder).word("unet", "fp32")
    word.write_text(json.dumps({"onnx_sha256": "of another"}))
    with pytest.raises(EngineContract, match="changed since"):
        catalog.serving("musetalk", tmp_path, options)
    word.unlink()
    with pytest.raises(EngineContract, match="never verified"):
        catalog.serving("musetalk", tmp_path, options)


def test_a_graph_of_other_weights_fails_its_gate(folder, tmp_path):
    import onnx

    model = onnx.load(str(folder / "decoder.fp32.onnx"))
    last = next(t for t in model.graph.initializer if "conv_out.bias" in t.name)
    array = onnx.numpy_helper.to_array(last) + 0.01
    last.CopyFrom(onnx.numpy_helper.from_array(array, last.name))
    onnx.save(model, str(tmp_path / "decoder.fp32.onnx"))
    done = liveanchor("engines", "verify", tmp_path / "decoder.fp32.onnx", "--weights", "seeded-reduced")
    assert done.exit_code == 1
    assert "FAILS" in done.output
    assert not Artefacts(tmp_path).word("decoder", "fp32").exists()


@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="the [gpu] extra is not installed")
@pytest.mark.parametrize("stage", ["unet", "decoder"])
def test_plans_are_built_once_without_a_gpu(folder, tmp_path, stage):
    words = ("engines", "build", folder / f"{stage}.fp16.onnx", "--plans", tmp_path, "--json")
    first, second = (json.loads(liveanchor(*words).stdout) for _ in range(2))
    assert first["fresh"]
    assert first["buckets"] == [1, 2, 4, 8, 16, 32]
    assert not second["fresh"]
    assert first["path"] == second["path"]
