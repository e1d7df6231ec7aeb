"""From a job's window of sound to what the mouth does: the network, and where wanted the phones an ear hears."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engines.contract import FRAME_SAMPLES_16K, Stream
from engines.errors import EngineUnavailable
from engines.warp import ear
from engines.warp.level import levelled
from engines.warp.phones import VISEMES, mouth_at, visemes_at
from engines.warp.speech import MouthNet, Reading

F32 = npt.NDArray[np.float32]

PHONES = ("pocketsphinx",)
"""What can be named to hear phones with."""
PHONES_SHARE = 0.5
SILENCE = VISEMES.index("sil")


class Hearing:
    """The network alone keeps nothing; with phones it remembers each job's stream. For one thread."""

    def __init__(self, phones: str | None = None, net: MouthNet | None = None) -> None:
        """`phones`: None, or one of `PHONES`; `net`: None for the one that ships. Raises EngineUnavailable."""
        if phones is not None and phones not in PHONES:
            remedy = f"Choose one of: {', '.join(PHONES)}."
            raise EngineUnavailable("warp", f"it cannot hear phones with {phones!r}", remedy)
        self._net = net or MouthNet.load()
        self._ears = None if phones is None else ear.Ears()
        self.context_samples = self._net.context_samples
        ahead = self._net.lookahead_samples
        self.lookahead_samples = ahead if self._ears is None else max(ahead, ear.LOOKAHEAD_SAMPLES)

    @property
    def window_samples(self) -> int:
        """Length of a window: context, one frame, look-ahead."""
        return self.context_samples + FRAME_SAMPLES_16K + self.lookahead_samples

    def warm_up(self) -> None:
        self._net.shapes(np.zeros((1, self._net.window_samples), np.float32))

    def hear(self, samples: F32, index: int = 0, generation: int = 0, stream: Stream | None = None) -> Reading:
        """What is said in the middle of a frame: (6,), (14,) and a scalar. Parameters as in `FaceJob`."""
        sound = levelled(samples[: self._net.window_samples])
        said = Reading(*(part[0] for part in self._net.hear(sound[None])))
        if self._ears is None:
            return said
        phones = self._ears.phones(ear.Window(samples, self.context_samples, index, generation), stream)
        if not phones:
            return said
        viseme = np.eye(len(VISEMES), dtype=np.float32)[visemes_at(phones, np.zeros(1))[0]]
        # A decoder finds phones in any sound: they count as far as the network hears somebody speak, and not a pause.
        spoken = min(1.0, 2.0 * (1.0 - float(said.visemes[SILENCE])))
        share = PHONES_SHARE * float(said.presence) * spoken
        return Reading(
            (1.0 - share) * said.shapes + share * said.presence * mouth_at(phones, 0.0),
            (1.0 - share) * said.visemes + share * viseme,
            said.presence,
        )
