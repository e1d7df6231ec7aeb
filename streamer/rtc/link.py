"""Where a peer's connection stands: connected, alive, gone and why; round trip and loss as the peer reports them."""

from __future__ import annotations

import asyncio
from typing import Protocol

from streamer.clock import NS_PER_S, Clock
from streamer.errors import SignalingError
from streamer.rtc.aiortc_hooks import Feedback
from streamer.rtc.bitrate import ResendBudget
from streamer.rtc.reports import ReportClock

HEARING_NS = NS_PER_S
"""After a stall of our own, so long to read what has come meanwhile before a peer is called silent."""
SILENCE_NS = 15 * NS_PER_S // 2
"""A peer that sends no RTP, RTCP, consent check or control message for so long is gone."""
HEAVY_LOSS, LIGHT_LOSS = 0.10, 0.03
"""Share of packets in a report: with the first pictures break, with the second none is missed."""


class Link:
    """Callbacks of the connection deposit here; `watch` ends a peer that has fallen silent."""

    def __init__(self, clock: Clock) -> None:
        self.gone = asyncio.Event()
        self.ended: str | None = None
        """Why the peer is gone, in one word for logs and metrics; None while it is not."""
        self.connected = False
        self.rtt_ms: float | None = None
        self.loss = 0.0
        self._clock = clock
        self._settled = asyncio.Event()
        self._alive_ns = clock.now_ns()

    async def wait_connected(self, timeout_ns: int) -> None:
        """Return once media can flow. Raises SignalingError (408) if that takes too long or fails."""
        try:
            async with asyncio.timeout(timeout_ns / NS_PER_S):
                await self._settled.wait()
        except TimeoutError:
            raise SignalingError("the peer did not connect in time", 408) from None
        if self.ended is not None:
            raise SignalingError("the connection could not be made", 408)

    async def watch(self) -> None:
        """End the peer once it has been silent for too long."""
        await self._settled.wait()
        while self._clock.now_ns() < (deadline_ns := self._alive_ns + SILENCE_NS):
            await self._clock.sleep_until(deadline_ns)
            if self._clock.now_ns() - deadline_ns > HEARING_NS:  # it was us who did not hear
                await self._clock.sleep_until(self._clock.now_ns() + HEARING_NS)
        self.end("silent")

    def note_alive(self) -> None:
        """The peer has said something that only it can say."""
        self._alive_ns = self._clock.now_ns()

    def note_state(self, state: str) -> None:
        """The connection's state, in W3C words."""
        if state == "connected":
            self.note_alive()
            self.connected = True
            self._settled.set()
        elif state in ("failed", "closed"):
            self.end("left" if self.connected else "failed")

    def end(self, reason: str) -> None:
        """The peer is gone; the first reason counts."""
        if self.ended is None:
            self.ended = reason
        self.connected = False
        self._settled.set()
        self.gone.set()


class RateListener(Protocol):
    """Hears how a stream arrives and says what it may take."""

    @property
    def target_bps(self) -> int: ...

    def note_report(self, loss: float, rtt_ms: float | None, now_ns: int) -> None: ...

    def note_hint(self, bitrate_bps: int, now_ns: int) -> None: ...


class PictureRequests(Protocol):
    """Hears that a peer needs a whole picture."""

    @property
    def requests(self) -> int: ...

    def request(self) -> None: ...


class Steers(Protocol):
    """What feedback about a video stream moves; `bitrate.Steering` for a stream of its own encoder."""

    @property
    def bitrate(self) -> RateListener: ...

    @property
    def keyframes(self) -> PictureRequests: ...

    @property
    def resends(self) -> ResendBudget: ...


class SenderFeedback:
    """What the peer says about one of our streams. Video feedback also steers: loss and estimates the bitrate, a lost
    picture the next keyframe."""

    def __init__(self, link: Link, reports: ReportClock, clock: Clock, steering: Steers | None = None) -> None:
        self._link = link
        self._reports = reports
        self._clock = clock
        self._steering = steering
        self._lost_much = False

    def resend(self, lost: list[int]) -> list[int]:
        """Which of the packets the peer has lost it gets again."""
        self._link.note_alive()
        if self._steering is None:
            return lost
        return self._steering.resends.allow(lost, self._steering.bitrate.target_bps, self._clock.now_ns())

    def heard(self, feedback: Feedback) -> None:
        """One word of the peer about our stream."""
        self._link.note_alive()
        now_ns, rtt_ms = self._clock.now_ns(), None
        if feedback.report is not None:
            rtt_ms = self._reports.rtt_ms(feedback.report.lsr, feedback.report.dlsr, now_ns)
            if rtt_ms is not None:
                self._link.rtt_ms = rtt_ms
        if self._steering is None:
            return
        if feedback.report is not None:
            self._link.loss = feedback.report.fraction_lost / 256
            self._steering.bitrate.note_report(self._link.loss, rtt_ms, now_ns)
            self._note_recovery(self._steering)
        if feedback.picture_lost:
            self._steering.keyframes.request()
        if feedback.bitrate_bps is not None:
            self._steering.bitrate.note_hint(feedback.bitrate_bps, now_ns)

    def _note_recovery(self, steering: Steers) -> None:
        """What was lost in a heavy loss may be the whole picture, and not every peer asks for another."""
        if self._link.loss > HEAVY_LOSS:
            self._lost_much = True
        elif self._lost_much and self._link.loss < LIGHT_LOSS:
            self._lost_much = False
            steering.keyframes.request()
