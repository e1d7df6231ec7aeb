"""MuseTalk at full size with made-up weights: every graph within its gate at every batch size, plans with all buckets.

Parts that stand alone: `LIVEANCHOR_FULL=DIR pytest -m long tests/contract/test_musetalk_full.py -s -k "unet and fp16"`.
DIR keeps graphs (6 GB), plans and comparisons between runs; what is there is not made again, so a run that was cut
short goes on. Each step in a process of its own, so that memory goes back: 8 GB at most (a plan of the UNet), and two
minutes at most on a quiet machine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
onnx = pytest.importorskip("onnx", reason="graphs need the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

pytestmark = [pytest.mark.contract, pytest.mark.long, pytest.mark.timeout(1800)]
STAGES, PRECISIONS, BATCHES = ("decoder", "unet"), ("fp32", "fp16"), (1, 3, 8)
GATES = {("unet", "fp32"): 1e-5, ("unet", "fp16"): 5e-3, ("decoder", "fp32"): 1e-4, ("decoder", "fp16"): 1e-2}
FORMAT = "2"
"""Kept results of another are not believed."""


def engines(*words):
    """A command in its own process; prints what it took."""
    command = [sys.executable, "-m", "streamer.cli", "engines", *(str(word) for word in words)]
    before = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = process.communicate()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s, most = time.monotonic() - before, used.ru_maxrss / 2**20
    print(f"\n{' '.join(command[3:5])}: {wall_s:.0f} s, largest process so far {most:.1f} GiB")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    kept = os.environ.get("LIVEANCHOR_FULL")
    made = Path(kept) / FORMAT if kept else tmp_path_factory.mktemp("full")
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture
def graph(folder, stage, precision):
    """A graph of the whole network, exported where it is not kept; written aside first, so that a part is no graph."""
    path = folder / f"{stage}.{precision}" / f"{stage}.{precision}.onnx"
    if not path.is_file():
        part = folder / f".{stage}.{precision}.part"
        shutil.rmtree(part, ignore_errors=True)
        done = engines("export", stage, part / path.name, "--seeded", "--precision", precision)
        assert done.returncode == 0, done.stderr
        part.rename(path.parent)
    return path


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_full_size_graph_is_exported(graph):
    assert graph.with_name(graph.name + ".data").stat().st_size > 90e6


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("batch", BATCHES)
def test_a_full_size_graph_keeps_to_its_gate(graph, stage, precision, batch):
    kept = graph.with_name(f"batch{batch}.json")
    if not kept.is_file():
        done = engines("verify", graph, "--weights", "seeded", "--batch", batch, "--json")
        assert done.returncode in (0, 1), done.stdout + done.stderr
        kept.write_text(done.stdout)
    found = json.loads(kept.read_text())
    gated = [row for row in found["rows"] if row["output"] == found["gate"]["output"]]
    for row in found["rows"]:
        print(stage, precision, row)
    assert [row["batch"] for row in gated] == [batch]
    assert found["passed"]
    assert all(row["max"] <= GATES[stage, precision] and row["largest"] > 0.1 for row in gated)


def built(path, plans):
    done = engines("build", path, "--plans", plans, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="the [gpu] extra is not installed")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("precision", ["fp16"])
def test_a_full_size_plan_is_built_without_a_gpu_and_again_only_for_another_graph(folder, graph, stage, tmp_path):
    plans = folder / f"plans.{stage}"
    shutil.rmtree(plans, ignore_errors=True)
    first, second = built(graph, plans), built(graph, plans)
    assert first["fresh"]
    assert not second["fresh"]
    assert first["buckets"] == [1, 2, 4, 8, 16, 32]
    assert first["path"] == second["path"]
    changed = tmp_path / graph.name
    model = onnx.load(str(graph), load_external_data=False)
    model.metadata_props.add(key="note", value="another graph")
    changed.write_bytes(model.SerializeToString())
    changed.with_name(changed.name + ".data").symlink_to(graph.with_name(graph.name + ".data"))
    third = built(changed, plans)
    assert third["fresh"]
    assert third["path"] != first["path"]
    print(stage, first["plan_bytes"], third["plan_bytes"])
    shutil.rmtree(plans)
