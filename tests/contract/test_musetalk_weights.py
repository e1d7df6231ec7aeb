"""MuseTalk's checkpoints: what differs is told name by name, nothing of theirs runs."""

from __future__ import annotations

import pickle  # noqa: TID251 - to make a hostile file

import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")

from safetensors.torch import save_file  # noqa: E402

from engines import catalog  # noqa: E402
from engines.errors import EngineContract, EngineUnavailable  # noqa: E402
from engines.models import manifest  # noqa: E402
from engines.musetalk import weights  # noqa: E402
from engines.musetalk.opening import SEEDED_REVISION  # noqa: E402
from engines.musetalk.whisper import WhisperEncoder, WhisperSizes  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)
SMALL = WhisperSizes(width=32, heads=2, layers=1)


@pytest.fixture(scope="module")
def state():
    return weights.seed(WhisperEncoder(SMALL)).state_dict()


def fresh():
    return WhisperEncoder(SMALL)


def test_every_published_file_is_pinned_by_size_and_digest():
    files = manifest.load("musetalk").files
    assert {file.to for file in files} >= {
        weights.UNET_FILE, weights.VAE_FILE, weights.WHISPER_FILE, weights.PARSER_FILE,
    }  # fmt: skip
    assert all(file.sha256 and file.size_bytes and file.licence for file in files)


def test_a_checkpoint_that_differs_is_told_name_by_name(state):
    other = {name: value for name, value in state.items() if name != "conv1.bias"}
    other["conv2.weight"] = other["conv2.weight"][:, :1]
    other["stranger"] = torch.zeros(2)
    with pytest.raises(EngineContract) as raised:
        weights.fill(fresh(), other, "whisper")
    said = str(raised.value)
    assert "conv1.bias is missing (32)" in said
    assert "stranger is unknown (2)" in said
    assert "conv2.weight is (32, 1, 3), not (32, 32, 3)" in said


def test_a_long_list_of_differences_is_cut_short(state):
    with pytest.raises(EngineContract, match=r"and \d+ more"):
        weights.fill(fresh(), {f"other.{name}": value for name, value in state.items()}, "whisper")


def test_weights_that_are_not_finite_are_refused(state):
    broken = {name: value.clone() for name, value in state.items()}
    broken["conv1.bias"][3] = float("nan")
    with pytest.raises(EngineContract, match=r"conv1\.bias.*finite"):
        weights.fill(fresh(), broken, "whisper")


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_file_is_read_without_copying_it(state, tmp_path, suffix):
    path = tmp_path / f"state{suffix}"
    save_file(dict(state), path) if suffix == ".safetensors" else torch.save(state, path)
    with torch.device("meta"):
        network = fresh()
    weights.fill(network, weights.read(path), path.name)
    assert torch.equal(network.conv1.weight, state["conv1.weight"])
    assert not any(parameter.requires_grad or parameter.is_meta for parameter in network.parameters())


class Trap:
    def __reduce__(self):
        return (print, ("a checkpoint ran code",))


@pytest.mark.parametrize("hostile", ["pickle", "torch", "text", "list"])
def test_hostile_files_run_nothing_and_are_refused(tmp_path, hostile, capsys):
    path = tmp_path / "unet.pth"
    if hostile == "pickle":
        path.write_bytes(pickle.dumps({"weight": Trap()}))
    elif hostile == "torch":
        torch.save({"weight": Trap()}, path)
    elif hostile == "list":
        torch.save([torch.zeros(1)], path)
    else:
        path.write_text("no weights at all")
    with pytest.raises(EngineContract):
        weights.read(path)
    assert "ran code" not in capsys.readouterr().out


def test_missing_weights_say_what_to_run(tmp_path):
    with pytest.raises(EngineUnavailable, match="models pull musetalk"):
        catalog.serving("musetalk", tmp_path)


def test_an_unknown_option_or_backend_is_named_with_the_known_ones(tmp_path):
    with pytest.raises(EngineUnavailable, match="short_audio"):
        catalog.serving("musetalk", tmp_path, {"sampler": "ddim"})
    rehearsal = {"seeded": True, "reduced": True, "device": "cpu"}
    with pytest.raises(EngineUnavailable, match="tensorrt-rtx"):
        catalog.serving("musetalk", tmp_path, {**rehearsal, "backend": "cudnn"})
    with pytest.raises(EngineUnavailable, match="engines export unet"):
        catalog.serving("musetalk", tmp_path, {**rehearsal, "backend": "onnx"})


def test_made_up_weights_are_never_taken_for_published_ones(tmp_path):
    made = catalog.serving("musetalk", tmp_path, {"seeded": True, "reduced": True, "device": "cpu", "buckets": (1,)})
    makers = catalog.makers(made)
    assert makers.latents.revision == SEEDED_REVISION
    assert makers.official_margin
    made.close()
