"""Who speaks: the loudest voice, but not every cough and every "yes" of the others. Pure; counts frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class SpeakerSettings:
    """How stubborn the choice is."""

    floor_dbfs: float = -45.0
    """Quieter is not speech."""
    louder_db: float = 4.0
    """A second voice must be so much louder to take over from one that still speaks."""
    take_frames: int = 8
    """For so long: 320 ms."""
    overtake_frames: int = 25
    """And for so long against a voice that still speaks: one second."""
    silent_frames: int = 10
    """A voice that paused for so long counts as ended."""
    stay_frames: int = 30
    """The choice stands at least so long, 1.2 s."""
    smoothing: float = 0.35
    """Share of a new frame in the running level."""


class ActiveSpeaker:
    """Call `hear` once a frame. `active` stays on the last speaker through silence; `before` spoke before."""

    def __init__(self, settings: SpeakerSettings | None = None) -> None:
        self._settings = settings or SpeakerSettings()
        self._levels: dict[str, float] = {}
        self._ahead: dict[str, int] = {}
        self._silent = 0
        self._held = 0
        self.active: str | None = None
        self.before: str | None = None
        self.speaking = False
        """The active one is heard now."""

    def hear(self, levels: Mapping[str, float]) -> str | None:
        """RMS of each seat that may be heard, full scale 1; returns the active speaker."""
        settings = self._settings
        for seat in [*levels, *[s for s in self._levels if s not in levels]]:
            before, now = self._levels.get(seat, 0.0), levels.get(seat, 0.0)
            self._levels[seat] = before + settings.smoothing * (now - before)
        loud = {seat: self._db(seat) for seat in self._levels if self._db(seat) > settings.floor_dbfs}
        self.speaking = self.active in loud
        self._silent = 0 if self.speaking else self._silent + 1
        self._held += 1
        ended = self._silent >= settings.silent_frames
        for seat in self._levels:
            leads = seat in loud and seat != self.active and self._leads(seat, loud, ended=ended)
            self._ahead[seat] = self._ahead.get(seat, 0) + 1 if leads else 0
        patience = settings.take_frames if ended else settings.overtake_frames
        ready = [seat for seat, frames in self._ahead.items() if frames >= patience]
        if ready and (self.active is None or self._held >= settings.stay_frames or ended):
            self._hand_over(max(ready, key=lambda seat: loud[seat]))
        return self.active

    def _leads(self, seat: str, loud: Mapping[str, float], *, ended: bool) -> bool:
        others = [level for other, level in loud.items() if other != seat]
        now = loud.get(self.active) if self.active is not None and not ended else None
        if now is not None:
            return loud[seat] >= now + self._settings.louder_db
        return all(loud[seat] >= level for level in others)

    def _hand_over(self, seat: str) -> None:
        self.before, self.active = self.active, seat
        self._silent = self._held = 0
        self.speaking = True
        self._ahead.clear()

    def _db(self, seat: str) -> float:
        return 20.0 * float(np.log10(max(self._levels[seat], 1e-6)))
