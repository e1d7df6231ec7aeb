"""The probe's eyes: bursts it said, lips it saw part, and what of the time the server's own stamps do not explain."""

from __future__ import annotations

import statistics
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from streamer.bench.bursts import burst_microphone, to_lip_ms
from streamer.bench.lips import LipReader
from streamer.bench.witness import Reading
from streamer.clock import NS_PER_S
from streamer.media import CHUNK_SAMPLES, FRAME_SAMPLES, S16
from streamer.rtc.control import Message
from streamer.soak.client import SeenPicture, SentStamp

BURSTS = 24
KEPT_PICTURES = 1500


class LipWatch:
    """Times rounds of an endless burst microphone. `close` ends its thread."""

    def __init__(self) -> None:
        microphone = burst_microphone(BURSTS, seed=1)
        self.microphone: S16 = np.pad(microphone.pcm48, (0, -len(microphone.pcm48) % FRAME_SAMPLES))
        self._onsets = frozenset(onset // CHUNK_SAMPLES for onset in microphone.onsets)
        self._packets = len(self.microphone) // CHUNK_SAMPLES
        self._reader = LipReader()
        self._reading = ThreadPoolExecutor(1, "lips")
        self._readings: deque[Future[Reading]] = deque(maxlen=KEPT_PICTURES)
        self._sent: list[int] = []
        self._server_ms: float | None = None
        self.missed = 0

    def spoken(self, stamp: SentStamp) -> None:
        if (stamp.first_sample // CHUNK_SAMPLES) % self._packets in self._onsets:
            self._sent.append(stamp.sent_ns)

    def seen(self, picture: SeenPicture) -> None:
        self._readings.append(self._reading.submit(self._read, picture))

    def told(self, snapshot: Message) -> None:
        """The server's own mic-to-lip."""
        spread = snapshot.get("mic_to_lip_ms")
        if isinstance(spread, dict) and isinstance(spread.get("p50"), int | float):
            self._server_ms = float(spread["p50"])

    def take(self, now_ns: int) -> tuple[list[float], float | None]:
        """(times of a finished round of bursts, what is left of their median beyond the server's), milliseconds."""
        if len(self._sent) < BURSTS or now_ns - self._sent[BURSTS - 1] < NS_PER_S:
            return [], None
        sent, self._sent = self._sent[:BURSTS], self._sent[BURSTS:]
        readings = [f.result() for f in self._readings if f.done() and not f.cancelled() and f.exception() is None]
        if not readings or readings[0].decoded_ns > sent[-1]:
            self.missed += len(sent)
            return [], None
        times = to_lip_ms(sent, readings)
        seen = [round(time, 1) for time in times if time is not None]
        self.missed += len(times) - len(seen)
        if not seen or self._server_ms is None:
            return seen, None
        return seen, round(statistics.median(seen) - self._server_ms, 1)

    def close(self) -> None:
        """Waits for nothing: what is being read ends by itself."""
        self._reading.shutdown(wait=False, cancel_futures=True)

    def _read(self, picture: SeenPicture) -> Reading:
        return Reading(picture.decoded_ns, picture.pts, self._reader.gap(picture.planes))
