"""Idle life of a portrait: it sways and breathes from its sidecar, never seen twice, and speaks where it stands."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cv2
import numpy as np
import pytest
import skimage.data

from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.colour import i420_to_rgb
from avatars.enliven import enliven, wants_idle
from avatars.errors import PacketInvalid
from avatars.faces import FaceMesh
from avatars.idle import IDLE_FILE, MAX_BYTES, MAX_FRAMES, MAX_SIDE_PX, read_idle
from avatars.picture import load_picture
from avatars.pool import AvatarPool, size_bytes
from avatars.precompile import precompile_portrait
from avatars.store import AvatarStore
from avatars.sway import build_idle
from avatars.tensorfile import TensorWriter
from avatars.walk import Walk
from avatars.workshop import Workshop
from avatars.writer import add_sidecar
from engines.contract import FPS
from engines.warp.engine import WarpEngine
from engines.warp.shape import MouthShape
from streamer.casting import Casting, staged
from streamer.enlivening import Enlivening

pytestmark = pytest.mark.unit

RUBY = bundled_portraits()[0]
AT_REST = 18
"""What one byte of a mouth at rest may differ from the portrait's."""
BROW, CHIN, CHEEKS = 10, 152, (234, 454)


@pytest.fixture(scope="module")
def mesh():
    return FaceMesh()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store whose only portrait has just come to life."""
    made = AvatarStore(tmp_path_factory.mktemp("store"))
    Workshop(made).make(RUBY.path, RUBY.id)
    assert enliven(made, RUBY.id)
    return made


@pytest.fixture(scope="module")
def packet(store):
    return store.open(RUBY.id)


@pytest.fixture(scope="module")
def face(packet):
    return WarpEngine().attach(packet)


@pytest.fixture(scope="module")
def astronaut(mesh):
    """A photograph, larger than what is streamed."""
    rgb = cv2.resize(skimage.data.astronaut(), (640, 640), interpolation=cv2.INTER_CUBIC)
    plain = precompile_portrait(rgb, "astronaut", mesh)
    return replace(plain, idle=read_idle(build_idle(plain), plain.size_px))


def copy_of(store, tmp_path):
    """A store with the same portrait, for tests that spoil it."""
    copied = AvatarStore(tmp_path / "copy")
    Workshop(copied).make(RUBY.path, RUBY.id)
    arrays = {"planes": np.stack(store.open(RUBY.id).idle.planes), "moves": store.open(RUBY.id).idle.moves}
    with copied.replacing(RUBY.id) as folder:
        for path in (store.root / RUBY.id).iterdir():
            if path.name not in (IDLE_FILE, "avator_info.json"):
                (folder / path.name).write_bytes(path.read_bytes())
        add_sidecar(folder, store.info(RUBY.id), IDLE_FILE, arrays | {"rest": np.array([25], np.int32)})
    return copied


# ---- the walk ----


def test_a_walk_takes_one_step_at_a_time_and_sees_every_frame():
    for avatar_id in ("ruby", "blaze", "somebody"):
        steps = np.array([Walk(avatar_id, 50, 25).at(index) for index in range(10 * 60 * FPS)])
        assert steps[0] == 25
        assert np.abs(np.diff(steps)).max() == 1
        assert set(steps) == set(range(50))


def test_a_walk_is_the_same_whenever_it_is_asked():
    late = Walk("ruby", 50, 25).at(70 * 60 * FPS)
    walk = Walk("ruby", 50, 25)
    assert [walk.at(index) for index in (3, 2000, 3)] == [walk.at(3), walk.at(2000), walk.at(3)]
    assert walk.at(70 * 60 * FPS) == late


def test_nothing_repeats_within_twenty_minutes():
    """No five seconds come again, and no stretch of the walk looks like another one shifted in time."""
    walk = Walk("ruby", 50, 25)
    steps = np.array([walk.at(index) for index in range(20 * 60 * FPS)], np.uint8)
    windows = {steps[at : at + 5 * FPS].tobytes() for at in range(0, len(steps) - 5 * FPS)}
    assert len(windows) == len(steps) - 5 * FPS
    centred = steps - steps.mean()
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(steps))) ** 2
    alike = np.fft.irfft(spectrum)[: len(steps)]
    assert (alike[10 * FPS :] / alike[0]).max() < 0.4


def test_a_walk_turns_softly_and_nobody_sways_like_another():
    steps = [np.array([Walk(name, 50, 25).at(i) for i in range(5 * 60 * FPS)]) for name in ("ruby", "blaze")]
    assert abs(np.corrcoef(*steps)[0, 1]) < 0.3
    second = np.convolve(steps[0], np.ones(9) / 9, "valid")
    assert np.abs(np.diff(second, 2)).max() < 0.25


# ---- what is seen ----


def test_an_idle_portrait_sways_by_a_little(packet, mesh):
    idle = packet.idle
    eyes = []
    for planes in idle.planes[:: MAX_FRAMES // 8]:
        points = mesh.find(i420_to_rgb(planes))[0].points
        eyes.append(points[[33, 263]].mean(0))
    across = np.linalg.norm(np.diff(packet.landmarks[0][list(CHEEKS)], axis=0))
    moved = np.ptp(np.array(eyes), axis=0) / across
    assert 0.02 < moved[0] < 0.04
    assert moved[1] < 0.02


@pytest.mark.parametrize("who", ["packet", "astronaut"])
def test_only_the_person_moves_and_nothing_jumps(request, who):
    idle = request.getfixturevalue(who).idle
    height = idle.size_px[1]
    luma = [planes[:height] for planes in idle.planes]
    moving = np.max([cv2.absdiff(each, luma[idle.rest]) for each in luma], axis=0) > 2
    beside = np.concatenate([moving[: height // 3, :30], moving[: height // 3, -30:]])
    assert beside.mean() < 0.01
    assert moving.mean() < 0.7
    steps = [cv2.absdiff(before, after) for before, after in itertools.pairwise(luma)]
    assert max(step.max() for step in steps) < 40
    assert np.mean([(step > 12).mean() for step in steps]) < 0.001


def test_shoulders_breathe_by_about_a_pixel(packet):
    idle = packet.idle
    width, height = idle.size_px
    strip = slice(int(0.84 * height), height), slice(int(0.1 * width), int(0.9 * width))
    rest = idle.planes[idle.rest][:height][strip].astype(np.float32)
    rise = [cv2.phaseCorrelate(rest, planes[:height][strip].astype(np.float32))[0][1] for planes in idle.planes]
    assert 0.5 < np.ptp(rise) < 3.0


def test_the_frame_at_rest_is_the_portrait_itself(packet, astronaut):
    for each in (packet, astronaut):
        still = Canvas(replace(each, idle=None), 512)
        apart = np.abs(Canvas(each, 512).anchor(0).astype(int) - still.anchor(0))
        assert apart.mean() <= (0 if each is packet else 0.5)  # what has no planes yet is rounded once more


def test_a_shut_mouth_stays_the_portraits_own_wherever_the_head_is(face, packet):
    canvas = Canvas(packet, 512)
    worst = [np.abs(canvas.blend(i, face.neutral).astype(int) - canvas.anchor(i)).max() for i in range(0, 2000, 20)]
    assert max(worst) <= AT_REST


def test_speech_starts_and_goes_on_where_idle_stands(face, packet, mesh):
    """Above the mouth a speaking picture is the idle one of its index, and the mouth goes where the head goes."""
    canvas = staged(face, 512)
    walk = Walk(packet.avatar_id, MAX_FRAMES, packet.idle.rest)
    left, right = (next(i for i in range(9000) if walk.at(i) == end) for end in (0, MAX_FRAMES - 1))
    mouths = []
    for index in (left, right):
        spoken = canvas.blend(index, face.render(MouthShape(open=0.8)))
        assert np.array_equal(spoken[:200], Canvas(packet, 512).anchor(index)[:200])
        mouths.append(mesh.find(i420_to_rgb(spoken))[0].points[[61, 291]].mean(0))
    assert 2.0 < mouths[1][0] - mouths[0][0] < 6.0


def test_no_byte_far_from_the_face_changes_when_it_speaks(face, packet):
    canvas = Canvas(packet, 512)
    geometry = packet.geometry[0]
    for index in range(0, 1500, 50):
        changed = np.argwhere(canvas.blend(index, face.render(MouthShape(open=1.0))) != canvas.anchor(index))
        rows = changed[changed[:, 0] < 512]
        assert rows[:, 0].min() > geometry.y_s
        assert rows[:, 1].min() > geometry.x_s
        assert rows[:, 1].max() < geometry.x_e


def test_who_sways_blinks_where_its_eyes_are(face, packet, mesh):
    canvas = staged(face, 512)
    shut = [i for i in range(3000) if len(face.overlays(i)) and face.overlays(i) == face.overlays(i + 1)]
    for index in shut[:3]:
        spoken = canvas.blend(index, face.neutral, face.overlays(index)).astype(int)
        assert np.abs(spoken - canvas.anchor(index)).max() <= AT_REST
        plain = Canvas(packet, 512)
        changed = np.argwhere(canvas.anchor(index)[:512] != plain.anchor(index)[:512])
        moved = packet.idle.moves[Walk(packet.avatar_id, MAX_FRAMES, packet.idle.rest).at(index)]
        eyes = np.array(packet.landmarks[0][[33, 263]]).mean(0) @ moved[:, :2].T + moved[:, 2]
        middle = (changed.min(0) + changed.max(0))[::-1] / 2
        assert np.abs(middle - eyes).max() < 8


def test_idle_pictures_cost_a_reference(face, packet):
    canvas = staged(face, 512)
    canvas.prepare(60 * FPS)
    plain = [i for i in range(60 * FPS) if not face.overlays(i)]
    assert len({id(canvas.anchor(index)) for index in plain}) <= MAX_FRAMES


@pytest.mark.parametrize("max_side_px", [256, 384])
def test_smaller_canvases_sway_too_and_larger_ones_stand_still(astronaut, max_side_px):
    small = Canvas(astronaut, max_side_px)
    assert small.anchor(0).shape == (max_side_px * 3 // 2, max_side_px)
    assert not np.array_equal(small.anchor(40), small.anchor(0))
    large = Canvas(astronaut, 640)
    assert np.array_equal(large.anchor(40), large.anchor(0))


# ---- the sidecar ----


def test_the_sidecar_keeps_to_its_limits_and_is_listed(store, packet):
    path = store.root / RUBY.id / IDLE_FILE
    assert path.stat().st_size <= MAX_BYTES == 24_000_000
    assert len(packet.idle.planes) <= MAX_FRAMES == 50
    assert max(packet.idle.size_px) <= MAX_SIDE_PX == 512
    assert IDLE_FILE in store.info(RUBY.id)["digests"]
    assert store.verify(RUBY.id).idle is not None
    assert len({planes.tobytes() for planes in packet.idle.planes}) == len(packet.idle.planes)


def test_a_portrait_comes_to_life_once_and_its_frames_stay_as_documented(store, packet):
    assert not wants_idle(packet)
    assert not enliven(store, RUBY.id)
    assert packet.frames.strides[0] == 0
    assert packet.cycle_frames == 25


def test_a_damaged_sidecar_is_refused_and_the_anchor_stands_still(store, tmp_path, caplog):
    spoiled = copy_of(store, tmp_path)
    path = spoiled.root / RUBY.id / IDLE_FILE
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)
    still = spoiled.open(RUBY.id)
    assert still.idle is None
    assert "idle_frames_refused" in caplog.text
    canvas = Canvas(still, 512)
    assert canvas.anchor(0) is canvas.anchor(60) or np.array_equal(canvas.anchor(0), canvas.anchor(60))
    with pytest.raises(PacketInvalid, match=IDLE_FILE):
        spoiled.verify(RUBY.id)
    assert enliven(spoiled, RUBY.id)  # made anew
    assert spoiled.verify(RUBY.id).idle is not None


def test_a_missing_sidecar_leaves_a_sound_packet_that_stands_still(store, tmp_path):
    spoiled = copy_of(store, tmp_path)
    (spoiled.root / RUBY.id / IDLE_FILE).unlink()
    assert spoiled.open(RUBY.id).idle is None
    with pytest.raises(PacketInvalid, match=IDLE_FILE):
        spoiled.verify(RUBY.id)


@pytest.mark.parametrize(
    "change",
    [
        {"planes": np.zeros((51, 768, 512), np.uint8)},
        {"planes": np.zeros((3, 1536, 1024), np.uint8)},
        {"planes": None},
        {"moves": np.zeros((50, 2, 3), np.float32)},
        {"moves": np.full((50, 2, 3), np.nan, np.float32)},
        {"moves": np.tile(np.float32([[1, 0, 400], [0, 1, 0]]), (50, 1, 1))},
        {"rest": np.array([50], np.int32)},
        {"rest": np.array([25], np.int64)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(change):
    sound = {
        "planes": np.zeros((50, 768, 512), np.uint8),
        "moves": np.tile(np.eye(2, 3, dtype=np.float32), (50, 1, 1)),
        "rest": np.array([25], np.int32),
    }
    read_idle(sound, (512, 512))
    with pytest.raises(PacketInvalid, match=IDLE_FILE):
        read_idle({name: values for name, values in (sound | change).items() if values is not None}, (512, 512))


def test_a_store_that_is_told_to_opens_portraits_that_stand_still(store):
    assert AvatarStore(store.root, sways=False).open(RUBY.id).idle is None


async def test_what_comes_on_stage_comes_to_life_once_and_the_next_session_has_it(store, tmp_path):
    fresh = AvatarStore(tmp_path / "fresh")
    Workshop(fresh).make(RUBY.path, RUBY.id)
    with ThreadPoolExecutor(1) as stage, ThreadPoolExecutor(1) as errands:
        casting, enlivening = Casting(AvatarPool(fresh), WarpEngine(), stage), Enlivening(fresh, errands)
        casting.on_cast = enlivening.note
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            work = group.create_task(enlivening.run(), name="enlivening")
            first, _ = await casting.cast(RUBY.id, 512)
            await casting.cast(RUBY.id, 256)
            await loop.run_in_executor(stage, lambda: None)  # the line is taken up meanwhile
            await loop.run_in_executor(errands, lambda: None)
            second, hit = await casting.cast(RUBY.id, 512)
            work.cancel()
    assert not hit
    assert np.array_equal(first.canvas.anchor(0), first.canvas.anchor(60))
    assert not np.array_equal(second.canvas.anchor(0), second.canvas.anchor(60))
    assert second.packet.idle.planes[7].tobytes() == store.open(RUBY.id).idle.planes[7].tobytes()
    assert len(enlivening) == 0


def test_idle_frames_count_as_memory(packet):
    assert size_bytes(packet) - size_bytes(replace(packet, idle=None)) == 50 * 512 * 768


def test_who_was_made_again_meanwhile_is_left_alone(store, tmp_path, monkeypatch):
    raced = AvatarStore(tmp_path / "raced")
    workshop = Workshop(raced)
    workshop.make(RUBY.path, RUBY.id)

    def slow(packet):
        other = load_picture(bundled_portraits()[1].path)
        cv2.imwrite(str(tmp_path / "other.png"), other[..., ::-1])
        workshop.make(tmp_path / "other.png", RUBY.id)
        return {"planes": np.stack(store.open(RUBY.id).idle.planes), "moves": store.open(RUBY.id).idle.moves}

    monkeypatch.setattr("avatars.enliven.build_idle", slow)
    assert not enliven(raced, RUBY.id)
    assert raced.verify(RUBY.id).info["source"] == "other.png"
    assert raced.ids() == [RUBY.id]
    assert [path.name for path in raced.root.iterdir()] == [RUBY.id]


def test_clips_and_packets_made_elsewhere_keep_their_own_motion(packet):
    assert not wants_idle(replace(packet, info={}))
    assert not wants_idle(replace(packet, anchors=None))
    assert wants_idle(replace(packet, idle=None))


def test_a_writer_that_fails_leaves_the_packet_as_it_was(store, tmp_path, monkeypatch):
    kept = copy_of(store, tmp_path)
    (kept.root / RUBY.id / IDLE_FILE).unlink()
    before = sorted(path.name for path in (kept.root / RUBY.id).iterdir())

    def full(self, name, values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TensorWriter, "add", full)
    with pytest.raises(Exception, match=RUBY.id):
        enliven(kept, RUBY.id)
    assert sorted(path.name for path in (kept.root / RUBY.id).iterdir()) == before
