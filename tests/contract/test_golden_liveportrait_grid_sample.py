"""The rewrites of 5-D GridSample give the stored float64 numbers, at small odd sizes and at LivePortrait's own."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")
onnx = pytest.importorskip("onnx", reason="graph tools need the [liveportrait] extra")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from engines.graphs.forms import Form  # noqa: E402
from engines.graphs.model import Graph  # noqa: E402
from engines.graphs.rewrite import rewrite  # noqa: E402
from engines.graphs.running import Runner  # noqa: E402
from engines.liveportrait.dense_motion import identity_grid  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)


def sampled(x, grid, form, *, constant_grid=False):
    """x sampled by a graph with one GridSample, rewritten; the grid is data of the graph or its input."""
    x, grid = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(grid, np.float32)
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], name="sampler", mode="linear", align_corners=0)
    values = {"x": x} | ({} if constant_grid else {"grid": grid})
    stored = [numpy_helper.from_array(grid, "grid")] if constant_grid else []
    inputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in values.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [*x.shape[:2], *grid.shape[1:4]])
    model = helper.make_model(
        helper.make_graph([node], "golden", inputs, [output], stored),
        opset_imports=[helper.make_opsetid("", 20)], ir_version=10,
    )  # fmt: skip
    done = rewrite(Graph(model), form)
    return done, Runner(done.graph)(values)["y"]


def test_every_small_case_in_slices_and_gather_form(liveportrait_goldens):
    stored = liveportrait_goldens.load("12_grid_sample_5d.npz")
    cases = [key.removesuffix("_grid") for key in stored.files if key.endswith("_grid")]
    assert len(cases) > 20
    for case in cases:
        x = stored["shift_x" if case == "shift" else f"{case.split('_')[0]}_x"]
        for form in (Form.SLICES, Form.GATHER):
            _, found = sampled(x, stored[f"{case}_grid"], form)
            assert liveportrait_goldens.error(stored, f"{case}_out", found) <= 2e-5, (case, form)


def test_shifted_grid_as_data_is_proven_separable(liveportrait_goldens):
    stored = liveportrait_goldens.load("12_grid_sample_5d.npz")
    done, found = sampled(stored["shift_x"], stored["shift_grid"], None, constant_grid=True)
    assert done.choices[0].form is Form.SHARED_XY
    assert "the data" in done.choices[0].reason
    assert liveportrait_goldens.error(stored, "shift_out", found) <= 2e-5


@pytest.mark.parametrize("form", [Form.SLICES, Form.GATHER])
def test_free_grid_at_full_size(liveportrait_goldens, form):
    stored = liveportrait_goldens.load("12_grid_sample_5d.npz")
    g = torch.Generator().manual_seed(int(stored["big_seed"]))
    x = torch.randn(1, 32, 16, 64, 64, generator=g).numpy()
    grid = ((torch.rand(1, 16, 64, 64, 3, generator=g) * 2 - 1) * 1.3).numpy()
    assert np.allclose(x.ravel()[: stored["big_x_check"].size], stored["big_x_check"])
    assert np.allclose(grid.ravel()[: stored["big_grid_check"].size], stored["big_grid_check"])
    _, found = sampled(x, grid, form)
    assert liveportrait_goldens.error(stored, "big_out", found) <= 1e-4


def test_sparse_motion_grid_at_full_size(liveportrait_goldens):
    stored = liveportrait_goldens.load("12_grid_sample_5d.npz")
    g = torch.Generator().manual_seed(int(stored["bigshift_seed"]))
    x = torch.randn(22, 4, 16, 64, 64, generator=g)
    grid = identity_grid(16, 64, 64, x) + torch.as_tensor(stored["bigshift_t"])
    done, found = sampled(x.numpy(), grid.numpy(), None, constant_grid=True)
    assert done.choices[0].form is Form.SHARED_XY
    assert liveportrait_goldens.error(stored, "bigshift_out", found) <= 1e-4
