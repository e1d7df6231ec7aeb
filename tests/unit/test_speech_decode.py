"""Pushed sound: every accepted format arrives whole at 48 kHz mono; hostile files get the right status."""

import io
import struct

import av
import numpy as np
import pytest
import soundfile
import soxr

from streamer.errors import SpeechRejected
from streamer.speech import SpeechLimits, decode_speech

pytestmark = pytest.mark.unit

FORMATS = {
    "wav": ("wav", "pcm_s16le", "s16", 44_100),
    "wav24": ("wav", "pcm_s24le", "s32", 96_000),
    "wav_float": ("wav", "pcm_f32le", "flt", 16_000),
    "wav_u8": ("wav", "pcm_u8", "u8", 8_000),
    "flac": ("flac", "flac", "s16", 22_050),
    "mp3": ("mp3", "libmp3lame", "s16p", 44_100),
    "opus": ("ogg", "libopus", "s16", 48_000),
    "vorbis": ("ogg", "vorbis", "fltp", 32_000),
}


def tone(seconds: float, rate_hz: int, hz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def sound_file(name: str, sound: np.ndarray, channels: int = 1, rate_hz: int | None = None) -> bytes:
    container, codec, sample_format, usual_hz = FORMATS[name]
    rate_hz = rate_hz or usual_hz
    body = io.BytesIO()
    if name == "vorbis":
        soundfile.write(body, np.repeat(sound[:, None], channels, 1), rate_hz, format="OGG", subtype="VORBIS")
        return body.getvalue()
    with av.open(body, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate_hz, layout="stereo" if channels == 2 else "mono", format=sample_format)
        frame = av.AudioFrame.from_ndarray(
            np.repeat(sound[None], channels, 0), "fltp", "stereo" if channels == 2 else "mono"
        )
        frame.sample_rate = rate_hz
        converter = av.AudioResampler(
            sample_format, layout=frame.layout.name, rate=rate_hz, frame_size=stream.frame_size or 0
        )
        for piece in (*converter.resample(frame), *converter.resample(None)):
            out.mux(stream.encode(piece))
        out.mux(stream.encode(None))
    return body.getvalue()


def wav_header(data_bytes: int, rate_hz: int = 48_000, channels: int = 1, code: int = 1, bits: int = 16) -> bytes:
    block = channels * bits // 8
    chunk = struct.pack("<HHIIHH", code, channels, rate_hz, rate_hz * block & 0xFFFFFFFF, block & 0xFFFF, bits)
    return (
        b"RIFF"
        + struct.pack("<I", 0xFFFFFFFF)
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + chunk
        + b"data"
        + struct.pack("<I", data_bytes)
    )


def rejected(body: bytes, content_type: str | None = None, limits: SpeechLimits | None = None) -> int:
    with pytest.raises(SpeechRejected) as caught:
        decode_speech(body, content_type, limits or SpeechLimits())
    assert caught.value.reason
    return caught.value.status


def outcome(body: bytes, limits: SpeechLimits | None = None) -> tuple[int, int]:
    """Status (200 where it was accepted) and samples of a push."""
    try:
        return 200, len(decode_speech(body, None, limits or SpeechLimits()))
    except SpeechRejected as refusal:
        return refusal.status, 0


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_arrives_whole_at_48_khz_mono(name: str, channels: int) -> None:
    rate_hz = FORMATS[name][3]
    pcm = decode_speech(sound_file(name, tone(1.0, rate_hz), channels), None)

    assert pcm.dtype == np.int16
    assert pcm.ndim == 1
    assert abs(len(pcm) - 48_000) <= 48_000 * 0.06
    middle = pcm[12_000:36_000].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(int(spectrum.argmax()) * 48_000 / len(middle) - 440.0) < 3.0
    assert 0.3 < np.sqrt(np.mean(middle**2)) / 32768 < 0.4


def test_stereo_is_averaged_not_summed() -> None:
    left = (tone(0.5, 48_000) * 32767).astype("<i2")
    body = wav_header(len(left) * 4, channels=2) + np.stack([left, -left], 1).tobytes()

    assert np.abs(decode_speech(body, None)).max() <= 1


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 44_100, 48_000])
def test_resampling_in_pieces_is_resampling_at_once(rate_hz: int) -> None:
    rng = np.random.default_rng(3)
    sound = (rng.standard_normal(2 * rate_hz) * 0.1).astype(np.float32)
    pcm16 = np.round(sound * 32768).astype("<i2")

    pieces = decode_speech(wav_header(pcm16.nbytes, rate_hz) + pcm16.tobytes(), None).astype(np.float64) / 32768
    whole = soxr.resample(pcm16.astype(np.float32) / 32768, rate_hz, 48_000, quality="HQ")

    assert abs(len(pieces) - len(whole)) <= 1
    count = min(len(pieces), len(whole))
    error = pieces[:count] - whole[:count]
    assert np.mean(error**2) < 1e-6 * np.mean(whole**2)


def test_a_header_that_promises_more_than_it_holds_gives_what_is_there() -> None:
    pcm = (tone(0.5, 48_000) * 32767).astype("<i2")

    assert len(decode_speech(wav_header(0x7FFFF000) + pcm.tobytes(), "audio/wav")) == 24_000


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus"])
def test_a_cut_file_is_refused_or_gives_no_more_than_it_holds(name: str) -> None:
    body = sound_file(name, tone(2.0, FORMATS[name][3]))
    for keep in (4, 20, 60, len(body) // 3, len(body) - 7):
        status, samples = outcome(body[:keep])
        assert status in (200, 400, 415)
        assert (samples > 0) == (status == 200)
        assert samples <= 98_000


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus", "vorbis"])
def test_flipped_bytes_never_raise_anything_else(name: str) -> None:
    body = bytearray(sound_file(name, tone(0.5, FORMATS[name][3])))
    rng = np.random.default_rng(11)
    for _ in range(40):
        broken = bytearray(body)
        for at in rng.integers(4, len(body), 25):
            broken[at] = int(rng.integers(0, 256))
        status, samples = outcome(bytes(broken), SpeechLimits(max_seconds=30))
        assert status in (200, 400, 413, 415)
        assert (samples > 0) == (status == 200)


def test_empty_and_soundless_files_are_bad_requests() -> None:
    assert rejected(b"") == 400
    assert rejected(wav_header(0)) == 400


def test_too_many_bytes_are_refused_before_they_are_looked_at() -> None:
    assert rejected(b"\0" * 1001, None, SpeechLimits(max_bytes=1000)) == 413


def test_too_many_seconds_are_refused_however_small_the_file() -> None:
    silence = sound_file("flac", np.zeros(60 * 22_050, np.float32))
    assert len(silence) < 100_000

    assert rejected(silence, "audio/flac", SpeechLimits(max_seconds=10)) == 413


@pytest.mark.parametrize(
    "body",
    [
        b"#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:9/secret.ts\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
        b"[playlist]\nFile1=http://127.0.0.1:9/\n",
        b"<?xml version='1.0'?><MPD></MPD>",
        b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
        b"\x1aE\xdf\xa3" + b"\0" * 200,
        b"\0\0\0\x20ftypisom" + b"\0" * 200,
        b"RIFF\0\0\0\0AVI LIST" + b"\0" * 200,
        b"not a sound at all",
        b"\xff",
    ],
)
def test_playlists_and_other_containers_are_not_accepted(body: bytes) -> None:
    assert rejected(body) == 415
    assert rejected(body, "audio/wav") == 415


def test_a_playlist_behind_a_sound_header_is_not_followed() -> None:
    assert rejected(b"OggS" + b"#EXTM3U\nfile:///etc/passwd\n" * 20) == 400
    assert rejected(b"ID3\x04\0\0\0\0\0\x10" + b"ffconcat version 1.0\nfile /etc/passwd\n" * 20) == 400


def test_a_coding_that_is_not_speech_of_ours_is_refused() -> None:
    assert rejected(wav_header(400, code=0x0161) + b"\0" * 400) in (400, 415)
    assert rejected(wav_header(4000, code=2, bits=4) + b"\0" * 4000) == 415


@pytest.mark.parametrize(("rate_hz", "channels"), [(1, 1), (1_000_000, 1), (48_000, 64), (0, 1), (48_000, 0)])
def test_absurd_rates_and_channels_are_refused(rate_hz: int, channels: int) -> None:
    assert rejected(wav_header(4096, rate_hz, channels) + b"\0" * 4096) in (400, 415)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "image/png", "video/mp4", "application/json"])
def test_a_content_type_that_is_not_sound_is_refused(content_type: str) -> None:
    assert rejected(sound_file("wav", tone(0.1, 44_100)), content_type) == 415


@pytest.mark.parametrize("content_type", [None, "audio/wav", "application/octet-stream", "audio/x-whatever", ""])
def test_content_types_of_sound_and_unknown_ones_are_left_to_the_bytes(content_type: str | None) -> None:
    assert len(decode_speech(sound_file("wav", tone(0.1, 44_100)), content_type)) > 0


def test_a_wav_whose_coding_nobody_knows_is_refused() -> None:
    body = bytearray(wav_header(4000, code=0xFACE) + b"\0" * 4000)

    assert rejected(bytes(body)) in (400, 415)


def test_float_sound_that_is_not_finite_becomes_silence_or_full_scale() -> None:
    sound = np.array([np.nan, np.inf, -np.inf, 3e38, -1e-40] * 2000, "<f4")

    pcm = decode_speech(wav_header(sound.nbytes, 48_000, code=3, bits=32) + sound.tobytes(), None)

    assert len(pcm) == 10_000
