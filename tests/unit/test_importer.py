"""Avatars made elsewhere come in whole: MuseTalk's own folders with all their oddities, and fleets of seven files."""

from __future__ import annotations

import json
import os
import pickle  # noqa: TID251 - writing what MuseTalk writes
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.errors import PacketInvalid, PortraitRejected
from avatars.faces import FaceMesh
from avatars.importer import import_avatar
from avatars.masks import unclamped_crop
from avatars.picture import load_picture
from avatars.store import AvatarStore
from avatars.torchfile import write_torch_file
from avatars.workshop import Workshop

pytestmark = pytest.mark.unit

PORTRAIT = load_picture(bundled_portraits()[0].path, max_side_px=320)
BOX = (105, 61, 216, 214)
NO_FACE = (0.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def finder():
    return FaceMesh()


@pytest.fixture
def store(tmp_path):
    return AvatarStore(tmp_path / "store")


def moved(dx, dy):
    shift = np.float32([[1, 0, dx], [0, 1, dy]])
    return cv2.warpAffine(PORTRAIT, shift, (320, 320), borderMode=cv2.BORDER_REPLICATE)


def latent(seed):
    return np.random.default_rng(seed).normal(size=(1, 8, 32, 32)).astype(np.float16)


def numpy_row(values):
    """As MuseTalk leaves its boxes: numpy numbers and plain ones mixed."""
    x1, y1, x2, y2 = values
    return [np.int32(x1), int(y1), np.int32(x2), np.int64(y2)]


def official(folder, moves, *, faceless=(), protocol=4):
    """MuseTalk's own layout: numbered PNGs there and back, masks over crops that may leave the frame, a list."""
    for name in ("full_imgs", "mask"):
        (folder / name).mkdir(parents=True)
    frames = [moved(*move) for move in moves]
    boxes = [tuple(v + move[k % 2] for k, v in enumerate(BOX)) for move in moves]
    order = [*range(len(moves)), *range(len(moves) - 1, -1, -1)]
    coords, crops, latents = [], [], []
    for n, i in enumerate(order):
        crop = unclamped_crop(boxes[i])
        mask = np.zeros((crop[3] - crop[1], crop[2] - crop[0]), np.uint8)
        mask[len(mask) // 2 : len(mask) * 3 // 4, len(mask) // 3 : len(mask) * 2 // 3] = 255
        Image.fromarray(frames[i]).save(folder / "full_imgs" / f"{n:08d}.png")
        Image.fromarray(cv2.GaussianBlur(mask, (9, 9), 0)).save(folder / "mask" / f"{n:08d}.png")
        coords.append(NO_FACE if i in faceless else numpy_row(boxes[i]))
        crops.append(numpy_row(crop))
        if i not in faceless:
            latents.append(latent(i))
    (folder / "coords.pkl").write_bytes(pickle.dumps(coords, protocol))
    (folder / "mask_coords.pkl").write_bytes(pickle.dumps(crops, protocol))
    write_torch_file(folder / "latents.pt", latents)
    info = {"avatar_id": "x", "video_path": "data/video/x.mp4", "bbox_shift": 0, "version": "v15"}
    (folder / "avator_info.json").write_text(json.dumps(info))
    return frames, boxes


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_musetalk_folder_comes_in_whole(tmp_path, store, finder, protocol):
    frames, boxes = official(tmp_path / "Anna 1", [(0, 0), (4, 2), (8, 4)], protocol=protocol)
    info = import_avatar(tmp_path / "Anna 1", store, "anna", finder=finder)
    packet = store.open("anna")
    assert info["cycle_frames"] == packet.cycle_frames == 4, "neither end twice"
    for k, i in enumerate([0, 1, 2, 1]):
        assert np.array_equal(packet.frames[k].transpose(1, 2, 0), frames[i])
        assert np.array_equal(packet.latents[k], latent(i)[0])
        assert packet.coords[k] == boxes[i]
        assert np.isfinite(packet.landmarks[k]).all()
    assert info["imported"] == {"layout": "musetalk", "pictures": 6, "mirrored": True}


def test_masks_over_crops_that_leave_the_frame_land_where_musetalk_blends_them(tmp_path, store, finder):
    _, (box,) = official(tmp_path / "a", [(-90, -55)])
    import_avatar(tmp_path / "a", store, "a", finder=finder)
    packet = store.open("a")
    crop = unclamped_crop(box)
    assert crop[0] < 0
    assert crop[1] < 0
    given = np.asarray(Image.open(tmp_path / "a" / "mask" / "00000000.png")).astype(np.float32) / 255
    x1, y1, x2, y2 = packet.mask_coords[0]
    whole = np.zeros((320, 320), np.float32)
    whole[y1:y2, x1:x2] = packet.masks[0][0]
    expected = np.zeros((320, 320), np.float32)
    expected[: crop[3], : crop[2]] = given[-crop[1] :, -crop[0] :]
    assert np.abs(whole - expected).max() < 1e-6


def test_a_single_picture_comes_in_as_a_still(tmp_path, store, finder):
    official(tmp_path / "a", [(0, 0)])
    import_avatar(tmp_path / "a", store, "a", finder=finder)
    assert store.open("a").frames.shape == (25, 3, 320, 320)
    assert store.open("a").frames.strides[0] == 0


def test_frames_without_a_face_do_not_shift_the_latents_of_the_others(tmp_path, store, finder):
    """MuseTalk leaves their latents out of its list, and pairs every later frame with a wrong one."""
    official(tmp_path / "a", [(0, 0), (3, 0), (6, 0), (9, 0)], faceless={1})
    import_avatar(tmp_path / "a", store, "a", finder=finder)
    packet = store.open("a")
    for k, i in enumerate([0, 1, 2, 3, 2, 1]):
        if i != 1:
            assert np.array_equal(packet.latents[k], latent(i)[0])
        assert bool(packet.masks[k].any()) == (i != 1)
    canvas = Canvas(packet, 512)
    assert np.array_equal(canvas.blend(1, np.zeros((256, 256, 3), np.uint8)), canvas.anchor(1))


TRACE = Path(tempfile.gettempdir()) / "liveanchor-was-here"


class RunsCode:
    def __reduce__(self):
        return os.system, (f"touch {TRACE}",)


def with_code(folder):
    (folder / "coords.pkl").write_bytes(pickle.dumps([RunsCode()] * 4))


def four_channels(folder):
    (folder / "latents.pt").unlink()
    write_torch_file(folder / "latents.pt", [np.zeros((1, 4, 32, 32), np.float16)] * 4)


def latents_of_another_avatar(folder):
    (folder / "latents.pt").unlink()
    write_torch_file(folder / "latents.pt", [latent(0)] * 9)


def mask_of_another_size(folder):
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(folder / "mask" / "00000001.png")


def a_mask_is_missing(folder):
    (folder / "mask" / "00000003.png").unlink()


def a_box_far_away(folder):
    (folder / "coords.pkl").write_bytes(pickle.dumps([[900, 900, 990, 990]] * 4))


def a_file_that_is_no_picture(folder):
    (folder / "full_imgs" / "00000002.png").write_bytes(b"junk")


def a_link_to_elsewhere(folder):
    (folder / "full_imgs" / "00000002.png").unlink()
    (folder / "full_imgs" / "00000002.png").symlink_to("/etc/passwd")


def names_that_are_no_numbers(folder):
    shutil.copy(folder / "full_imgs" / "00000000.png", folder / "full_imgs" / "extra.png")


def no_coords(folder):
    (folder / "coords.pkl").unlink()


DAMAGES = [
    with_code, four_channels, latents_of_another_avatar, mask_of_another_size, a_mask_is_missing, a_box_far_away,
    a_file_that_is_no_picture, a_link_to_elsewhere, names_that_are_no_numbers, no_coords,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_folder_is_refused_and_leaves_nothing(tmp_path, store, finder, damage):
    official(tmp_path / "a", [(0, 0), (4, 2)])
    damage(tmp_path / "a")
    with pytest.raises((PacketInvalid, PortraitRejected)) as refused:
        import_avatar(tmp_path / "a", store, "a", finder=finder)
    assert "\n" not in str(refused.value)
    assert store.ids() == []
    assert not (store.root / "a").exists()


def test_a_folder_that_is_no_avatar_says_what_one_has(tmp_path, store, finder):
    (tmp_path / "photos").mkdir()
    with pytest.raises(PortraitRejected, match=r"full_imgs/.*missing: frames\.pt"):
        import_avatar(tmp_path / "photos", store, "a", finder=finder)
    with pytest.raises(PortraitRejected, match="no folder"):
        import_avatar(tmp_path / "nowhere", store, "a", finder=finder)


@pytest.fixture
def fleet_member(tmp_path, store, finder):
    """Seven files as another maker writes them: real copies of the frame, latents, numpy numbers, no digests."""
    Image.fromarray(PORTRAIT).save(tmp_path / "p.png")
    Workshop(store, finder=finder).make(tmp_path / "p.png", "ours")
    ours = store.open("ours")
    folder = tmp_path / "theirs"
    folder.mkdir()
    write_torch_file(folder / "frames.pt", np.ascontiguousarray(ours.frames))
    write_torch_file(folder / "latents.pt", np.repeat(latent(1), 25, axis=0))
    write_torch_file(folder / "masks.pt", [ours.masks[0].copy() for _ in range(25)])
    (folder / "geometry.pkl").write_bytes(pickle.dumps([tuple(np.int64(v) for v in g) for g in ours.geometry]))
    (folder / "coords.pkl").write_bytes(pickle.dumps([numpy_row(c) for c in ours.coords]))
    (folder / "mask_coords.pkl").write_bytes(pickle.dumps([list(c) for c in ours.mask_coords]))
    (folder / "avator_info.json").write_text(json.dumps({"avatar_id": "theirs", "source": "x", "cycle_frames": 25}))
    return folder


def test_a_fleet_packet_comes_in_and_shrinks_to_one_frame(store, finder, fleet_member):
    before = (fleet_member / "frames.pt").stat().st_size
    import_avatar(fleet_member, store, "anna", finder=finder)
    packet, ours = store.open("anna"), store.open("ours")
    assert np.array_equal(packet.frames, ours.frames)
    assert np.array_equal(packet.latents[7], latent(1)[0])
    assert packet.geometry == ours.geometry
    assert np.abs(packet.landmarks - ours.landmarks).max() < 1
    assert (store.root / "anna" / "frames.pt").stat().st_size < before / 20
    assert packet.anchors is not None


def test_blue_first_frames_come_in_red_first(store, finder, fleet_member):
    import_avatar(fleet_member, store, "anna", bgr=True, finder=finder)
    assert np.array_equal(store.open("anna").frames[0], store.open("ours").frames[0][::-1])


def test_a_fleet_packet_with_plain_numbers_opens_in_place(store, finder, fleet_member):
    ours = store.open("ours")
    (fleet_member / "geometry.pkl").write_bytes(pickle.dumps([tuple(g) for g in ours.geometry]))
    (fleet_member / "coords.pkl").write_bytes(pickle.dumps([list(c) for c in ours.coords]))
    shutil.copytree(fleet_member, store.root / "theirs")
    packet = store.open("theirs")
    assert np.abs(packet.landmarks - ours.landmarks).max() < 1
    assert store.entry("theirs").cycle_frames == 25
    canvas = Canvas(packet, 512)
    assert (canvas.blend(0, np.zeros((256, 256, 3), np.uint8)) != canvas.anchor(0)).any()
