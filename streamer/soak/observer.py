"""What one client notices of its media, second by second. Pure: stamps in, `ClientSample` parts out."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from streamer.clock import NS_PER_MS
from streamer.media import SOUND_HZ, VIDEO_CLOCK_HZ
from streamer.soak.client import ReportStamp, RtpStamp

_RATES_HZ = {"audio": SOUND_HZ, "video": VIDEO_CLOCK_HZ}
BELIEVED_S = 60
"""A packet is no further than this from the report before it."""


@dataclass(frozen=True, slots=True)
class MediaNews:
    """What was noticed since the last time; the fields of the same names in ClientSample."""

    frames: int
    sounds: int
    gaps_ms: tuple[float, ...]
    sound_gap_ms: float
    av_offset_ms: float | None


class MediaLog:
    """Arrivals of a client's calls. `take` gives what was noticed since the last `take`."""

    def __init__(self) -> None:
        self._frames = 0
        self._sounds = 0
        self._gaps_ms: list[float] = []
        self._sound_gap_ms = 0.0
        self._frame: RtpStamp | None = None
        self._frame_began_ns = 0
        self._newest: int | None = None
        self._sound_ns: int | None = None
        self._reports: dict[str, ReportStamp] = {}
        self._lateness_ms: dict[str, list[float]] = {"audio": [], "video": []}

    def note_report(self, stamp: ReportStamp) -> None:
        self._reports[stamp.kind] = stamp

    def note_rtp(self, stamp: RtpStamp) -> None:
        if stamp.kind == "audio":
            self._note_sound(stamp)
        else:
            self._note_video(stamp)

    def begin(self) -> None:
        """Another call: what comes next follows nothing."""
        self._frame = self._newest = self._sound_ns = None
        self._reports.clear()
        self._lateness_ms = {"audio": [], "video": []}

    def take(self, now_ns: int) -> MediaNews:
        """A silence that still lasts counts as far as it has come."""
        if self._sound_ns is not None:
            self._sound_gap_ms = max(self._sound_gap_ms, (now_ns - self._sound_ns) / NS_PER_MS)
        gap_ms = round(self._sound_gap_ms, 1)
        found = MediaNews(self._frames, self._sounds, tuple(self._gaps_ms), gap_ms, self._offset_ms())
        self._frames = self._sounds = 0
        self._gaps_ms, self._sound_gap_ms = [], 0.0
        return found

    def _note_sound(self, stamp: RtpStamp) -> None:
        if self._sound_ns is not None:
            self._sound_gap_ms = max(self._sound_gap_ms, (stamp.arrived_ns - self._sound_ns) / NS_PER_MS)
        self._sound_ns = stamp.arrived_ns
        self._sounds += 1
        self._note_lateness(stamp)

    def _note_video(self, stamp: RtpStamp) -> None:
        """A picture begins with the first packet of a newer time; what comes again is no new picture."""
        if self._newest is not None and not 0 < (stamp.timestamp - self._newest) & 0xFFFFFFFF < 1 << 31:
            if self._frame is not None and stamp.timestamp == self._newest:
                self._frame = stamp
            return
        if self._frame is not None:
            self._note_lateness(self._frame)
            self._gaps_ms.append(round((stamp.arrived_ns - self._frame_began_ns) / NS_PER_MS, 1))
        self._newest = stamp.timestamp
        self._frame, self._frame_began_ns = stamp, stamp.arrived_ns
        self._frames += 1

    def _note_lateness(self, stamp: RtpStamp) -> None:
        report = self._reports.get(stamp.kind)
        if report is None:
            return
        ticks = ((stamp.timestamp - report.rtp_timestamp + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        if abs(ticks) > BELIEVED_S * _RATES_HZ[stamp.kind]:
            return  # a report from before the stream's first packet knows no timestamp yet
        media_ms = 1000 * ticks / _RATES_HZ[stamp.kind] + 1000 * ((report.ntp >> 16) & 0xFFFFFFFF) / 65536
        self._lateness_ms[stamp.kind].append(stamp.arrived_ns / NS_PER_MS - media_ms)

    def _offset_ms(self) -> float | None:
        video, audio = self._lateness_ms["video"], self._lateness_ms["audio"]
        if not video or not audio:
            return None
        found = statistics.median(video) - statistics.median(audio)
        self._lateness_ms = {"audio": [], "video": []}
        return round(found, 2)
