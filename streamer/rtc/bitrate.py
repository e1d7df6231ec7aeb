"""How many bits the video may take, and when it may repeat a whole picture. Pure: takes reports and `now_ns`."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.clock import NS_PER_MS, NS_PER_S

REFERENCE_BPS = 1_500_000
REFERENCE_PIXELS = 512 * 512


def nominal_bps(size_px: tuple[int, int]) -> int:
    """Bitrate of a talking head at 25 fps: 1.5 Mb/s at 512 x 512, less than proportional to the pixels."""
    pixels = size_px[0] * size_px[1]
    return int(min(4_500_000, REFERENCE_BPS * (pixels / REFERENCE_PIXELS) ** 0.75))


@dataclass(frozen=True, slots=True)
class BitrateSettings:
    """When a link counts as congested and how fast the target moves."""

    heavy_loss: float = 0.10
    """Loss that is an answer by itself, whatever the peer estimates."""
    light_loss: float = 0.03
    """Loss that makes the peer's estimate worth following."""
    rtt_rise_ms: float = 200.0
    """Round trips this far above the best seen mean a queue is filling."""
    least_change: float = 0.15
    """Smaller changes are not worth a rebuilt encoder and its keyframe."""
    rebuild_gap_ns: int = 2 * NS_PER_S
    clean_before_raise_ns: int = 5 * NS_PER_S
    raise_factor: float = 1.5
    hint_age_ns: int = 3 * NS_PER_S
    floor_share: float = 0.15


class BitrateControl:
    """Target bitrate from reception reports and the peer's estimates (REMB).

    A peer's estimate is bounded by what it receives, so on a clean link it can only drag the target down: it counts
    only while loss or a growing round trip says that the link is full.
    """

    def __init__(self, nominal: int, settings: BitrateSettings | None = None) -> None:
        self._settings = settings or BitrateSettings()
        self._nominal_bps = nominal
        self._floor_bps = int(nominal * self._settings.floor_share)
        self._hint_bps = 0
        self._hint_ns: int | None = None
        self._best_rtt_ms = float("inf")
        self._changed_ns: int | None = None
        self._troubled_ns: int | None = None
        self._wish_bps = float(nominal)
        self.target_bps = nominal

    def note_hint(self, bitrate_bps: int, now_ns: int) -> None:
        """The peer's estimate of what it can receive."""
        self._hint_bps, self._hint_ns = bitrate_bps, now_ns

    def note_report(self, loss: float, rtt_ms: float | None, now_ns: int) -> None:
        """A reception report on our video: share of packets lost since the last one, round trip if known."""
        settings = self._settings
        if rtt_ms is not None:
            self._best_rtt_ms = min(self._best_rtt_ms, rtt_ms)
        queue_grows = rtt_ms is not None and rtt_ms > self._best_rtt_ms + settings.rtt_rise_ms
        if queue_grows or loss > settings.light_loss:
            self._troubled_ns = now_ns
            if loss > settings.heavy_loss:
                self._wish_bps *= 1.0 - loss / 2
            elif queue_grows:
                self._wish_bps *= 0.8
            if self._hint_ns is not None and now_ns - self._hint_ns < settings.hint_age_ns:
                self._wish_bps = min(self._wish_bps, self._hint_bps)
        if self._changed_ns is not None and now_ns - self._changed_ns < settings.rebuild_gap_ns:
            return
        if self._wish_bps < self.target_bps * (1.0 - settings.least_change):
            self._move(max(self._floor_bps, int(self._wish_bps)), now_ns)
        elif self._clean_for(now_ns) > settings.clean_before_raise_ns:
            self._move(min(self._nominal_bps, int(self.target_bps * settings.raise_factor)), now_ns)

    def _clean_for(self, now_ns: int) -> int:
        since = max(self._troubled_ns or 0, self._changed_ns or 0)
        return now_ns - since

    def _move(self, target_bps: int, now_ns: int) -> None:
        if target_bps != self.target_bps:
            self._changed_ns = now_ns
        self.target_bps = target_bps
        self._wish_bps = float(target_bps)


class KeyframeGate:
    """Merges requests for whole pictures: one at most every 500 ms, none forgotten."""

    MIN_GAP_NS = 500 * NS_PER_MS

    def __init__(self) -> None:
        self._wanted = False
        self._last_ns: int | None = None
        self.requests = 0

    def request(self) -> None:
        """The peer lost the picture."""
        self._wanted = True
        self.requests += 1

    def due(self, now_ns: int) -> bool:
        """Whether the next picture must be a keyframe."""
        return self._wanted and (self._last_ns is None or now_ns - self._last_ns >= self.MIN_GAP_NS)

    def note_keyframe(self, now_ns: int) -> None:
        """A keyframe has been made, asked for or not: it answers what was asked before it."""
        self._wanted = False
        self._last_ns = now_ns


@dataclass(frozen=True, slots=True)
class Steering:
    """What the peer's feedback moves in a video stream."""

    bitrate: BitrateControl
    keyframes: KeyframeGate
