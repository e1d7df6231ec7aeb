"""Stages keep their contracts: wrong tensors, wrong networks and wrong checkpoints are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from engines.errors import EngineContract, EngineOutput, EngineUnavailable  # noqa: E402
from engines.liveportrait import pixels, warping, weights  # noqa: E402
from engines.liveportrait.bound import BoundStage, rehearse  # noqa: E402
from engines.liveportrait.portrait import FULL, REDUCED, LivePortrait, networks, seeded_networks  # noqa: E402
from engines.liveportrait.retargeting import CHECKPOINT_PARTS  # noqa: E402
from engines.stage import check_values  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def stages():
    return seeded_networks(REDUCED)


@pytest.fixture(scope="module")
def engine(stages):
    return LivePortrait(REDUCED, stages)


@pytest.fixture(scope="module")
def portrait(engine):
    rng = np.random.default_rng(7)
    face = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
    return engine.prepare(face, rng.random((468, 2)).astype(np.float32))


def test_every_contract_says_name_rank_meaning_type_range_and_owner():
    for stage in FULL.contracts():
        for tensor in (*stage.inputs, *stage.outputs):
            assert tensor.name
            assert tensor.owner
            assert tensor.value_range
            assert tensor.dtype == "float32"
            assert len(tensor.shape) >= 2
            assert tensor.axes.startswith("batch")


def test_published_sizes_pass_the_rehearsal_and_a_foreign_network_does_not():
    made = networks(FULL)
    for contract in FULL.contracts():
        rehearse(contract, made[contract.stage])
    small = networks(REDUCED)
    with pytest.raises(EngineContract, match="warping"):
        rehearse(warping.contract(FULL.warping, 64, 64), small["warping"])


def test_stages_of_one_engine_fit_each_other():
    by_name = {c.stage: c for c in FULL.contracts()}
    assert by_name["appearance"].outputs[0].shape == by_name["warping"].inputs[0].shape
    assert by_name["warping"].outputs[0].shape == by_name["generator"].inputs[0].shape
    assert by_name["generator"].outputs[0].shape == ("B", 3, 512, 512)


def test_batch_is_free_but_equal_for_all_tensors(engine, portrait):
    points = portrait.face.keypoints
    assert engine.render(portrait, points.expand(3, -1, -1)).shape == (3, 64, 64, 3)
    stage = BoundStage(warping.contract(REDUCED.warping, 8, 8), networks(REDUCED)["warping"])
    with pytest.raises(EngineContract, match=r"warping\.kp_source.*B = 2"):
        stage(feature_3d=torch.zeros(2, 16, 4, 8, 8), kp_driving=torch.zeros(2, 21, 3), kp_source=torch.zeros(1, 21, 3))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kp_driving": torch.zeros(1, 3, 21)}, "kp_driving"),
        ({"kp_driving": torch.zeros(1, 21, 3, dtype=torch.float64)}, "float64"),
        ({"feature_3d": torch.zeros(1, 4, 16, 8, 8)}, "feature_3d"),
        ({"kp_source": None}, "nothing"),
        ({"kp": torch.zeros(1, 21, 3)}, "unknown"),
    ],
)
def test_misshapen_missing_or_unknown_tensors_are_refused_by_name(change, says):
    contract = warping.contract(REDUCED.warping, 8, 8)
    good = {
        "feature_3d": torch.zeros(1, 16, 4, 8, 8),
        "kp_driving": torch.zeros(1, 21, 3),
        "kp_source": torch.zeros(1, 21, 3),
    }  # fmt: skip
    given = {k: v for k, v in (good | change).items() if v is not None}
    with pytest.raises(EngineContract, match=says):
        contract.check_inputs(given)


def test_values_outside_their_range_or_not_finite_are_found():
    outputs = warping.contract(REDUCED.warping, 8, 8).outputs
    arrays = {c.name: np.zeros([1 if isinstance(s, str) else s for s in c.shape], np.float32) for c in outputs}
    check_values("warping", outputs, arrays)
    arrays["occlusion_map"][0, 0, 3, 4] = 1.5
    with pytest.raises(EngineContract, match=r"occlusion_map.*0\.\.1"):
        check_values("warping", outputs, arrays)
    arrays["occlusion_map"][:] = 0
    arrays["out"][0, 1, 2, 3] = np.nan
    with pytest.raises(EngineContract, match="finite"):
        check_values("warping", outputs, arrays)


def test_half_precision_is_another_contract():
    half = warping.contract(REDUCED.warping, 8, 8).with_dtype("float16")
    with pytest.raises(EngineContract, match="float16"):
        half.check_inputs({"feature_3d": torch.zeros(1, 16, 4, 8, 8)})


def test_a_picture_that_is_not_finite_is_refused_before_the_cast():
    bad = torch.full((1, 3, 4, 4), 0.5)
    bad[0, 1, 2, 3] = float("inf")
    with pytest.raises(EngineOutput, match="not finite"):
        pixels.to_pictures(bad)


def test_pictures_round_and_clip(liveportrait_goldens):
    stored = liveportrait_goldens.load("11_crop_paste.npz")
    found = pixels.to_pictures(torch.as_tensor(stored["parse_in"]))
    assert np.abs(found.astype(int) - stored["parse_out_u8"]).max() <= 1
    picture = np.random.default_rng(int(stored["prepare_seed"])).integers(0, 256, (256, 256, 3), np.uint8)
    assert liveportrait_goldens.error(stored, "prepare_source", pixels.to_tensor(picture)) <= 1e-6


def save(folder, stages, spoil=lambda name, state: state):
    for stage, name in weights.FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(spoil(stage, dict(stages[stage].state_dict())), path)
    parts = {
        entry: {f"module.{k}": v for k, v in stages[f"retarget_{part}"].state_dict().items()}
        for part, entry in CHECKPOINT_PARTS.items()
    }
    (folder / weights.RETARGETING_FILE).parent.mkdir(parents=True, exist_ok=True)
    torch.save(parts, folder / weights.RETARGETING_FILE)


def test_a_saved_checkpoint_comes_back_whole(tmp_path, stages):
    save(tmp_path, stages)
    for stage, network in weights.load_networks(tmp_path, REDUCED).items():
        for name, value in network.state_dict().items():
            assert torch.equal(value, stages[stage].state_dict()[name]), (stage, name)


def rename(name, state):
    if name == "motion":
        state["detector.fc_mouth.bias"] = state.pop("detector.fc_exp.bias")
    return state


def reshape(name, state):
    if name == "motion":
        state["detector.fc_exp.bias"] = torch.zeros(60)
    return state


def poison(name, state):
    if name == "motion":
        state["detector.fc_exp.bias"] = torch.full((63,), float("nan"))
    return state


@pytest.mark.parametrize("spoil", [rename, reshape, poison])
def test_a_checkpoint_that_differs_is_refused_by_entry(tmp_path, stages, spoil):
    save(tmp_path, stages, spoil)
    with pytest.raises(EngineContract, match=r"motion_extractor\.pth: detector\.fc_exp\.bias"):
        weights.load_networks(tmp_path, REDUCED)


def test_a_missing_checkpoint_says_how_to_get_it(tmp_path):
    with pytest.raises(EngineUnavailable, match="models pull liveportrait"):
        weights.load_networks(tmp_path, REDUCED)


class Trap:
    def __reduce__(self):
        return (print, ("the checkpoint ran code",))


def test_a_checkpoint_runs_no_code(tmp_path, capsys):
    torch.save({"a": Trap()}, tmp_path / "bad.pth")
    with pytest.raises(EngineContract, match=r"bad\.pth"):
        weights.read(tmp_path / "bad.pth")
    assert capsys.readouterr().out == ""
    (tmp_path / "cut.pth").write_bytes(b"PK\x03\x04 not much")
    with pytest.raises(EngineContract, match=r"cut\.pth"):
        weights.read(tmp_path / "cut.pth")
