"""The once-a-second message of a session's telemetry channel. Knows no transport; docs/api.md names the fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streamer.telemetry.latency import LatencyRecord


class LinkStats(Protocol):
    """What the peer knows about its link."""

    @property
    def bytes_sent(self) -> int: ...

    @property
    def rtt_ms(self) -> float | None: ...


class Link(Protocol):
    """A peer, as this module sees it."""

    @property
    def stats(self) -> LinkStats: ...


_CLIENT_FIELDS = (
    "jitter_buffer_ms",
    "decode_ms",
    "render_ms",
    "rtt_ms",
    "frames_decoded",
    "frames_dropped",
    "freeze_count",
)


class Snapshot:
    """Gathers what one session's panel shows."""

    def __init__(self, record: LatencyRecord, link: Link, playout_delay_ms: float, look_ahead_ms: float) -> None:
        self._record = record
        self._link = link
        self.playout_delay_ms = playout_delay_ms
        self._look_ahead_ms = look_ahead_ms
        self._client: dict[str, float] = {}
        self._sent: tuple[float, int] | None = None

    def note_client(self, message: Mapping[str, object]) -> None:
        """Keep the browser's own figures; anything that is not a plain number is ignored."""
        for name in _CLIENT_FIELDS:
            value = message.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9:
                self._client[name] = float(value)

    def message(self, now_ms: float, loop_lag_ms: float, *, speaking: bool) -> dict[str, object]:
        """A JSON-ready snapshot; `now_ms` since the session went live."""
        stats = self._link.stats
        return {
            "type": "snapshot",
            "t_ms": round(now_ms),
            "uptime_s": round(now_ms / 1000, 1),
            "fps": self._record.fps(),
            "frames": {str(kind): count for kind, count in self._record.frames.items()},
            "mic_to_lip_ms": self._record.mic_to_lip_ms(),
            "stages_ms": self._record.stages_ms(),
            "av_offset_ms": self._record.av_offset_ms(),
            "playout_delay_ms": round(self.playout_delay_ms, 1),
            "look_ahead_ms": round(self._look_ahead_ms, 1),
            "bitrate_kbps": self._bitrate_kbps(now_ms, stats.bytes_sent),
            "rtt_ms": stats.rtt_ms,
            "loop_lag_ms": round(loop_lag_ms, 2),
            "speaking": speaking,
            "client": dict(self._client),
        }

    def _bitrate_kbps(self, now_ms: float, bytes_sent: int) -> int:
        """Since the message before; 0 in the first."""
        before, self._sent = self._sent, (now_ms, bytes_sent)
        if before is None or now_ms <= before[0]:
            return 0
        return round((bytes_sent - before[1]) * 8 / (now_ms - before[0]))
