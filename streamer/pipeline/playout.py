"""Playout: the session's metronome. Releases picture after picture with its sound, each at its own time, none twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamer.clock import Clock
from streamer.media import FRAME_NS, Picture, frame_deadline_ns


@dataclass(slots=True)
class PlayoutCounts:
    """Frames given up after a stall of the whole process."""

    skipped_frames: int = 0


class Playout:
    """Which frame indices are due. Index i is released at start + i * 40 ms + playout delay."""

    RESYNC_FRAMES = 3
    """A longer backlog is given up after a stall: what is released is never further behind than this."""

    def __init__(self, start_ns: int, playout_delay_ns: int) -> None:
        self._start_ns = start_ns
        self._next = 0
        self.playout_delay_ns = playout_delay_ns
        self.counts = PlayoutCounts()

    @property
    def next_release_ns(self) -> int:
        return self.deadline_ns(self._next)

    def deadline_ns(self, index: int) -> int:
        """When `index` is released: the last ns at which its mouth is of use."""
        return frame_deadline_ns(self._start_ns, index, self.playout_delay_ns)

    def due(self, now_ns: int) -> range:
        """The indices to release now, in order; after a short stall several, so that no sound is lost."""
        if now_ns < self.next_release_ns:
            return range(0)
        last = (now_ns - self._start_ns - self.playout_delay_ns) // FRAME_NS
        if last - self._next >= self.RESYNC_FRAMES:
            self.counts.skipped_frames += last - self._next
            self._next = last
        due = range(self._next, last + 1)
        self._next = last + 1
        return due


async def run(
    playout: Playout,
    picture: Callable[[int, int], Picture],
    show: Callable[[Picture], None],
    clock: Clock,
) -> None:
    """Release pictures for as long as the session lives."""
    while True:
        await clock.sleep_until(playout.next_release_ns)
        now_ns = clock.now_ns()
        for index in playout.due(now_ns):
            show(picture(index, now_ns))
