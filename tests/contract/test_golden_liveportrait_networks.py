"""The five LivePortrait networks give the official numbers from the same weights, and have the same state keys."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from engines.liveportrait import appearance, generator, motion, retargeting, warping  # noqa: E402
from engines.liveportrait.dense_motion import DenseMotionSizes  # noqa: E402
from engines.liveportrait.keypoints import motion_info  # noqa: E402
from engines.liveportrait.seeded import seed  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)


def warping_sizes(parameters):
    rest = {k: v for k, v in parameters.items() if k != "dense_motion_params"}
    return warping.WarpingSizes(**rest, dense_motion=DenseMotionSizes(**parameters["dense_motion_params"]))


def networks(parameters):
    """Every network of one configuration, by the name its golden keys carry."""
    yield (
        "appearance_feature_extractor", "appearance",
        appearance.AppearanceExtractor(appearance.AppearanceSizes(**parameters["appearance_feature_extractor_params"])),
    )  # fmt: skip
    yield "warping_module", "warping", warping.Warping(warping_sizes(parameters["warping_module_params"]))
    for suffix in ("", "_up1"):
        found = parameters.get(f"spade_generator_params{suffix}")
        if found:
            net = generator.SpadeGenerator(generator.GeneratorSizes(**found))
            yield f"spade_generator{suffix}", "generator", net


@pytest.fixture(scope="module")
def micro(liveportrait_goldens):
    parameters = liveportrait_goldens.json("configs.json")["micro"]
    return {name: seed(stage, network) for name, stage, network in networks(parameters)}


class Full:
    """The published sizes, seeded one by one as they are asked for: the large two take seconds."""

    def __init__(self, parameters):
        self.made = {name: (stage, network) for name, stage, network in networks(parameters)}
        self.made["motion_extractor"] = ("motion", motion.MotionExtractor(motion.MotionSizes()))
        self._seeded = {}

    def __getitem__(self, name):
        if name not in self._seeded:
            self._seeded[name] = seed(*self.made[name])
        return self._seeded[name]


@pytest.fixture(scope="module")
def full(liveportrait_goldens):
    return Full(liveportrait_goldens.json("configs.json")["full"])


def state_of(network):
    return [(k, tuple(v.shape), str(v.dtype).removeprefix("torch.")) for k, v in network.state_dict().items()]


def picture(n, height, width, random_seed):
    g = torch.Generator().manual_seed(random_seed)
    coarse, fine = torch.rand(n, 3, 8, 8, generator=g), torch.rand(n, 3, height, width, generator=g)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear", align_corners=False)
    return 0.8 * smooth + 0.2 * fine


def run(network, *inputs):
    with torch.inference_mode():
        return network(*(torch.as_tensor(x) for x in inputs))


def test_state_keys_are_those_of_the_published_checkpoints(liveportrait_goldens, full, micro):
    for name, (_, network) in full.made.items():
        assert state_of(network) == liveportrait_goldens.keys(name), name
    for name, network in micro.items():
        assert state_of(network) == liveportrait_goldens.keys(f"micro_{name}"), name
    for part in retargeting.INPUTS:
        assert state_of(retargeting.Retargeting(part)) == liveportrait_goldens.keys(f"retarget_{part}")


SMALL = ("appearance_feature_extractor", "motion_extractor", "stitching")


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.long)])
def test_seeded_weights_are_the_goldens_weights(liveportrait_goldens, full, large):
    stored = liveportrait_goldens.load("00_fill_check.npz")
    stitching = seed("", retargeting.Retargeting("stitching"))
    states = {}
    for key in stored.files:
        name, entry, what = key.split("|")
        if (name not in SMALL) != large:
            continue
        network = stitching if name == "stitching" else full[name]
        states[name] = states.get(name) or network.state_dict()
        if what == "sigma":
            found = network.get_submodule(entry).sigma().detach()
        elif what == "first8":
            found = states[name][entry].flatten()[:8]
        else:
            found = torch.stack([states[name][entry].double().mean(), states[name][entry].double().std()])
        assert np.allclose(found.numpy(), stored[key], rtol=1e-5, atol=1e-6), key


def test_appearance_micro_at_every_step(liveportrait_goldens, micro):
    stored = liveportrait_goldens.load("02_F_micro.npz")
    network = micro["appearance_feature_extractor"]
    seen = {}
    hooks = [
        network.get_submodule(path).register_forward_hook(lambda _m, _i, out, path=path: seen.__setitem__(path, out))
        for path in ("first", "down_blocks.0", "down_blocks.1", "second", "resblocks_3d.3dr0")
    ]
    seen["out"] = run(network, stored["input"])
    for hook in hooks:
        hook.remove()
    for path, out in seen.items():
        name = path if path == "out" else "mid_" + path.replace(".", "_")
        assert liveportrait_goldens.error(stored, name, out) <= 1e-5, path


def test_appearance_full(liveportrait_goldens, full):
    stored = liveportrait_goldens.load("01_F_full.npz")
    image = picture(1, 256, 256, int(stored["seed"]))
    assert np.allclose(image.flatten()[:16], stored["input_check"])
    out = run(full["appearance_feature_extractor"], image)
    assert liveportrait_goldens.error(stored, "out", out) <= 5e-5


def test_motion_extractor_full_and_its_keypoints(liveportrait_goldens, full):
    stored = liveportrait_goldens.load("03_M.npz")
    network = full["motion_extractor"]
    for prefix, image in (
        ("out", picture(1, 256, 256, int(stored["seed"]))),
        ("small_out", torch.as_tensor(stored["small_input"])),
    ):
        heads = run(network, image)
        for head, value in heads.items():
            assert liveportrait_goldens.error(stored, f"{prefix}_{head}", value) <= 3e-5, (prefix, head)
        if prefix == "out":
            info = motion_info(heads)
            for angle in ("pitch", "yaw", "roll"):
                assert liveportrait_goldens.error(stored, f"info_{angle}", getattr(info, f"{angle}_deg")) <= 2e-4
            for name in ("exp", "kp", "t", "scale"):
                assert liveportrait_goldens.error(stored, f"info_{name}", getattr(info, name)) <= 3e-5
            assert liveportrait_goldens.error(stored, "x_s", info.keypoints()) <= 3e-5
            assert liveportrait_goldens.error(stored, "R", info.rotation) <= 3e-5


def test_warping_micro_at_every_step(liveportrait_goldens, micro):
    stored = liveportrait_goldens.load("04_dense_motion_W_micro.npz")
    inputs = (stored["feature"], stored["kp_driving"], stored["kp_source"])
    network = micro["warping_module"]
    steps = run(network.dense_motion_network.steps, *inputs)
    for name, value in steps.items():
        assert liveportrait_goldens.error(stored, name, value) <= 5e-5, name
    out = run(network, *inputs)
    assert liveportrait_goldens.error(stored, "out", out["out"]) <= 5e-5


def test_generator_micro_with_both_upscales(liveportrait_goldens, micro):
    stored = liveportrait_goldens.load("06_G_micro.npz")
    for upscale, name in ((2, "spade_generator"), (1, "spade_generator_up1")):
        out = run(micro[name], stored["feature"])
        assert liveportrait_goldens.error(stored, f"out_up{upscale}", out) <= 1e-5


def test_folded_spectral_norm_changes_nothing(liveportrait_goldens, micro):
    feature = liveportrait_goldens.load("06_G_micro.npz")["feature"]
    parameters = liveportrait_goldens.json("configs.json")["micro"]["spade_generator_params"]
    folded = seed("generator", generator.SpadeGenerator(generator.GeneratorSizes(**parameters))).fold()
    assert torch.equal(run(folded, feature), run(micro["spade_generator"], feature))


def test_end_to_end_micro_and_at_rest(liveportrait_goldens, micro):
    stored = liveportrait_goldens.load("08_e2e_micro.npz")
    volume = run(micro["appearance_feature_extractor"], stored["image"])
    warped = run(micro["warping_module"], volume, stored["kp_driving"], stored["kp_source"])
    out = run(micro["spade_generator"], warped["out"])
    assert liveportrait_goldens.error(stored, "out", out) <= 5e-5
    pixels = (out.permute(0, 2, 3, 1) * 255).to(torch.uint8)
    assert liveportrait_goldens.error(stored, "out_u8", pixels) <= 1
    still = run(micro["warping_module"], volume, stored["kp_source"], stored["kp_source"])
    assert liveportrait_goldens.error(stored, "identity_deformation", still["deformation"]) <= 5e-5
    assert liveportrait_goldens.error(stored, "identity_out", run(micro["spade_generator"], still["out"])) <= 5e-5


def test_a_plausible_mistake_is_far_outside_the_tolerance(liveportrait_goldens, micro):
    """Swapped keypoints still give a picture: the numbers say that it is the wrong one."""
    stored = liveportrait_goldens.load("08_e2e_micro.npz")
    volume = run(micro["appearance_feature_extractor"], stored["image"])
    swapped = run(micro["warping_module"], volume, stored["kp_source"], stored["kp_driving"])
    out = run(micro["spade_generator"], swapped["out"])
    assert liveportrait_goldens.error(stored, "out", out) > 1e-2


@pytest.mark.long
def test_warping_full(liveportrait_goldens, full):
    stored = liveportrait_goldens.load("05_W_full.npz")
    g = torch.Generator().manual_seed(int(stored["seed"]))
    feature = torch.randn(1, 32, 16, 64, 64, generator=g)
    assert np.allclose(feature.flatten()[:16], stored["input_check"])
    out = run(full["warping_module"], feature, stored["kp_driving"], stored["kp_source"])
    for name in ("out", "occlusion_map", "deformation"):
        assert liveportrait_goldens.error(stored, name, out[name]) <= 2e-4, name


@pytest.mark.long
def test_generator_full(liveportrait_goldens, full):
    stored = liveportrait_goldens.load("07_G_full.npz")
    g = torch.Generator().manual_seed(int(stored["seed"]))
    feature = float(stored["gain"]) * torch.randn(1, 256, 64, 64, generator=g)
    assert np.allclose(feature.flatten()[:16], stored["input_check"])
    out = run(full["spade_generator"], feature)
    assert liveportrait_goldens.error(stored, "out_512", out) <= 1e-4
    assert liveportrait_goldens.error(stored, "out_512_tile", out[:, :, 200:248, 300:348]) <= 1e-4
