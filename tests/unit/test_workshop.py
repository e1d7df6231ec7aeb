"""Engines' parts in precompilation: latents, parsed masks and sidecars end up in the packet, under its digests."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

from avatars.bundled import bundled_portraits
from avatars.errors import PacketInvalid, PortraitRejected
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import Makers, latent_crop
from avatars.store import AvatarStore
from avatars.workshop import Recipe, Workshop

pytestmark = pytest.mark.unit

PORTRAIT = load_picture(bundled_portraits()[0].path, max_side_px=320)


class MeanEncoder:
    """Eight by eight means of the crop: an encoder whose output anybody can check."""

    name, revision = "mean", "1"

    def encode(self, crops):
        means = crops.reshape(len(crops), 32, 8, 32, 8, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2) / 255
        return np.concatenate([means, means[:, :1]] * 2, axis=1).astype(np.float16)


class LowerHalfParser:
    """Skin in the lower half, no nose."""

    def parse(self, crop):
        assert crop.shape == (512, 512, 3)
        parse = np.zeros((512, 512), np.uint8)
        parse[256:, 150:360] = 1
        return parse


class BoxBuilder:
    name, revision = "boxes", "1"

    def build(self, packet):
        return {"boxes": np.array(packet.coords, dtype=np.int32), "mean": packet.frames[0].mean(axis=(1, 2))}


@pytest.fixture(scope="module")
def finder():
    return FaceMesh()


@pytest.fixture
def source(tmp_path):
    Image.fromarray(PORTRAIT).save(tmp_path / "p.png")
    return tmp_path / "p.png"


def test_an_encoders_latents_are_of_the_face_box_and_named(tmp_path, source, finder):
    store = AvatarStore(tmp_path / "store")
    Workshop(store, finder=finder, makers=Makers(latents=MeanEncoder())).make(source, "p")
    packet = store.open("p")
    expected = MeanEncoder().encode(latent_crop(PORTRAIT, packet.coords[0])[None])[0]
    assert packet.latents.shape == (25, 8, 32, 32)
    assert np.array_equal(packet.latents[24], expected)
    assert packet.info["latent_encoder"] == {"name": "mean", "revision": "1"}


def test_without_an_encoder_the_packet_says_plainly_that_it_has_no_latents(tmp_path, source, finder):
    store = AvatarStore(tmp_path / "store")
    made = Workshop(store, finder=finder).make(source, "p")
    assert store.open("p").latents is None
    assert made.info["latent_encoder"] is None
    assert "MuseTalk needs the packet made again" in made.info["latents"]


def test_a_parsers_mask_takes_the_place_of_the_landmarks(tmp_path, source, finder):
    store = AvatarStore(tmp_path / "store")
    by_landmarks = Workshop(store, finder=finder).make(source, "a")
    parsed = Workshop(store, finder=finder, makers=Makers(parser=LowerHalfParser())).make(source, "b")
    assert (by_landmarks.info["mask_source"], parsed.info["mask_source"]) == ("landmarks", "parser")
    a, b = store.open("a"), store.open("b")
    assert a.coords == b.coords
    assert not np.array_equal(a.masks[0], b.masks[0])
    assert b.masks[0].max() == 1


def test_sidecars_come_back_by_the_engines_name_and_are_guarded(tmp_path, source, finder):
    store = AvatarStore(tmp_path / "store")
    Workshop(store, finder=finder, builders=[BoxBuilder()]).make(source, "p")
    packet = store.open("p")
    assert packet.sidecars["boxes"]["boxes"].tolist() == [list(box) for box in packet.coords]
    assert not packet.sidecars["boxes"]["mean"].flags.writeable
    path = store.root / "p" / "engine-boxes.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(PacketInvalid, match="engine-boxes"):
        AvatarStore(store.root).open("p")


def test_another_engine_makes_the_packet_again(tmp_path, source, finder):
    store = AvatarStore(tmp_path / "store")
    assert Workshop(store, finder=finder).make(source, "p").fresh
    encoder = Workshop(store, finder=finder, makers=Makers(latents=MeanEncoder()))
    assert encoder.make(source, "p").fresh
    assert not encoder.make(source, "p").fresh
    assert Workshop(store, finder=finder, builders=[BoxBuilder()]).make(source, "p").fresh


def test_materialised_frames_are_real_copies(tmp_path, source, finder):
    store = AvatarStore(tmp_path / "store")
    Workshop(store, finder=finder).make(source, "p", Recipe(materialise=True))
    assert store.open("p").frames.strides[0] == PORTRAIT.size


class Encoder:
    """Gives what it is told to, whatever the crop."""

    name, revision = "odd", "1"

    def __init__(self, latents):
        self.latents = latents

    def encode(self, crops):
        return self.latents


@pytest.mark.parametrize(
    "latents",
    [
        np.zeros((1, 4, 32, 32), np.float16),
        np.zeros((8, 32, 32), np.float16),
        np.zeros((1, 8, 32, 32), np.int32),
        np.full((1, 8, 32, 32), np.nan, np.float16),
        np.full((1, 8, 32, 32), 1e6, np.float32),
    ],
    ids=["four channels", "no batch", "integers", "nan", "beyond half precision"],
)
def test_an_encoder_that_gives_anything_but_latents_is_refused_and_the_old_packet_stays(
    tmp_path, source, finder, latents
):
    store = AvatarStore(tmp_path / "store")
    Workshop(store, finder=finder).make(source, "p")
    with pytest.raises(PacketInvalid, match="latents of encoder odd"):
        Workshop(store, finder=finder, makers=Makers(latents=Encoder(latents))).make(source, "p")
    assert store.verify("p").latents is None


def test_a_clips_frames_each_get_their_own_latent(tmp_path, finder):
    frames = [Image.fromarray(np.roll(PORTRAIT, 4 * i, axis=1)) for i in range(3)]
    frames[0].save(tmp_path / "c.webp", save_all=True, append_images=frames[1:], duration=40, lossless=True)
    store = AvatarStore(tmp_path / "store")
    Workshop(store, finder=finder, makers=Makers(latents=MeanEncoder())).make(tmp_path / "c.webp", "c")
    packet = store.open("c")
    assert packet.latents.shape == (packet.cycle_frames, 8, 32, 32)
    for i, box in enumerate(packet.coords):
        rgb = np.ascontiguousarray(packet.frames[i].transpose(1, 2, 0))
        assert np.array_equal(packet.latents[i], MeanEncoder().encode(latent_crop(rgb, box)[None])[0])


class ChokingFinder:
    """A library that cannot take a picture."""

    def find(self, rgb):
        return cv2.resize(rgb, (0, 0))

    def follow(self, rgb, previous):
        raise AssertionError("a still is not followed")


def test_a_picture_that_a_library_chokes_on_is_refused_in_one_line(tmp_path, source):
    store = AvatarStore(tmp_path / "store")
    with pytest.raises(PortraitRejected, match=r"p\.png: it cannot be worked with"):
        Workshop(store, finder=ChokingFinder()).make(source, "p")
    assert list((tmp_path / "store").iterdir()) == []
