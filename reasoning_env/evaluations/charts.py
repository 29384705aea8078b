"""Charts as SVG, for notebooks and files: scores with intervals, and courses over a run. Needs no plotting library.

A notebook shows a chart that is the last value of a cell; `chart.save("scores.svg")` writes a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ..runtime.text import visible

SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
"""Colours of the series, which colour-blind readers can tell apart."""
WIDTH = 680
PLOT_WIDTH = 400
ROW_HEIGHT = 22
PLOT_HEIGHT = 220
MOST_LETTERS = 32
"""Letters of a name at most; about what the left margin takes."""


@dataclass(frozen=True)
class ChartedMean:
    """A mean in [0, 1] and the ends of its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Chart:
    """An SVG document."""

    svg: str

    def save(self, path: Path | str) -> None:
        """Write the document to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return "<chart: a notebook shows it, and save(path) writes an SVG file>"

    def _repr_svg_(self) -> str:
        return self.svg


def interval_chart(series: Mapping[str, Mapping[str, ChartedMean]]) -> Chart:
    """Return a chart with a row for each name, and in it a dot with its interval for each series.

    `series` has the estimates of each series by name. Names stand in the order of their first series.
    """
    names = list(dict.fromkeys(name for estimates in series.values() for name in estimates))
    height = ROW_HEIGHT * max(len(names), 1)
    parts = _scale(height)
    for row, name in enumerate(names):
        middle = ROW_HEIGHT * (row + 0.5)
        parts.append(_text(-8, middle, name, anchor="end"))
        for number, estimates in enumerate(series.values()):
            if name not in estimates:
                continue
            estimate = estimates[name]
            colour = SERIES_COLOURS[number % len(SERIES_COLOURS)]
            y = middle + 6 * (number - (len(series) - 1) / 2)
            low, mean, high = (round(PLOT_WIDTH * end, 1) for end in (estimate.low, estimate.mean, estimate.high))
            parts.append(f'<path d="M{low} {y:.1f}H{high}" stroke="{colour}" stroke-width="2"/>')
            hint = f"{name}: {estimate.mean:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"
            title = f"<title>{_safe(hint, 200)}</title>"
            parts.append(f'<circle cx="{mean}" cy="{y:.1f}" r="4" fill="{colour}">{title}</circle>')
    return _document(parts, height, list(series))


def course_chart(series: Mapping[str, Sequence[float]]) -> Chart:
    """Return a chart with a line for each series of values in [0, 1], over their positions from 1."""
    longest = max((len(values) for values in series.values()), default=0)
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = PLOT_HEIGHT * (1 - share)
        parts.append(f'<path d="M0 {y}H{PLOT_WIDTH}" stroke="#ddd"/>')
        parts.append(_text(-8, y, f"{share:g}", anchor="end"))
    parts.append(_text(0, PLOT_HEIGHT + 14, "1", anchor="start"))
    parts.append(_text(PLOT_WIDTH, PLOT_HEIGHT + 14, str(longest), anchor="end"))
    for number, (name, values) in enumerate(series.items()):
        colour = SERIES_COLOURS[number % len(SERIES_COLOURS)]
        step = PLOT_WIDTH / max(longest - 1, 1)
        points = " ".join(f"{step * at:.1f},{PLOT_HEIGHT * (1 - value):.1f}" for at, value in enumerate(values))
        title = f"<title>{_safe(name, 200)}</title>"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2">{title}</polyline>')
    return _document(parts, PLOT_HEIGHT, list(series))


def _scale(height: float) -> list[str]:
    """Return the vertical lines of the scale from 0 to 1, with their numbers below."""
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = PLOT_WIDTH * share
        parts.append(f'<path d="M{x} 0V{height}" stroke="#ddd"/>')
        parts.append(_text(x, height + 14, f"{share:g}", anchor="middle"))
    return parts


def _document(parts: Sequence[str], height: float, names: Sequence[str]) -> Chart:
    """Return the chart of a plot, with a legend below for several series."""
    legend = []
    if len(names) > 1:
        for number, name in enumerate(names):
            y = height + 38 + 18 * number
            legend.append(f'<circle cx="6" cy="{y}" r="4" fill="{SERIES_COLOURS[number % len(SERIES_COLOURS)]}"/>')
            legend.append(_text(18, y, name, anchor="start", most=60))
    whole = height + 40 + (18 * len(names) if legend else 0)
    left = WIDTH - PLOT_WIDTH - 40
    body = "\n".join([*parts, *legend])
    return Chart(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" width="{WIDTH}" height="{whole}" '
        f'font-family="sans-serif" font-size="12" fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<g transform="translate({left} 12)">\n{body}\n</g>\n</svg>'
    )


def _text(x: float, y: float, text: str, *, anchor: str, most: int = MOST_LETTERS) -> str:
    return f'<text x="{x:g}" y="{y + 4:g}" text-anchor="{anchor}">{_safe(text, most)}</text>'


def _safe(text: str, most: int) -> str:
    return escape(visible(text, most))
