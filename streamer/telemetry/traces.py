"""OpenTelemetry traces: one span for each voiced window, a child for each stage of its first mouth. Optional extra.

The stamps are monotonic; spans want wall time: the distance between the two is taken once, when tracing begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock, wall_clock_s
from streamer.config import TracesConfig
from streamer.errors import ConfigError
from streamer.media import PictureKind, Stamps
from streamer.telemetry.latency import STAGES

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

QUIET_FRAMES = 5
"""So many idle pictures in a row end a window."""
REMEDY = "pip install 'liveanchor[traces]'"


class Traces:
    """The server's tracer. `window` gives each session its own."""

    def __init__(self, exporter: SpanExporter, share: float) -> None:
        """share: of the windows that are traced, 0..1."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        self._provider = TracerProvider(
            resource=Resource({"service.name": "liveanchor"}),
            sampler=ParentBased(TraceIdRatioBased(share)),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._offset_ns = int(wall_clock_s() * NS_PER_S) - MonotonicClock().now_ns()

    @classmethod
    def to(cls, config: TracesConfig) -> Traces | None:
        """As configured; None: not wanted. Raises ConfigError where the extra is not installed."""
        if config.url is None:
            return None
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError:
            raise ConfigError("traces.url", f"OpenTelemetry is not installed: {REMEDY}") from None
        return cls(OTLPSpanExporter(endpoint=config.url), config.share)

    def window(self) -> WindowTracer:
        return WindowTracer(self._provider.get_tracer("liveanchor"), self._offset_ns)

    def close(self) -> None:
        """Send what waits. Blocking, at most a few seconds."""
        self._provider.shutdown()


class WindowTracer:
    """One session's voiced windows. `note` every picture that was sent."""

    def __init__(self, tracer: Tracer, offset_ns: int) -> None:
        self._tracer = tracer
        self._offset_ns = offset_ns
        self._first: Stamps | None = None
        self._last_ns = 0
        self._quiet = 0
        self._counts: dict[PictureKind, int] = {}
        self._slowest_ns = 0

    def note(self, kind: PictureKind, stamps: Stamps, spoken_ns: int) -> None:
        """A picture left; `spoken_ns`: when its sound was spoken."""
        if kind is PictureKind.IDLE:
            self._quiet += 1
            if self._quiet >= QUIET_FRAMES:
                self.end()
            return
        self._quiet = 0
        if self._first is None and kind is PictureKind.VOICED:
            self._first, self._counts, self._slowest_ns = stamps, {}, 0
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._last_ns = stamps.sent_ns
        if kind is PictureKind.VOICED:
            self._slowest_ns = max(self._slowest_ns, stamps.sent_ns - spoken_ns)

    def end(self) -> None:
        """The window is over, or the session is. Idempotent."""
        first, self._first = self._first, None
        if first is None:
            return
        from opentelemetry import trace

        began_ns = next(value for value in (first.captured_ns, first.gated_ns, first.sent_ns) if value)
        counts = {f"frames.{kind}": count for kind, count in self._counts.items()}
        attributes = counts | {"mic_to_lip.max_ms": round(self._slowest_ns / NS_PER_MS)}
        span = self._tracer.start_span("voiced window", start_time=self._wall(began_ns), attributes=attributes)
        inside = trace.set_span_in_context(span)
        for name, start, stop in STAGES:
            start_ns, stop_ns = getattr(first, start), getattr(first, stop)
            if start_ns and stop_ns:
                child = self._tracer.start_span(name, inside, start_time=self._wall(start_ns))
                child.end(self._wall(stop_ns))
        span.end(self._wall(max(self._last_ns, began_ns)))

    def _wall(self, monotonic_ns: int) -> int:
        return monotonic_ns + self._offset_ns
