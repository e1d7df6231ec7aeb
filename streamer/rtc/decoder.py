"""Turns pieces of the inbound buffer into sound. Runs in the codec executor; knows no network."""

from __future__ import annotations

from collections.abc import Sequence

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from streamer.media import S16, SOUND_HZ, SoundBlock
from streamer.rtc.concealment import Concealer
from streamer.rtc.inbound import Piece


class SoundDecoder:
    """Opus to mono 48 kHz (libopus mixes a stereo stream down itself), holes concealed."""

    def __init__(self) -> None:
        self._codec: AudioCodecContext | None = None
        self._concealer = Concealer()
        self.broken_packets = 0

    def decode(self, pieces: Sequence[Piece]) -> list[SoundBlock]:
        """One block a piece, in order, contiguous, each exactly `piece.samples` long."""
        return [
            SoundBlock(self._sound(piece), piece.source_sample, piece.arrived_ns, concealed=piece.payload is None)
            for piece in pieces
        ]

    def _sound(self, piece: Piece) -> S16:
        if piece.payload is None:
            return self._concealer.silence(piece.samples) if piece.silent else self._concealer.conceal(piece.samples)
        try:
            decoded = self._decode(piece.payload)
        except av.FFmpegError:
            self.broken_packets += 1
            return self._concealer.conceal(piece.samples)
        if len(decoded) != piece.samples:
            decoded = np.resize(decoded, piece.samples) if len(decoded) else np.zeros(piece.samples, np.int16)
        return self._concealer.accept(decoded)

    def _decode(self, payload: bytes) -> S16:
        if self._codec is None:
            codec = av.CodecContext.create("libopus", "r")
            codec.format = "s16"
            codec.layout = "mono"
            codec.sample_rate = SOUND_HZ
            self._codec = codec
        frames = self._codec.decode(av.Packet(payload))
        if not frames:
            return np.zeros(0, np.int16)
        pcm: S16 = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
        return pcm
