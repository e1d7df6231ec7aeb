"""Audit, simplification, change of opset and verification of ONNX graphs say what is true of them."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="graph tools need the [liveportrait] extra")
pytest.importorskip("onnxruntime", reason="graph tools need the [liveportrait] extra")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from engines.contract import TensorContract  # noqa: E402
from engines.errors import EngineContract  # noqa: E402
from engines.graphs import model as files  # noqa: E402
from engines.graphs.audit import audit  # noqa: E402
from engines.graphs.binding import bind  # noqa: E402
from engines.graphs.errors import GraphRefused, GraphsDiffer, GraphUnreadable  # noqa: E402
from engines.graphs.model import Graph  # noqa: E402
from engines.graphs.opset import move  # noqa: E402
from engines.graphs.running import Runner, drawn_inputs  # noqa: E402
from engines.graphs.simplify import simplify  # noqa: E402
from engines.graphs.verify import Reference, difference, verify  # noqa: E402
from engines.stage import StageContract  # noqa: E402

pytestmark = pytest.mark.unit


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def built(nodes, inputs, outputs, constants=(), opset=20):
    stored = [numpy_helper.from_array(array, name) for name, array in constants]
    graph = helper.make_graph(nodes, "made", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def volume_graph(opset=20, groups=1):
    """A small stand-in for a renderer: 3-D convolution, pooling, GridSample, an elementwise maximum."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 4 // groups, 3, 3, 3)).astype(np.float32)
    mode = "linear" if opset >= 20 else "bilinear"
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["conv"], name="conv", pads=[1] * 6, group=groups),
        helper.make_node("AveragePool", ["conv"], ["pool"], name="pool", kernel_shape=[1, 2, 2], strides=[1, 2, 2]),
        helper.make_node("GridSample", ["pool", "grid"], ["moved"], name="sampler", mode=mode),
        helper.make_node("Max", ["moved", "floor"], ["y"], name="at_least"),
    ]
    inputs = [value("x", [1, 4, 3, 8, 6]), value("grid", [1, 2, 5, 4, 3])]
    constants = [("weight", weight), ("floor", np.float32([-0.1]))]
    return built(nodes, inputs, [value("y", [1, 4, 2, 5, 4])], constants, opset)


# ---- audit ----


def test_audit_counts_kinds_ranks_and_volumes():
    found = audit(Graph(volume_graph()))
    assert found.nodes == 4
    assert found.opset == 20
    assert found.ranks == {5: 4}
    assert found.volume_counts() == {"Conv": 1, "AveragePool": 1, "GridSample": 1, "Max": 1}
    assert found.parameters == 4 * 4 * 27 + 1
    conv = found.volumes[0]
    assert (conv.inputs[0], conv.outputs[0]) == ((1, 4, 3, 8, 6), (1, 4, 3, 8, 6))
    text = "\n".join(found.lines())
    assert "GridSample   sampler: (1, 4, 3, 4, 3), (1, 2, 5, 4, 3) → (1, 4, 2, 5, 4)" in text
    assert found.as_json()["rank5"]["GridSample"] == 1


@pytest.mark.parametrize(
    ("opset", "groups", "provider", "op", "says"),
    [
        (20, 1, "webgpu", "GridSample", "moves to the CPU"),
        (18, 1, "webgpu", "GridSample", "run fails"),
        (18, 1, "webgpu", "Max", "moves to the CPU"),
        (18, 2, "webgpu", "Conv", "groups"),
        (18, 2, "webgpu-jsep", "Conv", "silently wrong"),
        (18, 1, "webgpu-jsep", "AveragePool", "run fails"),
        (18, 1, "tensorrt", "GridSample", "4-D only"),
    ],
)
def test_audit_names_what_each_provider_cannot_run(opset, groups, provider, op, says):
    found = [
        o for o in audit(Graph(volume_graph(opset, groups))).obstacles if (o.provider, o.op_type) == (provider, op)
    ]
    assert len(found) == 1
    assert says in found[0].effect


def test_flat_sampling_is_no_obstacle_at_opset_18_but_is_at_20():
    def flat(opset, mode):
        node = helper.make_node("GridSample", ["x", "grid"], ["y"], name="flat", mode=mode)
        return Graph(built([node], [value("x", [1, 2, 4, 5]), value("grid", [1, 3, 3, 2])],
                           [value("y", [1, 2, 3, 3])], opset=opset))  # fmt: skip

    assert audit(flat(18, "bilinear")).obstacles == ()
    assert {o.provider for o in audit(flat(20, "linear")).obstacles} == {"webgpu", "webgpu-jsep"}


# ---- files ----


def test_graphs_survive_the_disk_and_other_files_are_refused(tmp_path):
    graph = Graph(volume_graph())
    files.write(graph, tmp_path / "deep" / "g.onnx")
    assert files.read(tmp_path / "deep" / "g.onnx").histogram() == graph.histogram()
    (tmp_path / "text.onnx").write_text("not a graph")
    (tmp_path / "empty.onnx").write_bytes(b"")
    for name in ("text.onnx", "empty.onnx", "missing.onnx"):
        with pytest.raises(GraphUnreadable, match=name):
            files.read(tmp_path / name)


# ---- simplify ----


def test_simplify_computes_constants_and_changes_no_result():
    nodes = [
        helper.make_node("Add", ["one", "two"], ["three"]),
        helper.make_node("Unsqueeze", ["three", "axis"], ["tall"]),
        helper.make_node("Mul", ["x", "tall"], ["y"], name="product"),
        helper.make_node("Exp", ["x"], ["unread"]),
        helper.make_node("Mul", ["x", "same_one"], ["z"]),
        helper.make_node("Mul", ["z", "one"], ["w"]),
    ]
    one = np.ones(3, np.float32)
    constants = [("one", one), ("two", 2 * one), ("axis", np.array([0])), ("same_one", one.copy())]
    graph = Graph(built(nodes, [value("x", [2, 3])], [value("y", [2, 3]), value("w", [2, 3])], constants))
    found = simplify(graph)
    assert [n.op_type for n in found.nodes] == ["Mul", "Mul", "Mul"]
    assert len(found.model.graph.initializer) == 2
    for given in drawn_inputs(graph, 1, 3):
        before, after = Runner(graph)(given), Runner(found)(given)
        assert all(np.array_equal(before[name], after[name]) for name in ("y", "w"))


def test_simplify_leaves_random_and_output_nodes_alone():
    nodes = [
        helper.make_node("RandomNormal", [], ["noise"], shape=[3], seed=1.0),
        helper.make_node("Add", ["x", "noise"], ["y"]),
        helper.make_node("Neg", ["one"], ["c"]),
    ]
    graph = Graph(
        built(nodes, [value("x", [3])], [value("y", [3]), value("c", [3])], [("one", np.ones(3, np.float32))])
    )
    assert [n.op_type for n in simplify(graph).nodes] == ["RandomNormal", "Add", "Neg"]


# ---- opset ----


def test_lowering_keeps_results_and_renames_modes():
    given = drawn_inputs(Graph(volume_graph()), 2, 1)[0]
    before = Runner(Graph(volume_graph()))(given)["y"]
    lowered = Graph(move(volume_graph(), 18))
    assert lowered.opset == 18
    assert helper.get_attribute_value(lowered.nodes[2].attribute[0]) == b"bilinear"
    assert np.allclose(Runner(lowered)(given)["y"], before, rtol=0, atol=1e-6)


def test_raising_keeps_results():
    graph = Graph(volume_graph(16))
    raised = Graph(move(graph.model, 18))
    given = drawn_inputs(graph, 3, 1)[0]
    assert np.allclose(Runner(raised)(given)["y"], Runner(graph)(given)["y"], rtol=0, atol=1e-6)


def test_lowering_refuses_what_the_older_opset_does_not_have():
    gelu = built([helper.make_node("Gelu", ["x"], ["y"], name="bend")], [value("x", [3])], [value("y", [3])])
    with pytest.raises(GraphRefused, match="Gelu"):
        move(gelu, 18)
    pool = helper.make_node("AveragePool", ["x"], ["y"], name="wide", kernel_shape=[2, 2], dilations=[2, 2])
    dilated = built([pool], [value("x", [1, 1, 6, 6])], [value("y", [1, 1, 4, 4])])
    with pytest.raises(GraphRefused, match="dilations"):
        move(dilated, 18)


# ---- binding ----


def test_a_graph_is_bound_by_names_shapes_and_types():
    graph = Graph(volume_graph())
    meaning = ("batch, channel, depth, height, width", "any", "test")
    x = TensorContract("x", ("B", 4, 3, 8, 6), "float32", *meaning)
    grid = TensorContract("grid", ("B", 2, 5, 4, 3), "float32", *meaning)
    y = TensorContract("y", ("B", 4, 2, 5, 4), "float32", *meaning)
    bind(StageContract("volume", (x, grid), (y,)), graph)
    with pytest.raises(EngineContract, match=r"volume\.grid"):
        bind(StageContract("volume", (x,), (y,)), graph)
    swapped = TensorContract("x", ("B", 4, 8, 3, 6), "float32", *meaning)
    with pytest.raises(EngineContract, match=r"volume\.x.*8, 3, 6"):
        bind(StageContract("volume", (swapped, grid), (y,)), graph)
    with pytest.raises(EngineContract, match="float16"):
        bind(StageContract("volume", (x, grid), (y,)).with_dtype("float16"), graph)


# ---- verify ----


def scaled(graph, by):
    """The graph with a convolution a little off."""
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    weight = next(t for t in model.graph.initializer if t.name == "weight")
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(by), "weight"))
    return Graph(model)


def test_verify_passes_a_graph_against_itself_and_shows_its_stages():
    graph = Graph(volume_graph())
    found = verify(graph, graph)
    assert found.passed
    assert [row.tensor for row in found.rows] == ["moved", "y"]
    assert all(row.difference.max == 0.0 for row in found.rows)
    assert found.rows[1].floor.max > 0.0


def test_verify_fails_a_graph_that_is_a_hundredth_off():
    graph = Graph(volume_graph())
    found = verify(graph, scaled(graph, 1.01))
    assert not found.passed
    assert found.rows[-1].ratio > 1000
    assert "NOT within" in "\n".join(found.lines())
    assert found.as_json()["passed"] is False


def test_reference_numbers_set_the_floor(tmp_path):
    graph = Graph(volume_graph())
    given = drawn_inputs(graph, 5, 2)
    outputs = [{"y": Runner(graph)(g)["y"] + np.float32(1e-3)} for g in given]
    Reference(tuple(given), tuple(outputs)).save(tmp_path / "r.npz")
    found = verify(graph, scaled(graph, 1.0001), Reference.load(tmp_path / "r.npz"))
    assert found.rows[-1].floor.max == pytest.approx(1e-3, rel=1e-2)
    assert found.passed
    (tmp_path / "bad.npz").write_text("no archive")
    with pytest.raises(GraphsDiffer, match="no reference"):
        Reference.load(tmp_path / "bad.npz")


def test_graphs_with_other_inputs_are_not_compared():
    graph = Graph(volume_graph())
    other = volume_graph()
    other.graph.input[1].name = other.graph.node[2].input[1] = "field"
    with pytest.raises(GraphsDiffer, match="only one"):
        verify(graph, Graph(other))


def test_values_that_are_not_finite_on_one_side_are_an_infinite_difference():
    a, b = np.float32([1, 2, np.nan, np.inf]), np.float32([1, 2, np.nan, np.inf])
    assert difference([a], [b]).max == 0.0
    b[1] = np.nan
    assert difference([a], [b]).max == float("inf")
    spread = difference([np.zeros(1000)], [np.linspace(0, 1, 1000)])
    assert spread.max == 1.0
    assert spread.mean == pytest.approx(0.5)
    assert spread.p99_9 == pytest.approx(0.999, abs=1e-3)
