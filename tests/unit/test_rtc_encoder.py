"""Encoders: what they make can be decoded, starts sharp, keeps to its rate and says the profile that was agreed."""

from __future__ import annotations

import av
import numpy as np
import pytest

from streamer.rtc.decoder import SoundDecoder
from streamer.rtc.encoder import SoundEncoder, VideoCodec, VideoEncoder, fits_h264
from streamer.rtc.inbound import Piece
from streamer.rtc.settings import PeerSettings

pytestmark = pytest.mark.unit

CODECS = [VideoCodec("VP8"), VideoCodec("H264", "42e01f"), VideoCodec("H264", "42001f")]
SIZES = [(512, 512), (256, 256), (640, 480), (642, 482)]
DECODERS = {"VP8": "libvpx", "H264": "h264"}


def face(index: int, size_px: tuple[int, int], noise: float = 0.0) -> np.ndarray:
    """Soft shapes with some fine texture and a mouth that moves, as I420 planes."""
    width, height = size_px
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    rng = np.random.default_rng(1)
    luma = 120 + 60 * np.sin(x / 37) * np.cos(y / 29) + 12 * rng.standard_normal((height, width))
    luma += noise * np.random.default_rng(index).standard_normal((height, width))
    opening = 4 + int(10 * abs(np.sin(index * 0.9)))
    luma[height // 2 : height // 2 + opening, width // 3 : width // 2] = 30
    planes = np.full((height * 3 // 2, width), 128, np.uint8)
    planes[:height] = np.clip(luma, 0, 255)
    return planes


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


@pytest.mark.parametrize("size_px", SIZES)
@pytest.mark.parametrize("codec", CODECS, ids=lambda c: f"{c.name}-{c.profile_level_id}")
def test_pictures_come_back_in_time_order_and_sharp_from_the_first(codec, size_px):
    encoder = VideoEncoder()
    decoder = av.CodecContext.create(DECODERS[codec.name], "r")
    decoder.thread_count = 1
    for index in range(5):
        planes = face(index, size_px)
        planes.flags.writeable = False
        encoded = encoder.encode(codec, planes, index, 3_000_000, keyframe=False)
        assert encoded.keyframe == (index == 0)
        assert encoded.packet.pts == index * 3600
        (frame,) = decoder.decode(av.Packet(bytes(encoded.packet)))
        assert psnr(frame.to_ndarray(format="yuv420p"), planes) > 33


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: f"{c.name}-{c.profile_level_id}")
def test_keyframe_comes_when_asked_for_and_only_then(codec):
    encoder = VideoEncoder()
    whole = [
        encoder.encode(codec, face(index, (256, 256)), index, 500_000, keyframe=index in (4, 7)).keyframe
        for index in range(10)
    ]
    assert [index for index, key in enumerate(whole) if key] == [0, 4, 7]


@pytest.mark.parametrize("codec", CODECS[:2], ids=lambda c: c.name)
def test_restless_picture_keeps_to_its_bitrate(codec):
    encoder, size_px, target_bps = VideoEncoder(), (384, 384), 500_000
    sizes = [
        encoder.encode(codec, face(index, size_px, noise=5), index, target_bps, keyframe=False).packet.size
        for index in range(40)
    ]
    assert sum(sizes[15:]) * 8 < 1.25 * target_bps


def test_new_bitrate_remakes_the_codec_once():
    encoder = VideoEncoder()
    for index, bitrate in enumerate((500_000, 500_000, 400_000, 400_000)):
        encoder.encode(VideoCodec("VP8"), face(index, (256, 256)), index, bitrate, keyframe=False)
    assert encoder.rebuilds == 1


@pytest.mark.parametrize("profile_level_id", ["42e01f", "42001f"])
def test_h264_stream_says_the_profile_and_level_of_the_answer(profile_level_id):
    encoder = VideoEncoder()
    encoded = encoder.encode(VideoCodec("H264", profile_level_id), face(0, (512, 512)), 0, 1_000_000, keyframe=False)
    data = bytes(encoded.packet)
    at = data.index(b"\x00\x00\x01\x67")
    assert data[at + 4 : at + 7].hex() == profile_level_id


def test_h264_is_offered_only_for_pictures_its_level_allows():
    assert fits_h264((512, 512))
    assert fits_h264((1280, 720))
    assert not fits_h264((1920, 1080))


@pytest.mark.parametrize("size_px", [(641, 480), (640, 481), (0, 0), (8192, 512)])
def test_odd_and_absurd_sizes_are_refused_before_any_peer_exists(size_px):
    with pytest.raises(ValueError, match="even"):
        PeerSettings(size_px=size_px)


def test_sound_survives_opus_with_little_delay():
    rng = np.random.default_rng(3)
    sound = (6000 * np.convolve(rng.standard_normal(1920 * 10), np.ones(30) / 5, "same")).clip(-32000, 32000)
    sound = sound.astype(np.int16)
    encoder, decoder, heard = SoundEncoder(), SoundDecoder(), []
    for index in range(10):
        for packet in encoder.encode(sound[index * 1920 : (index + 1) * 1920], index):
            (block,) = decoder.decode([Piece(960, packet.pts, 0, bytes(packet))])
            heard.append(block.pcm48)
    heard = np.concatenate(heard).astype(float)
    delay = int(np.argmax([np.dot(sound[4800:9600], heard[4800 + d : 9600 + d]) for d in range(600)]))
    assert delay <= 150
    assert np.corrcoef(sound[4800:9600], heard[4800 + delay : 9600 + delay])[0, 1] > 0.97


def test_broken_packets_are_concealed_and_the_length_kept():
    decoder = SoundDecoder()
    blocks = decoder.decode([Piece(960, 0, 1, b"\xf8\xff\xfe"), Piece(960, 960, 2, b"\xfb\x3f"), Piece(480, 1920, 3)])
    assert [len(block.pcm48) for block in blocks] == [960, 960, 480]
    assert [block.source_sample for block in blocks] == [0, 960, 1920]
    assert [block.concealed for block in blocks] == [False, False, True]
