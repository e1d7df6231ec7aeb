"""Raw sound, pure: as a socket brings it, at any rate, to 48 kHz mono (chunked or whole gives the same); to WAV."""

from __future__ import annotations

import io
import wave

import numpy as np
import soxr

from streamer.errors import SpeechRejected
from streamer.media import S16, SOUND_HZ

MIN_RATE_HZ, MAX_RATE_HZ, MAX_CHANNELS = 4_000, 192_000, 8


class PcmReader:
    """s16 little-endian samples, interleaved; bytes may be cut anywhere. Raises SpeechRejected when made wrong."""

    def __init__(self, rate_hz: int, channels: int) -> None:
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise SpeechRejected(f"rate must be {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz, not {rate_hz}")
        if not 1 <= channels <= MAX_CHANNELS:
            raise SpeechRejected(f"channels must be 1 to {MAX_CHANNELS}, not {channels}")
        self.bytes_per_second = 2 * channels * rate_hz
        self._channels = channels
        self._rest = b""
        self._resampler: soxr.ResampleStream | None = None
        if rate_hz != SOUND_HZ:
            self._resampler = soxr.ResampleStream(rate_hz, SOUND_HZ, 1, dtype="float32", quality="HQ")

    def push(self, data: bytes) -> S16:
        """(n,) s16 mono at 48 kHz: what these bytes complete."""
        data = self._rest + data
        whole = len(data) - len(data) % (2 * self._channels)
        self._rest = data[whole:]
        frames = np.frombuffer(data, "<i2", whole // 2).reshape(-1, self._channels)
        if self._resampler is None and self._channels == 1:
            return frames[:, 0].astype(np.int16)
        mono = frames.mean(axis=1, dtype=np.float32) / np.float32(32768.0)
        return _to_s16(mono if self._resampler is None else self._resampler.resample_chunk(mono))

    def finish(self) -> S16:
        """(n,) s16: what the resampler still holds. A last half sample is dropped."""
        self._rest = b""
        if self._resampler is None:
            return np.zeros(0, np.int16)
        return _to_s16(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))


def _to_s16(sound: np.ndarray) -> S16:
    pcm: S16 = np.round(np.clip(sound * 32768.0, -32768.0, 32767.0)).astype(np.int16)
    return pcm


def wav_of(pcm: S16, rate_hz: int = SOUND_HZ) -> bytes:
    """(n,) s16 mono as a WAV file."""
    body = io.BytesIO()
    with wave.open(body, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(pcm.astype("<i2").tobytes())
    return body.getvalue()
