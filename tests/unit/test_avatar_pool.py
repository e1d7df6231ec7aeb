"""The pool opens each packet once, sees that one was made again, and stays under its bytes."""

from __future__ import annotations

import numpy as np
import pytest

from avatars.errors import PacketMissing
from avatars.geometry import compute_avatar_crop_geometry
from avatars.packet import FramedFace
from avatars.pool import AvatarPool, size_bytes
from avatars.store import AvatarStore
from avatars.writer import PacketWriter, write_info

pytestmark = pytest.mark.unit

SIDE = 64
GEOMETRY = compute_avatar_crop_geometry(16, 16, 48, 48, SIDE, SIDE)


def make(store, avatar_id, shade=0, frames=1):
    mask = np.zeros((1, GEOMETRY.crop_height_px, GEOMETRY.crop_width_px), np.float32)
    face = FramedFace((16, 16, 48, 48), GEOMETRY, mask, np.zeros((468, 2), np.float32))
    with store.replacing(avatar_id) as folder:
        with PacketWriter(folder) as writer:
            for i in range(frames):
                writer.add_frame(np.full((SIDE, SIDE, 3), shade + i, np.uint8))
                writer.add_face(face)
            writer.finish([0] * 25 if frames == 1 else range(frames))
        write_info(folder, {"avatar_id": avatar_id, "latent_encoder": None})


@pytest.fixture
def store(tmp_path):
    store = AvatarStore(tmp_path)
    for name in ("anna", "berta", "carla"):
        make(store, name)
    return store


def test_the_second_time_is_a_hit_with_the_same_packet(store):
    pool = AvatarPool(store)
    first, hit = pool.get("anna")
    assert not hit
    second, hit = pool.get("anna")
    assert hit
    assert second is first


def test_clearing_makes_the_next_one_a_miss_and_says_how_many_went(store):
    pool = AvatarPool(store)
    for name in ("anna", "berta", "anna"):
        pool.get(name)
    assert pool.clear() == 2
    assert pool.clear() == 0
    assert not pool.get("anna")[1]
    assert pool.drop("anna")
    assert not pool.drop("anna")


def test_a_packet_made_again_is_opened_again_while_holders_keep_the_old_one(store):
    pool = AvatarPool(store)
    old, _ = pool.get("anna")
    make(store, "anna", shade=9)
    new, hit = pool.get("anna")
    assert not hit
    assert old.frames[0, 0, 0, 0] == 0
    assert new.frames[0, 0, 0, 0] == 9


def test_a_packet_that_was_removed_is_missing_at_once(store):
    pool = AvatarPool(store)
    held, _ = pool.get("anna")
    store.remove("anna")
    with pytest.raises(PacketMissing):
        pool.get("anna")
    assert held.frames[0, 0, 0, 0] == 0


def test_the_least_lately_used_leave_when_the_bytes_run_out(store):
    one = size_bytes(store.open("anna"))
    pool = AvatarPool(store, capacity_bytes=2 * one)
    pool.get("anna")
    pool.get("berta")
    pool.get("anna")
    pool.get("carla")
    assert pool.held_bytes <= 2 * one
    assert [pool.get(name)[1] for name in ("anna", "carla")] == [True, True]
    assert not pool.get("berta")[1]


def test_a_packet_larger_than_the_pool_is_held_alone(store):
    pool = AvatarPool(store, capacity_bytes=10)
    pool.get("anna")
    assert pool.get("anna")[1]
    pool.get("berta")
    assert not pool.get("anna")[1]


def test_a_still_counts_its_one_frame(store):
    make(store, "clip", frames=10)
    frame = 3 * SIDE * SIDE
    still, clip = size_bytes(store.open("anna")), size_bytes(store.open("clip"))
    assert frame < still < 3 * frame
    assert clip > 10 * frame


def test_a_bundled_portrait_is_made_when_somebody_asks_for_it(tmp_path):
    store = AvatarStore(tmp_path / "new")
    packet, hit = AvatarPool(store).get("blaze")
    assert not hit
    assert packet.landmarks is not None
    assert store.ids() == ["blaze"]


def test_a_deleted_bundled_portrait_stays_away(tmp_path):
    store = AvatarStore(tmp_path / "new")
    assert store.thumbnail("blaze", 64)[:2] == b"\xff\xd8"  # it is offered before it is made
    store.remove("blaze")
    with pytest.raises(PacketMissing):
        AvatarPool(store).get("blaze")
    with pytest.raises(PacketMissing):
        store.thumbnail("blaze")
