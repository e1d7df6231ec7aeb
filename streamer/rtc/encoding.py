"""Pictures one after another to an encoder that may stumble over one, but not over a second of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import av

from streamer.channel import Channel, ChannelClosed
from streamer.errors import PipelineStalled
from streamer.media import FRAME_NS, Picture

MAX_FAILURES = 25
"""Pictures in a row that an encoder may refuse: one second."""


async def encode_all(
    pictures: Channel[Picture], encode: Callable[[Picture], Awaitable[None]], refused: Callable[[], None]
) -> None:
    """Await `encode` for each picture until the channel closes; `refused` after each that it could not take.

    Raises PipelineStalled if a whole second is refused.
    """
    failures = 0
    while True:
        try:
            picture = await pictures.get()
        except ChannelClosed:
            return
        try:
            await encode(picture)
            failures = 0
        except av.FFmpegError as error:
            failures += 1
            refused()
            if failures > MAX_FAILURES:
                raise PipelineStalled("video encoder", failures * FRAME_NS / 1e6) from error
