"""The one chart of the project: lines with bands, drawn as SVG text or on matplotlib's axes.

SVG is written by hand because a report must be made where matplotlib is not installed and read where
scripts do not run: one drawing of a few kilobytes whose colours are CSS variables serves light and dark
pages and phones, can be searched and is described to those who cannot see it, and the page of a running
job draws it twice a second. `standalone` adds the colours to a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

WIDTH, HEIGHT = 440, 290
_TOP, _BOTTOM = 14, 42
_APART = 13.0
_BETWEEN = 24
_MOST_POINTS = 400

COLOURS = """
  --s0:#0a66a3; --s1:#c8590a; --s2:#1f7d45; --s3:#a2307a; --s4:#7a6500; --s5:#5548c8; --s6:#b3282d;
  --bound:#8a1c1c; --ink:#1b1f24; --soft:#59636e; --grid:#e3e7eb; --paper:#ffffff;
"""
DARK_COLOURS = """
  --s0:#62b6ee; --s1:#f2a25f; --s2:#6fce8f; --s3:#e592c8; --s4:#d8c455; --s5:#aca4ff; --s6:#ff918b;
  --bound:#ff7b72; --ink:#e6e9ed; --soft:#9aa4af; --grid:#2b323a; --paper:#14181d;
"""
STYLE = """
.chart text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}
.chart .name{font-weight:600}
.chart .grid{stroke:var(--grid);stroke-width:1}
.chart .axis{stroke:var(--soft);stroke-width:1}
.chart .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.chart .dashed{stroke-dasharray:6 4}
.chart .band{opacity:.16;stroke:none}
""" + "".join(
    f".chart .line.s{i},.chart .dot.s{i}{{stroke:var(--s{i})}}"
    f".chart .band.s{i},.chart .name.s{i},.chart .bar.s{i},.chart .dot.s{i}{{fill:var(--s{i})}}\n"
    for i in (*range(7), "b")
).replace("var(--sb)", "var(--bound)")
_OWN_STYLE = (
    f"<style>svg{{{COLOURS}background:var(--paper)}}"
    f"@media (prefers-color-scheme:dark){{svg{{{DARK_COLOURS}}}}}{STYLE}</style>"
)


@dataclass(frozen=True)
class Line:
    """One curve, or marks without a curve.

    Parameters
    ----------
    name : str
        Written at its end.
    x, y : arrays
        Points that are not finite are left out.
    low, high : arrays, optional
        A band around it.
    colour : int or "b"
        One of seven, or that of bounds.
    dashed, dots : bool
        How it is drawn.
    """

    name: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    low: Sequence[float] | np.ndarray | None = None
    high: Sequence[float] | np.ndarray | None = None
    colour: int | str = 0
    dashed: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Chart:
    """What is drawn, and what it shows in words.

    Parameters
    ----------
    title, description : str
        The description is read out where the drawing cannot be seen.
    x_label, y_label : str
    lines : tuple of Line
    log_x, log_y : bool
    x_ticks : tuple of float
        Where x has few values, such as numbers of agents.
    from_zero : bool
        Whether y begins at 0.
    caption : str
        What stands below.
    """

    title: str
    description: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False
    x_ticks: tuple[float, ...] = ()
    from_zero: bool = True
    caption: str = ""


@dataclass(frozen=True)
class _Scale:
    """From values to places on the page."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: np.ndarray | float) -> np.ndarray:
        v = np.asarray(value, float)
        low, high = self.low, self.high
        if self.log:
            v, low, high = np.log10(np.maximum(v, self.low)), math.log10(low), math.log10(high)
        return self.start + (v - low) / max(high - low, 1e-300) * (self.end - self.start)


def draw(chart: Chart, standalone: bool = False) -> str:
    """The chart as an ``<svg>`` element.

    Examples
    --------
    >>> line = Line("one", [0, 1, 2], [3.0, 4.0, 2.0])
    >>> svg = draw(Chart("Numbers", "They rise and fall.", "x", "y", (line,)))
    >>> 'role="img"' in svg, "They rise and fall." in svg
    (True, True)
    """
    lines = [_clean(line, chart) for line in chart.lines]
    lines = [line for line in lines if len(line.x)]
    values = [v for line in lines for v in (line.y, line.low, line.high) if v is not None]
    low, high = _range(values, chart.log_y, chart.from_zero and not chart.log_y)
    y = _Scale(low, high, HEIGHT - _BOTTOM, _TOP, chart.log_y)
    left = 30 + max((_width(number(tick)) for tick in _ticks(y, 5)), default=0.0)
    right = WIDTH - 10 - 1.06 * max((_width(line.name) for line in lines), default=0.0)
    x = _Scale(*_range([line.x for line in lines], chart.log_x, False), left, right, chart.log_x)
    parts = [*_frame(chart, x, y), *(_curve(line, x, y) for line in lines)]
    parts += _names(lines, y, right)
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    return (
        f'<svg{namespace} class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(chart.title, quote=True)}">'
        f"<title>{escape(chart.title)}</title><desc>{escape(chart.description)}</desc>"
        f"{_OWN_STYLE if standalone else ''}{''.join(parts)}</svg>"
    )


def draw_row(charts: Sequence[Chart]) -> str:
    """Several charts side by side, titles above, as one SVG file.

    Examples
    --------
    >>> chart = Chart("Numbers", "They rise.", "x", "y", (Line("one", [0, 1], [3.0, 4.0]),))
    >>> draw_row([chart, chart]).count("<title>")
    2
    """
    across = range(0, len(charts) * (WIDTH + _BETWEEN), WIDTH + _BETWEEN)
    parts = [
        _text(x + WIDTH / 2, 18, chart.title, "middle", "name")
        + draw(chart).replace("<svg", f'<svg x="{x}" y="26" width="{WIDTH}" height="{HEIGHT}"', 1)
        for x, chart in zip(across, charts, strict=True)
    ]
    width, height = across.stop - _BETWEEN, HEIGHT + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}">'
        f"{_OWN_STYLE}{''.join(parts)}</svg>\n"
    )


def draw_on(chart: Chart, axes: Any, label: str | None = None) -> Any:
    """The chart on matplotlib's axes, beside what is there; a label names its first line."""
    for place, line in enumerate(chart.lines):
        name = label if label is not None and place == 0 else line.name
        style = "--" if line.dashed else "-"
        shown = axes.plot(line.x, line.y, style, marker="o" if line.dots else None, label=name)
        if line.low is not None and line.high is not None:
            axes.fill_between(
                line.x, line.low, line.high, color=shown[0].get_color(), alpha=0.16, lw=0
            )
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    if chart.x_ticks:
        axes.set_xticks(chart.x_ticks, [number(tick) for tick in chart.x_ticks])
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return axes


def new_axes() -> Any:
    """Axes of a new figure, or an error that names the extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib; install it with: pip install 'ddol[plot]'"
        ) from error
    return plt.subplots(figsize=(6, 3.6), layout="constrained")[1]


def _width(text: str) -> float:
    """About how wide a text is; fonts differ, so rather too wide."""
    return sum(9.4 if letter.isupper() or letter in "÷%=" else 7.4 for letter in text)


def _clean(line: Line, chart: Chart) -> Line:
    """Finite points only, and no more than the eye can tell apart."""
    x, y = np.asarray(line.x, float), np.asarray(line.y, float)
    keep = np.isfinite(x) & np.isfinite(y)
    if chart.log_x:
        keep &= x > 0
    if chart.log_y:
        keep &= y > 0
    chosen = np.flatnonzero(keep)
    if len(chosen) > _MOST_POINTS:
        chosen = chosen[np.linspace(0, len(chosen) - 1, _MOST_POINTS).astype(int)]

    def band(values: Sequence[float] | np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(values, float)[chosen]

    return replace(line, x=x[chosen], y=y[chosen], low=band(line.low), high=band(line.high))


def _range(values: Sequence, log: bool, from_zero: bool) -> tuple[float, float]:
    flat = np.concatenate([np.asarray(v, float).ravel() for v in values] or [np.empty(0)])
    flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
    if flat.size == 0:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = float(flat.min()), float(flat.max())
    if log:
        return low, high if high > low * 1.01 else low * 10
    low = min(low, 0.0) if from_zero else low
    pad = 0.04 * (high - low)
    if high == low:
        return low, low + (abs(low) or 1.0)
    return (low if from_zero else low - pad), high + pad


def _frame(chart: Chart, x: _Scale, y: _Scale) -> list[str]:
    """Grid, ticks and labels."""
    parts, bottom = [], y.start
    for tick in _ticks(y, 5):
        at = float(y(tick))
        parts.append(f'<path class="grid" d="M{x.start:.1f} {at:.1f}H{x.end:.1f}"/>')
        parts.append(_text(x.start - 6, at + 4, number(tick), "end"))
    for tick in chart.x_ticks or _ticks(x, 5):
        at = float(x(tick))
        parts.append(f'<path class="axis" d="M{at:.1f} {bottom:.1f}v4"/>')
        parts.append(_text(at, bottom + 17, number(tick), "middle"))
    parts.append(f'<path class="axis" d="M{x.start:.1f} {bottom:.1f}H{x.end:.1f}"/>')
    parts.append(_text((x.start + x.end) / 2, HEIGHT - 8, chart.x_label, "middle"))
    middle = (y.start + y.end) / 2
    turned = f'transform="rotate(-90 12 {middle:.1f})"'
    parts.append(_text(12, middle, chart.y_label, "middle", more=turned))
    return parts


def _curve(line: Line, x: _Scale, y: _Scale) -> str:
    across, up = x(np.asarray(line.x)), y(np.asarray(line.y))
    parts = []
    if line.low is not None and line.high is not None:
        there = zip(across, y(np.asarray(line.high)), strict=True)
        back = zip(across[::-1], y(np.asarray(line.low))[::-1], strict=True)
        shape = "L".join(f"{a:.1f} {b:.1f}" for a, b in (*there, *back) if math.isfinite(b))
        parts.append(f'<path class="band s{line.colour}" d="M{shape}Z"/>')
    dashed = " dashed" if line.dashed else ""
    shape = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, up, strict=True))
    parts.append(f'<path class="line s{line.colour}{dashed}" d="M{shape}"/>')
    if line.dots:
        parts += [
            f'<circle class="dot s{line.colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>'
            for a, b in zip(across, up, strict=True)
        ]
    return "".join(parts)


def _names(lines: Sequence[Line], y: _Scale, right: float) -> list[str]:
    """Names at the ends of the lines, moved apart where they would cover each other."""
    wanted = sorted((float(y(np.asarray(line.y)[-1])), i) for i, line in enumerate(lines))
    places: list[float] = []
    for at, _ in wanted:
        places.append(max(at, places[-1] + _APART) if places else max(at, _TOP))
    over = max(0.0, places[-1] - y.start) if places else 0.0
    for k in range(len(places) - 1, -1, -1):
        limit = y.start if k == len(places) - 1 else places[k + 1] - _APART
        places[k] = min(places[k], limit) if over else places[k]
    return [
        _text(right + 6, at + 4, lines[i].name, "start", f"name s{lines[i].colour}")
        for at, (_, i) in zip(places, wanted, strict=True)
    ]


def _ticks(scale: _Scale, wanted: int) -> list[float]:
    """Round numbers within a scale."""
    low, high = scale.low, scale.high
    if scale.log and high / low >= 10:
        powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
        ticks = [10.0**p for p in powers][:: max(1, math.ceil(len(powers) / 6))]
        if len(ticks) >= 2:
            return ticks
    rough = max((high - low) / wanted, 1e-300)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """A number as short as an axis needs it.

    Examples
    --------
    >>> [number(v) for v in (0, 0.25, 1500, 20000, 3e6, 1e-5)]
    ['0', '0.25', '1,500', '20k', '3M', '1e-05']
    """
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-3:
        return f"{value:.3g}"
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= unit:
            return f"{value / (1e3 if letter == 'k' else unit):.4g}{letter}"
    return f"{value:,.4g}" if size < 1000 else f"{value:,.0f}"


def _text(x: float, y: float, text: str, anchor: str, style: str = "", more: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}{kind} {more}>{escape(text)}</text>"
