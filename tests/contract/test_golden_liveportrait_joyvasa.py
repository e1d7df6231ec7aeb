"""JoyVASA's schedule, sound features, denoiser, sampler, windows and coefficients give the official numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="JoyVASA needs the [liveportrait] extra")

from engines.liveportrait.joyvasa import audio as sound  # noqa: E402
from engines.liveportrait.joyvasa import coefficients, denoiser, motion_generator, schedule, sequence  # noqa: E402
from engines.liveportrait.joyvasa.speech_encoder import SpeechEncoder  # noqa: E402
from engines.liveportrait.seeded import seed  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)
CASES = {"fd256": "joyvasa_motion_generator_fd256", "fd512": "joyvasa_motion_generator_fd512"}
CASES["micro"] = "micro_joyvasa_motion_generator"


def sizes_of(goldens, case):
    wanted = goldens.json(f"keys_{CASES[case]}.json")["ctor"]
    names = ("n_motions", "n_prev_motions", "feature_dim", "motion_feat_dim")
    return denoiser.DenoiserSizes(**{k: wanted[k] for k in names})


@pytest.fixture(scope="module")
def made(liveportrait_goldens):
    """A generator with 50 steps for each size."""
    sizes = {case: sizes_of(liveportrait_goldens, case) for case in CASES}
    return {case: seed("joyvasa", motion_generator.MotionGenerator(sizes[case])) for case in CASES}


def draw(random_seed, *shapes):
    g = torch.Generator().manual_seed(int(random_seed))
    return [torch.randn(shape, generator=g) for shape in shapes]


def five_steps(full):
    """The same weights with a schedule of five steps."""
    short = motion_generator.MotionGenerator(full.sizes, 5)
    state = {k: v for k, v in full.state_dict().items() if not k.startswith("diffusion_sched.")}
    short.load_state_dict(state, strict=False)
    return short.eval()


def test_state_keys_are_those_of_the_published_checkpoint(liveportrait_goldens, made):
    for case, network in made.items():
        found = [(k, tuple(v.shape), str(v.dtype).removeprefix("torch.")) for k, v in network.state_dict().items()]
        assert found == liveportrait_goldens.keys(CASES[case])


def test_seeded_weights_are_the_goldens_weights(liveportrait_goldens, made):
    stored = liveportrait_goldens.load("20_joyvasa_fill_check.npz")
    state = made["fd256"].state_dict()
    for key in stored.files:
        entry, what = key.split("|")
        value = state[entry].double().flatten()
        found = value[:8] if what == "first8" else torch.stack([value.mean(), value.std()])
        assert np.allclose(found.numpy(), stored[key], rtol=1e-5, atol=1e-5), key


def test_schedules_of_every_kind_and_length(liveportrait_goldens):
    stored = liveportrait_goldens.load("20_joyvasa_schedule.npz")
    tolerances = {"betas": 2e-5, "alphas": 2e-5, "alpha_bars": 2e-6, "sigmas_flex": 5e-5, "sigmas_inflex": 5e-5}
    for key in stored.files:
        kind = next((k for k in ("cosine", "linear", "quadratic", "sigmoid") if key.startswith(k)), None)
        if kind is None:
            continue
        steps, array = key.removeprefix(kind).split("_", 1)
        found = getattr(schedule.DiffusionSchedule(int(steps), kind), array)
        assert liveportrait_goldens.error(stored, key, found) <= tolerances[array], key
    fifty = schedule.DiffusionSchedule(50)
    between = torch.stack([fifty.sigma(t, 0.5) for t in range(1, 51)])
    assert liveportrait_goldens.error(stored, "sigma_flex_0.5_t1_50", between) <= 5e-5
    assert liveportrait_goldens.error(stored, "pe_256", denoiser.PositionTable(256, 600).pe) <= 5e-5
    assert np.array_equal(denoiser.alignment_mask(6).numpy(), stored["align_mask_1_6x6"])
    assert np.array_equal(denoiser.alignment_mask(6, 1).numpy(), stored["align_mask_exp1_6x6"])


def test_padding_and_interpolation_of_sound(liveportrait_goldens):
    stored = liveportrait_goldens.load("21_joyvasa_audio.npz")
    for key in stored.files:
        if key.startswith("pad_") and key.endswith("_len"):
            case = key.removesuffix("_len")
            samples = int(case.split("_")[1])
            head, tail = stored[f"{case}_in_first64"], stored[f"{case}_in_last64"]
            given = torch.zeros(1, samples)
            given[0, :64], given[0, -64:] = torch.as_tensor(head), torch.as_tensor(tail)
            found = sound.padded(given)[0].numpy()
            assert len(found) == int(stored[key])
            known = 64 + (len(found) - samples) // 2
            reach = min(known, 120)
            assert np.array_equal(found[:reach], stored[f"{case}_first120"][:reach])
            assert np.array_equal(found[-reach:], stored[f"{case}_last120"][-reach:])
        elif key.startswith("interp_") and key.endswith("_in"):
            out = key.removesuffix("_in") + "_out"
            found = sound.resampled(torch.as_tensor(stored[key]), stored[out].shape[-1])
            assert liveportrait_goldens.error(stored, out, found) <= 1e-4, key


def stub_encoder(audio, steps):
    """The goldens' stand-in for HuBERT: hidden states that depend on every 20 ms of sound."""
    frames = audio.unfold(1, 400, 320)[:, :steps]
    mean, rms = frames.mean(-1), frames.square().mean(-1).sqrt()
    c, i = torch.arange(768), torch.arange(frames.shape[1])
    wave = torch.sin(0.01 * (c + 1) + 0.05 * i[:, None])
    hidden = 8 * mean[..., None] * wave + 4 * rms[..., None] * torch.cos(0.02 * (c + 1))
    return sound.resampled(hidden.transpose(1, 2), steps).transpose(1, 2)


def test_audio_features(liveportrait_goldens, made):
    stored = liveportrait_goldens.load("21_joyvasa_audio.npz")
    with torch.inference_mode():
        for case, network in (("full", "fd256"), ("micro", "micro")):
            frames = made[network].sizes.n_motions
            (hidden,) = draw(stored[f"ext_{case}_hidden_seed"], (1, 2 * frames, 768))
            assert np.allclose(hidden.flatten()[:16], stored[f"ext_{case}_hidden_check"])
            found = sound.mapped(made[network].audio_feature_map, hidden, frames)
            assert liveportrait_goldens.error(stored, f"ext_{case}_from_hidden", found) <= 2e-5
        audio = torch.as_tensor(stored["ext_micro_audio"])
        found = sound.audio_features(made["micro"], stub_encoder, audio, 20)
    assert liveportrait_goldens.error(stored, "ext_micro_out", found) <= 2e-5


def test_denoiser_at_every_size(liveportrait_goldens, made):
    stored = liveportrait_goldens.load("22_joyvasa_denoiser.npz")
    for case, network in made.items():
        s = network.sizes
        shapes = [(1, s.n_motions, 70), (1, s.n_motions, s.feature_dim)]
        shapes += [(1, s.n_prev_motions, 70), (1, s.n_prev_motions, s.feature_dim)]
        x, audio, motion, heard = draw(stored[f"{case}_seed"], *shapes)
        heads = torch.cat([t.flatten()[:4] for t in (x, audio, motion, heard)])
        assert np.allclose(heads, stored[f"{case}_check"])
        with torch.inference_mode():
            both = torch.cat([network.null_audio_feat.expand_as(audio), audio])
            twice = [t.repeat(2, 1, 1) for t in (x, motion, heard)]
            out = network.denoising_net(twice[0], both, twice[1], twice[2], torch.as_tensor(stored["t"]))
            assert liveportrait_goldens.error(stored, f"{case}_out_t37", out) <= 2e-5, case
            start = network.start(2)
            out = network.denoising_net(twice[0], both, start.motion, start.audio, torch.as_tensor(stored["t2"]))
            assert liveportrait_goldens.error(stored, f"{case}_out_t1_t50_start_feats", out) <= 2e-5, case


def guidance_of(arguments):
    scale = None if arguments.get("cfg_cond") == [] else arguments.get("cfg_scale", 1.15)
    threshold = arguments.get("dynamic_threshold")
    return motion_generator.Guidance(
        scale, arguments.get("flexibility", 0.0), tuple(threshold) if threshold is not None else None
    )


def replayed(noise):
    """The golden's own noise, in the order in which the sampler asks."""
    rows = iter(torch.as_tensor(noise))
    return lambda shape: next(rows).reshape(shape)


def test_sampler_at_every_step(liveportrait_goldens, made):
    stored = liveportrait_goldens.load("23_joyvasa_sampling5.npz")
    for case in [key.removesuffix("_args") for key in stored.files if key.endswith("_args")]:
        network = five_steps(made[case.split("_")[0]])
        s, batch = network.sizes, int(stored[f"{case}_batch"])
        shapes = [(batch, s.n_motions, s.feature_dim), (batch, s.n_prev_motions, 70)]
        shapes += [(batch, s.n_prev_motions, s.feature_dim)]
        audio, motion, heard = draw(stored[f"{case}_seed_inputs"], *shapes)
        context = network.start(batch)
        if f"{case}_prev_motion" in stored.files:
            context = motion_generator.Context(motion, heard)
        noise = stored[f"{case}_noise"]
        errors = {}

        def watch(t, x, errors=errors, case=case):
            errors[t] = liveportrait_goldens.error(stored, f"{case}_x{t}", x)

        with torch.inference_mode():
            network.sample(
                audio, context, torch.as_tensor(noise[0]), replayed(noise[1:]),
                guidance_of(json.loads(str(stored[f"{case}_args"]))), watch,
            )  # fmt: skip
        assert sorted(errors) == [0, 1, 2, 3, 4]
        assert max(errors.values()) <= 2e-4, case


def test_windows_coefficients_and_smoothing(liveportrait_goldens, made):
    stored = liveportrait_goldens.load("24_joyvasa_sequence.npz")
    network = five_steps(made["micro"])
    template = coefficients.MotionTemplate.of(
        {k.removeprefix("tmpl_"): stored[k] for k in stored.files if k.startswith("tmpl_")}
    )
    published = sequence.SequenceSettings(keep_lead=True)
    maker = sequence.SequenceGenerator(network, stub_encoder, published)
    for case in [key.removesuffix("_audio") for key in stored.files if key.endswith("_audio")]:
        audio = torch.as_tensor(stored[f"{case}_audio"])
        assert maker.frames_of(len(audio)) == int(stored[f"{case}_n_frames"])
        assert maker.windows_of(len(audio)) == int(stored[f"{case}_n_windows"])
        windows = []
        found = maker.coefficients(audio, replayed(stored[f"{case}_noise"]), windows.append)
        for window in windows:
            prefix = f"{case}_w{window.index}"
            assert liveportrait_goldens.error(stored, f"{prefix}_motion", window.motion) <= 1e-4
            assert liveportrait_goldens.error(stored, f"{prefix}_audio_feat", window.audio) <= 1e-4
        raw = coefficients.motion_of(found, template, torch.zeros(1, 21, 3))
        for kind, motion in (("raw", raw), ("ema", coefficients.smoothed(raw, 0.01))):
            parts = {"exp": motion.exp, "scale": motion.scale, "t": motion.t, "R": motion.rotation}
            for name, value in parts.items():
                assert liveportrait_goldens.error(stored, f"{case}_{kind}_{name}", value[:, None]) <= 1e-4, (case, name)
            for angle in ("pitch", "yaw", "roll"):
                value = getattr(motion, f"{angle}_deg")[:, None]
                assert liveportrait_goldens.error(stored, f"{case}_{kind}_{angle}", value) <= 2e-4, (case, angle)


def test_own_windows_start_with_the_sound_and_lose_nothing(made):
    """Not as published: no 80 ms of lead, no lost partial frame, the same for every number of samples."""
    network = five_steps(made["micro"])
    published = sequence.SequenceGenerator(network, stub_encoder, sequence.SequenceSettings(keep_lead=True))
    own = sequence.SequenceGenerator(network, stub_encoder, sequence.SequenceSettings())
    audio = 0.3 * draw(5, (11180,))[0]
    late = published.coefficients(audio, sequence.seeded_noise(1))
    found = own.coefficients(audio, sequence.seeded_noise(1))
    assert len(found) == 18 == own.frames_of(11180)
    assert torch.allclose(found[:16], late[2:18], atol=1e-4)
    assert torch.equal(found, own.coefficients(audio, sequence.seeded_noise(1)))


def test_hubert_with_the_interpolation_in_its_middle(liveportrait_goldens):
    stored = liveportrait_goldens.load("26_hubert_micro.npz")
    encoder = SpeechEncoder(liveportrait_goldens.json("keys_micro_hubert.json")["config"]).eval()
    state = encoder.hubert.state_dict()
    found = [(k, tuple(v.shape), str(v.dtype).removeprefix("torch.")) for k, v in state.items()]
    assert found == liveportrait_goldens.keys("micro_hubert")
    seed("", encoder.hubert)
    short, long = draw(stored["n20_audio_seed_draw"], (1, 12800), (1, 64000))
    for case, audio, frames in (("n20", 0.3 * short, 20), ("n100", 0.3 * long, 100)):
        padded = sound.padded(audio)
        assert padded.shape[1] == int(stored[f"{case}_padded_len"])
        with torch.inference_mode():
            features = encoder.convolved(padded)
            hidden = encoder.contextual(features, 2 * frames)
        at_25_fps = sound.resampled(hidden.transpose(1, 2), frames).transpose(1, 2)
        assert liveportrait_goldens.error(stored, f"{case}_conv", features) <= 5e-5
        assert liveportrait_goldens.error(stored, f"{case}_hidden_2x", hidden) <= 5e-5
        assert liveportrait_goldens.error(stored, f"{case}_hidden_25fps", at_25_fps) <= 5e-5
