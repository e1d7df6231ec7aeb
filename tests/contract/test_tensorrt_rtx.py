"""The real TensorRT-RTX builder, which needs no GPU: names it must have, plans it builds, what it and we refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

onnx = pytest.importorskip("onnx", reason="graphs need the [musetalk] extra")
pytest.importorskip("tensorrt_rtx", reason="the [gpu] extra is not installed")

from engines.backends import tensorrt_build  # noqa: E402
from engines.backends.plan_cache import PlanCache, PlanKey, graph_sha256  # noqa: E402
from engines.backends.tensorrt_api import RTX, USED_NAMES, find  # noqa: E402
from engines.contract_net import graph  # noqa: E402
from engines.contract_net.contracts import CONTRACTS  # noqa: E402
from engines.errors import EngineContract, EngineUnavailable  # noqa: E402

pytestmark = pytest.mark.contract
UNET, DECODER = CONTRACTS[1:]
BUCKETS = (1, 2, 4, 8, 16, 32)


@pytest.fixture(scope="module")
def api():
    return find(RTX)


@pytest.fixture
def saved(tmp_path):
    def save(made, name="graph.onnx"):
        onnx.save(made, tmp_path / name)
        return tmp_path / name

    return save


def test_every_name_that_is_used_is_there(api):
    for kind, names in USED_NAMES.items():
        found = getattr(api.module, kind)
        assert [name for name in names if not hasattr(found, name)] == [], kind


@pytest.mark.parametrize(("contract", "made"), [(UNET, graph.unet), (DECODER, graph.decoder)], ids=["unet", "decoder"])
def test_plans_with_a_profile_a_bucket_are_built_without_a_gpu(api, saved, contract, made):
    plan = tensorrt_build.build(api, saved(made()), contract, tensorrt_build.profiles(contract, BUCKETS))
    assert len(plan) > 10_000


def test_a_plan_is_built_once_until_its_graph_changes(api, saved, tmp_path):
    path, cache = saved(graph.decoder()), PlanCache(tmp_path / "plans")
    profiles = tensorrt_build.profiles(DECODER, (1, 2))

    def ensured():
        key = PlanKey("decoder", graph_sha256(path), "fp32", RTX, api.version, (1, 2))
        return cache.ensure(key, lambda: tensorrt_build.build(api, path, DECODER, profiles))

    assert ensured().fresh
    assert not ensured().fresh
    changed = graph.decoder()
    changed.metadata_props.add(key="note", value="another graph")
    onnx.save(changed, path)
    assert ensured().fresh


def test_a_profile_of_four_channels_is_refused_in_our_words(api, saved):
    path = saved(graph.unet())
    (profile,) = tensorrt_build.profiles(UNET, (1,))
    four = replace(profile, shapes={**profile.shapes, "latent": (1, 4, 32, 32)})
    with pytest.raises(EngineContract, match=r"unet\.latent.*masked.*\(1, 4, 32, 32\)"):
        tensorrt_build.build(api, path, UNET, [four])


def test_a_graph_of_four_channels_is_refused_in_our_words(api, saved):
    made = graph.unet()
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    with pytest.raises((EngineContract, EngineUnavailable), match=r"unet\.latent|graph\.onnx"):
        tensorrt_build.build(api, saved(made), UNET, tensorrt_build.profiles(UNET, (1,)))


def test_tensorrt_itself_refuses_what_does_not_fit_and_its_words_are_told(api, saved):
    (profile,) = tensorrt_build.profiles(UNET, (1,))
    eight = replace(UNET.inputs[0], shape=("B", 8, 32, 32))
    lenient = replace(UNET, inputs=(eight, replace(UNET.inputs[1], shape=("B", 49, 384))))
    with pytest.raises(EngineContract):
        tensorrt_build.build(api, saved(graph.unet()), lenient, [profile])


def test_a_file_that_is_no_graph_is_refused(api, tmp_path):
    path = tmp_path / "graph.onnx"
    path.write_bytes(b"not a graph")
    with pytest.raises(EngineContract, match=r"graph\.onnx"):
        tensorrt_build.build(api, path, UNET, tensorrt_build.profiles(UNET, (1,)))
