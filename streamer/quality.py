"""Watches the pictures that leave: tells once when mouths are held, late, or missing more often than not. Pure."""

from __future__ import annotations

from collections import deque

from streamer.events import Event
from streamer.media import FPS, PictureKind

CALM_FRAMES = FPS
"""After so many good frames a trouble is over; the next one is told again."""
DEGRADED_SHARE = 0.2


class QualityWatch:
    """Feed it the kind of every released picture."""

    def __init__(self) -> None:
        self._good_frames = CALM_FRAMES
        self._told: set[str] = set()
        self._recent: deque[bool] = deque(maxlen=2 * FPS)

    def note(self, index: int, kind: PictureKind) -> list[Event]:
        """What has to be told about this picture: seldom anything."""
        if kind is PictureKind.IDLE:
            return []
        missed = kind is not PictureKind.VOICED
        self._recent.append(missed)
        if not missed:
            self._good_frames += 1
            if self._good_frames >= CALM_FRAMES:
                self._told.clear()
            return []
        self._good_frames = 0
        events = self._once(str(kind), {"event": str(kind), "index": index})
        share = sum(self._recent) / len(self._recent)
        if len(self._recent) >= FPS and share > DEGRADED_SHARE:
            degraded = {"event": "degraded", "reason": "engine_late", "share": round(share, 2), "index": index}
            events += self._once("degraded", degraded)
        return events

    def _once(self, name: str, event: Event) -> list[Event]:
        if name in self._told:
            return []
        self._told.add(name)
        return [event]
