"""Which rung suits a viewer, and how often it may ask for a whole picture. Pure: takes reports and `now_ns`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamer.clock import NS_PER_S
from streamer.rtc.bitrate import ResendBudget


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """When a viewer's link counts as too narrow for the full picture, and how long until it is tried again."""

    heavy_loss: float = 0.10
    light_loss: float = 0.03
    """Loss that makes the viewer's own estimate (REMB) worth believing."""
    reports: int = 2
    """So many troubled reports in a row, not one: a busy machine loses a packet now and then."""
    clean_ns: int = 10 * NS_PER_S
    longest_clean_ns: int = 80 * NS_PER_S
    """A return that brings trouble doubles the wait for the next one, up to this."""
    hint_age_ns: int = 3 * NS_PER_S


class RungChoice:
    """Full or half size for one viewer. A `link.RateListener`: reports and estimates come in, `half` is the answer."""

    def __init__(self, full_bps: int, half_bps: int, settings: ChoiceSettings | None = None) -> None:
        self._settings = settings or ChoiceSettings()
        self._full_bps, self._half_bps = full_bps, half_bps
        self._hint_bps = 0
        self._hint_ns: int | None = None
        self._troubled = 0
        self._quiet_since_ns: int | None = None
        self._wait_ns = self._settings.clean_ns
        self._returned_ns: int | None = None
        self.half = False

    @property
    def target_bps(self) -> int:
        return self._half_bps if self.half else self._full_bps

    def note_hint(self, bitrate_bps: int, now_ns: int) -> None:
        """The viewer's estimate of what it can receive; below the stream's own rate on a clean link too."""
        self._hint_bps, self._hint_ns = bitrate_bps, now_ns

    def note_report(self, loss: float, rtt_ms: float | None, now_ns: int) -> None:
        """A reception report: share of packets lost since the last one."""
        settings = self._settings
        fresh = self._hint_ns is not None and now_ns - self._hint_ns < settings.hint_age_ns
        narrow = fresh and self._hint_bps < self._full_bps * 3 // 4
        trouble = loss > settings.heavy_loss or (loss > settings.light_loss and narrow)
        self._troubled = self._troubled + 1 if trouble else 0
        if trouble or self._quiet_since_ns is None:
            self._quiet_since_ns = now_ns
        if not self.half and self._troubled >= settings.reports:
            soon = self._returned_ns is not None and now_ns - self._returned_ns < settings.clean_ns
            self._wait_ns = min(settings.longest_clean_ns, 2 * self._wait_ns) if soon else settings.clean_ns
            self.half, self._quiet_since_ns = True, now_ns
        elif self.half and now_ns - self._quiet_since_ns > self._wait_ns:
            self.half, self._returned_ns = False, now_ns


class ViewerRequests:
    """One viewer's wishes for whole pictures: one a second reaches the others' stream, however often it asks."""

    GAP_NS = NS_PER_S

    def __init__(self, ask: Callable[[], None], now_ns: Callable[[], int]) -> None:
        self._ask = ask
        self._now_ns = now_ns
        self._asked_ns: int | None = None
        self._wanted = False
        self.requests = 0

    def request(self) -> None:
        """The viewer has lost the picture."""
        self.requests += 1
        self._wanted = True
        self.remind()

    def remind(self) -> None:
        """Pass a wish on that had to wait. Call with every picture."""
        now_ns = self._now_ns()
        if self._wanted and (self._asked_ns is None or now_ns - self._asked_ns >= self.GAP_NS):
            self._asked_ns = now_ns
            self._ask()

    def note_keyframe(self) -> None:
        """The viewer gets a whole picture: whatever it asked for before is answered."""
        self._wanted = False


@dataclass(frozen=True, slots=True)
class ViewerSteering:
    """What a viewer's feedback moves (`link.Steers`)."""

    bitrate: RungChoice
    keyframes: ViewerRequests
    resends: ResendBudget
