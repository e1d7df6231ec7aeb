"""The 5-D GridSample rewrite computes the same function: fuzzed against torch in float64, wrong variants caught."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the oracle is torch: the [liveportrait] extra")
onnx = pytest.importorskip("onnx", reason="graph tools need the [liveportrait] extra")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from engines.graphs import forms  # noqa: E402
from engines.graphs.emit import Emitter  # noqa: E402
from engines.graphs.errors import GraphRefused  # noqa: E402
from engines.graphs.forms import Form  # noqa: E402
from engines.graphs.model import Graph  # noqa: E402
from engines.graphs.rewrite import rewrite, separable  # noqa: E402
from engines.graphs.running import Runner  # noqa: E402
from engines.graphs.sampler import PADDINGS, Sampler  # noqa: E402
from engines.graphs.variation import variation  # noqa: E402

pytestmark = pytest.mark.unit
TOLERANCE = 1e-5
SHAPES = [  # (N, C, D, H, W), (Do, Ho, Wo): no two sizes alike, so that a swapped axis cannot hide
    ((1, 3, 4, 5, 6), (2, 7, 8)),
    ((2, 4, 3, 7, 5), (6, 8, 9)),
    ((3, 1, 6, 2, 9), (4, 5, 7)),
    ((1, 2, 1, 8, 3), (5, 4, 6)),
]


def sampler_model(x_shape, out, *, opset=20, mode="linear", padding="zeros", align=0, batch=None):
    """One 5-D GridSample, x and grid as inputs."""
    n = x_shape[0] if batch is None else batch
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], name="sampler", mode=mode, padding_mode=padding, align_corners=align
    )
    graph = helper.make_graph(
        [node], "one_sampler",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, *x_shape[1:]]),
            helper.make_tensor_value_info("grid", TensorProto.FLOAT, [n, *out, 3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, x_shape[1], *out])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def separable_model(x_shape, *, padding="zeros", align=0):
    """The shape of sparse motion: a constant grid less driving plus source keypoints, folded into the batch."""
    k, _, d, h, w = x_shape
    z, y, x = (np.linspace(-1, 1, n, dtype=np.float32) for n in (d, h, w))
    identity = np.stack(np.broadcast_arrays(x[None, None, :], y[None, :, None], z[:, None, None]), -1)[None, None]
    nodes = [
        helper.make_node("Reshape", ["kd", "spread"], ["kd_spread"], name="spread_driving"),
        helper.make_node("Reshape", ["ks", "spread"], ["ks_spread"], name="spread_source"),
        helper.make_node("Sub", ["identity", "kd_spread"], ["less"], name="less_driving"),
        helper.make_node("Add", ["less", "ks_spread"], ["moved"], name="plus_source"),
        helper.make_node("Concat", ["identity", "moved"], ["all"], name="with_identity", axis=1),
        helper.make_node("Reshape", ["all", "folded"], ["grid"], name="fold_grid"),
        helper.make_node(
            "GridSample", ["x", "grid"], ["y"], name="sampler", mode="linear", padding_mode=padding, align_corners=align
        ),
    ]
    constants = [
        numpy_helper.from_array(np.array([1, k - 1, 1, 1, 1, 3]), "spread"),
        numpy_helper.from_array(np.ascontiguousarray(identity), "identity"),
        numpy_helper.from_array(np.array([k, d, h, w, 3]), "folded"),
    ]
    graph = helper.make_graph(
        nodes, "sparse_motion",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape),
            *(helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k - 1, 3]) for n in ("kd", "ks")),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x_shape)], constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def oracle(x, grid, *, mode="linear", padding="zeros", align=0):
    """torch in float64."""
    found = torch.nn.functional.grid_sample(
        torch.from_numpy(x).double(), torch.from_numpy(grid).double(),
        mode={"linear": "bilinear"}.get(mode, mode), padding_mode=padding, align_corners=bool(align),
    )  # fmt: skip
    return found.numpy()


def drawn_grid(rng, kind, n, out, source):
    """Grids inside, on, across, outside and far outside the borders; exact voxel centres too."""
    shape = (n, *out, 3)
    match kind:
        case "inside":
            return rng.uniform(-0.9, 0.9, shape)
        case "across":
            return rng.uniform(-1.4, 1.4, shape)
        case "edges":
            return rng.choice([-1.0, 1.0, -1.0 + 1e-3, 1.0 - 1e-3, 0.0], shape)
        case "outside":
            return rng.uniform(1.0, 3.0, shape) * rng.choice([-1.0, 1.0], shape)
        case "far":
            return rng.uniform(-8, 8, shape)
        case "centres":
            sizes = np.array(source[::-1])
            return (2 * rng.integers(-1, sizes + 1, shape) + 1) / sizes - 1
    raise AssertionError(kind)


KINDS = ("inside", "across", "edges", "outside", "far", "centres")


def largest_error(graph, x, grid, **settings_):
    found = Runner(graph)({"x": x, "grid": grid})["y"]
    return float(np.abs(found - oracle(x, grid, **settings_)).max())


@pytest.mark.parametrize("form", [Form.SLICES, Form.GATHER])
@pytest.mark.parametrize(("align", "padding"), list(itertools.product((0, 1), PADDINGS)))
def test_free_grids_of_every_kind_and_shape(form, align, padding):
    rng = np.random.default_rng(11)
    for x_shape, out in SHAPES:
        done = rewrite(Graph(sampler_model(x_shape, out, padding=padding, align=align)), form)
        assert not [n for n in done.graph.nodes if n.op_type == "GridSample" and done.graph.rank(n.input[0]) == 5]
        run = Runner(done.graph)
        for kind in KINDS:
            x = rng.uniform(-1, 1, x_shape).astype(np.float32)
            grid = drawn_grid(rng, kind, x_shape[0], out, x_shape[2:]).astype(np.float32)
            error = np.abs(run({"x": x, "grid": grid})["y"] - oracle(x, grid, padding=padding, align=align)).max()
            assert error <= TOLERANCE, (x_shape, kind)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("align", [0, 1])
def test_nearest_takes_the_same_voxel_as_torch(padding, align):
    rng = np.random.default_rng(12)
    for x_shape, out in SHAPES:
        done = rewrite(Graph(sampler_model(x_shape, out, mode="nearest", padding=padding, align=align)))
        assert done.choices[0].form is Form.GATHER
        x = rng.uniform(-1, 1, x_shape).astype(np.float32)
        grid = drawn_grid(rng, "across", x_shape[0], out, x_shape[2:]).astype(np.float32)
        assert largest_error(done.graph, x, grid, mode="nearest", padding=padding, align=align) == 0.0


@pytest.mark.parametrize(("align", "padding"), list(itertools.product((0, 1), PADDINGS)))
def test_separable_grids_are_proven_from_the_graph_and_sampled_in_planes(align, padding):
    rng = np.random.default_rng(13)
    for x_shape in ((5, 2, 4, 6, 7), (3, 4, 2, 5, 8)):
        graph = Graph(separable_model(x_shape, padding=padding, align=align))
        assert "graph" in separable(graph, "grid")
        done = rewrite(graph)
        assert [c.form for c in done.choices] == [Form.SHARED_XY]
        for spread in (0.2, 1.5):
            given_ = {"x": rng.uniform(-1, 1, x_shape)} | {
                k: rng.uniform(-spread, spread, (1, x_shape[0] - 1, 3)) for k in ("kd", "ks")
            }
            given_ = {k: v.astype(np.float32) for k, v in given_.items()}
            grid = Runner(graph, ["grid"])(given_)["grid"]
            found = Runner(done.graph)(given_)["y"]
            error = np.abs(found - oracle(given_["x"], grid, padding=padding, align=align)).max()
            assert error <= TOLERANCE, (x_shape, spread)


@given(
    sizes=st.permutations([1, 2, 3, 4, 5, 6, 7, 9]), padding=st.sampled_from(PADDINGS), align=st.integers(0, 1),
    form=st.sampled_from([Form.SLICES, Form.GATHER]), spread=st.floats(0.1, 2.5), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=40)
def test_fuzz_of_shapes_paddings_and_grids(sizes, padding, align, form, spread, seed):
    n, c, d, h, w, *out = sizes
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, c, d, h, w)).astype(np.float32)
    grid = rng.uniform(-spread, spread, (n, *out, 3)).astype(np.float32)
    done = rewrite(Graph(sampler_model(x.shape, out, padding=padding, align=align)), form)
    assert largest_error(done.graph, x, grid, padding=padding, align=align) <= TOLERANCE


def test_open_batch_stays_open():
    (n, *rest), out = SHAPES[1]
    done = rewrite(Graph(sampler_model((n, *rest), out, batch="batch")))
    assert done.choices[0].form is Form.SLICES
    rng = np.random.default_rng(14)
    for batch in (1, 2, 5):
        x = rng.uniform(-1, 1, (batch, *rest)).astype(np.float32)
        grid = drawn_grid(rng, "across", batch, out, rest[1:]).astype(np.float32)
        assert largest_error(done.graph, x, grid) <= TOLERANCE


@pytest.mark.parametrize("opset", [16, 18, 20, 22])
def test_every_opset_becomes_one_that_the_browser_runs(opset):
    mode = "linear" if opset >= 20 else "bilinear"
    done = rewrite(Graph(sampler_model(*SHAPES[0], opset=opset, mode=mode)))
    assert done.graph.opset == 18
    assert all(node.name for node in done.graph.nodes)
    assert {n.op_type for n in done.graph.nodes if n.op_type == "GridSample"} == {"GridSample"}
    onnx.checker.check_model(done.graph.model, full_check=True)


# ---- what must be refused ----


def test_shared_planes_are_refused_for_a_grid_that_nobody_can_prove():
    with pytest.raises(GraphRefused, match="not provably"):
        rewrite(Graph(sampler_model(*SHAPES[0])), Form.SHARED_XY)


def test_one_keypoint_that_shears_the_grid_ends_the_proof():
    model = separable_model((5, 2, 4, 6, 7))
    identity = next(t for t in model.graph.initializer if t.name == "identity")
    sheared = numpy_helper.to_array(identity).copy()
    sheared[..., 0] += 1e-3 * sheared[..., 2]  # x now depends on depth
    identity.CopyFrom(numpy_helper.from_array(sheared, "identity"))
    assert separable(Graph(model), "grid") is None
    assert rewrite(Graph(model)).choices[0].form is Form.SLICES


def test_a_mode_that_volumes_do_not_have_is_refused():
    with pytest.raises(GraphRefused, match="cubic"):
        rewrite(Graph(sampler_model(*SHAPES[0], mode="cubic")))


def test_open_axes_other_than_the_batch_are_refused():
    model = sampler_model(*SHAPES[0])
    model.graph.input[0].type.tensor_type.shape.dim[3].ClearField("dim_value")
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "height"
    with pytest.raises(GraphRefused, match="open"):
        rewrite(Graph(model))


def test_gather_with_an_open_batch_and_forms_too_large_are_refused():
    with pytest.raises(GraphRefused, match="fixed batch"):
        rewrite(Graph(sampler_model(*SHAPES[0], batch="n")), Form.GATHER)
    with pytest.raises(GraphRefused, match="limit"):
        rewrite(Graph(sampler_model(*SHAPES[1])), max_intermediate_bytes=100)


def test_an_opset_that_the_browser_does_not_run_is_refused():
    with pytest.raises(GraphRefused, match="16 to 19"):
        rewrite(Graph(sampler_model(*SHAPES[0])), opset=20)


def test_half_precision_is_refused():
    model = sampler_model(*SHAPES[0])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(GraphRefused, match="float16"):
        rewrite(Graph(model))


# ---- deliberately wrong variants: the fuzz above would catch each ----


def clamped_slices(emit, role, voxel, slices):
    """Wrong: both neighbours clamped into the volume, so that the outside repeats the border."""
    held = emit.op("Clip", f"{role}_held", voxel, emit.number(0.0), emit.number(3.0))
    return RIGHT_TENT(emit, role, held, slices)


def whole_slice(emit, role, voxel, slices):
    """Wrong: the nearest slice only."""
    return RIGHT_TENT(emit, role, emit.op("Round", f"{role}_round", voxel), slices)


def corners_aligned(emit, role, normalised, size, *, align_corners):
    """Wrong: the other convention for -1 and 1."""
    return RIGHT_VOXEL(emit, role, normalised, size, align_corners=not align_corners)


class SwappedEmitter(Emitter):
    """Wrong: folds depth into the batch without moving it there first."""

    def op(self, kind, role, *inputs, **attributes):
        if role == "depth_beside_batch":
            return inputs[0]
        return super().op(kind, role, *inputs, **attributes)


RIGHT_TENT, RIGHT_VOXEL = forms.tent_weights, forms.pixel_coordinate


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("tent_weights", clamped_slices), ("tent_weights", whole_slice), ("pixel_coordinate", corners_aligned)],
)
def test_wrong_arithmetic_is_caught(monkeypatch, name, wrong):
    monkeypatch.setattr(forms, name, wrong)
    x_shape, out = SHAPES[0]
    rng = np.random.default_rng(15)
    x = rng.uniform(-1, 1, x_shape).astype(np.float32)
    grid = drawn_grid(rng, "across", 1, out, x_shape[2:]).astype(np.float32)
    done = rewrite(Graph(sampler_model(x_shape, out)), Form.SLICES)
    assert largest_error(done.graph, x, grid) > 1000 * TOLERANCE


def test_swapped_axes_are_caught(monkeypatch):
    from engines.graphs import rewrite as module

    monkeypatch.setattr(module, "Emitter", SwappedEmitter)
    x_shape, out = SHAPES[0]
    rng = np.random.default_rng(16)
    x = rng.uniform(-1, 1, x_shape).astype(np.float32)
    grid = drawn_grid(rng, "inside", 1, out, x_shape[2:]).astype(np.float32)
    done = rewrite(Graph(sampler_model(x_shape, out)), Form.SLICES)
    assert largest_error(done.graph, x, grid) > 1000 * TOLERANCE


def test_a_sampler_knows_its_nodes_facts():
    graph = Graph(sampler_model(*SHAPES[0], padding="border", align=1))
    from engines.graphs.sampler import read_sampler

    found = read_sampler(graph, graph.nodes[0])
    assert found == Sampler("sampler", "x", "grid", "y", 1, 3, (4, 5, 6), (2, 7, 8), "linear", "border", True)


# ---- the proof never claims more than the truth ----


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.lists(st.sampled_from(["add", "mul", "transpose", "fold", "cat", "tile"]), min_size=1, max_size=5),
)
@settings(max_examples=40)
def test_what_is_proven_about_variation_holds_in_the_data(seed, steps):
    rng = np.random.default_rng(seed)
    nodes, constants, name, shape = [], [], "start", [1, 2, 3, 4, 3]
    varying = rng.random(5) < 0.5
    start = rng.normal(size=[s if v else 1 for s, v in zip(shape, varying, strict=True)]) * np.ones(shape)
    constants.append(numpy_helper.from_array(start.astype(np.float32), name))
    for i, step in enumerate(steps):
        new = f"t{i}"
        if step in ("add", "mul"):
            other = [s if rng.random() < 0.5 else 1 for s in shape]
            nodes.append(helper.make_node({"add": "Add", "mul": "Mul"}[step], [name, f"in{i}"], [new]))
            constants.append((f"in{i}", other))
        elif step == "transpose":
            order = [*rng.permutation(len(shape) - 1), len(shape) - 1]
            nodes.append(helper.make_node("Transpose", [name], [new], perm=[int(a) for a in order]))
            shape = [shape[a] for a in order]
        elif step == "fold":
            shape = [shape[0] * shape[1], *shape[2:], 1] if rng.random() < 0.3 else [shape[0] * shape[1], 1, *shape[2:]]
            constants.append(numpy_helper.from_array(np.array(shape), f"shape{i}"))
            nodes.append(helper.make_node("Reshape", [name, f"shape{i}"], [new]))
        elif step == "cat":
            nodes.append(helper.make_node("Concat", [name, name], [new], axis=1))
            shape = [shape[0], 2 * shape[1], *shape[2:]]
        else:
            repeats = [2 if s == 1 else 1 for s in shape]
            constants.append(numpy_helper.from_array(np.array(repeats), f"repeats{i}"))
            nodes.append(helper.make_node("Tile", [name, f"repeats{i}"], [new]))
            shape = [s * r for s, r in zip(shape, repeats, strict=True)]
        name = new
    inputs = [helper.make_tensor_value_info(c[0], TensorProto.FLOAT, c[1]) for c in constants if isinstance(c, tuple)]
    stored = [c for c in constants if not isinstance(c, tuple)]
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    model = helper.make_model(
        helper.make_graph(nodes, "chain", inputs, [output], stored),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=10,
    )  # fmt: skip
    graph = Graph(model)
    given_ = {c[0]: rng.normal(size=c[1]).astype(np.float32) for c in constants if isinstance(c, tuple)}
    value = Runner(graph)(given_)[name]
    claimed = variation(graph, name)
    for component in range(value.shape[-1]):
        part = value[..., component]
        for axis in range(part.ndim):
            if axis not in claimed.axes_of(component):
                assert np.array_equal(part, np.broadcast_to(np.take(part, [0], axis), part.shape)), (component, axis)
