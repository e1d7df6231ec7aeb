"""Packets on disk: written whole or not at all, opened as they were written, refused by field where anything is odd."""

from __future__ import annotations

import fcntl
import json
import os
import pickle  # noqa: TID251 - writing what strangers would write
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from avatars import folder as folders
from avatars.errors import AvatarError, PacketInvalid, PacketMissing, PacketUnwritable, PacketVersion
from avatars.folder import SEVEN
from avatars.geometry import compute_avatar_crop_geometry
from avatars.packet import FramedFace
from avatars.store import AvatarStore, check_id
from avatars.torchfile import write_torch_file
from avatars.writer import PacketWriter, write_info

pytestmark = pytest.mark.unit

SIZE, BOX = (97, 81), (20, 10, 70, 66)
GEOMETRY = compute_avatar_crop_geometry(*BOX, *SIZE)


def picture(seed):
    return np.random.default_rng(seed).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)


def face(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((1, GEOMETRY.crop_height_px, GEOMETRY.crop_width_px), dtype=np.float32)
    return FramedFace(BOX, GEOMETRY, mask, rng.random((468, 2), dtype=np.float32))


def latent(seed):
    return np.random.default_rng(seed).normal(size=(8, 32, 32)).astype(np.float16)


def fill(folder, *, order, latents=True, avatar_id="anna", info=None):
    distinct = max(order) + 1
    with PacketWriter(folder) as writer:
        for i in range(distinct):
            writer.add_frame(picture(i))
            writer.add_face(face(i), latent(i) if latents else None)
        writer.finish(order)
    encoder = {"name": "test", "revision": "1"} if latents else None
    write_info(folder, {"avatar_id": avatar_id, "packet_version": 1, "latent_encoder": encoder, **(info or {})})


@pytest.fixture
def store(tmp_path):
    return AvatarStore(tmp_path / "store")


@pytest.fixture
def clip(store):
    """A store with a packet of four distinct frames there and back."""
    with store.replacing("anna") as folder:
        fill(folder, order=[0, 1, 2, 3, 2, 1])
    return store


@pytest.fixture
def foreign(store):
    """The seven files as another maker would write them: no digests, no sidecars."""
    folder = store.root / "anna"
    folder.mkdir(parents=True)
    write_torch_file(folder / "frames.pt", np.stack([picture(i).transpose(2, 0, 1) for i in range(3)]))
    write_torch_file(folder / "latents.pt", np.stack([latent(i) for i in range(3)]))
    write_torch_file(folder / "masks.pt", [face(i).mask for i in range(3)])
    rows = {"geometry": tuple(GEOMETRY), "coords": list(BOX), "mask_coords": list(GEOMETRY[:4])}
    for name, row in rows.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps([row] * 3))
    (folder / "avator_info.json").write_text(json.dumps({"avatar_id": "anna", "timestamp": 1}))
    return store


def test_what_was_written_is_what_opens(clip):
    packet = clip.open("anna")
    assert packet.cycle_frames == 6
    for k, i in enumerate([0, 1, 2, 3, 2, 1]):
        assert np.array_equal(packet.frames[k].transpose(1, 2, 0), picture(i))
        assert np.array_equal(packet.latents[k], latent(i))
        assert np.array_equal(packet.masks[k], face(i).mask)
        assert np.array_equal(packet.landmarks[k], face(i).landmarks)
    assert packet.coords == (BOX,) * 6
    assert packet.geometry == (GEOMETRY,) * 6


def test_everything_opened_is_read_only(clip):
    packet = clip.open("anna")
    arrays = [packet.frames, packet.latents, *packet.masks, packet.landmarks, packet.anchors.planes]
    assert not any(array.flags.writeable for array in arrays)


def test_seven_files_lie_there_under_the_documents_names(clip):
    assert {path.name for path in (clip.root / "anna").iterdir()} >= set(SEVEN)
    digests = json.loads((clip.root / "anna" / "avator_info.json").read_text())["digests"]
    assert digests.keys() == {path.name for path in (clip.root / "anna").iterdir()} - {"avator_info.json"}


def test_a_still_is_stored_once_and_materialised_on_request(store):
    for name, materialise in (("once", False), ("copied", True)):
        with store.replacing(name) as folder:
            with PacketWriter(folder) as writer:
                writer.add_frame(picture(0))
                writer.add_face(face(0))
                writer.finish([0] * 25, materialise=materialise)
            write_info(folder, {"avatar_id": name, "latent_encoder": None})
    once, copied = store.open("once"), store.open("copied")
    assert once.frames.shape == copied.frames.shape == (25, 3, SIZE[1], SIZE[0])
    assert np.array_equal(once.frames, copied.frames)
    assert once.frames.strides[0] == 0
    sizes = [(store.root / name / "frames.pt").stat().st_size for name in ("once", "copied")]
    assert sizes[0] < picture(0).nbytes * 1.2 < 24 * picture(0).nbytes < sizes[1]
    assert once.latents is None


def test_a_fleet_made_elsewhere_opens_without_landmarks_or_sidecars(foreign):
    packet = foreign.verify("anna")
    assert packet.cycle_frames == 3
    assert packet.anchors is None
    assert np.array_equal(packet.frames[2].transpose(1, 2, 0), picture(2))


def test_face_boxes_in_place_of_crops_are_accepted_from_elsewhere(foreign):
    (foreign.root / "anna" / "mask_coords.pkl").write_bytes(pickle.dumps([list(BOX)] * 3))
    assert foreign.verify("anna").mask_coords == (tuple(GEOMETRY[:4]),) * 3


def test_blue_first_frames_that_say_so_come_out_red_first(foreign):
    (foreign.root / "anna" / "avator_info.json").write_text(json.dumps({"channel_order": "bgr"}))
    assert np.array_equal(foreign.verify("anna").frames[0].transpose(1, 2, 0), picture(0)[:, :, ::-1])


def test_readers_of_the_old_packet_keep_it_when_a_new_one_takes_its_place(clip):
    old = clip.open("anna")
    with clip.replacing("anna") as folder:
        fill(folder, order=[0, 1])
    assert np.array_equal(old.frames[3].transpose(1, 2, 0), picture(3))
    assert clip.open("anna").cycle_frames == 2
    clip.remove("anna")
    assert np.array_equal(old.latents[3], latent(3))
    with pytest.raises(PacketMissing):
        clip.open("anna")


def test_a_failure_while_writing_leaves_the_old_packet_and_no_litter(clip):
    with pytest.raises(ValueError, match="each has a face"), clip.replacing("anna") as f, PacketWriter(f) as writer:
        writer.finish([0])
    assert clip.open("anna").cycle_frames == 6
    assert [path.name for path in clip.root.iterdir()] == ["anna"]


def test_what_a_killed_process_left_is_swept_up_but_not_what_is_being_made(clip):
    (clip.root / ".making-anna-dead").mkdir()
    with clip.replacing("berta") as folder:
        with clip.replacing("carla") as other:
            fill(other, order=[0], avatar_id="carla")
        fill(folder, order=[0], avatar_id="berta")
    assert sorted(path.name for path in clip.root.iterdir()) == ["anna", "berta", "carla"]


KILLED_WHILE_WRITING = """
import os, sys
from pathlib import Path
import numpy as np
from avatars.store import AvatarStore
from avatars.writer import PacketWriter
with AvatarStore(Path(sys.argv[1])).replacing("anna") as folder, PacketWriter(folder) as writer:
    for i in range(8):
        writer.add_frame(np.zeros((64, 64, 3), np.uint8))
    print("half way", flush=True)
    os.kill(os.getpid(), 9)
"""


def test_killed_while_writing_the_old_packet_is_intact(clip):
    code = [sys.executable, "-c", KILLED_WHILE_WRITING, str(clip.root)]
    run = subprocess.run(code, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == -9, run.stderr
    assert run.stdout == "half way\n"
    assert clip.verify("anna").cycle_frames == 6
    with clip.replacing("berta") as folder:
        fill(folder, order=[0], avatar_id="berta")
    assert sorted(path.name for path in clip.root.iterdir()) == ["anna", "berta"]


def test_killed_between_two_renames_the_old_packet_comes_back(clip):
    """Where the system cannot exchange folders in one step, the old one lies aside for a moment."""
    (clip.root / "anna").rename(clip.root / ".kept-anna")
    with clip.replacing("berta") as folder:
        fill(folder, order=[0], avatar_id="berta")
    assert clip.verify("anna").cycle_frames == 6


def test_a_full_disk_is_one_line_and_the_old_packet_stays(clip, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("avatars.folder.os.fsync", full)
    with (
        pytest.raises(PacketUnwritable, match="'anna' could not be written: No space left"),
        clip.replacing("anna") as f,
    ):
        fill(f, order=[0])
    assert clip.verify("anna").cycle_frames == 6


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_fills_up_leaves_the_old_packet(tmp_path):
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(root)], check=True)
    try:
        store = AvatarStore(root)
        with store.replacing("anna") as folder:
            fill(folder, order=[0, 1, 2, 3])
        with pytest.raises(PacketUnwritable, match="No space left"), store.replacing("anna") as folder:
            fill(folder, order=range(40))
        assert store.verify("anna").cycle_frames == 4
        assert [path.name for path in root.iterdir()] == ["anna"]
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


@pytest.mark.parametrize(
    "avatar_id",
    [
        "../anna",
        "..",
        ".",
        "",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "%2e%2e",
        "a\0b",
        "Anna",
        "änna",
        "a b",
        "-a",
        "_a",
        "a" * 65,
    ],
)
def test_ids_that_could_be_paths_are_refused(clip, avatar_id):
    for action in (check_id, clip.open, clip.thumbnail, clip.remove, clip.info, clip.verify, clip.entry):
        with pytest.raises(PacketInvalid, match="avatar id"):
            action(avatar_id)


def test_a_list_shows_what_can_be_opened_and_skips_the_rest(clip):
    (clip.root / "broken").mkdir()
    (clip.root / ".hidden").mkdir()
    (clip.root / "file").write_text("x")
    assert [entry.avatar_id for entry in clip.list()] == ["anna"]
    assert clip.ids() == ["anna", "broken", "file"]


# Hostile packets: each is refused with its own error, and nothing of it runs.


def damage_frames_dtype(folder):
    (folder / "frames.pt").unlink()
    write_torch_file(folder / "frames.pt", np.zeros((3, 3, 8, 8), np.float32))


def four_channels(folder):
    (folder / "latents.pt").unlink()
    write_torch_file(folder / "latents.pt", np.zeros((3, 4, 32, 32), np.float16))


def nan_latents(folder):
    (folder / "latents.pt").unlink()
    values = np.zeros((3, 8, 32, 32), np.float16)
    values[1, 2, 3, 4] = np.nan
    write_torch_file(folder / "latents.pt", values)


def too_few_latents(folder):
    (folder / "latents.pt").unlink()
    write_torch_file(folder / "latents.pt", np.zeros((2, 8, 32, 32), np.float16))


def no_latents_in_a_foreign_packet(folder):
    (folder / "latents.pt").unlink()
    write_torch_file(folder / "latents.pt", np.zeros((0, 8, 32, 32), np.float16))


def masks_out_of_range(folder):
    (folder / "masks.pt").unlink()
    masks = [face(i).mask.copy() for i in range(3)]
    masks[2][0, 0, 0] = 1.5
    write_torch_file(folder / "masks.pt", masks)


def nan_masks(folder):
    (folder / "masks.pt").unlink()
    masks = [face(i).mask.copy() for i in range(3)]
    masks[1][0, 5, 5] = np.nan
    write_torch_file(folder / "masks.pt", masks)


def one_mask_too_few(folder):
    (folder / "masks.pt").unlink()
    write_torch_file(folder / "masks.pt", [face(i).mask for i in range(2)])


def mask_of_another_size(folder):
    (folder / "masks.pt").unlink()
    write_torch_file(folder / "masks.pt", [np.zeros((1, 9, 9), np.float32)] * 3)


def rows(name, make):
    def change(folder):
        (folder / name).write_bytes(pickle.dumps(make()))

    change.__name__ = f"{name}: {make.__name__}"
    return change


def negative_crop():
    return [(-5, *GEOMETRY[1:])] * 3


def crop_past_the_frame():
    return [(*GEOMETRY[:2], 500, 500, *GEOMETRY[4:])] * 3


def empty_crop():
    return [(10, 10, 10, 10, *GEOMETRY[4:])] * 3


def face_outside_its_crop():
    return [(*GEOMETRY[:4], 4000, *GEOMETRY[5:])] * 3


def short_rows():
    return [GEOMETRY[:7]] * 3


def two_rows():
    return [tuple(GEOMETRY)] * 2


def floats():
    return [tuple(float(v) for v in GEOMETRY)] * 3


def a_dictionary():
    return {"rows": 3}


def huge_numbers():
    return [(0, 0, 10**12, 10**12)] * 3


def swapped_box():
    return [[70, 66, 20, 10]] * 3


def another_box():
    return [[21, 10, 70, 66]] * 3


TRACE = Path(tempfile.gettempdir()) / "liveanchor-was-here"


class RunsCode:
    def __reduce__(self):
        return os.system, (f"touch {TRACE}",)


def code_in_coords():
    return [RunsCode()] * 3


def code_in_the_tensors(folder):
    rewrite(folder / "frames.pt", "frames/data.pkl", lambda data: pickle.dumps(RunsCode(), protocol=2))


def rewrite(path, name, change):
    """The same archive with one entry changed."""
    with zipfile.ZipFile(path) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    entries[name] = change(entries[name])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for filename, data in entries.items():
            archive.writestr(filename, data)


def lying_shape(folder):
    """A thousand frames over the storage of three."""
    change_opcodes(folder, b"(K\x03K\x03", b"(M\xe8\x03K\x03")


def lying_storage(folder):
    """More elements than the entry has bytes."""
    count = 3 * 3 * SIZE[0] * SIZE[1]
    change_opcodes(folder, pickled(count) + b"tQ", pickled(9 * count) + b"tQ")


def pickled(number):
    return b"J" + number.to_bytes(4, "little", signed=True)


def change_opcodes(folder, old, new):
    def change(data):
        assert old in data
        return data.replace(old, new)

    rewrite(folder / "frames.pt", "frames/data.pkl", change)


def negative_stride(folder):
    change_opcodes(folder, b"K\x01tq", pickled(-1) + b"tq")


def packed_archive(folder):
    with zipfile.ZipFile(folder / "frames.pt") as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(folder / "frames.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for filename, data in entries.items():
            archive.writestr(filename, data)


def truncated(name):
    def change(folder):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) * 2 // 3])

    change.__name__ = f"truncated {name}"
    return change


def missing(name):
    def change(folder):
        (folder / name).unlink()

    change.__name__ = f"missing {name}"
    return change


def linked(name):
    def change(folder):
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    change.__name__ = f"linked {name}"
    return change


def pipe_in_place_of_frames(folder):
    (folder / "frames.pt").unlink()
    os.mkfifo(folder / "frames.pt")


def folder_in_place_of_a_file(folder):
    (folder / "masks.pt").unlink()
    (folder / "masks.pt").mkdir()


def flipped_bit(folder):
    data = bytearray((folder / "frames.pt").read_bytes())
    data[len(data) // 2] ^= 4
    (folder / "frames.pt").write_bytes(data)


def info_is(text):
    def change(folder):
        (folder / "avator_info.json").write_text(text)

    change.__name__ = f"info {text[:20]}"
    return change


def huge_memo(folder):
    """Makes the standard unpickler ask for gigabytes."""
    (folder / "coords.pkl").write_bytes(b"\x80\x02]r\xff\xff\xff\x7f.")


def deep_json(folder):
    (folder / "avator_info.json").write_text("[" * 100_000)


HOSTILE = [
    damage_frames_dtype, four_channels, nan_latents, too_few_latents, no_latents_in_a_foreign_packet,
    masks_out_of_range, nan_masks, one_mask_too_few, mask_of_another_size,
    *(rows("geometry.pkl", make) for make in (
        negative_crop, crop_past_the_frame, empty_crop, face_outside_its_crop, short_rows, two_rows, floats,
        a_dictionary,
    )),
    *(rows("coords.pkl", make) for make in (huge_numbers, swapped_box, another_box, code_in_coords)),
    rows("mask_coords.pkl", huge_numbers),
    code_in_the_tensors, lying_shape, lying_storage, negative_stride, packed_archive,
    *(truncated(name) for name in ("frames.pt", "masks.pt", "coords.pkl", "avator_info.json")),
    *(missing(name) for name in SEVEN), *(linked(name) for name in SEVEN),
    pipe_in_place_of_frames, folder_in_place_of_a_file, flipped_bit,
    info_is("[]"), info_is('{"avatar_id": "berta"}'), info_is('{"packet_version": 99}'), info_is('{"digests": 5}'),
    info_is('{"digests": {"../x": "0"}}'), info_is('{"digests": {"frames.pt": "0"}}'), info_is("\x00"),
    huge_memo, deep_json,
]  # fmt: skip


@pytest.mark.parametrize("damage", HOSTILE, ids=lambda damage: damage.__name__)
def test_a_hostile_packet_is_refused_and_nothing_of_it_runs(foreign, damage):
    folder = foreign.root / "anna"
    damage(folder)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises((PacketInvalid, PacketVersion)) as refused:
        foreign.open("anna")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert sorted(path.name for path in folder.iterdir()) == before
    assert not TRACE.exists()


def test_four_channels_are_refused_with_the_reason(foreign):
    four_channels(foreign.root / "anna")
    with pytest.raises(PacketInvalid, match="beige patch"):
        foreign.open("anna")


SIDECARS = ["anchors.safetensors", "landings.safetensors", "landmarks.safetensors"]


@pytest.mark.parametrize("name", [*SEVEN[:6], *SIDECARS])
def test_one_bit_changed_in_any_file_of_ours_is_found(clip, name):
    path = clip.root / "anna" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PacketInvalid, match="SHA-256"):
        AvatarStore(clip.root).open("anna")


@pytest.mark.parametrize("name", SIDECARS)
def test_sidecars_that_do_not_fit_are_refused_even_with_right_digests(clip, name):
    folder = clip.root / "anna"
    data = (folder / name).read_bytes()
    info = json.loads((folder / "avator_info.json").read_text())
    for changed in (
        data[:100],
        data.replace(b'"shape":[', b'"shape":[9,'),
        data.replace(b"U8", b"F3"),
        b"",
        b"\xff" * 64,
    ):
        (folder / name).write_bytes(changed)
        write_info(folder, {k: v for k, v in info.items() if k not in ("digests", "timestamp")})
        if changed == data:
            continue
        with pytest.raises(PacketInvalid):
            AvatarStore(clip.root).open("anna")


def test_the_folder_itself_may_not_be_a_link(clip, tmp_path):
    shutil.move(clip.root / "anna", tmp_path / "moved")
    (clip.root / "anna").symlink_to(tmp_path / "moved")
    with pytest.raises(AvatarError, match="a link"):
        clip.open("anna")


def test_a_changed_file_is_searched_again_by_a_store_that_knew_the_old_one(foreign):
    foreign.verify("anna")
    foreign.open("anna")
    nan_latents(foreign.root / "anna")
    with pytest.raises(PacketInvalid, match="finite"):
        foreign.open("anna")


@pytest.mark.parametrize(
    "told",
    [
        {"dimensions": {"width": "wide", "height": None}},
        {"dimensions": {"width": 1e400, "height": [3]}},
        {"dimensions": 7, "cycle_frames": {}},
        {"cycle_frames": 10**30},
        {"title": "half a pair \ud800"},
        {"title": ["x"] * 5000, "kind": {"a": 1}, "report": {"grade": "A" * 9000}},
        {"digests": [], "timestamp": float("nan")},
    ],
    ids=["words", "infinity", "no object", "a huge number", "half a surrogate", "lists", "no digests"],
)
def test_whatever_a_strangers_description_says_the_list_goes_on(foreign, told):
    path = foreign.root / "anna"
    info = json.loads((path / "avator_info.json").read_text()) | told
    (path / "avator_info.json").write_text(json.dumps(info))
    for entry in foreign.list():
        assert entry.width > 0
        assert len(entry.title) <= 80
        entry.title.encode()


def test_folder_that_another_takes_for_a_leftover_before_it_is_claimed_is_made_again(tmp_path, monkeypatch):
    real, taken = fcntl.flock, []

    def late(lock, how):
        if how == fcntl.LOCK_EX and not taken:  # another process looks for leftovers in this very moment
            taken.extend(tmp_path.glob(".*"))
            folders.remove_leftovers(tmp_path)
        real(lock, how)

    monkeypatch.setattr(folders.fcntl, "flock", late)
    with folders.replacing(tmp_path, "ruby") as making:
        (making / "frames.pt").write_bytes(b"frames")
    assert len(taken) == 1
    assert (tmp_path / "ruby" / "frames.pt").read_bytes() == b"frames"
    assert [path.name for path in tmp_path.iterdir()] == ["ruby"]
