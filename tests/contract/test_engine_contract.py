"""What every engine of the catalog promises. A new engine passes this unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.data

from avatars.faces import FaceMesh
from avatars.packet import AvatarPacket
from avatars.precompile import precompile_portrait
from engines import catalog
from engines.contract import FRAME_SAMPLES_16K, Face, FaceJob, LipSyncEngine
from engines.errors import EngineContract, EngineError, EngineUnavailable

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def packet(engine) -> AvatarPacket:
    return precompile_portrait(skimage.data.astronaut(), "astronaut", FaceMesh(), makers=catalog.makers(engine))


REHEARSALS = {
    "liveportrait": {"seeded": True, "reduced": True, "device": "cpu"},
    "musetalk": {"seeded": True, "reduced": True, "device": "cpu", "buckets": (1, 2), "short_audio": True},
}
"""How an engine that needs weights or a GPU is tried without them: the same code, small and with made-up weights."""


@pytest.fixture(scope="module", params=catalog.names())
def engine(request):
    try:
        made = catalog.create(request.param, **REHEARSALS.get(request.param, {}))
    except EngineUnavailable as missing:
        pytest.skip(str(missing))
    made.warm_up()
    yield made
    made.close()


@pytest.fixture(scope="module")
def face(engine: LipSyncEngine, packet: AvatarPacket) -> Face:
    return engine.attach(packet)


def speech(engine: LipSyncEngine, seed: int = 1) -> np.ndarray:
    """Loud, voiced, four syllables a second: pulses at 120 Hz through two formants, with a little noise."""
    t = np.arange(engine.spec.window_samples) / 16_000
    voice = sum(np.sin(2 * np.pi * 120 * k * t) / (1 + ((120 * k - 700) / 300) ** 2) for k in range(1, 30))
    voice *= np.sin(np.pi * 4 * t) ** 2
    noise = np.random.default_rng(seed).normal(size=t.size) * 0.02
    return (0.3 * voice / np.abs(voice).max() + noise).astype(np.float32)


def job(engine, face, index: int = 3, generation: int = 2, seed: int = 1) -> FaceJob:
    return FaceJob(face, index, generation, 10**12, speech(engine, seed))


def test_the_spec_says_the_truth(engine):
    spec = engine.spec
    assert spec.fps == 25
    assert spec.window_samples == spec.context_samples + FRAME_SAMPLES_16K + spec.lookahead_samples
    assert spec.context_samples >= 0
    assert 0 <= spec.lookahead_samples <= 16_000
    assert list(spec.buckets) == sorted(set(spec.buckets))
    assert spec.buckets[0] >= 1
    assert spec.name in catalog.names()
    assert all(tensor.owner and tensor.axes and tensor.value_range for tensor in spec.tensors)


def test_a_face_knows_its_packet(face, packet):
    assert isinstance(face, Face)
    assert face.packet is packet


def test_patches_come_in_order_with_the_declared_shape(engine, face):
    jobs = [job(engine, face, index, generation=index + 5, seed=index) for index in range(engine.spec.buckets[-1])]
    patches = engine.infer(jobs)
    assert [(p.index, p.generation) for p in patches] == [(j.index, j.generation) for j in jobs]
    for patch in patches:
        assert patch.pixels.shape == (engine.spec.mouth_px, engine.spec.mouth_px, 3)
        assert patch.pixels.dtype == np.uint8
        assert patch.pixels.std() > 5
    assert engine.infer([]) == []


def test_the_same_job_gives_the_same_patch(engine, face):
    first = engine.infer([job(engine, face)])[0].pixels
    engine.infer([job(engine, face, index=4, seed=9)])
    assert np.array_equal(engine.infer([job(engine, face)])[0].pixels, first)


def test_sound_changes_the_mouth(engine, face):
    quiet = FaceJob(face, 3, 0, 10**12, np.zeros(engine.spec.window_samples, np.float32))
    assert not np.array_equal(engine.infer([job(engine, face)])[0].pixels, engine.infer([quiet])[0].pixels)


def test_a_patch_belongs_to_its_receiver(engine, face):
    first = engine.infer([job(engine, face)])[0].pixels
    kept = first.copy()
    engine.infer([job(engine, face, index=8, seed=4)])
    assert np.array_equal(first, kept)


def test_the_packet_is_never_changed(engine, packet):
    frames, landmarks = packet.frames[0].copy(), np.array(packet.landmarks)
    masks = [mask.copy() for mask in packet.masks[:1]]
    face = engine.attach(packet)
    engine.infer([job(engine, face)])
    assert np.array_equal(packet.frames[0], frames)
    assert np.array_equal(packet.landmarks, landmarks)
    assert np.array_equal(packet.masks[0], masks[0])


def test_a_packet_that_does_not_fit_is_refused(engine, packet):
    bare = AvatarPacket(
        avatar_id="bare",
        frames=packet.frames,
        latents=None,
        masks=packet.masks,
        geometry=packet.geometry,
        coords=packet.coords,
        landmarks=None,
    )
    with pytest.raises(EngineContract):
        engine.attach(bare)


def test_a_foreign_face_or_a_short_window_is_refused(engine, face, packet):
    class Foreign:
        @property
        def packet(self) -> AvatarPacket:
            return packet

    with pytest.raises(EngineContract):
        engine.infer([FaceJob(Foreign(), 0, 0, 0, speech(engine))])
    with pytest.raises(EngineContract):
        engine.infer([FaceJob(face, 0, 0, 0, speech(engine)[:-1])])


def test_sound_that_is_not_finite_is_that_jobs_error(engine, face):
    broken = speech(engine)
    broken[100] = np.nan
    with pytest.raises(EngineError):
        engine.infer([FaceJob(face, 0, 0, 0, broken)])
    assert engine.infer([job(engine, face)])


def test_an_unknown_engine_is_named_with_the_known_ones():
    with pytest.raises(EngineUnavailable) as raised:
        catalog.create("unheard-of")
    assert all(name in str(raised.value) for name in catalog.names())
