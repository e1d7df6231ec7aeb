"""A trace shows one voiced window with the stages of its first mouth, at the times its stamps say."""

from __future__ import annotations

import pytest

from streamer.clock import NS_PER_MS
from streamer.config import Config, TracesConfig, check
from streamer.errors import ConfigError
from streamer.media import FRAME_NS, PictureKind, Stamps
from streamer.telemetry.traces import Traces

export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter", reason="the extra `traces`")

pytestmark = pytest.mark.unit


def stamps(index):
    steps = (0, 1, 55, 56, 60, 65, 69, 70)
    return Stamps(*(10**12 + index * FRAME_NS + step * NS_PER_MS for step in steps))


def told(share, kinds):
    exporter = export.InMemorySpanExporter()
    traces = Traces(exporter, share)
    window = traces.window()
    for index, kind in enumerate(kinds):
        window.note(kind, stamps(index), stamps(index).captured_ns)
    window.end()
    traces._provider.force_flush()
    spans = exporter.get_finished_spans()
    traces.close()
    return spans


VOICED, IDLE, HELD = PictureKind.VOICED, PictureKind.IDLE, PictureKind.HELD


def test_each_voiced_window_is_a_span_with_the_stages_of_its_first_mouth():
    spans = told(1.0, [IDLE] * 3 + [VOICED] * 5 + [HELD] + [IDLE] * 2 + [VOICED] * 4 + [IDLE] * 10 + [VOICED] * 2)
    windows = [span for span in spans if span.parent is None]
    assert [dict(span.attributes) for span in windows] == [
        {"frames.voiced": 9, "frames.held": 1, "mic_to_lip.max_ms": 70},
        {"frames.voiced": 2, "mic_to_lip.max_ms": 70},
    ]
    assert windows[0].end_time - windows[0].start_time == 11 * FRAME_NS + 70 * NS_PER_MS
    stages = {
        s.name: (s.end_time - s.start_time) / NS_PER_MS
        for s in spans
        if s.parent and s.parent.span_id == windows[0].context.span_id
    }
    assert stages == {
        "capture_gate": 1, "gate_window": 54, "window_queue": 1, "queue_render": 4, "render_compose": 5,
        "compose_encode": 4, "encode_send": 1,
    }  # fmt: skip


def test_silence_is_no_window_and_share_zero_traces_nothing():
    assert told(1.0, [IDLE] * 30) == ()
    assert told(0.0, [VOICED] * 5 + [IDLE] * 9) == ()


def test_nothing_is_traced_unless_asked_and_wrong_settings_are_named():
    assert Traces.to(TracesConfig()) is None
    for wrong in (TracesConfig("ftp://x"), TracesConfig("http://x", 2.0)):
        with pytest.raises(ConfigError):
            check(Config(traces=wrong))
