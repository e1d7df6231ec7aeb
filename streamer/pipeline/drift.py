"""Follows a source whose clock is not ours: says when to lean against its drift and when to begin anew. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from streamer.clock import NS_PER_MS, NS_PER_S

SPAN_NS = 2 * NS_PER_S


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """How patient it is."""

    early_ms: float = 20.0
    """How early blocks may lie without being leaned against: an anchor rounds up to a chunk edge."""
    lean_ppm: float = 1000.0
    """Speed change while correcting drift: 1.7 cents, inaudible."""
    lean_above_ms: float = 3.0
    lean_until_ms: float = 0.5
    anchor_late_ms: float = 150.0
    """Sound that was too late for this long is a changed path: anchor anew."""
    anchor_early_ms: float = 80.0


class DriftFollower:
    """Judges the least lateness of blocks over the last two seconds: drift without the jitter."""

    def __init__(self, settings: DriftSettings | None = None) -> None:
        self._settings = settings or DriftSettings()
        self._seen: deque[tuple[int, float]] = deque()
        """Rising lateness: what is later than something newer can never be the least again."""
        self._since_ns = 0
        """From when on blocks came without a long gap."""
        self._late_since_ns: int | None = None
        self.lean_ppm = 0.0
        """Make the next sound so much longer."""

    def follow(self, arrived_ns: int, lateness_ns: int, *, lost: bool) -> float | None:
        """A block arrived `lateness_ns` after its last sample's place on the grid; `lost`: some of it came too late.

        Returns the lateness in ms to be taken out by anchoring anew; None, nearly always, to go on.
        """
        settings = self._settings
        if not lost:
            self._late_since_ns = None
        elif self._late_since_ns is None:
            self._late_since_ns = arrived_ns
            self._seen.clear()
        drift_ms = self._least(arrived_ns, lateness_ns / NS_PER_MS)
        if self._late_since_ns is not None and arrived_ns - self._late_since_ns > settings.anchor_late_ms * NS_PER_MS:
            return self._anew(drift_ms)
        if arrived_ns - self._since_ns <= SPAN_NS * 3 // 4:
            return None
        if drift_ms < -settings.anchor_early_ms:
            return self._anew(drift_ms)
        late_ms, early_ms = drift_ms, -drift_ms - settings.early_ms
        if late_ms > settings.lean_above_ms:
            self.lean_ppm = settings.lean_ppm
        elif early_ms > settings.lean_above_ms:
            self.lean_ppm = -settings.lean_ppm
        elif max(late_ms, early_ms) < -settings.lean_until_ms:
            self.lean_ppm = 0.0
        return None

    def _least(self, now_ns: int, lateness_ms: float) -> float:
        seen = self._seen
        if not seen or seen[-1][0] < now_ns - SPAN_NS:
            seen.clear()
            self._since_ns = now_ns
        while seen and seen[-1][1] >= lateness_ms:
            seen.pop()
        seen.append((now_ns, lateness_ms))
        while seen[0][0] < now_ns - SPAN_NS:
            seen.popleft()
        return seen[0][1]

    def _anew(self, drift_ms: float) -> float:
        self._late_since_ns = None
        self.lean_ppm = 0.0
        self._seen.clear()
        return drift_ms
