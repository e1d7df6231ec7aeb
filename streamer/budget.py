"""The latency budget: how many frames a session keeps between sound and picture, after what rendering really takes.

Pure. Changes by one frame at a time, while nobody speaks; grows in any pause where mouths fail in numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import FRAME_NS

LEAST_FRAMES = 2
"""The frame itself, and the slack to render it in."""
FIRST_FRAMES = 4
"""Where sound comes from afar: until that path is known, waiting costs less than missing mouths."""
MOST_FRAMES = 8
SPAN_JOBS = 500
"""Twenty seconds of speech."""
SETTLED_JOBS = 50
"""Fewer say nothing about the slow ones."""
MARGIN_NS = 4 * NS_PER_MS
RARE_JOBS = 200
"""Of fewer, the slowest of a hundred is one accident: the first mouth after a pause, say."""
SETTLED_ARRIVALS = 25
"""Half a second of packets: enough to begin to come down from `FIRST_FRAMES`."""
USUAL_RENDER_NS = 8 * NS_PER_MS
"""Stands for the engine until it has been seen at work."""
SPARE_NS = 8 * NS_PER_MS
"""A frame is given back only where this much would still be free."""
GAP_NS = NS_PER_S
"""Between two changes."""
RECENT_JOBS, PRESSING_MISSES = 25, 4
"""A gap of one frame, once, is better than every sixth mouth missing for as long as somebody speaks."""
STALL_FRAMES = 8
"""Mouths missing in a row are one failure, a stall that no budget would have helped; so long a row is another one."""


class LatencyBudget:
    """Frames beyond the look-ahead, from 2 to 8. `note` every mouth, `step` once a frame."""

    def __init__(self, slack_ns: int, frames: int = LEAST_FRAMES) -> None:
        """slack_ns: the room of the least budget; every frame more adds a whole one. frames: to begin with."""
        self._slack_ns = slack_ns
        self.frames = frames
        self._needs_ns: deque[int] = deque(maxlen=SPAN_JOBS)
        self._renders_ns: deque[int] = deque(maxlen=SPAN_JOBS)
        self._missed: deque[bool] = deque(maxlen=RECENT_JOBS)
        self._missing_in_a_row = 0
        self._known: tuple[int, int, int] | None = None
        """Renders' slow and usual time, needs' slow one; None: to be found out anew."""
        self._changed_ns: int | None = None
        self.arrivals_ns: Sequence[int] = ()
        """How late each recent packet of the source came; of the owner, only read here. Lost ones are not in it."""

    @property
    def room_ns(self) -> int:
        """What a mouth may take from the earliest moment its sound can be there to its release."""
        return self._slack_ns + (self.frames - LEAST_FRAMES) * FRAME_NS

    @property
    def render_frames(self) -> int:
        """The room in whole frames, rounded up."""
        return max(1, -(-self.room_ns // FRAME_NS))

    @property
    def wanted_ms(self) -> float | None:
        """What mouths want: the engine's 99 of 100, and 95 of 100 with the network's share; None: not known."""
        need_ns = self._wanted_ns()
        return None if need_ns is None else round(need_ns / NS_PER_MS, 1)

    def note(self, need_ns: int, render_ns: int) -> None:
        """A mouth was ready so long after its sound could be there at the earliest, and after it was asked for."""
        self._needs_ns.append(need_ns)
        self._renders_ns.append(render_ns)
        self._missed.append(False)
        self._missing_in_a_row = 0
        self._known = None

    def note_missing(self, *, asked: bool) -> None:
        """A frame was released without its mouth: it would have needed more than there is.

        asked: the engine had been asked for it, so the network is not to blame.
        """
        self._missing_in_a_row += 1
        if self._missing_in_a_row % STALL_FRAMES != 1:
            return
        short_ns = self.room_ns + FRAME_NS - MARGIN_NS
        self._needs_ns.append(short_ns)
        if asked:
            self._renders_ns.append(short_ns)
        self._missed.append(True)
        self._known = None

    def step(self, now_ns: int, *, idle: bool, pause: bool = True) -> int:
        """-1, 0 or 1: the change to make now. At most one a second.

        pause: a frame more would not tear a word apart.
        """
        if self._changed_ns is not None and now_ns - self._changed_ns < GAP_NS:
            return 0
        change = int(pause and sum(self._missed) >= PRESSING_MISSES)
        if not change and idle:
            change = self._settled_change()
        if _bounded(self.frames + change) == self.frames:
            return 0
        self.frames += change
        self._changed_ns = now_ns
        self._missed.clear()
        return change

    def _settled_change(self) -> int:
        need_ns = self._wanted_ns()
        if need_ns is None:
            return 0
        if need_ns + MARGIN_NS > self.room_ns:
            return 1
        return -1 if need_ns + SPARE_NS < self.room_ns - FRAME_NS else 0

    def _wanted_ns(self) -> int | None:
        """A lost packet now and then costs a held mouth, not everybody 40 ms for good; a slow engine is waited for."""
        wants, render_ns = [], USUAL_RENDER_NS
        if len(self._needs_ns) >= SETTLED_JOBS:
            slow_ns, render_ns, need_ns = self._known = self._known or self._learned()
            wants = [slow_ns, need_ns]
        if len(self.arrivals_ns) >= SETTLED_ARRIVALS:
            wants.append(_percentile(self.arrivals_ns, 99) + render_ns)
        return max(wants, default=None)

    def _learned(self) -> tuple[int, int, int]:
        renders_ns, needs_ns = self._renders_ns, self._needs_ns
        rare = 99 if len(renders_ns) >= RARE_JOBS else 95
        return _percentile(renders_ns, rare), _percentile(renders_ns, 50), _percentile(needs_ns, 95)


def _percentile(values: Sequence[int], percent: float) -> int:
    return int(np.percentile(np.fromiter(values, np.int64), percent)) if values else 0


def _bounded(frames: int) -> int:
    return max(LEAST_FRAMES, min(MOST_FRAMES, frames))
