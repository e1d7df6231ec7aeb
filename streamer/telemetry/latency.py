"""Latency of one session: stamps of its pictures to percentiles by stage. Pure; knows no metrics library."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields

import numpy as np

from streamer.clock import NS_PER_MS
from streamer.media import FRAME_NS, PictureKind, Stamps

STAGES: tuple[tuple[str, str, str], ...] = (
    ("capture_gate", "captured_ns", "gated_ns"),
    ("gate_window", "gated_ns", "windowed_ns"),
    ("window_queue", "windowed_ns", "queued_ns"),
    ("queue_render", "queued_ns", "rendered_ns"),
    ("render_compose", "rendered_ns", "composed_ns"),
    ("compose_encode", "composed_ns", "encoded_ns"),
    ("encode_send", "encoded_ns", "sent_ns"),
)
"""Stage name, the stamp it starts at and the stamp it ends at."""


LAST_PACKET_NS = FRAME_NS // 2
"""The last packet of a frame's sound belongs half a frame later than its picture, and is sent as much later."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 95th percentile, milliseconds."""

    p50: float
    p95: float


def spread(values: deque[float]) -> Spread | None:
    """The spread of some figures; None for none."""
    if not values:
        return None
    p50, p95 = np.percentile(np.fromiter(values, np.float64), (50, 95))
    return Spread(round(float(p50), 2), round(float(p95), 2))


class LatencyRecord:
    """The last few seconds of a session's voiced pictures, by stage, and its frames by kind."""

    def __init__(self, span_frames: int = 250) -> None:
        self._stages: dict[str, deque[float]] = {name: deque(maxlen=span_frames) for name, _, _ in STAGES}
        self._mic_to_lip: deque[float] = deque(maxlen=span_frames)
        self._av_offset: deque[float] = deque(maxlen=span_frames)
        self._sent_ns: deque[int] = deque(maxlen=50)
        self.frames = dict.fromkeys(PictureKind, 0)

    def note(self, kind: PictureKind, stamps: Stamps, spoken_ns: int) -> dict[str, float]:
        """Take a picture that was sent; `spoken_ns`: when its sound was spoken. Returns times in ms, for metrics.

        Stage names, `frame_interval`, and where the picture and its own sound have left, `av_offset`.
        """
        times = {}
        if self._sent_ns:
            times["frame_interval"] = (stamps.sent_ns - self._sent_ns[-1]) / NS_PER_MS
        self.frames[kind] += 1
        self._sent_ns.append(stamps.sent_ns)
        if stamps.sound_sent_ns:
            times["av_offset"] = (stamps.sent_ns - stamps.sound_sent_ns + LAST_PACKET_NS) / NS_PER_MS
            self._av_offset.append(times["av_offset"])
        if kind is not PictureKind.VOICED:
            return times
        for name, start, end in STAGES:
            began, ended = getattr(stamps, start), getattr(stamps, end)
            if began and ended:
                times[name] = (ended - began) / NS_PER_MS
                self._stages[name].append(times[name])
        times["mic_to_lip"] = (stamps.sent_ns - spoken_ns) / NS_PER_MS
        self._mic_to_lip.append(times["mic_to_lip"])
        return times

    def stages_ms(self) -> dict[str, dict[str, float]]:
        return {name: _plain(found) for name, values in self._stages.items() if (found := spread(values))}

    def mic_to_lip_ms(self) -> dict[str, float] | None:
        """From the middle of a frame's sound at the microphone to its picture leaving the server."""
        found = spread(self._mic_to_lip)
        return _plain(found) if found else None

    def av_offset_ms(self) -> float | None:
        """Median over the last seconds of how much later than its own sound a picture left; None for no figures."""
        found = spread(self._av_offset)
        return found.p50 if found else None

    def fps(self) -> float:
        """Pictures sent a second over the last two."""
        if len(self._sent_ns) < 2 or self._sent_ns[-1] <= self._sent_ns[0]:
            return 0.0
        return round((len(self._sent_ns) - 1) * 1e9 / (self._sent_ns[-1] - self._sent_ns[0]), 2)


def in_order(stamps: Stamps) -> bool:
    """Whether the stamps that are set never go back."""
    values = [getattr(stamps, f.name) for f in fields(stamps) if f.name != "sound_sent_ns"]
    seen = [v for v in values if v]
    return seen == sorted(seen)


def _plain(value: Spread) -> dict[str, float]:
    return {"p50": value.p50, "p95": value.p95}
