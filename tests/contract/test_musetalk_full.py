"""MuseTalk at full size with made-up weights: graphs within their gates, plans with all buckets. Minutes, and 8 GB.

`pytest -m long tests/contract/test_musetalk_full.py -s`. Each stage in a process of its own, so that memory goes back.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

pytestmark = [pytest.mark.contract, pytest.mark.long, pytest.mark.timeout(1800)]
CASES = [("decoder", "fp32"), ("decoder", "fp16"), ("unet", "fp32"), ("unet", "fp16")]


def engines(*words):
    command = [sys.executable, "-m", "streamer.cli", "engines", *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("onnx")


@pytest.mark.parametrize(("stage", "precision"), CASES, ids=["-".join(case) for case in CASES])
def test_a_full_size_graph_keeps_to_its_gate(folder, stage, precision):
    path = folder / f"{stage}.{precision}.onnx"
    done = engines("export", stage, path, "--seeded", "--precision", precision)
    assert done.returncode == 0, done.stderr
    done = engines("verify", path, "--weights", "seeded", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    for row in json.loads(done.stdout)["rows"]:
        print(stage, precision, row)


@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="the [gpu] extra is not installed")
@pytest.mark.parametrize("stage", ["decoder", "unet"])
def test_a_full_size_plan_is_built_without_a_gpu(folder, stage):
    path = folder / f"{stage}.fp16.onnx"
    if not path.is_file():
        pytest.skip("its graph was not exported in this run")
    words = ("build", path, "--plans", folder / "plans", "--json")
    first, second = (json.loads(engines(*words).stdout) for _ in range(2))
    assert first["fresh"]
    assert not second["fresh"]
    assert first["buckets"] == [1, 2, 4, 8, 16, 32]
    print(stage, first["plan_bytes"])
