"""Sender reports on the media clock, and round trips from their echoes. Pure: takes `now_ns`, knows no socket.

A report pairs wall time with an RTP timestamp. Both tracks use one anchor (picture index 0 at its time), so a receiver
lines sound and picture up by their timestamps and not by when a busy encoder happened to send them.
"""

from __future__ import annotations

from collections import deque

from streamer.clock import NS_PER_S
from streamer.media import FRAME_NS

NTP_UNIX_OFFSET_S = 2_208_988_800
_MASK32 = 0xFFFFFFFF


class MediaClock:
    """When index 0 is, on the monotonic and on the wall clock; fixed at the first picture."""

    def __init__(self) -> None:
        self._zero_ns: int | None = None
        self._wall_zero_s = 0.0

    @property
    def running(self) -> bool:
        return self._zero_ns is not None

    def anchor(self, index: int, now_ns: int, wall_s: float) -> None:
        """Picture `index` is shown now; later calls change nothing, so a stepping wall clock cannot tear the tracks."""
        if self._zero_ns is None:
            self._zero_ns = now_ns - index * FRAME_NS
            self._wall_zero_s = wall_s - index * FRAME_NS / NS_PER_S

    def pts(self, now_ns: int, rate_hz: int) -> int:
        """Media time now in ticks of `rate_hz`."""
        return (now_ns - (self._zero_ns or 0)) * rate_hz // NS_PER_S

    def ntp(self, now_ns: int) -> int:
        """Wall time now as a 64-bit NTP stamp."""
        elapsed_s = (now_ns - (self._zero_ns or 0)) / NS_PER_S
        return int((self._wall_zero_s + elapsed_s + NTP_UNIX_OFFSET_S) * (1 << 32)) & 0xFFFFFFFFFFFFFFFF


class ReportClock:
    """One track's sender reports: what to say, and what the echo tells."""

    KEPT = 16

    def __init__(self, media: MediaClock, rate_hz: int) -> None:
        self._media = media
        self._rate_hz = rate_hz
        self._origin: int | None = None
        self._sent: deque[tuple[int, int]] = deque(maxlen=self.KEPT)

    def learn(self, rtp_timestamp: int, pts: int) -> None:
        """The packet with media time `pts` carried `rtp_timestamp`: fixes the stream's random origin."""
        self._origin = (rtp_timestamp - pts) & _MASK32

    def report(self, now_ns: int) -> tuple[int, int] | None:
        """(NTP, RTP timestamp) of now, or None before the origin is known."""
        if self._origin is None or not self._media.running:
            return None
        ntp = self._media.ntp(now_ns)
        self._sent.append(((ntp >> 16) & _MASK32, now_ns))
        return ntp, (self._origin + self._media.pts(now_ns, self._rate_hz)) & _MASK32

    def rtt_ms(self, last_report: int, delay: int, now_ns: int) -> float | None:
        """Round trip from a reception report's LSR and DLSR (1/65536 s)."""
        for stamp, sent_ns in self._sent:
            if stamp == last_report:
                return max(0.0, (now_ns - sent_ns) / 1e6 - delay * 1000.0 / 65536)
        return None
