"""Graph files and references that are damaged, hostile or of another kind: one line, nothing followed, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="graph tools need the [liveportrait] extra")
pytest.importorskip("onnxruntime", reason="graph tools need the [liveportrait] extra")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from engines.errors import EngineError  # noqa: E402
from engines.graphs.audit import audit  # noqa: E402
from engines.graphs.errors import GraphRefused, GraphsDiffer, GraphUnreadable, GraphUnwritable  # noqa: E402
from engines.graphs.model import Graph, read, write  # noqa: E402
from engines.graphs.rewrite import rewrite  # noqa: E402
from engines.graphs.verify import Reference, verify  # noqa: E402

pytestmark = pytest.mark.unit


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def volume_graph():
    """A 3-D convolution whose result a grid samples."""
    weight = np.random.default_rng(0).normal(size=(4, 5, 1, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["conv"], name="conv", pads=[0, 1, 1, 0, 1, 1]),
        helper.make_node("GridSample", ["conv", "grid"], ["y"], name="sampler", mode="linear"),
    ]
    inputs = [value("x", [1, 5, 3, 8, 6]), value("grid", [1, 2, 5, 4, 3])]
    stored = [numpy_helper.from_array(weight, "weight")]
    graph = helper.make_graph(nodes, "made", inputs, [value("y", [1, 4, 2, 5, 4])], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_any_damage_to_a_file_is_said_in_one_line_and_nothing_is_written(tmp_path):
    """Bytes changed, lost and added at random: a graph is read and rewritten, or refused by one of our own errors."""
    whole, rng = volume_graph().SerializeToString(), np.random.default_rng(1)
    path = tmp_path / "damaged.onnx"
    refused = []
    for _ in range(250):
        content = bytearray(whole)
        at = int(rng.integers(len(content)))
        match rng.integers(3):
            case 0:
                content[at] = rng.integers(256)
            case 1:
                del content[at : at + int(rng.integers(1, 20))]
            case 2:
                content[at:at] = rng.bytes(int(rng.integers(1, 10)))
        path.write_bytes(bytes(content))
        try:
            graph = read(path)
            list(audit(graph).lines())
            rewrite(graph)
        except EngineError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert not [line for line in refused if "\n" in line]


def with_weights_outside(location, offset="0", length="720"):
    model = volume_graph()
    tensor = next(t for t in model.graph.initializer if t.name == "weight")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return model


@pytest.mark.parametrize(
    "outside",
    [
        ("../secret.bin",), ("/etc/hostname",), ("missing.bin",), ("short.bin",), ("link.bin",),
        ("short.bin", "-5", "9"), ("short.bin", "first", "9"),
    ],
)  # fmt: skip
def test_weights_that_point_elsewhere_are_not_followed(tmp_path, outside):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(4096))
    (folder / "short.bin").write_bytes(bytes(100))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "model.onnx").write_bytes(with_weights_outside(*outside).SerializeToString())
    with pytest.raises(GraphUnreadable) as raised:
        read(folder / "model.onnx")
    assert "\n" not in str(raised.value)


def test_a_sampler_inside_a_branch_is_refused_not_overlooked():
    model = volume_graph()
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    branch = helper.make_graph(
        [helper.make_node("GridSample", ["x", "grid"], ["z"], name="hidden", mode="linear")], "branch", [], outputs
    )
    node = helper.make_node("If", ["either"], ["z"], name="choice", then_branch=branch, else_branch=branch)
    model.graph.node.append(node)
    model.graph.input.append(helper.make_tensor_value_info("either", TensorProto.BOOL, []))
    graph = Graph(model)
    assert audit(graph).inner_nodes == 2
    assert "not looked into: 2 nodes" in "\n".join(audit(graph).lines())
    with pytest.raises(GraphRefused, match=r"hidden.*branch"):
        rewrite(graph)


def test_a_result_that_cannot_be_saved_leaves_what_was_there(tmp_path):
    graph = Graph(volume_graph())
    (tmp_path / "file").write_text("a file")
    with pytest.raises(GraphUnwritable, match="file"):
        write(graph, tmp_path / "file" / "x.onnx")
    with pytest.raises(GraphUnwritable, match="directory"):
        write(graph, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("arrays", [{"a": np.zeros(3)}, {}, {"0/out/y": np.zeros((2, 2)), "0/in/x": np.zeros(1)}])
def test_a_reference_of_something_else_is_refused(tmp_path, arrays):
    graph = Graph(volume_graph())
    np.savez(tmp_path / "r.npz", **arrays)
    with pytest.raises(GraphsDiffer):
        verify(graph, graph, Reference.load(tmp_path / "r.npz"))
