"""The latency budget: how many frames a session keeps between sound and picture, after what rendering really takes.

Pure. Changes by one frame at a time, while nobody speaks; grows in the middle of speech where mouths fail in numbers.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import FRAME_NS

LEAST_FRAMES = 2
"""The frame itself, and the slack to render it in."""
MOST_FRAMES = 8
SPAN_JOBS = 500
"""Twenty seconds of speech."""
SETTLED_JOBS = 50
"""Fewer say nothing about the slowest of a hundred."""
MARGIN_NS = 4 * NS_PER_MS
SPARE_NS = 12 * NS_PER_MS
"""A frame is given back only where this much would still be free."""
GAP_NS = NS_PER_S
"""Between two changes."""
RECENT_JOBS, PRESSING_MISSES = 25, 4
"""A gap of one frame, once, is better than every sixth mouth missing for as long as somebody speaks."""


class LatencyBudget:
    """Frames beyond the look-ahead, from 2 to 8. `note` every mouth, `step` once a frame."""

    def __init__(self, slack_ns: int) -> None:
        """slack_ns: the room of the least budget; every frame more adds a whole one."""
        self._slack_ns = slack_ns
        self.frames = LEAST_FRAMES
        self._needs_ns: deque[int] = deque(maxlen=SPAN_JOBS)
        self._missed: deque[bool] = deque(maxlen=RECENT_JOBS)
        self._changed_ns: int | None = None

    @property
    def room_ns(self) -> int:
        """What a mouth may take from the earliest moment its sound can be there to its release."""
        return self._slack_ns + (self.frames - LEAST_FRAMES) * FRAME_NS

    @property
    def render_frames(self) -> int:
        """The room in whole frames, rounded up."""
        return max(1, -(-self.room_ns // FRAME_NS))

    @property
    def p99_ms(self) -> float | None:
        """What 99 of 100 mouths take at most, from the earliest moment their sound can be there; None: not known."""
        need_ns = self._p99_ns()
        return None if need_ns is None else round(need_ns / NS_PER_MS, 1)

    def note(self, need_ns: int) -> None:
        """A mouth was ready so long after its sound could be there at the earliest."""
        self._needs_ns.append(need_ns)
        self._missed.append(False)

    def note_missing(self) -> None:
        """A frame was released without its mouth: it would have needed more than there is."""
        self._needs_ns.append(self.room_ns + FRAME_NS - MARGIN_NS)
        self._missed.append(True)

    def step(self, now_ns: int, *, idle: bool) -> int:
        """-1, 0 or 1: the change to make now. At most one a second."""
        if self._changed_ns is not None and now_ns - self._changed_ns < GAP_NS:
            return 0
        change = self._settled_change() if idle else int(sum(self._missed) >= PRESSING_MISSES)
        if _bounded(self.frames + change) == self.frames:
            return 0
        self.frames += change
        self._changed_ns = now_ns
        self._missed.clear()
        return change

    def _settled_change(self) -> int:
        need_ns = self._p99_ns()
        if need_ns is None:
            return 0
        if need_ns + MARGIN_NS > self.room_ns:
            return 1
        return -1 if need_ns + SPARE_NS < self.room_ns - FRAME_NS else 0

    def _p99_ns(self) -> int | None:
        if len(self._needs_ns) < SETTLED_JOBS:
            return None
        return int(np.percentile(np.fromiter(self._needs_ns, np.int64), 99))


def _bounded(frames: int) -> int:
    return max(LEAST_FRAMES, min(MOST_FRAMES, frames))
