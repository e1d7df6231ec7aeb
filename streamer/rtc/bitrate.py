"""How many bits the video may take, and when it may repeat a whole picture. Pure: takes reports and `now_ns`."""

from __future__ import annotations

from collections.abc import Iterable
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
    longest_before_raise_ns: int = 40 * NS_PER_S
    """A raise that brings trouble doubles the wait for the next one, up to this."""
    raise_factor: float = 1.5
    hint_age_ns: int = 3 * NS_PER_S
    floor_share: float = 0.15
    floor_bps: int = 100_000
    """Where the share is more: with the sound it must fit through 300 kbit/s."""


class BitrateControl:
    """Target bitrate from reception reports and the peer's estimates (REMB).

    A peer's estimate is bounded by what it receives, so on a clean link it can only drag the target down: it counts
    only while loss or a growing round trip says that the link is full.
    """

    def __init__(self, nominal: int, settings: BitrateSettings | None = None) -> None:
        self._settings = settings or BitrateSettings()
        self._nominal_bps = nominal
        self._floor_bps = self._floor_of(nominal)
        self._hint_bps = 0
        self._hint_ns: int | None = None
        self._best_rtt_ms = float("inf")
        self._slow_reports = 0
        self._changed_ns: int | None = None
        self._raised_ns: int | None = None
        self._troubled_ns: int | None = None
        self._raise_wait_ns = self._settings.clean_before_raise_ns
        self._wish_bps = float(nominal)
        self.target_bps = nominal

    def resize(self, nominal: int) -> None:
        """The pictures have another size: the same share of another nominal bitrate."""
        share = nominal / self._nominal_bps
        self.target_bps, self._wish_bps = int(self.target_bps * share), self._wish_bps * share
        self._nominal_bps = nominal
        self._floor_bps = self._floor_of(nominal)

    def _floor_of(self, nominal: int) -> int:
        return min(self._settings.floor_bps, int(nominal * self._settings.floor_share))

    def note_hint(self, bitrate_bps: int, now_ns: int) -> None:
        """The peer's estimate of what it can receive."""
        self._hint_bps, self._hint_ns = bitrate_bps, now_ns

    def note_report(self, loss: float, rtt_ms: float | None, now_ns: int) -> None:
        """A reception report on our video: share of packets lost since the last one, round trip if known."""
        settings = self._settings
        queue_grows = self._queue_grows(rtt_ms)
        if queue_grows or loss > settings.light_loss:
            self._note_trouble(now_ns)
            if loss > settings.heavy_loss:
                self._wish_bps *= 1.0 - loss  # what came through
            elif queue_grows:
                self._wish_bps *= 0.8
            if self._hint_ns is not None and now_ns - self._hint_ns < settings.hint_age_ns:
                self._wish_bps = min(self._wish_bps, self._hint_bps)
        if self._changed_ns is not None and now_ns - self._changed_ns < settings.rebuild_gap_ns:
            return
        if self._wish_bps < self.target_bps * (1.0 - settings.least_change):
            self._move(max(self._floor_bps, int(self._wish_bps)), now_ns)
        elif self.target_bps < self._nominal_bps and self._clean_for(now_ns) > self._raise_wait_ns:
            self._move(min(self._nominal_bps, int(self.target_bps * settings.raise_factor)), now_ns)
            self._raised_ns = now_ns

    def _queue_grows(self, rtt_ms: float | None) -> bool:
        """Two slow round trips in a row; one alone may be a busy machine."""
        if rtt_ms is None:
            return False
        self._best_rtt_ms = min(self._best_rtt_ms, rtt_ms)
        slow = rtt_ms > self._best_rtt_ms + self._settings.rtt_rise_ms
        self._slow_reports = self._slow_reports + 1 if slow else 0
        return self._slow_reports >= 2

    def _note_trouble(self, now_ns: int) -> None:
        settings = self._settings
        if self._raised_ns is not None:
            soon = now_ns - self._raised_ns < settings.clean_before_raise_ns
            longer_ns = min(settings.longest_before_raise_ns, 2 * self._raise_wait_ns)
            self._raise_wait_ns = longer_ns if soon else settings.clean_before_raise_ns
            self._raised_ns = None
        self._troubled_ns = now_ns

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


class ResendBudget:
    """Which lost packets are worth sending again: each once a round trip, in all a third of the rate at most.

    A peer behind a full link asks again and again; answering every time would keep the link full.
    """

    AGAIN_NS = 30 * NS_PER_MS
    SHARE = 1 / 3
    BURST_PACKETS = 60
    PACKET_BITS = 1300 * 8

    def __init__(self) -> None:
        self._sent: dict[int, int] = {}
        self._tokens = float(self.BURST_PACKETS)
        self._last_ns: int | None = None
        self.refused = 0

    def allow(self, sequence_numbers: Iterable[int], target_bps: int, now_ns: int) -> list[int]:
        """Those of the numbers that may be sent again now."""
        rate = target_bps * self.SHARE / self.PACKET_BITS
        elapsed_ns = now_ns - (self._last_ns if self._last_ns is not None else now_ns)
        self._last_ns = now_ns
        self._tokens = min(self.BURST_PACKETS, self._tokens + rate * elapsed_ns / NS_PER_S)
        self._sent = {seq: sent_ns for seq, sent_ns in self._sent.items() if now_ns - sent_ns < self.AGAIN_NS}
        allowed = []
        for seq in sequence_numbers:
            if seq in self._sent or self._tokens < 1.0:
                self.refused += 1
                continue
            self._tokens -= 1.0
            self._sent[seq] = now_ns
            allowed.append(seq)
        return allowed


@dataclass(frozen=True, slots=True)
class Steering:
    """What the peer's feedback moves in a video stream."""

    bitrate: BitrateControl
    keyframes: KeyframeGate
    resends: ResendBudget
