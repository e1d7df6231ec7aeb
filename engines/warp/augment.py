"""What microphones, rooms, codecs and other noise do to speech, and sound that is not speech. Seeded; no torch."""

from __future__ import annotations

import io
from collections.abc import Callable

import av
import numpy as np
import numpy.typing as npt
import soxr
from av.audio.stream import AudioStream

from engines.contract import ANALYSIS_HZ

F32 = npt.NDArray[np.float32]
Draw = np.random.Generator

CODECS = ("opus", "mp3", "telephone")
NON_SPEECH = ("music", "keyboard", "breath", "hum", "rumble")


def _rms(sound: F32) -> float:
    return float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)) + 1e-12))


def loud_rms(sound: F32) -> float:
    """RMS of the louder half of the 20 ms blocks: the level of speech without its pauses."""
    blocks = sound[: len(sound) // 320 * 320].reshape(-1, 320)
    if len(blocks) == 0:
        return _rms(sound)
    power = np.sort(np.mean(np.square(blocks, dtype=np.float64), axis=1))
    return float(np.sqrt(power[len(power) // 2 :].mean() + 1e-12))


def convolve(sound: F32, response: F32) -> F32:
    """Linear convolution by FFT, cut to the length of `sound`."""
    size = 1 << (len(sound) + len(response) - 1).bit_length()
    spectrum = np.fft.rfft(sound, size) * np.fft.rfft(response, size)
    return np.fft.irfft(spectrum, size)[: len(sound)].astype(np.float32)


def coloured_noise(count: int, slope: float, draw: Draw) -> F32:
    """(count,) f32 of RMS 1 whose power falls with frequency to the power `slope`: 0 white, 1 pink, 2 brown."""
    size = 1 << max(1, count - 1).bit_length()
    spectrum = np.fft.rfft(draw.standard_normal(size))
    hz = np.maximum(np.fft.rfftfreq(size, 1.0 / ANALYSIS_HZ), 40.0)
    noise = np.fft.irfft(spectrum * hz ** (-slope / 2.0), size)[:count].astype(np.float32)
    return noise / np.float32(_rms(noise))


def room(sound: F32, draw: Draw) -> F32:
    """A synthetic room: direct sound at once, a few early echoes, then a decaying noise tail; RT60 0.1 to 0.7 s."""
    rt60_s = draw.uniform(0.1, 0.7)
    count = int(rt60_s * ANALYSIS_HZ)
    time_s = np.arange(count) / ANALYSIS_HZ
    tail = draw.standard_normal(count) * np.exp(-6.9 * time_s / rt60_s)
    tail[: int(draw.uniform(0.002, 0.02) * ANALYSIS_HZ)] = 0.0
    tail *= 10.0 ** (-draw.uniform(0.0, 15.0) / 20.0) / np.sqrt(np.sum(tail**2) + 1e-9)
    tail[0] = 1.0
    for _ in range(draw.integers(1, 6)):
        tail[draw.integers(16, 800)] += draw.uniform(-0.5, 0.5)
    return convolve(sound, tail.astype(np.float32))


def equalise(sound: F32, draw: Draw) -> F32:
    """A microphone of no fame: tilt, up to three bumps, sometimes a high-pass or a low-pass."""
    size = 1 << len(sound).bit_length()
    hz = np.fft.rfftfreq(size, 1.0 / ANALYSIS_HZ)
    octave = np.log2(np.maximum(hz, 50.0) / 1000.0)
    gain_db = draw.uniform(-4.0, 4.0) * octave
    for _ in range(draw.integers(0, 4)):
        gain_db += draw.uniform(-9.0, 9.0) * np.exp(
            -0.5 * ((octave - draw.uniform(-3, 3)) / draw.uniform(0.3, 1.2)) ** 2
        )
    if draw.random() < 0.3:
        gain_db -= 6.0 * np.maximum(0.0, np.log2(draw.uniform(80, 350) / np.maximum(hz, 20.0))) * 2
    if draw.random() < 0.25:
        gain_db -= 6.0 * np.maximum(0.0, np.log2(np.maximum(hz, 20.0) / draw.uniform(2800, 6500))) * 4
    shaped = np.fft.irfft(np.fft.rfft(sound, size) * 10.0 ** (gain_db / 20.0), size)[: len(sound)]
    return shaped.astype(np.float32)


def swelling(sound: F32, draw: Draw) -> F32:
    """A speaker who moves and stresses: level wandering by up to 8 dB within a second."""
    knots = draw.uniform(-8.0, 8.0, len(sound) // 4000 + 3)
    gain_db = np.interp(np.arange(len(sound)) / 4000.0, np.arange(len(knots)), knots)
    return (sound * 10.0 ** (gain_db / 20.0)).astype(np.float32)


def breathy(sound: F32, draw: Draw) -> F32:
    """Part of the voice replaced by noise of the same spectral envelope, as in a whisper."""
    size, hop = 512, 128
    padded = np.pad(sound, (size, size))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop] * np.hanning(size)
    spectrum = np.fft.rfft(frames)
    log_power = np.log(np.abs(spectrum) + 1e-7)
    cepstrum = np.fft.irfft(log_power)
    cepstrum[:, 26:-25] = 0.0
    envelope = np.exp(np.fft.rfft(cepstrum).real)
    noise = draw.standard_normal(spectrum.shape) + 1j * draw.standard_normal(spectrum.shape)
    made = np.fft.irfft(envelope * noise * 0.7) * np.hanning(size)
    out = np.zeros(len(padded) + size)
    for i, frame in enumerate(made):
        out[i * hop : i * hop + size] += frame
    whisper = out[size : size + len(sound)]
    whisper *= _rms(sound) / (float(np.sqrt(np.mean(whisper**2))) + 1e-9)
    share = draw.uniform(0.3, 1.0)
    return ((1.0 - share) * sound + share * whisper).astype(np.float32)


def through_codec(sound: F32, codec: str, draw: Draw) -> F32:
    """Encode and decode again, with the codec's own delay taken out. `codec` is one of `CODECS`."""
    if codec == "telephone":
        narrow = soxr.resample(sound, ANALYSIS_HZ, 8000)
        companded = np.sign(narrow) * np.log1p(255.0 * np.abs(np.clip(narrow, -1, 1))) / np.log(256.0)
        companded = np.round(companded * 127.0) / 127.0
        narrow = np.sign(companded) * (256.0 ** np.abs(companded) - 1.0) / 255.0
        wide = soxr.resample(narrow, 8000, ANALYSIS_HZ)
        return _fit(wide.astype(np.float32), len(sound))
    encoder, container, rate_hz, kilobits = {
        "opus": ("libopus", "ogg", 48_000, (10, 14, 20, 32)),
        "mp3": ("libmp3lame", "mp3", 22_050, (24, 32, 64)),
    }[codec]
    body = io.BytesIO()
    pcm = soxr.resample(np.clip(sound, -1, 1), ANALYSIS_HZ, rate_hz)
    with av.open(body, "w", format=container) as out:
        stream = out.add_stream(encoder, rate=rate_hz, layout="mono")
        assert isinstance(stream, AudioStream)
        stream.options = {"compression_level": "3"}
        stream.bit_rate = int(draw.choice(kilobits)) * 1000
        frame = av.AudioFrame.from_ndarray((pcm * 32767).astype(np.int16)[None], format="s16", layout="mono")
        frame.sample_rate = rate_hz
        for piece in (frame, None):
            out.mux(stream.encode(piece))
    body.seek(0)
    with av.open(body, "r") as back:
        parts = [frame.to_ndarray().mean(axis=0, dtype=np.float64) for frame in back.decode(audio=0)]
        rate_hz = back.streams.audio[0].rate
    heard = soxr.resample(np.concatenate(parts), rate_hz, ANALYSIS_HZ).astype(np.float32)
    return _fit(_aligned(heard, sound), len(sound))


def _fit(sound: F32, count: int) -> F32:
    return np.pad(sound[:count], (0, max(0, count - len(sound))))


def _aligned(heard: F32, sent: F32) -> F32:
    """`heard` moved so that it lines up with `sent` (codecs add up to 100 ms)."""
    size = 1 << (len(heard) + len(sent)).bit_length()
    match = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(sent, size)), size)
    reach = 2400
    lag = int(np.argmax(np.concatenate([match[-reach:], match[:reach]]))) - reach
    return heard[lag:] if lag >= 0 else np.concatenate([np.zeros(-lag, np.float32), heard])


def music(count: int, draw: Draw) -> F32:
    """Chords, a bass, a tune and a beat, made of decaying harmonics."""
    out = np.zeros(count + 2 * ANALYSIS_HZ)
    beat = int(draw.uniform(0.25, 0.6) * ANALYSIS_HZ)
    scale = np.array([0, 2, 4, 5, 7, 9, 11])
    root_hz = draw.uniform(90, 240)
    for start in range(0, count, beat):
        degrees = [*(draw.integers(0, 7, 3) + 7 * draw.integers(0, 2)), int(draw.integers(7, 15))]
        for degree in degrees:
            hz = root_hz * 2.0 ** ((scale[degree % 7] + 12 * (degree // 7)) / 12.0)
            length = int(draw.uniform(0.3, 1.6) * ANALYSIS_HZ)
            time_s = np.arange(length) / ANALYSIS_HZ
            rolloff, decay = draw.uniform(0.8, 2.5), draw.uniform(0.5, 8.0)
            turn = np.exp(2j * np.pi * hz * time_s)
            wave, note = np.exp(1j * draw.uniform(0, 6)), np.zeros(length)
            for k in range(1, 1 + min(8, int(7500 / hz))):
                wave = wave * turn
                note += wave.imag / k**rolloff
            attack = np.minimum(1.0, time_s / draw.uniform(0.004, 0.08))
            out[start : start + length] += note * attack * np.exp(-decay * time_s) * draw.uniform(0.3, 1.0)
        if draw.random() < 0.6:
            hit = draw.standard_normal(1600) * np.exp(-np.arange(1600) / draw.uniform(80, 500))
            out[start : start + 1600] += hit * draw.uniform(0.2, 1.5)
    sound = out[:count].astype(np.float32)
    return sound / np.float32(_rms(sound))


def keyboard(count: int, draw: Draw) -> F32:
    """Key clicks: short resonant bursts, down and up, at a typist's pace, over a little room noise."""
    out = draw.standard_normal(count) * 0.003
    at = int(draw.integers(0, 4000))
    while at < count - 1200:
        for offset, level in ((0, 1.0), (int(draw.integers(700, 1100)), 0.5)):
            length = min(500, count - at - offset)
            if length <= 0:
                break
            time_s = np.arange(length) / ANALYSIS_HZ
            ring = np.sin(2 * np.pi * draw.uniform(300, 5000) * time_s) + draw.standard_normal(length)
            out[at + offset : at + offset + length] += ring * np.exp(-time_s * draw.uniform(150, 600)) * level
        at += int(draw.uniform(0.06, 0.45) * ANALYSIS_HZ)
    sound = out.astype(np.float32)
    return sound / np.float32(max(loud_rms(sound), 1e-4))


def breath(count: int, draw: Draw) -> F32:
    """Breathing near the microphone: swelling noise with a broad hump, in and out."""
    out = np.zeros(count)
    at = 0
    while at < count:
        length = int(draw.uniform(0.4, 1.8) * ANALYSIS_HZ)
        swell = np.sin(np.linspace(0, np.pi, length)) ** draw.uniform(0.7, 2.0)
        hump = coloured_noise(length, draw.uniform(0.3, 1.6), draw)
        piece = (swell * equalise(hump, draw) * draw.uniform(0.3, 1.0))[: count - at]
        out[at : at + len(piece)] = piece
        at += length + int(draw.uniform(0.1, 1.2) * ANALYSIS_HZ)
    sound = out.astype(np.float32)
    return sound / np.float32(_rms(sound))


def hum(count: int, draw: Draw) -> F32:
    """Mains hum with harmonics over hiss."""
    time_s = np.arange(count) / ANALYSIS_HZ
    mains_hz = float(draw.choice([50.0, 60.0]))
    tones = sum(np.sin(2 * np.pi * mains_hz * k * time_s) * draw.uniform(0, 1) for k in range(1, 12))
    sound = (tones + coloured_noise(count, draw.uniform(0, 1.5), draw) * draw.uniform(0.2, 2.0)).astype(np.float32)
    return sound / np.float32(_rms(sound))


def rumble(count: int, draw: Draw) -> F32:
    """Traffic, fans, wind: coloured noise that swells slowly."""
    knots = draw.uniform(0.3, 1.0, count // 8000 + 3)
    swell = np.interp(np.arange(count) / 8000.0, np.arange(len(knots)), knots)
    sound = (coloured_noise(count, draw.uniform(0.0, 2.2), draw) * swell).astype(np.float32)
    return sound / np.float32(_rms(sound))


_MAKERS: dict[str, Callable[[int, Draw], F32]] = {
    "music": music, "keyboard": keyboard, "breath": breath, "hum": hum, "rumble": rumble,
}  # fmt: skip


def non_speech(kind: str, count: int, draw: Draw) -> F32:
    """(count,) f32 of RMS near 1: one of `NON_SPEECH`."""
    return _MAKERS[kind](count, draw)


def babble(voices: list[F32], count: int, draw: Draw) -> F32:
    """(count,) f32 of RMS 1: all `voices` at once, each from somewhere in it, as in a full room."""
    mixed = np.zeros(count)
    for voice in voices:
        looped = np.resize(np.roll(voice, int(draw.integers(0, len(voice)))), count)
        mixed += looped / (loud_rms(voice) + 1e-6) * draw.uniform(0.5, 1.0)
    sound = mixed.astype(np.float32)
    return sound / np.float32(_rms(sound))


def with_noise(speech: F32, noise: F32, snr_db: float) -> F32:
    """`speech` plus `noise` (RMS 1) that far below the speech's own level."""
    return speech + noise * np.float32(loud_rms(speech) * 10.0 ** (-snr_db / 20.0))
