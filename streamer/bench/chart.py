"""Line charts as SVG text, one panel beside the other, one legend below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP, _LEGEND_ROW = 380, 240, 46, 28, 62, 18
_COLOURS = ("#0b63ce", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0f766e")


@dataclass(frozen=True, slots=True)
class Line:
    """One curve."""

    label: str
    points: tuple[tuple[float, float], ...]
    marked_x: float
    """Where a dot stands on it."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; what lies above `top` is cut off."""

    title: str
    lines: tuple[Line, ...]
    top: float


def draw(panels: Sequence[Panel], x_title: str) -> str:
    """All panels over one x axis title, as one SVG document."""
    most_x = max(x for panel in panels for line in panel.lines for x, _ in line.points)
    width = len(panels) * (_WIDTH + _GAP) + _LEFT
    height = _TOP + _HEIGHT + 52 + _LEGEND_ROW * len(panels[0].lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" fill="#1f2937"><rect width="{width}" height="{height}" fill="#ffffff"/>'
    ]
    for i, panel in enumerate(panels):
        parts += _panel(panel, _LEFT + i * (_WIDTH + _GAP), most_x)
    parts.append(f'<text x="{width / 2:.0f}" y="{_TOP + _HEIGHT + 36}" text-anchor="middle">{escape(x_title)}</text>')
    for i, line in enumerate(panels[0].lines):
        y = _TOP + _HEIGHT + 58 + i * _LEGEND_ROW
        parts.append(f'<rect x="{_LEFT}" y="{y - 7}" width="22" height="4" fill="{_COLOURS[i % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{_LEFT + 30}" y="{y}">{escape(line.label)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, left: int, most_x: float) -> list[str]:
    def place(x: float, y: float) -> tuple[float, float]:
        return left + x / most_x * _WIDTH, _TOP + _HEIGHT * (1 - min(y, panel.top) / panel.top)

    parts = [f'<text x="{left}" y="{_TOP - 10}" font-weight="bold">{escape(panel.title)}</text>']
    for i in range(5):
        value = panel.top * i / 4
        _, y = place(0, value)
        parts.append(f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="#d1d5db"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    step = 4 if most_x <= 34 else 8
    for number in range(0, int(most_x) + 1, step):
        x, y = place(number, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{number}</text>')
    for i, line in enumerate(panel.lines):
        colour = _COLOURS[i % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line.points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in (p for p in line.points if p[0] == line.marked_x):
            x, y = place(*point)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>')
    return parts
