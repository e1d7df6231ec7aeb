"""MuseTalk's stages as graphs: any batch, proven against torch, an unproven one not used, plans from them."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

from typer.testing import CliRunner  # noqa: E402

from engines import catalog  # noqa: E402
from engines.errors import EngineContract, EngineUnavailable  # noqa: E402
from engines.musetalk.artefacts import GATES, Artefacts  # noqa: E402
from streamer.cli import app  # noqa: E402

pytestmark = [pytest.mark.contract, pytest.mark.long, pytest.mark.timeout(600)]
torch.set_num_threads(1)
SMALL = ["--seeded", "--reduced"]


def liveanchor(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Graphs by name, each exported when a test first asks for it: half a minute for a UNet."""
    folder = tmp_path_factory.mktemp("onnx")

    def made(stage, precision):
        out = folder / f"{stage}.{precision}.onnx"
        if not out.is_file():
            done = liveanchor("engines", "export", stage, out, *SMALL, "--precision", precision)
            assert done.exit_code == 0, done.output
        return out

    return made


def verified(path, *words):
    return liveanchor("engines", "verify", path, "--weights", "seeded-reduced", *words)


@pytest.mark.parametrize(("stage", "precision"), GATES, ids=["-".join(case) for case in GATES])
def test_a_graph_computes_what_torch_does_at_every_batch_size(exported, stage, precision):
    path = exported(stage, precision)
    done = verified(path, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["passed"]
    assert {row["batch"] for row in found["rows"]} == {1, 3, 8}
    assert Artefacts(path.parent).verified(stage, precision).path == path


def test_a_graph_that_passed_at_one_batch_size_only_is_not_proven(exported):
    path = exported("tiny", "fp16")
    word = Artefacts(path.parent).word("tiny", "fp16")
    word.unlink(missing_ok=True)
    done = verified(path, "--batch", "2", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["passed"]
    assert {row["batch"] for row in found["rows"]} == {2}
    assert not word.exists()


def test_a_gate_may_be_named_and_is_written_down(exported):
    path = exported("tiny", "fp16")
    word = Artefacts(path.parent).word("tiny", "fp16")
    word.unlink(missing_ok=True)
    done = verified(path, "--gate", "1e-9")
    assert done.exit_code == 1
    assert "FAILS" in done.output
    assert not word.exists()
    assert verified(path, "--gate", "0.5").exit_code == 0
    assert json.loads(word.read_text())["gate"]["max"] == 0.5


def test_a_live_engine_runs_proven_graphs_and_refuses_changed_ones(exported, tmp_path):
    folder = exported("unet", "fp32").parent
    options = {
        "seeded": True, "reduced": True, "device": "cpu", "buckets": (1, 2), "short_audio": True, "backend": "onnx",
        "artefacts": str(folder),
    }  # fmt: skip
    for stage in ("unet", "decoder"):
        assert verified(exported(stage, "fp32")).exit_code == 0
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


def test_a_graph_of_other_weights_fails_its_gate(exported, tmp_path):
    import onnx

    model = onnx.load(str(exported("decoder", "fp32")))
    last = next(t for t in model.graph.initializer if "conv_out.bias" in t.name)
    array = onnx.numpy_helper.to_array(last) + 0.01
    last.CopyFrom(onnx.numpy_helper.from_array(array, last.name))
    onnx.save(model, str(tmp_path / "decoder.fp32.onnx"))
    done = verified(tmp_path / "decoder.fp32.onnx")
    assert done.exit_code == 1
    assert "FAILS" in done.output
    assert not Artefacts(tmp_path).word("decoder", "fp32").exists()


@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="the [gpu] extra is not installed")
@pytest.mark.parametrize("stage", ["unet", "decoder"])
def test_plans_are_built_once_without_a_gpu(exported, tmp_path, stage):
    words = ("engines", "build", exported(stage, "fp16"), "--plans", tmp_path, "--json")
    first, second = (json.loads(liveanchor(*words).stdout) for _ in range(2))
    assert first["fresh"]
    assert first["buckets"] == [1, 2, 4, 8, 16, 32]
    assert not second["fresh"]
    assert first["path"] == second["path"]


@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="the [gpu] extra is not installed")
def test_one_command_makes_everything_ready_and_a_server_finds_it(exported, tmp_path):
    onnx = tmp_path / "musetalk" / "onnx"
    onnx.mkdir(parents=True)
    for part in exported("unet", "fp16").parent.glob("unet.fp16.onnx*"):
        shutil.copy(part, onnx)  # exported before and never compared; the decoder is not there at all
    words = ("engines", "build", "--models", tmp_path, *SMALL, "--buckets", "1,2", "--json")
    first, second = liveanchor(*words), liveanchor(*words)
    assert first.exit_code == 0, first.output
    assert "decoder.fp16.onnx: exporting" in first.stderr
    assert "unet.fp16.onnx: comparing with torch" in first.stderr
    assert "exporting" not in second.stderr + first.stderr.replace("decoder.fp16.onnx: exporting", "")
    assert "comparing" not in second.stderr
    assert [plan["fresh"] for plan in json.loads(first.stdout)["plans"]] == [True, True]
    assert [plan["fresh"] for plan in json.loads(second.stdout)["plans"]] == [False, False]
    assert not list(onnx.glob(".*")), "nothing half made is left"
    options = {"seeded": True, "reduced": True, "buckets": [1, 2], "backend": "tensorrt-rtx"}
    with pytest.raises(EngineUnavailable, match=r"GPU|driver"):
        catalog.serving("musetalk", tmp_path, options)
