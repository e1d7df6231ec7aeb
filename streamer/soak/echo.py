"""The trivial session: a square that opens with the sound, and the sound itself, straight back. No face, no pipeline.

What it costs in time is the price of the network and the media layer alone: the bench's yardstick.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamer.channel import ChannelClosed
from streamer.media import FRAME_SAMPLES, S16, U8, Picture, PictureKind, SoundBlock, Stamps
from streamer.rtc.peer import Peer

LOUD_RMS = 300.0
GREY, WHITE = 64, 235


class Echo:
    """Turns blocks of sound into pictures of the same sound: 40 ms in, one picture out."""

    def __init__(self, size_px: tuple[int, int]) -> None:
        width_px, height_px = size_px
        self._shut: U8 = np.full((height_px * 3 // 2, width_px), 128, np.uint8)
        self._shut[:height_px] = GREY
        self._open = self._shut.copy()
        self._open[height_px // 4 : height_px * 3 // 4, width_px // 4 : width_px * 3 // 4] = WHITE
        for planes in (self._shut, self._open):
            planes.flags.writeable = False
        self._sound: S16 = np.zeros(0, np.int16)
        self._index = 0

    def push(self, block: SoundBlock) -> Iterator[Picture]:
        """The pictures that this block completes."""
        self._sound = np.concatenate((self._sound, block.pcm48))
        while len(self._sound) >= FRAME_SAMPLES:
            pcm48, self._sound = self._sound[:FRAME_SAMPLES], self._sound[FRAME_SAMPLES:]
            loud = float(np.sqrt(np.mean(np.square(pcm48, dtype=np.float32)))) > LOUD_RMS
            stamps = Stamps(captured_ns=block.arrived_ns)
            kind = PictureKind.VOICED if loud else PictureKind.IDLE
            yield Picture(self._index, self._open if loud else self._shut, pcm48, kind, 0, stamps)
            self._index += 1


async def run(peer: Peer, size_px: tuple[int, int]) -> None:
    """Echo a peer until its sound ends."""
    echo = Echo(size_px)
    while True:
        try:
            block = await peer.inbound.get()
        except ChannelClosed:
            return
        for picture in echo.push(block):
            peer.show(picture)
