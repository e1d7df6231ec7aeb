"""Charts of a report as SVG text. Colours are CSS classes, so that the page decides between light and dark. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH_PX, HEIGHT_PX = 560, 190
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 46, 52, 10, 24
LABEL_PX = 12
"""Least distance of two labels at the end of lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    name: str
    style: str
    """A CSS class."""
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axes:
    """From values to pixels."""

    x_top: float
    y_low: float
    y_top: float

    def x(self, value: float) -> float:
        return LEFT_PX + (WIDTH_PX - LEFT_PX - RIGHT_PX) * value / max(1e-9, self.x_top)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / max(1e-9, self.y_top - self.y_low)
        return HEIGHT_PX - BOTTOM_PX - (HEIGHT_PX - TOP_PX - BOTTOM_PX) * min(1.0, max(0.0, share))


def nice_step(span: float, steps: int = 4) -> float:
    """1, 2 or 5 times a power of ten, so that about so many fit into the span."""
    if span <= 0:
        return 1.0
    rough = span / steps
    power = 10 ** math.floor(math.log10(rough))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= rough))


def number(value: float) -> str:
    """Short enough for an axis."""
    if abs(value) >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def line_chart(lines: Sequence[Line], seconds: float, *, from_zero: bool = True, title: str = "") -> str:
    """Lines over the time of the run. Empty text where there is nothing to draw."""
    values = [value for line in lines for _, value in line.points]
    if not values:
        return ""
    low, top = min(values), max(values)
    if from_zero:
        low, top = min(0.0, low), max(0.0, top)
    step = nice_step((top - low) or abs(top) or 1.0)
    y_low = math.floor(low / step) * step
    axes = Axes(seconds, y_low, max(math.ceil(top / step) * step, y_low + step))
    parts = [_open(title), _grid(axes, step), _time_axis(axes, seconds)]
    for line in lines:
        path = " ".join(
            f"{'M' if i == 0 else 'L'}{axes.x(t):.1f} {axes.y(v):.1f}" for i, (t, v) in enumerate(line.points)
        )
        parts.append(f'<path class="line {line.style}" d="{path}"><title>{escape(line.name)}</title></path>')
    parts += _labels(lines, axes)
    return "".join(parts) + "</svg>"


def histogram(edges: Sequence[float], counts: Sequence[float], marks: dict[str, float], title: str = "") -> str:
    """Bars from the first edge to the last, with upright lines at named values."""
    if not counts or max(counts) <= 0:
        return ""
    step = nice_step(max(counts))
    axes = Axes(edges[-1], 0.0, math.ceil(max(counts) / step) * step)
    parts = [_open(title), _grid(axes, step), _value_axis(axes)]
    base = axes.y(0)
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if count:
            x, width = axes.x(low), max(1.0, axes.x(high) - axes.x(low) - 1.5)
            said = f"{number(low)}–{number(high)} ms: {count:.0f}"
            top = axes.y(count)
            parts.append(
                f'<rect class="bar" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{base - top:.1f}" rx="1">'
                f"<title>{said}</title></rect>"
            )
    for i, (name, value) in enumerate(marks.items()):
        if value <= edges[-1]:
            x = axes.x(value)
            parts.append(f'<path class="mark" d="M{x:.1f} {TOP_PX} V{base:.1f}"/>')
            parts.append(f'<text class="said" x="{x + 3:.1f}" y="{TOP_PX + 9 + 11 * i}">{name} {number(value)}</text>')
    return "".join(parts) + "</svg>"


def _open(title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img" aria-label="{escape(title)}">'


def _grid(axes: Axes, step: float) -> str:
    parts = []
    value = axes.y_low
    while value <= axes.y_top + step / 1000:
        y = axes.y(value)
        parts.append(f'<path class="grid" d="M{LEFT_PX} {y:.1f} H{WIDTH_PX - RIGHT_PX}"/>')
        parts.append(f'<text class="tick end" x="{LEFT_PX - 6}" y="{y + 3.5:.1f}">{number(round(value, 9))}</text>')
        value += step
    return "".join(parts)


def _time_axis(axes: Axes, seconds: float) -> str:
    unit, name = (60.0, "min") if seconds > 150 else (1.0, "s")
    return _x_axis(axes, unit, name)


def _value_axis(axes: Axes) -> str:
    return _x_axis(axes, 1.0, "ms")


def _x_axis(axes: Axes, unit: float, name: str) -> str:
    step = nice_step(axes.x_top / unit, 6)
    parts, value = [], 0.0
    while value <= axes.x_top / unit + step / 1000:
        last = value + step > axes.x_top / unit + step / 1000
        said = f"{number(value)} {name}" if last else number(value)
        parts.append(f'<text class="tick mid" x="{axes.x(value * unit):.1f}" y="{HEIGHT_PX - 7}">{said}</text>')
        value += step
    return "".join(parts)


def _labels(lines: Sequence[Line], axes: Axes) -> list[str]:
    """Names at the lines' ends, pushed apart where they would touch."""
    drawn = sorted((line for line in lines if line.points), key=lambda line: -line.points[-1][1])
    parts, above = [], -math.inf
    for place, line in enumerate(drawn):
        x, y = axes.x(line.points[-1][0]), axes.y(line.points[-1][1]) + 3.5
        room = axes.y(axes.y_low) - LABEL_PX * (len(drawn) - 1 - place)
        y = above = max(min(y, room), above + LABEL_PX)
        parts.append(f'<text class="name {line.style}" x="{x + 5:.1f}" y="{y:.1f}">{escape(line.name)}</text>')
    return parts
