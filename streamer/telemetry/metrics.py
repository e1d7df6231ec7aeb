"""Prometheus metrics of the whole server. One registry an app, no globals, no session labels."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from streamer.clock import NS_PER_S
from streamer.inference import BatchTiming
from streamer.media import PictureKind
from streamer.rtc.settings import PeerStats
from streamer.telemetry.threads import thread_cpu_s
from streamer.telemetry.traces import Traces

_LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
_CLIENT_STAGES = {
    "rtt_ms": "network", "jitter_buffer_ms": "jitter_buffer", "decode_ms": "decode", "render_ms": "render",
}  # fmt: skip
_LONGEST_MS = 60_000


class Metrics:
    """The names of facts that dashboards rely on; see docs/api.md."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.traces: Traces | None = None
        """Where voiced windows are told of; None: nowhere."""
        self._count_sessions(self.registry)
        self._time_frames(self.registry)
        self._watch_parts(self.registry)
        self._name_what_may_never_happen()

    def _count_sessions(self, r: CollectorRegistry) -> None:
        self.tasks = Gauge("avatar_tasks", "Tasks of the event loop.", registry=r)
        self.threads = Gauge("avatar_threads", "Threads of this process.", registry=r)
        self.sessions_active = Gauge("avatar_sessions_active", "Sessions that hold a slot.", registry=r)
        self.slots_total = Gauge("avatar_slots_total", "Slots of this server.", registry=r)
        self.sessions = Counter("avatar_sessions", "Sessions ended, by result.", ["result"], registry=r)
        self.session_setup = Histogram(
            "avatar_session_setup_seconds", "Offer to live.", buckets=_LATENCY_BUCKETS_S, registry=r
        )

    def _time_frames(self, r: CollectorRegistry) -> None:
        self.stage_latency = Histogram(
            "avatar_stage_latency_seconds", "Time a voiced frame spends between two stages.", ["stage"],
            buckets=_LATENCY_BUCKETS_S, registry=r,
        )  # fmt: skip
        self.e2e_latency = Histogram(
            "avatar_e2e_latency_seconds", "Middle of a frame's sound to its picture sent.",
            buckets=_LATENCY_BUCKETS_S, registry=r,
        )  # fmt: skip
        self.av_skew = Histogram(
            "avatar_av_skew_seconds", "How much later a picture left than its own sound; negative: earlier.",
            buckets=(-0.16, -0.08, -0.04, -0.02, -0.01, -0.005, 0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16), registry=r,
        )  # fmt: skip
        self.frames = Counter("avatar_frames", "Pictures sent, by kind.", ["kind"], registry=r)
        self.frame_interval = Histogram(
            "avatar_frame_interval_seconds", "Time between two pictures of a session.",
            buckets=(0.01, 0.02, 0.03, 0.035, 0.038, 0.042, 0.045, 0.05, 0.06, 0.08, 0.12, 0.25, 0.5, 1.0), registry=r,
        )  # fmt: skip

    def _watch_parts(self, r: CollectorRegistry) -> None:
        self.queue_depth = Gauge("avatar_queue_depth", "Jobs waiting for the engine.", ["stage"], registry=r)
        self.queue_wait_p99 = Gauge(
            "avatar_engine_queue_wait_p99_seconds", "From a mouth's being wanted to the start of its batch.", registry=r
        )
        self.resident_bytes = Gauge("avatar_engine_resident_bytes", "Avatars' data on the device.", registry=r)
        self.queue_drops = Counter("avatar_queue_drops", "Items a full channel dropped.", ["stage"], registry=r)
        self.engine_errors = Gauge(
            "avatar_engine_errors", "Jobs lost at the engine, by reason.", ["reason"], registry=r
        )
        self.engine_restarts = Counter(
            "avatar_engine_restarts", "Engine threads given up and replaced, by reason.", ["reason"], registry=r
        )
        self.engine_ready = Gauge("avatar_engine_ready", "1 when the engine is warm and alive.", registry=r)
        self.cache_requests = Counter("avatar_cache_requests", "Packet lookups, by result.", ["result"], registry=r)
        self.client_latency = Histogram(
            "avatar_client_latency_seconds", "What pages report: network one way, jitter_buffer, decode, render.",
            ["stage"], buckets=_LATENCY_BUCKETS_S, registry=r,
        )  # fmt: skip
        self.engine_stage = Histogram(
            "avatar_engine_stage_seconds", "Parts of queue_render: queue_wait of the oldest, infer, blend, a batch.",
            ["stage"], buckets=_LATENCY_BUCKETS_S, registry=r,
        )  # fmt: skip
        self.batch_size = Histogram(
            "avatar_batch_size", "Mouths rendered at once.", buckets=(1, 2, 4, 8, 12, 16, 24, 32), registry=r
        )
        self.ice_failures = Counter(
            "avatar_ice_failures", "Peers that never connected (failed) or fell silent.", ["reason"], registry=r
        )
        self.loop_lag = Histogram(
            "avatar_event_loop_lag_seconds", "How late the event loop wakes.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0), registry=r,
        )  # fmt: skip
        self.feed_viewers = Gauge("avatar_feed_viewers", "Viewers of all feeds.", registry=r)
        self.feed_encoder_calls = Gauge(
            "avatar_feed_encoder_calls", "Pictures that feeds which are on have encoded.", registry=r
        )
        self.feed_keyframes = Gauge("avatar_feed_keyframes", "Whole pictures among them.", registry=r)
        self.thread_cpu = Gauge("avatar_thread_cpu_seconds", "CPU time by thread.", ["thread"], registry=r)
        self.offers_rejected = Counter("avatar_offers_rejected", "Offers refused, by reason.", ["reason"], registry=r)
        self.rtp_packets_lost = Counter("avatar_rtp_packets_lost", "Microphone packets that never came.", registry=r)

    def _name_what_may_never_happen(self) -> None:
        """A series that appears with its first failure is one whose first increase no alert sees."""
        for kind in PictureKind:
            self.frames.labels(kind=kind)
        for counter, labels in (
            (self.engine_restarts, ("dead", "hung", "cold")),
            (self.ice_failures, ("failed", "silent")),
            (self.cache_requests, ("hit", "miss")),
            (self.queue_drops, ("pictures", "telemetry")),
            (self.sessions, ("finished", "error")),
            (self.offers_rejected, ("SessionLimit", "TooManyOffers", "SignalingError", "ServerDraining")),
        ):
            for label in labels:
                counter.labels(label)

    def note_picture(self, kind: PictureKind, times_ms: dict[str, float]) -> None:
        """Count a sent picture and its stage times."""
        self.frames.labels(kind=kind).inc()
        for stage, value_ms in times_ms.items():
            if stage == "mic_to_lip":
                self.e2e_latency.observe(value_ms / 1000)
            elif stage == "frame_interval":
                self.frame_interval.observe(value_ms / 1000)
            elif stage == "av_offset":
                self.av_skew.observe(value_ms / 1000)
            else:
                self.stage_latency.labels(stage=stage).observe(value_ms / 1000)

    def note_client(self, message: Mapping[str, object]) -> None:
        """What a page says of its own part of the way; anything that is no sane number is ignored."""
        for name, stage in _CLIENT_STAGES.items():
            value = message.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LONGEST_MS:
                share = 0.5 if stage == "network" else 1.0  # one way of a round trip
                self.client_latency.labels(stage=stage).observe(share * value / 1000)

    def note_batch(self, timing: BatchTiming) -> None:
        """A batch of the engine. Called from its thread."""
        self.batch_size.observe(timing.mouths)
        for stage, value_ns in (
            ("queue_wait", timing.waited_ns), ("infer", timing.infer_ns), ("blend", timing.blend_ns)
        ):  # fmt: skip
            self.engine_stage.labels(stage=stage).observe(value_ns / NS_PER_S)

    def note_cast(self, *, hit: bool) -> None:
        """An avatar was asked for."""
        self.cache_requests.labels(result="hit" if hit else "miss").inc()

    def note_ended(self, result: str, stats: object) -> None:
        """A session is over: how, and what its peer, where it had one of its own, counted."""
        self.sessions.labels(result=result).inc()
        if not isinstance(stats, PeerStats):
            return
        self.rtp_packets_lost.inc(max(0, stats.inbound.lost))
        self.queue_drops.labels(stage="pictures").inc(stats.pictures_dropped)
        self.queue_drops.labels(stage="telemetry").inc(stats.events_dropped)
        if stats.ended in ("failed", "silent"):
            self.ice_failures.labels(reason=stats.ended).inc()

    def counting_rejections(self) -> _Rejections:
        """A `with` block around the handling of an offer: an error that leaves it is a rejection."""
        return _Rejections(self.offers_rejected)

    def text(self) -> bytes:
        """The exposition format."""
        for name, seconds in thread_cpu_s().items():
            self.thread_cpu.labels(thread=name).set(seconds)
        return generate_latest(self.registry)


class _Rejections:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._counter.labels(reason=kind.__name__).inc()
