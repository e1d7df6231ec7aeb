"""Clips of any rate and rotation become packets on the 25 fps grid, there and back, whatever their frames hold."""

from __future__ import annotations

from fractions import Fraction

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.clip import forward_backward, steady
from avatars.clipfile import ClipFile, is_clip
from avatars.errors import FaceNotFound, PortraitRejected
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import FaceSettings
from avatars.store import AvatarStore
from avatars.workshop import Recipe, Workshop

pytestmark = pytest.mark.unit

PORTRAIT = load_picture(bundled_portraits()[0].path, max_side_px=320)


def write_clip(path, frames, rate=25, stamps=None, codec="libx264"):
    """frames: RGB pictures; stamps: their times in ms, evenly spaced by default."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(rate))
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.options = {"preset": "ultrafast", "crf": "12"}
        if stamps is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for i, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")
            if stamps is not None:
                frame.pts, frame.time_base = stamps[i], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def counting(count):
    """Pictures whose brightness is their number."""
    return [np.full((48, 64, 3), 16 + 3 * i, np.uint8) for i in range(count)]


def numbers(clip):
    return [round((float(frame.mean()) - 16) / 3) for frame in clip]


def swaying(count, missing=()):
    frames = []
    for i in range(count):
        turn = cv2.getRotationMatrix2D((160, 250), 2 * np.sin(i / 4), 1)
        frame = cv2.warpAffine(PORTRAIT, turn, (320, 320), borderMode=cv2.BORDER_REPLICATE)
        frames.append(np.full_like(frame, 80) if i in missing else frame)
    return frames


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    store = AvatarStore(tmp_path_factory.mktemp("store"))
    return Workshop(store, finder=FaceMesh()), store


@pytest.mark.parametrize("rate", [10, 12.5, 15, 24, 25, Fraction(30000, 1001), 30, 50, 60])
def test_motion_keeps_its_speed_at_every_rate(tmp_path, rate):
    rate = Fraction(rate)
    count = int(2 * rate)
    shown = numbers(ClipFile(write_clip(tmp_path / "a.mp4", counting(min(count, 75)), rate), 1920, 1080))
    seconds = min(count, 75) / rate
    assert abs(len(shown) - float(seconds * 25)) <= 1
    for k, number in enumerate(shown):
        assert abs(number / rate - Fraction(k, 25)) <= Fraction(1, 25) / 2 + 1 / rate


def test_25_fps_is_taken_frame_by_frame(tmp_path):
    assert numbers(ClipFile(write_clip(tmp_path / "a.mp4", counting(40)), 1920, 1080)) == list(range(40))


def test_a_clip_of_changing_rate_keeps_its_timing(tmp_path):
    stamps = [0, 40, 80, 200, 600, 640, 1000]
    shown = numbers(ClipFile(write_clip(tmp_path / "a.mkv", counting(7), stamps=stamps), 1920, 1080))
    assert shown[:4] == [0, 1, 2, 2]
    assert shown[5:15] == [3] * 10
    assert shown[16:25] == [5] * 9
    assert shown[25] == 6


def test_an_animation_is_a_clip_and_a_still_is_not(tmp_path):
    pictures = [Image.fromarray(frame) for frame in counting(8)]
    pictures[0].save(tmp_path / "a.gif", save_all=True, append_images=pictures[1:], duration=80)
    pictures[0].save(tmp_path / "still.gif")
    pictures[0].save(tmp_path / "still.png")
    assert is_clip(tmp_path / "a.gif")
    assert not is_clip(tmp_path / "still.gif")
    assert not is_clip(tmp_path / "still.png")
    assert not is_clip(tmp_path / "missing.mp4")
    assert len(list(ClipFile(tmp_path / "a.gif", 1920, 1080))) == 16


def test_there_and_back_shows_no_frame_twice_in_a_row():
    for count in range(1, 9):
        order = forward_backward(count)
        assert sorted(set(order)) == list(range(count))
        if count > 1:
            assert all(abs(a - b) == 1 for a, b in zip(order, order[1:] + order[:1], strict=True))


def test_landmarks_are_steadied_but_not_across_a_gap():
    rng = np.random.default_rng(1)
    still = np.full((468, 2), 100, np.float32)
    meshes = [still + rng.normal(0, 2, still.shape).astype(np.float32) for _ in range(40)]
    meshes[20:22] = [None, None]
    meshes[22:] = [mesh + 300 for mesh in meshes[22:]]
    smooth = steady(meshes)
    assert smooth[20] is smooth[21] is None
    before = np.stack([m - 100 for m in meshes[5:15]])
    after = np.stack([m - 100 for m in smooth[5:15]])
    assert np.abs(np.diff(after, axis=0)).mean() < 0.4 * np.abs(np.diff(before, axis=0)).mean()
    assert abs(smooth[19].mean() - 100) < 2
    assert abs(smooth[22].mean() - 400) < 2


def test_a_clip_becomes_a_packet_there_and_back(workshop, tmp_path):
    shop, store = workshop
    frames = swaying(14)
    shop.make(write_clip(tmp_path / "sway.mp4", frames), "sway")
    packet = store.open("sway")
    assert packet.cycle_frames == 26
    assert packet.anchors.order.tolist() == forward_backward(14)
    for k in (0, 5, 13, 14, 25):
        assert np.array_equal(packet.frames[k], packet.frames[26 - k if k > 13 else k])
        picture = packet.frames[k].transpose(1, 2, 0).astype(int)
        assert np.abs(picture - frames[forward_backward(14)[k]]).mean() < 6
    moves = np.diff(np.array(packet.coords[:14]), axis=0)
    assert np.abs(moves).max() <= 8
    canvas = Canvas(packet, 256)
    patch = np.full((256, 256, 3), 128, np.uint8)
    assert all((canvas.blend(k, patch) != canvas.anchor(k)).any() for k in range(26))


def test_frames_without_a_face_keep_their_place_and_show_as_they_are(workshop, tmp_path):
    shop, store = workshop
    made = shop.make(write_clip(tmp_path / "gap.mp4", swaying(16, missing={0, 7, 8, 9})), "gap")
    packet = store.open("gap")
    assert packet.cycle_frames == 30
    assert made.info["faceless"] == [0, 7, 8, 9, 21, 22, 23]
    assert made.info["report"]["faceless_frames"] == 4
    canvas = Canvas(packet, 256)
    patch = np.full((256, 256, 3), 128, np.uint8)
    for k in range(30):
        changed = bool((canvas.blend(k, patch) != canvas.anchor(k)).any())
        assert changed == (k not in made.info["faceless"])
        assert np.isnan(packet.landmarks[k]).any() == (k in made.info["faceless"])


def test_a_clip_without_anybody_is_refused(workshop, tmp_path):
    shop, _ = workshop
    with pytest.raises(FaceNotFound, match=r"empty\.mp4: use a clip"):
        shop.make(write_clip(tmp_path / "empty.mp4", counting(12)), "empty")


def test_a_clip_too_long_or_too_large_is_refused_with_what_would_fit(tmp_path):
    path = write_clip(tmp_path / "long.mp4", counting(2), stamps=[0, 70_000])
    with pytest.raises(PortraitRejected, match="cut it to 60 s"):
        ClipFile(path, 1920, 1080)
    path = write_clip(tmp_path / "large.mp4", [np.zeros((1080, 1920, 3), np.uint8)] * 2, stamps=[0, 50_000])
    with pytest.raises(PortraitRejected, match=r"GB.*--max-height \d+"):
        ClipFile(path, 1920, 1080)
    assert ClipFile(path, 640, 360).size_px == (640, 360)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("list.m3u8", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n#EXT-X-ENDLIST\n"),
        ("list.mp4", b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:1/x.ts\n#EXT-X-ENDLIST\n"),
        ("list.ffconcat", b"ffconcat version 1.0\nfile /etc/passwd\n"),
        ("junk.mp4", b"\0\0\0\x18ftypmp42" + b"\xff" * 500),
    ],
)
def test_playlists_and_junk_are_never_followed(workshop, tmp_path, name, data):
    shop, _ = workshop
    (tmp_path / name).write_bytes(data)
    assert not is_clip(tmp_path / name)
    with pytest.raises(PortraitRejected):
        ClipFile(tmp_path / name, 1920, 1080)
    with pytest.raises(PortraitRejected):
        shop.make(tmp_path / name, "nobody")


def test_a_clip_that_breaks_off_is_used_as_far_as_it_goes(tmp_path):
    path = write_clip(tmp_path / "whole.mkv", counting(50))
    data = path.read_bytes()
    (tmp_path / "cut.mkv").write_bytes(data[: len(data) * 2 // 3])
    shown = numbers(ClipFile(tmp_path / "cut.mkv", 1920, 1080))
    assert 5 < len(shown) < 50
    assert shown == list(range(len(shown)))


def test_a_packet_is_made_again_only_when_something_changed(workshop, tmp_path):
    shop, store = workshop
    source = write_clip(tmp_path / "c.mp4", swaying(6))
    assert shop.make(source, "again").fresh
    assert not shop.make(source, "again").fresh
    assert shop.make(source, "again", Recipe(FaceSettings(bbox_shift_px=3))).fresh
    assert shop.make(source, "again").fresh
    assert shop.make(source, "again", Recipe(again=True)).fresh
    (store.root / "again" / "masks.pt").write_bytes(b"damaged")
    assert shop.make(source, "again").fresh
    write_clip(source, swaying(5))
    assert shop.make(source, "again").fresh
