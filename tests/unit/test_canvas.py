"""The streamed frame: the anchor with a mouth in it, and not a byte else; what is handed out never changes."""

from __future__ import annotations

import functools
import threading
import tracemalloc
from dataclasses import dataclass, replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatars.blend import blend_rgb
from avatars.canvas import Canvas
from avatars.colour import i420_to_rgb, rgb_to_i420, split_planes
from avatars.geometry import compute_avatar_crop_geometry
from avatars.packet import AvatarPacket
from streamer.bench.blending import make_scene
from streamer.graphics.badge import Badge

pytestmark = pytest.mark.unit


@dataclass
class Lids:
    rect: tuple[int, int, int, int]
    pixels: np.ndarray
    mask: np.ndarray


@functools.cache
def scene(width, height, seed=1):
    """Smooth colours with some detail: what photographs are made of."""
    rng = np.random.default_rng(seed)
    coarse = cv2.resize(
        rng.integers(40, 216, (9, 9, 3), dtype=np.uint8), (width, height), interpolation=cv2.INTER_CUBIC
    )
    fine = cv2.GaussianBlur(rng.integers(0, 256, (height, width, 3), dtype=np.uint8), (0, 0), 2.0)
    return cv2.addWeighted(coarse, 0.7, fine, 0.3, 0.0)


def make_packet(width, height, box, frames=1, distinct=False):
    geometry = compute_avatar_crop_geometry(*box, width, height)
    x1, y1, x2, y2 = box
    whole = np.zeros((height, width), np.float32)
    whole[(y1 + y2) // 2 : y2 - max(2, (y2 - y1) // 20), x1 + (x2 - x1) // 16 : x2 - (x2 - x1) // 16] = 1.0
    whole = cv2.GaussianBlur(whole, (0, 0), max(1.0, (x2 - x1) / 60))
    whole[:y1], whole[y2:], whole[:, :x1], whole[:, x2:] = 0, 0, 0, 0
    mask = np.ascontiguousarray(whole[geometry.y_s : geometry.y_e, geometry.x_s : geometry.x_e])[None]
    pictures = [scene(width, height, seed).transpose(2, 0, 1) for seed in range(frames if distinct else 1)]
    stack = np.stack(pictures) if distinct else np.broadcast_to(pictures[0], (frames, 3, height, width))
    return AvatarPacket("test", stack, None, (mask,) * frames, (geometry,) * frames, (box,) * frames)


def frame_of(packet, index=0):
    return np.ascontiguousarray(packet.frames[index % packet.cycle_frames].transpose(1, 2, 0))


def reference(packet, patch, index=0):
    blended = blend_rgb(frame_of(packet, index), patch, packet.masks[0], packet.mask_coords[0], packet.coords[0])
    height, width = blended.shape[0] & ~1, blended.shape[1] & ~1
    return rgb_to_i420(blended[:height, :width])


@given(
    size=st.sampled_from([(420, 360), (301, 419), (333, 333)]),
    corner=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    face=st.tuples(st.integers(130, 280), st.integers(130, 280)),
)
def test_blend_is_close_to_the_rgb_blend_for_any_box_and_changes_nothing_outside_the_crop(size, corner, face):
    width, height = size
    x1, y1 = min(corner[0], width - 130), min(corner[1], height - 130)
    box = (x1, y1, min(width, x1 + face[0]), min(height, y1 + face[1]))
    packet = make_packet(width, height, box)
    canvas = Canvas(packet, 4096)
    patch = scene(256, 256, seed=7)
    found = canvas.blend(0, patch)
    error = np.abs(found.astype(int) - reference(packet, patch))
    assert error.max() <= 3
    assert (error > 2).mean() < 1e-4
    x_s, y_s, x_e, y_e = packet.mask_coords[0]
    for plane, anchor, step in zip(split_planes(found), split_planes(canvas.anchor(0)), (1, 2, 2), strict=True):
        changed = np.argwhere(plane != anchor)
        if len(changed):
            (top, left), (bottom, right) = changed.min(axis=0) * step, changed.max(axis=0) * step
            assert x_s - 1 <= left <= right < x_e
            assert y_s - 1 <= top <= bottom < y_e


@pytest.mark.parametrize("size", [(768, 768), (990, 990), (1024, 1024), (1080, 1080), (1280, 720)])
def test_blend_of_a_face_is_within_two_levels_of_the_rgb_blend(size):
    """Another person's face in a portrait: more change of every colour than any mouth makes."""
    scene_of = make_scene(size)
    packet = scene_of.packet
    canvas = Canvas(packet, max(size))
    for patch in (scene_of.patch, np.ascontiguousarray(scene_of.patch[:, ::-1])):
        exact = blend_rgb(scene_of.frame, patch, packet.masks[0], packet.mask_coords[0], packet.coords[0])
        assert np.abs(canvas.blend(0, patch).astype(int) - rgb_to_i420(exact)).max() <= 2


@pytest.mark.parametrize("box", [(101, 60, 511, 571), (100, 61, 442, 500), (0, 0, 601, 640), (333, 222, 640, 640)])
def test_a_far_enlarged_patch_is_blended_as_closely(box):
    packet = make_packet(640, 641, box)
    patch = scene(256, 256, seed=7)
    error = np.abs(Canvas(packet, 4096).blend(0, patch).astype(int) - reference(packet, patch))
    assert error.max() <= 3
    assert (error > 2).mean() < 1e-4


@pytest.mark.parametrize("max_side_px", [64, 200, 333, 512, 2000])
@pytest.mark.parametrize("size", [(641, 481), (480, 641), (255, 255), (640, 480)])
def test_every_size_streams_even_and_none_is_enlarged(size, max_side_px):
    width, height = size
    canvas = Canvas(make_packet(width, height, (60, 50, 190, 200)), max_side_px)
    assert canvas.size_px[0] % 2 == canvas.size_px[1] % 2 == 0
    assert max(canvas.size_px) <= min(max_side_px, max(width, height))
    assert abs(canvas.size_px[0] / canvas.size_px[1] - width / height) < 0.06
    assert canvas.anchor(0).shape == (canvas.size_px[1] * 3 // 2, canvas.size_px[0])
    assert canvas.blend(0, scene(256, 256)).shape == canvas.anchor(0).shape


@pytest.mark.parametrize("max_side_px", [4096, 512, 300, 257])
@pytest.mark.parametrize("patch_px", [128, 192, 256])
def test_a_mouth_that_does_not_move_leaves_the_picture_as_it_was(max_side_px, patch_px):
    """Half a pixel of misplacement at any size would show at every start and end of speech."""
    smooth = cv2.GaussianBlur(scene(641, 600), (0, 0), 4)
    packet = make_packet(641, 600, (201, 143, 437, 491))
    packet = replace(packet, frames=smooth.transpose(2, 0, 1)[None])
    patch = cv2.resize(smooth[143:491, 201:437], (patch_px, patch_px), interpolation=cv2.INTER_AREA)
    canvas = Canvas(packet, max_side_px)
    change = np.abs(canvas.blend(0, patch).astype(int) - canvas.anchor(0))
    assert change.mean() < 0.2
    assert np.percentile(change[change > 0], 99) <= 4


def test_a_still_packet_keeps_one_set_of_planes():
    canvas = Canvas(make_packet(320, 320, (90, 80, 230, 260), frames=25), 4096)
    assert all(canvas.anchor(i) is canvas.anchor(0) for i in range(60))


def test_a_clip_shows_the_frame_of_its_index():
    packet = make_packet(320, 240, (90, 40, 230, 210), frames=5, distinct=True)
    canvas = Canvas(packet, 4096)
    for index in (0, 3, 4, 5, 13):
        assert np.array_equal(canvas.anchor(index), rgb_to_i420(frame_of(packet, index)))
        found = canvas.blend(index, scene(256, 256, 9))
        assert np.abs(found.astype(int) - reference(packet, scene(256, 256, 9), index)).max() <= 3


def test_a_long_clip_takes_no_more_memory_than_it_may_and_looks_the_same_each_round(monkeypatch):
    for cache in ("backdrop.ANCHOR_CACHE_BYTES", "backdrop.SPOT_CACHE_BYTES", "canvas.INLAY_CACHE_BYTES"):
        monkeypatch.setattr(f"avatars.{cache}", 1 << 18)
    packet, patch = make_packet(320, 240, (90, 40, 230, 210), frames=24, distinct=True), scene(256, 256, 9)
    canvas = Canvas(packet, 4096)
    tracemalloc.start()
    try:
        for index in range(48):
            canvas.blend(index, patch)
        assert tracemalloc.get_traced_memory()[0] < 3 << 19
    finally:
        tracemalloc.stop()
    for index in (0, 11, 23):
        assert np.array_equal(canvas.blend(index, patch), Canvas(packet, 4096).blend(index, patch))


def test_nothing_that_was_handed_out_ever_changes():
    canvas = Canvas(make_packet(320, 320, (90, 80, 230, 260)), 4096)
    anchor = canvas.anchor(0).copy()
    held = [canvas.blend(i, scene(256, 256, i)) for i in range(60)]
    parts = [split_planes(canvas.blend(0, scene(256, 256, i))).y for i in range(60)]
    copies, part_copies = [h.copy() for h in held], [p.copy() for p in parts]
    for i in range(60):
        canvas.blend(i, scene(256, 256, 1000 + i))
    assert all(np.array_equal(a, b) for a, b in zip(held, copies, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(parts, part_copies, strict=True))
    assert np.array_equal(canvas.anchor(0), anchor)
    with pytest.raises(ValueError, match="read-only"):
        held[0][0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        canvas.anchor(0)[0, 0] = 1


def test_frames_nobody_holds_are_drawn_on_again():
    canvas = Canvas(make_packet(320, 320, (90, 80, 230, 260)), 4096)
    places = set()
    for i in range(20):
        places.add(canvas.blend(0, scene(256, 256, i)).__array_interface__["data"][0])
    assert len(places) == 1


def test_two_threads_never_draw_on_one_frame():
    canvas = Canvas(make_packet(320, 320, (90, 80, 230, 260)), 4096)
    patches = [scene(256, 256, i) for i in range(2)]
    expected = [canvas.blend(0, patch).copy() for patch in patches]
    wrong = []

    def work(which):
        for _ in range(300):
            if not np.array_equal(canvas.blend(0, patches[which]), expected[which]):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_lids_lie_over_the_patch_and_leave_with_it():
    canvas = Canvas(make_packet(320, 320, (90, 80, 230, 260)), 4096)
    patch = scene(256, 256, 3)
    plain = canvas.blend(0, patch).copy()
    lids = Lids((40, 60, 216, 110), np.full((50, 176, 3), 200, np.uint8), np.ones((50, 176), np.float32))
    shut = i420_to_rgb(canvas.blend(0, patch, [lids]))
    assert abs(int(shut[80 + 60, 160].mean()) - 200) < 4
    assert np.array_equal(canvas.blend(0, patch), plain)


def test_mixing_eases_the_mouth_and_nothing_else():
    canvas = Canvas(make_packet(320, 320, (90, 80, 230, 260)), 4096)
    spoken, anchor = canvas.blend(0, scene(256, 256, 3)), canvas.anchor(0)
    half = canvas.mix(spoken, anchor, 0.5, 0)
    assert np.array_equal(canvas.mix(spoken, anchor, 0.0, 0), spoken)
    assert np.array_equal(canvas.mix(spoken, anchor, 1.0, 0), anchor)
    assert np.abs(half.astype(int) - (spoken.astype(int) + anchor) / 2).max() <= 1


def test_a_frame_without_a_face_is_shown_as_it_is():
    packet = make_packet(320, 320, (90, 80, 230, 260))
    packet = replace(packet, masks=(np.zeros_like(packet.masks[0]),))
    canvas = Canvas(packet, 4096)
    assert np.array_equal(canvas.blend(0, scene(256, 256)), canvas.anchor(0))
    assert np.array_equal(canvas.mix(canvas.anchor(0), canvas.anchor(0), 0.5, 0), canvas.anchor(0))


def test_colours_come_back_from_i420():
    smooth = cv2.GaussianBlur(scene(256, 256), (0, 0), 3)
    assert np.abs(i420_to_rgb(rgb_to_i420(smooth)).astype(int) - smooth).mean() < 2


@pytest.mark.parametrize("max_side_px", [512, 256])
def test_badge_stays_whole_where_mouth_and_lids_reach_under_it_and_changes_nothing_else(max_side_px):
    box = (280, 4, 508, 236)  # a face in the upper right corner: its lower half ends under the badge's place
    packet = make_packet(512, 256, box)
    whole = np.zeros((256, 512), np.float32)
    whole[box[1] : box[3], box[0] : box[2]] = 1.0
    geometry = packet.geometry[0]
    mask = np.ascontiguousarray(whole[geometry.y_s : geometry.y_e, geometry.x_s : geometry.x_e])[None]
    packet = replace(packet, masks=(mask,))
    marked, plain = Canvas(packet, max_side_px, mark=Badge("AI")), Canvas(packet, max_side_px)
    x1, y1, x2, y2 = Badge("AI").rect(marked.size_px)
    patch = np.full((64, 64, 3), (250, 30, 200), np.uint8)
    lids = Lids((32, 0, 64, 32), np.full((32, 32, 3), 255, np.uint8), np.ones((32, 32), np.float32))
    for index in range(3):
        frame, bare = marked.blend(index, patch, [lids]), plain.blend(index, patch, [lids])
        anchor, bare_anchor = marked.anchor(index), plain.anchor(index)
        mixed = marked.mix(frame, anchor, 0.5, index)
        for place, planes in enumerate(map(split_planes, (frame, bare, anchor, bare_anchor, mixed))):
            step = slice(y1, y2), slice(x1, x2)
            half = slice(y1 // 2, y2 // 2), slice(x1 // 2, x2 // 2)
            under = [plane[part].copy() for plane, part in zip(planes, (step, half, half), strict=True)]
            beside = [np.asarray(plane, int).copy() for plane in planes]
            for plane, part in zip(beside, (step, half, half), strict=True):
                plane[part] = 0
            if place == 0:
                shown, rest = under, beside
                assert under[0].max() > 200, "letters"
                assert np.median(under[0]) < 110, "on a dark plate"
            elif place == 1:
                assert np.abs(under[0].astype(int) - shown[0]).max() > 60
                assert all(np.array_equal(a, b) for a, b in zip(rest, beside, strict=True))
            elif place in (2, 4):
                assert all(np.array_equal(a, b) for a, b in zip(shown, under, strict=True))
