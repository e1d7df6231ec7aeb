"""Dashboard and alerts ask for nothing that a server does not tell."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamer.inference import BatchTiming
from streamer.rtc.settings import InboundStats, PeerStats
from streamer.telemetry.metrics import Metrics

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
NAME = re.compile(r"\b(?:avatar|process|python)_[a-z0-9_]+")
LABELS = re.compile(r"\bby \(([^)]*)\)")


def queries():
    """Every expression of the dashboard, with its panel's title."""
    board = json.loads((FOLDER / "grafana.json").read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def told(server):
    """Names of all samples on a real server's page."""
    with urllib.request.urlopen(f"{server.url}metrics", timeout=10) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    return {family.name for family in families} | {s.name for family in families for s in family.samples}


def known(name, told):
    """A histogram with labels has no sample before its first observation: its family stands for it."""
    return name in told or re.sub("_(bucket|sum|count)$", "", name) in told


def test_every_query_of_the_dashboard_is_answered(told):
    assert len(queries()) > 25
    missing = {(title, name) for title, text in queries() for name in NAME.findall(text) if not known(name, told)}
    assert missing == set()


def test_every_metric_of_ours_is_on_the_dashboard_or_in_an_alert(told):
    asked = " ".join(text for _, text in queries()) + (FOLDER / "alerts.yml").read_text()
    families = {
        name for name in told if name.startswith("avatar_") and not re.search("_(bucket|sum|count|created)$", name)
    }
    unasked = {name for name in families if name.removesuffix("_total") not in asked and "_feed" not in name}
    assert unasked == set()


def test_every_alert_is_about_something_the_server_tells(told):
    names = NAME.findall((FOLDER / "alerts.yml").read_text())
    assert len(names) > 10
    assert [name for name in names if not known(name, told)] == []


def test_labels_asked_for_are_labels_told():
    metrics = Metrics()
    metrics.note_batch(BatchTiming(3, 1, 2, 3))
    metrics.note_client({"rtt_ms": 8, "jitter_buffer_ms": 20.5, "decode_ms": True, "render_ms": -1})
    metrics.note_ended("finished", PeerStats(ended="silent", inbound=InboundStats(lost=4)))
    metrics.stage_latency.labels(stage="queue_render").observe(1)
    metrics.queue_depth.labels(stage="engine").set(1)
    metrics.thread_cpu.labels(thread="loop").set(1)
    metrics.engine_errors.labels(reason="failed").set(1)
    text = metrics.text().decode()
    assert 'avatar_client_latency_seconds_sum{stage="network"} 0.004' in text
    assert 'stage="decode"' not in text
    assert "avatar_rtp_packets_lost_total 4.0" in text
    assert 'avatar_ice_failures_total{reason="silent"} 1.0' in text
    told = {name for f in text_string_to_metric_families(text) for s in f.samples for name in s.labels} | {"instance"}
    asked = {label.strip() for _, expr in queries() for found in LABELS.findall(expr) for label in found.split(",")}
    assert asked <= told


def test_promtool_accepts_the_alert_rules():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; on Debian: apt-get install prometheus")
    checked = subprocess.run(
        [promtool, "check", "rules", str(FOLDER / "alerts.yml")], capture_output=True, text=True, timeout=30
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_promtool_accepts_every_query_of_the_dashboard(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; on Debian: apt-get install prometheus")
    rules = [
        {"record": f"panel:{i}", "expr": expr.replace("$__rate_interval", "1m")}
        for i, (_, expr) in enumerate(queries())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    checked = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stdout + checked.stderr
