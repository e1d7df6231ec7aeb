"""The renderer's graph is what the audit says, and its rewrite is as near to it as rounding allows; on WebGPU too."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")
onnx = pytest.importorskip("onnx", reason="graph tools need the [liveportrait] extra")
pytest.importorskip("onnxscript", reason="graph tools need the [liveportrait] extra")

from typer.testing import CliRunner  # noqa: E402

from engines.graphs.audit import audit  # noqa: E402
from engines.graphs.forms import Form  # noqa: E402
from engines.graphs.model import Graph, read, write  # noqa: E402
from engines.graphs.rewrite import rewrite  # noqa: E402
from engines.graphs.verify import Reference, verify  # noqa: E402
from engines.liveportrait.export import RENDERER, export, exportables, reference_path  # noqa: E402
from engines.liveportrait.portrait import FULL, REDUCED, seeded_networks  # noqa: E402
from streamer.cli import app  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def renderer(folder):
    """The reduced renderer, exported with its reference numbers."""
    export(exportables(REDUCED, seeded_networks(REDUCED))[RENDERER], folder / "renderer.onnx")
    return folder / "renderer.onnx"


def samplers(graph):
    """Ranks of what GridSample nodes sample."""
    return Counter(graph.rank(n.input[0]) for n in graph.nodes if n.op_type == "GridSample")


@pytest.mark.parametrize(
    ("form", "flat"),
    [(None, 2), *(pytest.param(f, n, marks=pytest.mark.long) for f, n in ((Form.SLICES, 2), (Form.GATHER, 0)))],
)
def test_rewritten_renderer_is_within_the_floor(renderer, form, flat):
    graph = read(renderer)
    assert graph.opset == 18
    assert samplers(graph) == {5: 2}
    done = rewrite(graph, form)
    assert samplers(done.graph) == ({4: flat} if flat else {})
    assert verify(graph, done.graph, Reference.load(reference_path(renderer))).passed


def test_the_cheapest_proven_form_is_chosen_and_webgpu_runs_all_of_it(renderer):
    graph = read(renderer)
    chosen = {c.node: c for c in rewrite(graph).choices}
    assert sorted(c.form for c in chosen.values()) == [Form.SHARED_XY, Form.SLICES]
    assert any("proven from the graph" in c.reason for c in chosen.values())
    assert not [o for o in audit(rewrite(graph).graph).obstacles if o.provider == "webgpu"]


def test_a_rewrite_with_the_axes_swapped_fails_the_verification(renderer):
    """x, y, z read as z, y, x: the picture still looks like one, the numbers do not."""
    graph = read(renderer)
    model = rewrite(graph, Form.SLICES).graph.model
    columns = [n for n in model.graph.node if n.op_type == "Slice" and n.name.endswith(("/xy", "/z"))]
    assert len(columns) == 4
    for node in columns:
        bounds = ([1], [3]) if node.name.endswith("/xy") else ([0], [1])
        for place, value in zip((1, 2), bounds, strict=True):
            name = f"{node.name}/swapped_{place}"
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
            node.input[place] = name
    assert not verify(graph, Graph(model), Reference.load(reference_path(renderer))).passed


def command(*arguments):
    return CliRunner().invoke(app, ["engines", *map(str, arguments)])


def test_commands_audit_rewrite_and_verify(renderer, folder):
    told = json.loads(command("audit", renderer, "--json").stdout)
    assert told["rank5"]["GridSample"] == 2
    done = command("rewrite", renderer, folder / "web.onnx", "--json")
    assert json.loads(done.stdout)["nodes_before"] == told["nodes"]
    assert command("verify", renderer, folder / "web.onnx", "--within", "0.0001").exit_code == 1
    assert "| warping | in | kp_driving | [B, 21, 3] | float32 |" in command("contracts", "liveportrait").stdout


@pytest.mark.long
def test_the_512_renderer_is_audited_rewritten_and_verified(folder):
    """277 nodes, 13 volume convolutions, 2 volume samplers; none of the latter after the rewrite."""
    path = folder / "renderer512.onnx"
    export(exportables(FULL, seeded_networks(FULL))[RENDERER], path)
    graph = read(path)
    found = audit(graph)
    assert found.nodes == 277
    assert (found.volume_counts()["Conv"], found.volume_counts()["GridSample"]) == (13, 2)
    done = rewrite(graph)
    assert samplers(done.graph) == {4: 2}
    reference = Reference.load(reference_path(path))
    one = Reference(reference.inputs[:1], reference.outputs[:1])
    result = verify(graph, done.graph, one, stages=[])
    print(*done.lines(), *result.lines(), sep="\n")
    assert result.passed


ON_WEBGPU = """
import json, sys
import numpy as np
import onnxruntime as ort
model, reference, runs = sys.argv[1:4]
options = ort.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
try:
    session = ort.InferenceSession(model, options, providers=["WebGpuExecutionProvider"])
except Exception as error:
    print(json.dumps({"placed": False, "why": str(error)[:300]}))
    sys.exit()
found = {"placed": True, "providers": session.get_providers()}
if runs == "run":
    stored = np.load(reference)
    given = {k.split("/", 2)[2]: stored[k] for k in stored.files if k.startswith("0/in/")}
    names = [o.name for o in session.get_outputs()]
    try:
        outputs = session.run(names, given)
        found["error"] = max(float(np.abs(o - stored[f"0/out/{n}"]).max()) for n, o in zip(names, outputs))
    except Exception as error:
        found["failed"] = str(error)[:300]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def webgpu(tmp_path_factory):
    """Runs a graph on the WebGPU provider without fallback, in an environment of its own: it overwrites onnxruntime."""
    if not SWIFTSHADER.is_file():
        pytest.skip("no software Vulkan here: install chromium")
    home = tmp_path_factory.mktemp("webgpu")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "onnxruntime-webgpu==1.27.0",
        "numpy",
    ]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip("onnxruntime-webgpu cannot be installed here")

    def run(model, reference, *, execute):
        environment = os.environ | {"VK_ICD_FILENAMES": str(SWIFTSHADER)}
        arguments = [python, "-c", ON_WEBGPU, str(model), str(reference), "run" if execute else "place"]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment, timeout=900)
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_node_of_the_rewritten_renderer_runs_on_webgpu(renderer, folder, webgpu):
    graph = read(renderer)
    done = rewrite(graph)
    write(done.graph, folder / "webgpu.onnx")
    found = webgpu(folder / "webgpu.onnx", reference_path(renderer), execute=True)
    print(found)
    assert found["placed"]
    assert found["error"] <= 1e-4
    unchanged = webgpu(renderer, reference_path(renderer), execute=True)
    print(unchanged)
    assert not unchanged["placed"] or "failed" in unchanged, "the unchanged graph must not run, or nothing is shown"
