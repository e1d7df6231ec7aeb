"""The two threads codecs run on. They belong to the server and outlive its peers."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType

from streamer.threads import FRAMES, one_thread


@dataclass(frozen=True, slots=True, eq=False)
class CodecThreads:
    """One thread for pictures, one for sound, shared by all peers.

    A packet of sound takes a fraction of a millisecond and must not wait behind a picture: on a busy machine that is
    the difference between 1 and 20 ms of jitter.
    """

    pictures: Executor = field(default_factory=partial(one_thread, "pictures", FRAMES))
    sound: Executor = field(default_factory=partial(one_thread, "sound"))

    def close(self) -> None:
        """Wait for what runs, drop what waits. Idempotent."""
        for executor in (self.pictures, self.sound):
            executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> CodecThreads:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
