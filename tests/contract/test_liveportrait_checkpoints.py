"""JoyVASA's published files: a checkpoint of model and arguments, a pickle of statistics; nothing in them runs."""

from __future__ import annotations

import argparse
import copy
import json
import pickle  # noqa: TID251 - the tests make the files that must be read without it

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="JoyVASA needs the [liveportrait] extra")
pytest.importorskip("transformers", reason="JoyVASA needs the [liveportrait] extra")

from engines.errors import EngineContract, EngineUnavailable  # noqa: E402
from engines.graphs.running import Runner  # noqa: E402
from engines.liveportrait import exporting  # noqa: E402
from engines.liveportrait.joyvasa import checkpoint, template_file  # noqa: E402
from engines.liveportrait.joyvasa.denoiser import DenoiserSizes  # noqa: E402
from engines.liveportrait.joyvasa.motion_generator import Context, Guidance  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def talker():
    return checkpoint.seeded()


def statistics(dtype=np.float32):
    rng = np.random.default_rng(3)
    values = {"mean_exp": rng.normal(size=63), "std_exp": rng.uniform(1, 2, 63)}
    for name, size in (("scale", 1), ("t", 3), ("pitch", 1), ("yaw", 1), ("roll", 1)):
        values |= {f"min_{name}": -rng.uniform(1, 2, size), f"max_{name}": rng.uniform(1, 2, size)}
    return {k: v.astype(dtype) for k, v in values.items()}


def save(folder, talker, arguments, spoil=None):
    state = dict(talker.generator.state_dict())
    state |= {f"audio_encoder.{k}": v for k, v in talker.encoder.hubert.state_dict().items()}
    state["denoising_net.TE.pe"] = torch.zeros(1, 51, 64)  # of another length, as older checkpoints have it
    if spoil:
        spoil(state)
    for name in (checkpoint.GENERATOR_FILE, checkpoint.TEMPLATE_FILE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": state, "args": arguments}, folder / checkpoint.GENERATOR_FILE)
    (folder / checkpoint.TEMPLATE_FILE).write_bytes(pickle.dumps(statistics()))
    (folder / checkpoint.HUBERT_FOLDER).mkdir(exist_ok=True)
    (folder / checkpoint.HUBERT_FOLDER / "config.json").write_text(json.dumps(checkpoint.REDUCED_HUBERT))


ARGUMENTS = argparse.Namespace(n_motions=20, n_prev_motions=5, feature_dim=64, n_diff_steps=50, lr=1e-4)


def full_depth():
    """The published number of layers, which the checkpoint's arguments do not carry."""
    return checkpoint.seeded(DenoiserSizes(n_motions=20, n_prev_motions=5, feature_dim=64))


def test_a_published_checkpoint_loads_with_its_own_sizes(tmp_path):
    made = full_depth()
    save(tmp_path, made, ARGUMENTS)
    found = checkpoint.load(tmp_path)
    assert found.generator.sizes == made.generator.sizes
    for name, value in found.generator.state_dict().items():
        assert torch.equal(value, made.generator.state_dict()[name]), name
    for name, value in found.encoder.hubert.state_dict().items():
        assert torch.equal(value, made.encoder.hubert.state_dict()[name]), name
    assert np.allclose(found.template.mean_exp, statistics()["mean_exp"])


def test_older_names_of_the_encoders_weight_norm_load(talker):
    state = {}
    for name, value in talker.encoder.hubert.state_dict().items():
        state[name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v")] = value  # fmt: skip
    assert any(name.endswith("weight_g") for name in state)
    copy.deepcopy(talker.encoder).load(state)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(argparse.Namespace(n_motions="100"), "n_motions"), (argparse.Namespace(), "n_motions"), ([1], "model and args")],
)
def test_arguments_that_say_no_sizes_are_refused(tmp_path, arguments, says):
    save(tmp_path, checkpoint.seeded(), arguments)
    with pytest.raises(EngineContract, match=says):
        checkpoint.load(tmp_path)


def test_a_checkpoint_with_a_missing_layer_is_refused(tmp_path):
    save(tmp_path, full_depth(), ARGUMENTS, lambda s: s.pop("denoising_net.motion_dec.2.bias"))
    with pytest.raises(EngineContract, match=r"motion_dec\.2\.bias"):
        checkpoint.load(tmp_path)


def test_missing_files_say_how_to_get_them(tmp_path):
    with pytest.raises(EngineUnavailable, match="models pull joyvasa"):
        checkpoint.load(tmp_path)
    with pytest.raises(EngineUnavailable, match="models pull joyvasa"):
        template_file.read_template(tmp_path / "none.pkl")


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistics_of_every_protocol_are_read(tmp_path, protocol, dtype):
    values = statistics(dtype)
    (tmp_path / "t.pkl").write_bytes(pickle.dumps(values, protocol))
    found = template_file.read_template(tmp_path / "t.pkl")
    for name, value in values.items():
        assert np.allclose(getattr(found, name).numpy(), value), name


class Trap:
    def __reduce__(self):
        return (print, ("the pickle ran code",))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(statistics() | {"more": Trap()}),
        pickle.dumps(statistics() | {"mean_exp": np.array(["a", "b"], object)}),
        pickle.dumps({k: v for k, v in statistics().items() if k != "min_yaw"}),
        pickle.dumps(statistics() | {"mean_exp": np.full(63, np.nan, np.float32)}),
        pickle.dumps([1, 2]),
        pickle.dumps(statistics())[:200],
        b"no pickle",
    ],
)
def test_statistics_that_are_none_are_refused_and_run_nothing(tmp_path, capsys, content):
    (tmp_path / "t.pkl").write_bytes(content)
    with pytest.raises(EngineContract):
        template_file.read_template(tmp_path / "t.pkl")
    assert capsys.readouterr().out == ""


class InGraph(torch.nn.Module):
    """A denoiser that runs as an exported graph."""

    def __init__(self, graph):
        super().__init__()
        self._run = Runner(graph)

    def forward(self, *tensors):
        names = ("motion", "audio", "prev_motion", "prev_audio", "step")
        rows = []
        for i in range(len(tensors[0])):
            inputs = {n: t[i : i + 1].numpy() for n, t in zip(names, tensors, strict=True)}
            rows.append(torch.from_numpy(self._run(inputs)["clean"]))
        return torch.cat(rows)


def trajectory(generator, dtype, audio, noises):
    heard = []
    start = generator.start()
    context = Context(start.motion.to(dtype).contiguous(), start.audio.to(dtype).contiguous())
    rows = iter(noises[1:])
    with torch.inference_mode():
        generator.sample(
            audio.to(dtype), context, noises[0].to(dtype), lambda _: next(rows).to(dtype), Guidance(),
            lambda t, motion: heard.append(motion.double()),
        )  # fmt: skip
    return heard


def graph_keeps_to_the_floor(tmp_path, talker):
    """The exported denoiser is as near to float64 as torch's float32 is, after one step and after 50."""
    graph = exporting.export(exporting.talker_exportables(talker)["denoiser"], tmp_path / "denoiser.onnx")
    assert graph.opset == 18
    sizes, g = talker.generator.sizes, torch.Generator().manual_seed(3)
    audio = torch.randn(1, sizes.n_motions, sizes.feature_dim, generator=g)
    noises = [torch.randn(1, sizes.n_motions, 70, generator=g) for _ in range(50)]
    truth = trajectory(copy.deepcopy(talker.generator).double(), torch.float64, audio, noises)
    plain = trajectory(talker.generator, torch.float32, audio, noises)
    in_graph = copy.deepcopy(talker.generator)
    in_graph.denoising_net = InGraph(graph)
    found = trajectory(in_graph, torch.float32, audio, noises)
    assert len(found) == 50
    for step in (0, 49):
        floor = float((plain[step] - truth[step]).abs().max())
        assert float((found[step] - truth[step]).abs().max()) <= 1.5 * floor, step


@pytest.mark.long
def test_exported_denoiser_keeps_to_the_floor(tmp_path, talker):
    graph_keeps_to_the_floor(tmp_path, talker)


@pytest.mark.long
def test_exported_denoiser_of_published_size_keeps_to_the_floor(tmp_path):
    graph_keeps_to_the_floor(tmp_path, checkpoint.seeded(DenoiserSizes()))


def hubert_keeps_to_the_floor(tmp_path, talker):
    what = exporting.talker_exportables(talker)["hubert"]
    graph = exporting.export(what, tmp_path / "hubert.onnx")
    assert graph.opset == 18
    (audio,) = what.inputs(torch.Generator().manual_seed(9))
    with torch.inference_mode():
        plain = what.network(audio).double()
        truth = copy.deepcopy(what.network).double()(audio.double())
    found = torch.from_numpy(Runner(graph)({"audio": audio.numpy()})["hidden"]).double()
    assert float((found - truth).abs().max()) <= 1.5 * float((plain - truth).abs().max())


@pytest.mark.long
def test_exported_hubert_keeps_to_the_floor(tmp_path, talker):
    hubert_keeps_to_the_floor(tmp_path, talker)


@pytest.mark.long
def test_exported_hubert_of_published_size_keeps_to_the_floor(tmp_path):
    hubert_keeps_to_the_floor(tmp_path, checkpoint.seeded(DenoiserSizes(), hubert={"hidden_size": 768}))
