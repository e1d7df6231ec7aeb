"""The contract network: the 8-channel way on a CPU, the same numbers everywhere, foreign latents refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatars.bundled import bundled_portraits
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import latent_crop, precompile_portrait
from avatars.store import AvatarStore
from avatars.workshop import Workshop
from engines.contract import FaceJob, FacePatch
from engines.contract_net import network
from engines.contract_net.contracts import CONTRACTS
from engines.contract_net.engine import ContractEncoder, ContractEngine
from engines.contract_net.weights import revision, weights
from engines.errors import EngineContract
from engines.latents import gather
from streamer.commands.batch import makers_of
from streamer.guard import PatchGuard

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def engine():
    return ContractEngine()


@pytest.fixture(scope="module")
def portrait():
    return load_picture(bundled_portraits()[0].path)


@pytest.fixture(scope="module")
def packet(engine, portrait):
    return precompile_portrait(portrait, "first", FaceMesh(), makers=engine.makers())


def speech(engine, seed=0):
    return (np.random.default_rng(seed).normal(size=engine.spec.window_samples) * 0.1).astype(np.float32)


def test_its_weights_are_the_same_numbers_on_every_machine():
    assert revision() == "ed2fa0fb2b68"
    size = sum(weight.nbytes for weight in weights().values())
    assert 1_500_000 < size < 2_100_000


def test_its_tensors_keep_to_their_contracts(engine):
    features, unet, decoder = CONTRACTS
    samples = np.stack([speech(engine, 1), speech(engine, 2)])
    axes = features.check_inputs({"samples": samples})
    audio = network.features(samples)
    features.check_outputs({"audio": audio}, axes)
    latent = np.random.default_rng(3).normal(size=(2, 8, 32, 32)).astype(np.float32)
    axes = unet.check_inputs({"latent": latent, "audio": audio})
    denoised = network.denoise(latent, audio)
    unet.check_outputs({"denoised": denoised}, axes)
    decoder.check_outputs({"faces": network.decode(denoised)}, axes)


def test_masked_half_and_reference_lie_in_their_own_channels(portrait, packet):
    crop = latent_crop(portrait, packet.coords[0])
    latents = ContractEncoder().encode(crop[None])[0]
    assert np.array_equal(latents[:3, 16:], np.full((3, 16, 32), -network.SCALE, np.float16))
    assert np.array_equal(latents[:4, :16], latents[4:, :16])
    assert latents[4:7, 16:].std() > 0.01
    assert np.array_equal(packet.latents[0], latents)


def test_sound_moves_the_mouth_and_nothing_else(engine, packet):
    face = engine.attach(packet)
    loud, still = (
        engine.infer([FaceJob(face, 0, 0, 0, s)])[0].pixels for s in (speech(engine), np.zeros(3200, np.float32))
    )
    changed = np.abs(loud.astype(int) - still).max(axis=2) > 1
    assert changed[150:210, 90:170].mean() > 0.5
    assert not changed[:120].any()


def test_its_patches_pass_the_output_guard(engine, packet):
    face, guard = engine.attach(packet), PatchGuard(packet)
    jobs = [FaceJob(face, i, 0, 0, speech(engine, i)) for i in range(4)]
    assert [guard.check(patch) for patch in engine.infer(jobs)] == [None] * 4


def test_a_job_gives_the_same_patch_alone_and_in_company(engine, packet):
    face = engine.attach(packet)
    jobs = [FaceJob(face, i, 0, 0, speech(engine, i)) for i in range(3)]
    together = engine.infer(jobs)
    alone = [engine.infer([job])[0] for job in jobs]
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(together, alone, strict=True))
    assert isinstance(alone[0], FacePatch)


def test_a_batch_is_its_jobs_and_nothing_else(engine, packet):
    face = engine.attach(packet)
    jobs = [FaceJob(face, i, 0, 0, speech(engine, i)) for i in (3, 7, 30)]
    batch = gather(jobs, engine.spec)
    assert batch.samples.shape == (3, engine.spec.window_samples)
    assert np.array_equal(batch.latents, packet.latents[[3, 7, 5]])
    with pytest.raises(EngineContract, match="1 to 4 jobs"):
        engine.infer(jobs * 2)


@pytest.mark.parametrize(
    "made_by",
    [None, {"name": "sd-vae-ft-mse", "revision": "x"}, {"name": "contract", "revision": "another"}, "contract"],
)
def test_latents_of_another_encoder_are_refused_with_the_remedy(engine, packet, made_by):
    foreign = replace(packet, info={**packet.info, "latent_encoder": made_by})
    with pytest.raises(EngineContract, match="precompile --engine contract_net"):
        engine.attach(foreign)


def test_latents_of_four_channels_are_refused_already_by_the_packet(packet):
    with pytest.raises(Exception, match="8, 32, 32"):
        replace(packet, latents=packet.latents[:, :4])


def test_packets_made_for_it_serve_the_embedded_engine_too(tmp_path, portrait):
    store = AvatarStore(tmp_path)
    source = bundled_portraits()[0].path
    made = Workshop(store, makers=makers_of("contract_net")).make(source, "first")
    assert made.fresh
    assert made.info["latent_encoder"] == {"name": "contract", "revision": revision()}
    assert store.open("first").latents.shape[1:] == (8, 32, 32)
    assert not Workshop(store).make(source, "first").fresh
    assert not Workshop(store, makers=makers_of("contract_net")).make(source, "first").fresh
