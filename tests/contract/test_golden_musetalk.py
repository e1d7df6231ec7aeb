"""MuseTalk's parts give the official code's numbers: sound windows, encoder states, latents, networks, face parser."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")

from engines.backends.made_up import made_up  # noqa: E402
from engines.logmel import log_mel  # noqa: E402
from engines.musetalk.latents import VaeLatents, prepared  # noqa: E402
from engines.musetalk.mel import LogMel  # noqa: E402
from engines.musetalk.parsing import BiSeNet, normalised  # noqa: E402
from engines.musetalk.stages import FULL, DecoderStage, networks  # noqa: E402
from engines.musetalk.unet import Unet, UnetSizes  # noqa: E402
from engines.musetalk.vae import SCALING, Vae, VaeSizes, renamed  # noqa: E402
from engines.musetalk.weights import difference, seed  # noqa: E402
from engines.musetalk.whisper import MEL_FRAMES, WhisperEncoder, WhisperSizes  # noqa: E402
from engines.musetalk.windows import WINDOW_SAMPLES, positions, recorded_tokens  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)
GOLDENS = Path(os.environ.get("LIVEANCHOR_GOLDENS", Path(__file__).parents[1] / "goldens")) / "musetalk"


def load(name):
    return dict(np.load(GOLDENS / name))


def keys(name):
    return {key: tuple(shape) for key, shape in json.loads(gzip.decompress((GOLDENS / name).read_bytes())).items()}


def config(name):
    return json.loads((GOLDENS / name).read_text())


def off(found, wanted):
    return float(np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max())


def shapes(network, prefix=""):
    return {prefix + name: tuple(value.shape) for name, value in network.state_dict().items()}


def test_made_up_weights_are_those_of_the_goldens():
    golden = load("00_fill_check.npz")
    names = [key.removesuffix("|shape") for key in golden if key.endswith("|shape")]
    assert len(names) >= 5
    for name in names:
        counter = name.endswith("num_batches_tracked")
        entry = torch.tensor(3) if counter else torch.ones(tuple(golden[f"{name}|shape"]))
        drawn = made_up(name, entry)
        value = (entry if drawn is None else drawn).double().flatten()
        first = golden[f"{name}|first16"]
        assert off(value[: len(first)], first) <= 1e-6, name
        assert abs(float(value.sum()) - float(golden[f"{name}|sum"])) <= 1e-5 * max(1.0, value.numel()), name


def counted_states(steps):
    t, layer, channel = np.ogrid[0:steps, 0:5, 0:384]
    return ((t * 5 + layer) * 384 + channel + 1).astype(np.float32)


def test_frames_take_the_official_steps_of_sound():
    golden = load("01_audio_windows.npz")
    checked = 0
    for case, (samples, fps) in enumerate(zip(golden["n_samples"], golden["fps"], strict=True)):
        if fps == 24:
            continue  # the official window is off centre there
        states = counted_states(-(-int(samples) // 480_000) * 1500)
        tokens = recorded_tokens(states, int(samples), int(fps))
        assert len(tokens) == golden["frames"][case]
        rows = np.where(tokens[:, :, 0] == 0, -1, ((tokens[:, :, 0] - 1) / 384).astype(np.int64))
        assert np.array_equal(rows, golden[f"rows_{case}"])
        if case == int(golden["full_case"]):
            assert np.array_equal(tokens[golden["full_frames"]], golden["full"])
        checked += 1
    assert checked >= 5


def test_positions_are_the_official_ones():
    golden = load("02_positional_encoding.npz")
    assert off(positions(), golden["pe"]) <= 1e-5
    assert off((golden["x"].astype(np.float32) + positions())[:, :, golden["y_cols"]], golden["y"]) <= 1e-5


def test_sound_gives_the_official_encoder_states():
    golden = load("03_whisper_path.npz")
    sound = golden["pcm"].astype(np.float32) / 32768.0
    mel = log_mel(sound, 480_000)
    head = golden["mel_head"]
    assert mel.shape == (80, MEL_FRAMES)
    assert off(mel[:, : head.shape[1]], head) <= 1e-4
    tail = mel[:, head.shape[1] :]
    assert off([tail.min(), tail.max()], golden["mel_tail_value"]) <= 1e-4
    encoder = seed(WhisperEncoder(WhisperSizes()), "encoder.")
    assert shapes(encoder, "encoder.") == keys("03_whisper_encoder_keys.json.gz")
    assert off(encoder.embed_positions.weight[golden["embed_positions_rows"]], golden["embed_positions"]) <= 1e-4
    with torch.inference_mode():
        states = encoder(torch.from_numpy(mel)[None])[0].numpy()
    assert off(states[golden["hidden_steps"]], golden["hidden"]) <= 1e-4
    assert off(np.abs(states).mean(axis=(0, 2)), golden["hidden_mean_abs"]) <= 1e-4
    tokens = recorded_tokens(states, len(sound))
    assert len(tokens) == int(golden["n_windows"])
    assert off(tokens[golden["win_frames"]][:, :, golden["win_cols"]], golden["win"]) <= 1e-4


def test_a_short_sound_made_long_where_the_network_runs_is_the_long_sound():
    window = np.random.default_rng(0).normal(size=WINDOW_SAMPLES).astype(np.float32)
    window[: WINDOW_SAMPLES // 2] *= 1e-3
    quiet = np.zeros_like(window)
    found = LogMel(MEL_FRAMES)(torch.from_numpy(np.stack([window, quiet]))).numpy()
    for sound, mel in zip((window, quiet), found, strict=True):
        assert off(mel, log_mel(sound, 480_000)) <= 1e-4
    short = LogMel(WINDOW_SAMPLES // 160)(torch.from_numpy(window[None]))[0].numpy()
    assert off(short, log_mel(window)) <= 1e-4


class PooledVae(torch.nn.Module):
    """The goldens' stand-in encoder: means of 8 x 8 blocks, and their mean."""

    def __init__(self):
        super().__init__()
        self.any = torch.nn.Parameter(torch.zeros(1))

    def mode(self, pictures):
        pooled = torch.nn.functional.avg_pool2d(pictures, 8)
        return torch.cat([pooled, pooled.mean(dim=1, keepdim=True)], dim=1)


def test_latents_are_prepared_as_officially():
    golden = load("04_latent_prep.npz")
    crop = np.ascontiguousarray(golden["image_bgr"][None, :, :, ::-1])
    masked, full = (part[0].numpy()[:, golden["rows"]][:, :, golden["cols"]] for part in prepared(crop))
    assert off(masked, golden["masked"]) <= 1e-6
    assert off(full, golden["full"]) <= 1e-6
    latents = VaeLatents(PooledVae(), "stub").encode(crop)
    assert latents.dtype == np.float16
    assert off(latents, golden["latents"]) <= 1e-3  # half precision


class EnlargingDecoder(torch.nn.Module):
    def middle(self, z):
        return z

    def picture(self, z):
        large = torch.nn.functional.interpolate(z, scale_factor=8, mode="nearest")
        return large[:, :3] + 0.1 * large[:, 3:]


def test_decoded_latents_become_the_official_pixels():
    golden = load("04b_decode.npz")
    vae = torch.nn.Module()
    vae.decoder, vae.post_quant_conv = EnlargingDecoder(), torch.nn.Identity()
    faces, level = DecoderStage(vae)(torch.from_numpy(golden["latents"]))
    apart = np.abs(faces.numpy()[..., ::-1].astype(int) - golden["frames_bgr"])
    assert apart.max() <= 1
    assert (apart > 0).mean() <= 0.001
    assert torch.isfinite(level).all()


def test_full_networks_have_the_published_names_and_no_other():
    made = networks(FULL, real=())
    unet = keys("09_unet_keys.json.gz")
    assert len(unet) == 686
    assert shapes(made.unet) == unet
    assert sum(parameter.numel() for parameter in made.unet.parameters()) == 849_947_844
    assert shapes(made.vae) == keys("09_vae_keys.json.gz")
    assert difference(made.unet.state_dict(), made.unet.state_dict()) == []


@pytest.fixture(scope="module")
def unet():
    sizes = UnetSizes(tuple(config("09_unet_reduced_config.json")["block_out_channels"]))
    return seed(Unet(sizes))


@pytest.fixture(scope="module")
def vae():
    return seed(Vae(VaeSizes(tuple(config("09_vae_reduced_config.json")["block_out_channels"]))))


def listened(network, names):
    """Outputs of sub-modules by name, the first hidden state where a block gives several."""
    found, hooks = {}, []
    for name in names:

        def keep(_, __, output, name=name):
            found[name] = output if isinstance(output, torch.Tensor) else output[-1]

        hooks.append(network.get_submodule(name).register_forward_hook(keep))
    return found, hooks


@torch.inference_mode()
def test_unet_gives_the_official_numbers_stage_by_stage(unet):
    golden = load("09_unet_reduced.npz")
    names = [key.split("|")[1] for key in golden if key.startswith("stage|") and key.endswith("|sample")]
    known = [name for name in names if name and name in dict(unet.named_modules()) and "time" not in name]
    found, hooks = listened(unet, known)
    out = unet(*(torch.from_numpy(golden[key].astype(np.float32)) for key in ("latents", "audio")))
    for hook in hooks:
        hook.remove()
    assert off(out, golden["out"]) <= 1e-4
    assert len(known) >= 8
    for name in known:
        flat = found[name].flatten(1)[:, :: int(golden[f"stage|{name}|stride"])]
        sample = golden[f"stage|{name}|sample"]
        assert off(flat[:, : sample.shape[1]], sample) <= 3e-4, name


@torch.inference_mode()
def test_a_folded_time_step_changes_nothing():
    golden = load("09_unet_reduced.npz")
    folded = seed(Unet(UnetSizes(tuple(config("09_unet_reduced_config.json")["block_out_channels"]))))
    folded.fold_time()
    assert not any("time" in name for name in folded.state_dict())
    out = folded(*(torch.from_numpy(golden[key].astype(np.float32)) for key in ("latents", "audio")))
    assert off(out, golden["out"]) <= 1e-4


@torch.inference_mode()
def test_vae_gives_the_official_latents_and_pictures(vae):
    golden = load("09_vae_reduced.npz")
    crop = np.ascontiguousarray(golden["image_bgr"][None, :, :, ::-1])
    halves = [vae.mode(part) * SCALING for part in prepared(crop)]
    assert off(torch.cat(halves, dim=1), golden["latents_mode"]) <= 1e-4
    latents = torch.from_numpy(golden["dec_latents"].astype(np.float32))
    grid = golden["dec_grid"]
    raw = vae.decode(latents / SCALING).numpy()
    assert off(raw[:, :, grid][:, :, :, grid], golden["dec_raw"]) <= 3e-4
    faces = DecoderStage(vae)(latents)[0].numpy()[:, ::2, ::2, ::-1]
    assert np.abs(faces.astype(int) - golden["dec_frames_bgr"]).max() <= 1


def shrunken(network, shrink):
    state = network.state_dict()
    for name, value in state.items():
        if value.dim() >= 2 or name.endswith("bias"):
            value.mul_(shrink)
    return network


def relative(found, wanted):
    return off(found, wanted) / float(np.abs(wanted).mean())


@torch.inference_mode()
def test_normalisation_keeps_the_official_epsilons():
    golden = load("09b_eps_probe.npz")
    shrink = float(golden["shrink"])
    unet = shrunken(seed(Unet(UnetSizes(tuple(config("09_unet_reduced_config.json")["block_out_channels"])))), shrink)
    out = unet(*(torch.from_numpy(golden[key].astype(np.float32)) for key in ("latents", "audio")))
    assert relative(out, golden["unet_out"]) <= 1e-4
    vae = shrunken(seed(Vae(VaeSizes(tuple(config("09_vae_reduced_config.json")["block_out_channels"])))), shrink)
    decoded = vae.decode(torch.from_numpy(golden["vae_dec_in"].astype(np.float32))).numpy()
    grid = golden["vae_dec_grid"]
    assert relative(decoded[:, :, grid][:, :, :, grid], golden["vae_dec"]) <= 1e-3
    encoded = vae.mode(torch.from_numpy(golden["vae_enc_in"].astype(np.float32)))
    assert relative(encoded, golden["vae_enc_mode"]) <= 3e-5


@torch.inference_mode()
def test_old_attention_names_of_the_published_autoencoder_are_understood(vae):
    state = vae.state_dict()
    back = {"to_q": "query", "to_k": "key", "to_v": "value"}
    old = {}
    for name, value in state.items():
        if "attentions" in name:
            name = name.replace("to_out.0", "proj_attn")
            for new, former in back.items():
                name = name.replace(f".{new}.", f".{former}.")
        old[name] = value
    assert set(old) != set(state)
    assert difference(state, renamed(old)) == []


@torch.inference_mode()
def test_face_parser_gives_the_official_classes():
    golden = load("08_bisenet.npz")
    network = seed(BiSeNet())
    assert shapes(network) == keys("08_bisenet_keys.json.gz")
    picture, grid = normalised(golden["image_rgb"]), golden["grid"]
    assert off(picture[0][:, grid][:, :, grid], golden["input_grid"]) <= 1e-5
    outputs = network(torch.from_numpy(picture))
    for name, found in zip(("out", "out16", "out32"), outputs, strict=True):
        assert off(found[0].numpy()[:, grid][:, :, grid], golden[name]) <= 1e-4
    sure = np.unpackbits(golden["argmax_margin_gt"])[: 512 * 512].reshape(512, 512).astype(bool)
    classes = outputs[0][0].argmax(dim=0).numpy()
    assert np.array_equal(classes[sure], golden["argmax"][sure])
