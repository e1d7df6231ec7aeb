"""Watches one visit: the mouth of every decoded picture, all sound, and the clock that belongs to both."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from streamer.errors import StreamerError
from streamer.media import S16, SOUND_HZ, U8, VIDEO_CLOCK_HZ, SoundBlock
from streamer.soak.client import ReportStamp, RtpStamp, SeenPicture, Visit

RATES_HZ = {"audio": SOUND_HZ, "video": VIDEO_CLOCK_HZ}


class Gauge(Protocol):
    """Reads the mouth of a picture."""

    def gap(self, planes: U8) -> float: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What a gauge said of a decoded picture."""

    decoded_ns: int
    pts: int
    """90 kHz ticks since the first picture."""
    gap: float


class Witness:
    """One visit's observer. Use as a context manager; ask it after the visit."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._reading = ThreadPoolExecutor(1, "gauge")  # the mesh takes its time; stamps are taken before
        self._readings: list[Future[Reading]] = []
        self._first: dict[str, int] = {}
        self._reports: dict[str, ReportStamp] = {}
        self.blocks: list[SoundBlock] = []
        self.arrivals: list[RtpStamp] = []

    def __enter__(self) -> Witness:
        return self

    def __exit__(self, *_: object) -> None:
        self._reading.shutdown(cancel_futures=True)

    def plan(
        self,
        microphone: S16 | None,
        codec: str | None = None,
        lose_uplink: Callable[[], bool] | None = None,
    ) -> Visit:
        """A visit that this witness sees."""
        return Visit(
            microphone,
            codec,
            lose_uplink,
            on_picture=self._look,
            on_sound=self.blocks.append,
            on_rtp=self._note_packet,
            on_report=self._note_report,
        )

    def readings(self) -> list[Reading]:
        """All pictures in the order they were decoded; waits for the gauge."""
        return [future.result() for future in self._readings]

    def sound(self) -> S16:
        """All that was heard, (n,) s16 at 48 kHz."""
        return np.concatenate([block.pcm48 for block in self.blocks]) if self.blocks else np.zeros(0, np.int16)

    def shown_s(self, pts: int) -> float:
        """When a picture is meant to be seen: seconds of the server's wall clock. Raises StreamerError: no report."""
        return self._wall_s("video", pts)

    def heard_s(self, sample: int) -> float:
        """When a sample of `sound` is meant to be heard, on the same clock. Raises StreamerError: no report."""
        return self._wall_s("audio", sample + self.blocks[0].source_sample)

    def _wall_s(self, kind: str, ticks: int) -> float:
        report = self._reports.get(kind)
        if report is None:
            raise StreamerError(f"the server sent no report about its {kind}")
        since = (self._first[kind] + ticks - report.rtp_timestamp + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
        return report.ntp / (1 << 32) + since / RATES_HZ[kind]

    def _look(self, picture: SeenPicture) -> None:
        self._readings.append(self._reading.submit(self._read, picture))

    def _read(self, picture: SeenPicture) -> Reading:
        return Reading(picture.decoded_ns, picture.pts, self._gauge.gap(picture.planes))

    def _note_packet(self, stamp: RtpStamp) -> None:
        self._first.setdefault(stamp.kind, stamp.timestamp)
        self.arrivals.append(stamp)

    def _note_report(self, stamp: ReportStamp) -> None:
        self._reports[stamp.kind] = stamp
