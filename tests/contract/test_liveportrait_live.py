"""LivePortrait live: the whole head moves, blocks of motion go on from each other, and what cannot run says why."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import skimage.data

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")
pytest.importorskip("transformers", reason="JoyVASA needs the [liveportrait] extra")

from typer.testing import CliRunner  # noqa: E402

from avatars.canvas import Canvas  # noqa: E402
from avatars.faces import FaceMesh  # noqa: E402
from avatars.precompile import FaceSettings, precompile_portrait  # noqa: E402
from engines import catalog  # noqa: E402
from engines.contract import FaceJob, stage_of  # noqa: E402
from engines.errors import EngineContract, EngineOutput, EngineUnavailable  # noqa: E402
from engines.liveportrait.joyvasa import checkpoint  # noqa: E402
from engines.liveportrait.joyvasa.schedule import DiffusionSchedule  # noqa: E402
from engines.liveportrait.joyvasa.streaming import MotionStream, StreamSettings, presence  # noqa: E402
from engines.liveportrait.staging import into_patch, laid, shown_box, steady_crop  # noqa: E402
from streamer import talk  # noqa: E402
from streamer.cli import app, exit_code  # noqa: E402
from streamer.render.sound import read_sound  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)
DATA = Path(__file__).parents[1] / "data"
FRAME = 640
STREAM = StreamSettings(heard_frames=8)


@pytest.fixture(scope="module")
def engine():
    made = catalog.create("liveportrait", seeded=True, reduced=True, device="cpu")
    yield made
    made.close()


@pytest.fixture(scope="module")
def packet():
    rgb = cv2.resize(skimage.data.astronaut(), (384, 384), interpolation=cv2.INTER_AREA)
    return precompile_portrait(rgb, "astronaut", FaceMesh(), settings=FaceSettings(cycle_frames=6))


@pytest.fixture(scope="module")
def face(engine, packet):
    return engine.attach(packet)


@pytest.fixture(scope="module")
def talker():
    return checkpoint.seeded()


def voice(frames, seed=1):
    """Syllables: pulses at 120 Hz, two loud frames in three."""
    t = np.arange(frames * FRAME) / 16_000
    pulses = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 20))
    loud = np.repeat(np.random.default_rng(seed).uniform(0.3, 1.0, frames), FRAME)
    return (0.2 * pulses * loud).astype(np.float32)


def window(sound, index, settings=STREAM):
    """What frame `index` of a sound is given, silence before its beginning."""
    padded = np.pad(sound, (settings.context_frames * FRAME, settings.lookahead_frames * FRAME))
    count = settings.context_frames + 1 + settings.lookahead_frames
    return padded[index * FRAME : (index + count) * FRAME]


def row_of(talker, index, samples):
    return MotionStream(talker, STREAM).at(index, samples).row


# ---- motion ----


def test_frames_of_one_block_are_sampled_together_and_blocks_go_on_from_each_other(talker):
    sound, stream = voice(20), MotionStream(talker, STREAM)
    together = [stream.at(i, window(sound, i)) for i in range(20)]
    assert all(torch.equal(m.first, together[0].first) for m in together), "one run of speech has one beginning"
    alone = MotionStream(talker, STREAM).at(10, window(sound, 10))
    assert not torch.equal(alone.row, together[10].row), "without the block before it a block begins anew"
    assert torch.equal(alone.row, alone.first)
    steps = torch.stack([b.row[0, 63:] - a.row[0, 63:] for a, b in itertools.pairwise(together)]).abs()
    assert float(steps[4::5].max()) <= 2 * float(steps.max(1).values.median()) + 1e-3, "no seam in the head's pose"


def test_the_same_sound_gives_the_same_motion_whatever_was_asked_between(talker):
    sound, stream = voice(12), MotionStream(talker, STREAM)
    first = [stream.at(i, window(sound, i)).row for i in range(10)]
    stream.at(3, window(voice(12, seed=9), 3))
    assert all(torch.equal(stream.at(i, window(sound, i)).row, first[i]) for i in reversed(range(10)))


def test_the_declared_look_ahead_is_used_to_its_end(talker):
    """Truthful: the first frame of a block needs the last sample of its window, and the last only the margin."""
    settings, sound = STREAM, voice(12)
    whole = window(sound, 5)
    changed = whole.copy()
    changed[-FRAME:] = 0.0
    assert not torch.equal(row_of(talker, 5, whole), row_of(talker, 5, changed))
    last = window(sound, 9)
    beyond = last.copy()
    beyond[-(settings.block_frames - 1) * FRAME :] = 0.0
    assert torch.equal(row_of(talker, 9, last), row_of(talker, 9, beyond))


class Broken(torch.nn.Module):
    """A denoiser whose first `times` samplings are not finite."""

    def __init__(self, whole, times):
        super().__init__()
        self.whole, self.times = whole, times

    def forward(self, motion, audio, prev_motion, prev_audio, step):
        found = self.whole(motion, audio, prev_motion, prev_audio, step)
        if int(step[0]) == 50 and self.times > 0:
            self.times -= 1
            return found * float("nan")
        return found


def test_a_block_that_is_not_finite_is_sampled_once_more_then_given_up(talker):
    stream, sound, whole = MotionStream(talker, STREAM), voice(12), talker.generator.denoising_net
    try:
        talker.generator.denoising_net = Broken(whole, 1)
        assert torch.isfinite(stream.at(0, window(sound, 0)).row).all()
        talker.generator.denoising_net = Broken(whole, 2)
        with pytest.raises(EngineOutput, match="not finite"):
            stream.at(5, window(sound, 5))
        assert torch.isfinite(stream.at(5, window(sound, 5)).row).all(), "the next try is a new one"
    finally:
        talker.generator.denoising_net = whole


def test_fewer_steps_keep_the_course_of_the_schedule():
    full = DiffusionSchedule(50)
    same, few = full.thinned(50), full.thinned(10)
    assert same.times == full.times
    assert torch.allclose(same.betas, full.betas, atol=1e-5)
    assert few.times == tuple(range(0, 51, 5))
    assert torch.allclose(few.alpha_bars, full.alpha_bars[::5], rtol=1e-4)


def test_the_head_leaves_and_finds_the_anchor_softly():
    settings = STREAM
    sound = np.concatenate([np.zeros(10 * FRAME, np.float32), voice(20), np.zeros(12 * FRAME, np.float32)])
    shares = np.array([presence(window(sound, i), settings.context_frames * FRAME) for i in range(42)])
    assert shares[0] == shares[-1] == 0.0
    assert shares[16:24].min() == 1.0
    assert np.abs(np.diff(shares)).max() <= 0.3


# ---- the whole head ----


def test_the_patch_is_the_whole_face_crop(face, packet):
    x1, y1, x2, y2 = stage_of(face).coords[0]
    mesh = packet.landmarks[0]
    assert x1 < mesh[:, 0].min() - 20 < mesh[:, 0].max() + 20 < x2
    assert y1 < mesh[:, 1].min() - 20, "the hair is in it"
    own = packet.coords[0]
    assert (x2 - x1) * (y2 - y1) > 3 * (own[2] - own[0]) * (own[3] - own[1])


def test_an_unmoved_head_laid_back_is_the_anchor_frame(face, packet):
    """Crop, patch and canvas agree on where every pixel lies."""
    canvas = Canvas(stage_of(face), 384)
    crop, big = steady_crop(packet.landmarks[:1]), 512
    rgb = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0))
    box = shown_box(crop, packet.size_px)
    for face_px in (512, 256):
        patch = laid(crop.cut(rgb, face_px), into_patch(crop, box, face_px, big), big)
        planes, anchor = canvas.blend(0, patch), canvas.anchor(0)
        error = np.abs(planes[:384].astype(int) - anchor[:384])
        assert error.mean() < 1.0, face_px
        sobel = np.abs(cv2.Sobel(anchor[:384], cv2.CV_32F, 1, 0)).mean()
        assert error[box[1] : box[3], box[0] : box[2]].mean() < 0.1 * sobel, face_px


def test_frames_without_a_face_come_back_as_they_are(engine, packet):
    landmarks = np.array(packet.landmarks)
    landmarks[2] = np.nan
    frames = np.ascontiguousarray(packet.frames)
    face = engine.attach(replace(packet, frames=frames, landmarks=landmarks))
    samples = window(voice(20), 8)
    patches = engine.infer([FaceJob(face, index, 0, 10**12, samples) for index in (7, 8)])
    canvas = Canvas(stage_of(face), 384)
    assert not np.array_equal(canvas.blend(7, patches[0].pixels), canvas.anchor(7))
    assert np.array_equal(canvas.blend(8, patches[1].pixels), canvas.anchor(8))


def test_a_head_that_leaves_its_place_is_refused(engine, packet):
    landmarks = np.array(packet.landmarks)
    landmarks[3] += 150
    with pytest.raises(EngineContract, match="one crop"):
        engine.attach(replace(packet, frames=np.ascontiguousarray(packet.frames), landmarks=landmarks))
    with pytest.raises(EngineContract, match="at least one frame"):
        engine.attach(replace(packet, landmarks=np.full_like(landmarks, np.nan)))


def test_jobs_of_several_avatars_share_a_batch(engine, face, packet):
    other = engine.attach(replace(packet, frames=packet.frames[:, ::-1].copy()))
    jobs = [FaceJob(f, 5, 0, 10**12, window(voice(20), 5)) for f in (face, other, face)]
    together = [p.pixels for p in engine.infer(jobs)]
    apart = [engine.infer([job])[0].pixels for job in jobs]
    assert all(np.abs(a.astype(int) - b).max() <= 1 for a, b in zip(together, apart, strict=True))
    assert not np.array_equal(together[0], together[1])


def test_speech_becomes_a_film_with_the_engine_of_the_live_line(engine, face, tmp_path):
    sound = read_sound(DATA / "librivox_austen_0890.flac")[48_000 : 48_000 + 20 * 1920]
    speaker = talk.Speaker(engine, face, Canvas(stage_of(face), 256))
    assert talk.film(speaker, sound, tmp_path / "film.mp4", lambda done, total: None) == 20
    with av.open(str(tmp_path / "film.mp4")) as film:
        shown = np.stack([f.to_ndarray(format="gray").astype(int) for f in film.decode(video=0)])
    assert np.abs(np.diff(shown, axis=0)).mean(0).max() > 2, "something moves"
    assert np.abs(shown[:, :8, :8] - shown[0, :8, :8]).max() <= 24, "what is not face stays, coding apart"


# ---- what cannot run ----


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_what_to_do_in_one_line():
    done = CliRunner().invoke(app, ["serve", "--engine", "liveportrait", "--port", "0"])
    assert isinstance(done.exception, EngineUnavailable)
    assert exit_code(done.exception) == 4
    assert "\n" not in str(done.exception)
    assert "--engine warp" in str(done.exception)


def test_without_weights_it_says_how_to_get_them(tmp_path):
    with pytest.raises(EngineUnavailable, match="models pull liveportrait"):
        catalog.create("liveportrait", models=tmp_path, device="cpu")
