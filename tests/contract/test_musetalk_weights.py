"""MuseTalk's checkpoints: what differs is told name by name, nothing of theirs runs."""

from __future__ import annotations

import json
import math
import pickle  # noqa: TID251 - to make a hostile file

import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")

from safetensors.torch import save_file  # noqa: E402

from engines import catalog  # noqa: E402
from engines.errors import EngineContract, EngineUnavailable  # noqa: E402
from engines.models import manifest  # noqa: E402
from engines.musetalk import weights  # noqa: E402
from engines.musetalk.opening import SEEDED_REVISION  # noqa: E402
from engines.musetalk.stages import FULL, networks  # noqa: E402
from engines.musetalk.tiny import PREFIX, TinyDecoder  # noqa: E402
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


def file_bytes(shapes):
    """What a safetensors file of float32 tensors weighs: its names are part of it."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in sorted(shapes.items()):
        begins, at = at, at + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begins, at]}
    length = len(json.dumps(header, separators=(",", ":")))
    return 8 + -(-length // 8) * 8 + at


def shapes_of(network, prefix=""):
    return {prefix + name: tuple(value.shape) for name, value in network.state_dict().items()}


def former(name):
    for new, old in (("to_q", "query"), ("to_k", "key"), ("to_v", "value"), ("to_out.0", "proj_attn")):
        name = name.replace(f".{new}.", f".{old}.") if "attentions" in name else name
    return name


def pinned_bytes(models, to):
    return next(file.size_bytes for file in manifest.load(models).files if file.to == to)


def test_the_published_autoencoder_has_the_names_that_are_expected():
    published = pinned_bytes("musetalk", weights.VAE_FILE)
    present = shapes_of(networks(FULL, real=()).vae)
    assert file_bytes({former(name): shape for name, shape in present.items()}) == published
    assert file_bytes(present) != published, "the file's attention has the names of its time; weights are renamed"


def test_the_published_small_decoder_has_the_names_that_are_expected():
    encoder, place = {}, 0
    for level, blocks in enumerate((1, 3, 3, 3)):
        encoder[f"layers.{place}.weight"] = (64, 3 if level == 0 else 64, 3, 3)
        if level == 0:
            encoder[f"layers.{place}.bias"] = (64,)
        for block in range(place + 1, place + 1 + blocks):
            for conv in (0, 2, 4):
                encoder |= {f"layers.{block}.conv.{conv}.weight": (64, 64, 3, 3)}
                encoder |= {f"layers.{block}.conv.{conv}.bias": (64,)}
        place += 1 + blocks
    encoder |= {f"layers.{place}.weight": (4, 64, 3, 3), f"layers.{place}.bias": (4,)}
    whole = shapes_of(TinyDecoder(), PREFIX) | {f"encoder.{name}": shape for name, shape in encoder.items()}
    assert file_bytes(whole) == manifest.load("taesd").files[0].size_bytes


def test_the_encoder_is_found_in_the_published_sound_model(tmp_path):
    encoder = weights.seed(WhisperEncoder(WhisperSizes()), "encoder.")
    published = {f"model.encoder.{name}": value for name, value in encoder.state_dict().items()}
    published["model.decoder.layer_norm.weight"] = torch.ones(384)
    path = tmp_path / weights.WHISPER_FILE
    path.parent.mkdir()
    save_file(published, path)
    made = weights.load(tmp_path, {"whisper"})
    assert torch.equal(made.whisper.conv1.weight, encoder.conv1.weight)
    assert next(made.unet.parameters()).is_meta, "what is not asked for is neither looked for nor loaded"


def test_a_file_of_the_oldest_kind_saved_on_a_gpu_is_read(state, tmp_path):
    """As the published face parser is: one stream of pickles, tensors of CUDA."""
    path = tmp_path / "79999_iter.pth"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    before = path.read_bytes()
    path.write_bytes(
        before.replace(b"ctorch\nFloatStorage\n", b"ctorch.cuda\nFloatStorage\n")
        .replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    )  # fmt: skip
    assert path.stat().st_size > len(before)
    found = weights.read(path)
    assert found.keys() == state.keys()
    assert torch.equal(found["conv1.weight"], state["conv1.weight"])
    assert found["conv1.weight"].device.type == "cpu"


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
