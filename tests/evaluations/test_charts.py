"""Charts are well-formed SVG, whatever the names are."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from reasoning_env.evaluations.charts import Chart, ChartedMean, course_chart, interval_chart

SVG = "{http://www.w3.org/2000/svg}"


def texts(chart: Chart) -> list[str | None]:
    return [element.text for element in ElementTree.fromstring(chart.svg).iter(f"{SVG}text")]


def test_interval_chart() -> None:
    chart = interval_chart({"a": {"gcd": ChartedMean(0.5, 0.25, 0.75)}, "b": {"gcd": ChartedMean(0.0, 0.0, 0.5)}})
    root = ElementTree.fromstring(chart.svg)
    dots = [dot.get("cx") for dot in root.iter(f"{SVG}circle") if len(dot)]
    assert dots == ["200.0", "0.0"]
    assert texts(chart) == ["0", "0.25", "0.5", "0.75", "1", "gcd", "a", "b"]


def test_course_chart() -> None:
    chart = course_chart({"level": [0.0, 0.5, 1.0]})
    (line,) = ElementTree.fromstring(chart.svg).iter(f"{SVG}polyline")
    assert line.get("points") == "0.0,220.0 200.0,110.0 400.0,0.0"


def test_hostile_names() -> None:
    name = "</svg><script>\x1b&"
    chart = interval_chart({name: {name: ChartedMean(0.5, 0.5, 0.5)}, "b": {}})
    assert texts(chart).count(r"</svg><script>\x1b&") == 2
    assert texts(course_chart({name: [0.5], "b": []}))[-2] == r"</svg><script>\x1b&"


def test_empty_charts() -> None:
    assert texts(interval_chart({})) == ["0", "0.25", "0.5", "0.75", "1"]
    assert texts(course_chart({}))[-1] == "0"


def test_chart_as_file(tmp_path: Path) -> None:
    chart = course_chart({"level": [0.5]})
    chart.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == chart.svg == chart._repr_svg_()
    assert len(repr(chart)) < 80
