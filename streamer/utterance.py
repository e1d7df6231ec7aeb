"""One utterance: speech that grows while it is already being spoken. Pure; counts what came, left and was heard."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from streamer.media import S16, SOUND_HZ


@dataclass(slots=True, eq=False)
class Utterance:
    """48 kHz mono s16 samples of one speech. `received >= taken >= heard`; sound that was heard is forgotten."""

    speech_id: str
    received_samples: int = 0
    taken_samples: int = 0
    """On their way to the listener, or heard."""
    heard_samples: int = 0
    """Released by playout."""
    ended: bool = False
    """No more will come."""
    started: bool = False
    """Something of it has been heard."""
    flowing: bool = False
    """It is being taken and has not run dry since."""
    voided: bool = False
    """Interrupted: what still comes is not wanted."""
    _pieces: deque[tuple[int, S16]] = field(default_factory=deque)

    @property
    def waiting_samples(self) -> int:
        return self.received_samples - self.taken_samples

    @property
    def unheard_s(self) -> float:
        return (self.received_samples - self.heard_samples) / SOUND_HZ

    @property
    def position_s(self) -> float:
        """How far the listener has heard it."""
        return round(self.heard_samples / SOUND_HZ, 3)

    @property
    def seconds(self) -> float:
        """Length of what has come so far."""
        return self.received_samples / SOUND_HZ

    def append(self, pcm48: S16) -> None:
        """More of it: (n,) s16 mono at 48 kHz."""
        if len(pcm48) and not self.voided and not self.ended:
            self._pieces.append((self.received_samples, pcm48))
            self.received_samples += len(pcm48)

    def take(self, samples: int) -> S16:
        """The next samples, at most so many."""
        wanted, found = self.taken_samples, []
        end = min(self.taken_samples + samples, self.received_samples)
        for first, piece in self._pieces:
            if first >= end:
                break
            if first + len(piece) > wanted:
                found.append(piece[wanted - first : end - first])
                wanted = first + len(piece)
        self.taken_samples = end
        return np.concatenate(found) if len(found) != 1 else found[0]

    def hear(self, until: int) -> None:
        """Everything before sample `until` has been released."""
        self.heard_samples = max(self.heard_samples, until)
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= self.heard_samples:
            self._pieces.popleft()

    def rewind(self) -> None:
        """What was taken and not heard is lost on its way: it will be taken again."""
        self.taken_samples = self.heard_samples

    def void(self) -> None:
        """Forget what was not heard."""
        self.voided = self.ended = True
        self._pieces.clear()
