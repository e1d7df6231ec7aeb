"""Playout: the session's metronome. Releases picture after picture with its sound, each at its own time, none twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamer.clock import NS_PER_MS, Clock
from streamer.media import FRAME_NS, Picture, frame_deadline_ns


@dataclass(slots=True)
class PlayoutCounts:
    """Frames given up after a stall of the whole process."""

    skipped_frames: int = 0


class Playout:
    """Which frame indices are due. Index i is released at start + i * 40 ms + playout delay.

    After a stall of the whole process what came meanwhile is let in first; then the backlog leaves in quick steps,
    so that little waits behind playout and no sound is lost. A long backlog is given up.
    """

    RESYNC_FRAMES = 8
    """A longer backlog is given up: sound resumes within 300 ms."""
    HURRY_NS = 8 * NS_PER_MS
    LET_IN_NS = 10 * NS_PER_MS

    def __init__(self, start_ns: int, playout_delay_ns: int) -> None:
        self._start_ns = start_ns
        self._next = 0
        self._resume_ns: int | None = None
        self.playout_delay_ns = playout_delay_ns
        self.counts = PlayoutCounts()

    @property
    def next_release_ns(self) -> int:
        return max(self.deadline_ns(self._next), self._resume_ns or 0)

    def deadline_ns(self, index: int) -> int:
        """When `index` is released: the last ns at which its mouth is of use."""
        return frame_deadline_ns(self._start_ns, index, self.playout_delay_ns)

    def due(self, now_ns: int) -> range:
        """The indices to release now, in order; call again at `next_release_ns`."""
        if now_ns < self.next_release_ns:
            return range(0)
        last = (now_ns - self._start_ns - self.playout_delay_ns) // FRAME_NS
        if last - self._next >= self.RESYNC_FRAMES:
            self.counts.skipped_frames += last - self._next
            self._next = last
        elif last - self._next >= 2 and self._resume_ns is None:
            self._resume_ns = now_ns + self.LET_IN_NS
            return range(0)
        self._next += 1
        self._resume_ns = now_ns + self.HURRY_NS if self._next <= last else None
        return range(self._next - 1, self._next)


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
