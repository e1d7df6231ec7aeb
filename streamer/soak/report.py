"""A soak's JSON report, or two of them, as one HTML file that needs nothing else. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

import msgspec

from streamer.errors import ConfigError
from streamer.soak.charts import Line, histogram, line_chart

Report = Mapping[str, Any]

CHARTS = (
    (
        "mic_to_ear_ms",
        "Microphone to ear, ms",
        "RTP packet leaves a talker → the packet that brings its sound back",
        True,
    ),
    (
        "mic_to_lip_ms",
        "Microphone to lip, ms",
        "packet leaves the probe → the decoded picture whose lips have parted",
        True,
    ),
    ("frame_gap_ms", "Frame gap, ms", "between pictures that follow each other, as they arrive; 40 is steady", True),
    ("sound_gap_ms", "Longest gap of sound in a second, ms", "between packets, as they arrive; 20 is steady", True),
    ("av_offset_ms", "Picture behind its sound, ms", "arrivals against the server's media clock", True),
    ("interrupt_to_silence_ms", "Interrupt to silence, ms", "message leaves → last loud packet arrives", True),
    ("loop_lag_p99_ms", "Event loop lag p99, ms", "of the server", True),
    ("rss_mb", "Server memory, MB", "resident", False),
    ("tasks", "Server tasks", "", True),
    ("threads", "Server threads", "", True),
    ("descriptors", "Server descriptors", "", True),
    ("sessions", "Sessions", "", True),
)
STYLES = ("one", "two", "three")
TILES = (
    ("mic_to_lip_p50_ms", "mic → lip, median", "ms"),
    ("mic_to_lip_p99_ms", "mic → lip, p99", "ms"),
    ("mic_to_ear_p50_ms", "mic → ear, median", "ms"),
    ("mic_to_ear_p99_ms", "mic → ear, p99", "ms"),
    ("frame_gap_p99_ms", "frame gap, p99", "ms"),
    ("frames_shown_percent", "frames shown", "%"),
    ("av_offset_median_ms", "picture behind sound", "ms"),
    ("server_core_percent", "server CPU", "% of a core"),
    ("rss_last_mb", "server memory at the end", "MB"),
    ("calls", "calls made", ""),
)


def read_report(body: bytes, name: str) -> Report:
    """A report file. Raises ConfigError where it is none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(name, f"is no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("report") != "liveanchor soak" or found.get("version") != 1:
        raise ConfigError(name, "is no report of liveanchor soak")
    return found


def page(report: Report) -> str:
    """The report as HTML."""
    seconds = float(report["seconds"])
    parts = [
        f"<h1>{escape(_title(report))}</h1>",
        f"<p>{escape(_subtitle(report))}</p>",
        _verdict(report["checks"]),
        _tiles(report["figures"]),
        "<h2>Thresholds</h2>", _checks(report["checks"]),
        "<h2>Over time</h2>", '<div class="charts">', *_charts(report["series"], seconds), "</div>",
        "<h2>Distributions</h2>", '<div class="charts">', *_histograms(report), "</div>",
        "<h2>First third to last</h2>", _thirds(report["thirds"]),
        "<h2>Change an hour</h2>",
        "<p>Least squares over block means, first tenth left out; 95 % confidence.</p>", _slopes(report["slopes"]),
        "<h2>Server stages, ms</h2>", _stages(report["stages_ms"]),
        "<h2>Clients</h2>", _clients(report["clients"]),
        *_failures(report),
        "<h2>All figures</h2>",
        _folded(f"{len(report['figures'])} figures", _table(("figure", "value"), sorted(report["figures"].items()))),
        "<h2>Machine</h2>", _table(("fact", ""), report["machine"].items()),
    ]  # fmt: skip
    return _document(_title(report), "\n".join(parts))


def comparison(old: Report, new: Report) -> str:
    """Two reports side by side as HTML."""
    names = [name for name in new["figures"] if name in old["figures"]]
    rows = [(name, old["figures"][name], new["figures"][name], *_change(old, new, name)) for name in names]
    charts = []
    for name, title, said, from_zero in CHARTS:
        lines = [
            Line(label, style, _last_percentile(report["series"].get(name)))
            for label, style, report in (("before", "other", old), ("after", "two", new))
        ]
        drawn = line_chart(lines, max(float(old["seconds"]), float(new["seconds"])), from_zero=from_zero, title=title)
        if drawn:
            high = " (p99)" if len((new["series"].get(name) or {}).get("percents", [])) > 1 else ""
            charts.append(_card(title + high, said, drawn))
    parts = [
        "<h1>Two soaks compared</h1>",
        f"<p>Before: {escape(_title(old))}, {escape(_subtitle(old))}</p>",
        f"<p>After: {escape(_title(new))}, {escape(_subtitle(new))}</p>",
        "<h2>Over time</h2>", '<div class="charts">', *charts, "</div>",
        "<h2>Figures</h2>", _table(("figure", "before", "after", "change", "%"), rows),
    ]  # fmt: skip
    return _document("Two soaks compared", "\n".join(parts))


def changes(old: Report, new: Report) -> list[tuple[str, float, float, float | str]]:
    """(figure, before, after, change in percent) of every figure both have."""
    return [
        (name, old["figures"][name], new["figures"][name], _change(old, new, name)[1])
        for name in new["figures"]
        if name in old["figures"]
    ]


def _change(old: Report, new: Report, name: str) -> tuple[float, float | str]:
    before, after = float(old["figures"][name]), float(new["figures"][name])
    return round(after - before, 3), round(100 * (after - before) / before, 1) if before else "–"


def _title(report: Report) -> str:
    return f"Soak: {sum(report['asked']['profiles'].values())} clients, {_span(float(report['seconds']))}"


def _subtitle(report: Report) -> str:
    asked, machine = report["asked"], report["machine"]
    mix = ", ".join(f"{count} {name}" + ("s" if count > 1 else "") for name, count in asked["profiles"].items())
    net = ", ".join(f"{name} {value}" for name, value in asked["net"].items() if value)
    return (
        f"{mix}; avatar {asked['avatar']} at {asked['canvas_px']}²; {net or 'no impairment'}; "
        f"{machine.get('cpu', machine['machine'])}, {machine['cpus']:.0f} cores, load {machine['load_before']} "
        f"before and {machine['load_after']} after"
    )


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def _verdict(found: Sequence[Mapping[str, Any]]) -> str:
    missed = [check for check in found if not check["passed"]]
    if not found:
        return '<div class="verdict">no thresholds set</div>'
    if not missed:
        return f'<div class="verdict good">✓ all {len(found)} thresholds met</div>'
    return f'<div class="verdict bad">✗ {len(missed)} of {len(found)} thresholds not met</div>'


def _tiles(figures: Mapping[str, float]) -> str:
    tiles = [
        f'<div class="tile"><b>{_said(figures[name])}</b><span>{said}{", " + unit if unit else ""}</span></div>'
        for name, said, unit in TILES
        if name in figures
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _checks(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [(check["limit"], check["found"], "✓ met" if check["passed"] else "✗ not met") for check in found]
    return _table(("threshold", "found", ""), rows)


def _charts(series: Mapping[str, Any], seconds: float) -> list[str]:
    cards = []
    for name, title, said, from_zero in CHARTS:
        found = series.get(name)
        if not found or not found["points"]:
            continue
        many = len(found["percents"]) > 1
        lines = [
            Line(
                f"p{percent:.0f}" if many else "", STYLES[i] if many else "two", [(t, v[i]) for t, v in found["points"]]
            )
            for i, percent in enumerate(found["percents"])
        ]
        cards.append(_card(title, said, line_chart(lines, seconds, from_zero=from_zero, title=title)))
    return cards


def _histograms(report: Report) -> list[str]:
    cards = []
    for name, title, said, _ in CHARTS:
        found = report["histograms"].get(name)
        if found:
            stem = name.removesuffix("_ms")
            marks = {
                f"p{p}": report["figures"][f"{stem}_p{p}_ms"]
                for p in (50, 95, 99)
                if f"{stem}_p{p}_ms" in report["figures"]
            }
            cards.append(_card(title, said, histogram(found["edges"], found["counts"], marks, title)))
    return cards


def _last_percentile(found: Mapping[str, Any] | None) -> list[tuple[float, float]]:
    return [(t, values[-1]) for t, values in found["points"]] if found else []


def _thirds(found: Mapping[str, Any]) -> str:
    rows = [
        (name, percent, *values, f"{values[-1] / values[0]:.2f}" if values[0] and values[-1] else "–")
        for name, percents in found.items()
        for percent, values in percents.items()
        if any(value is not None for value in values)
    ]
    return _table(("latency", "", "first third", "second", "last", "last / first"), rows)


def _slopes(found: Mapping[str, Mapping[str, float]]) -> str:
    rows = [(name, s["per_hour"], f"{s['low']:+.3g} to {s['high']:+.3g}") for name, s in found.items()]
    return _table(("", "an hour", "95 % confidence"), rows)


def _stages(found: Mapping[str, Mapping[str, float]]) -> str:
    return _table(
        ("stage", "p50", "p95", "p99"), [(n, *(q.get(k) for k in ("p50", "p95", "p99"))) for n, q in found.items()]
    )


def _clients(found: Sequence[Mapping[str, Any]]) -> str:
    heads = ("client", "profile", "live, s", "calls", "frames", "decoded", "refused", "failures")
    rows = [
        (
            c["client"],
            c["profile"],
            c["live_s"],
            c["calls"],
            c["frames"],
            c["pictures"],
            c["refused"],
            c["failures"] if isinstance(c["failures"], int) else ", ".join(c["failures"]),
        )
        for c in found
    ]
    return _table(heads, rows)


def _failures(report: Report) -> list[str]:
    """Each call that failed, and how often the server said what when it had no room."""
    parts = []
    if failed := report.get("failures"):
        rows = [(f["t_s"], f["client"], f["stage"], f["reason"]) for f in failed]
        parts += ["<h2>Calls that failed</h2>", _table(("at, s", "client", "stage", "reason"), rows)]
    if refusals := report.get("refusals"):
        parts += ["<h2>Refused</h2>", _table(("the server said", "times"), refusals.items())]
    return parts


def _table(heads: Sequence[str], rows: Any) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{_said(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="card scroll"><table><tr>{head}</tr>{body}</table></div>'


def _said(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return (
            f"{value:,.0f}"
            if value == int(value) and abs(value) < 1e9
            else f"{value:,.4g}"
            if abs(value) < 1e4
            else f"{value:,.0f}"
        )
    return escape(str(value))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def _card(title: str, said: str, drawn: str) -> str:
    note = f"<p>{escape(said)}</p>" if said else ""
    return f'<div class="card"><h3>{escape(title)}</h3>{drawn}{note}</div>'


def _document(title: str, body: str) -> str:
    css = resources.files("streamer.soak").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{css}</style>\n<body>{body}</body></html>\n'
    )
