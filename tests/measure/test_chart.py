"""Charts: every drawing is well-formed, described, and has its lines inside its frame."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from ddol.measure.chart import HEIGHT, WIDTH, Chart, Line, draw, number


def chart(*lines, **options):
    return Chart("Title <1>", "What it shows & why.", "x", "y", lines, **options)


def parsed(*lines, **options):
    return ET.fromstring(draw(chart(*lines, **options)))


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize("log_y", [False, True])
def test_lines_stay_within_the_drawing(log_x, log_y):
    x = np.arange(0, 5000)
    y = 1e3 * np.exp(-x / 300.0)
    root = parsed(Line("a", x, y, 0.5 * y, 2 * y), Line("b", x, y + 1), log_x=log_x, log_y=log_y)
    paths = [p.get("d") for p in root.iter("path") if "line" in p.get("class")]
    assert len(paths) == 2
    for path in paths:
        values = np.array(re.findall(r"-?[\d.]+", path), float).reshape(-1, 2)
        assert np.all((values >= 0) & (values <= [WIDTH, HEIGHT]))
        assert len(values) <= 400


def test_it_is_described_for_those_who_cannot_see_it():
    root = parsed(Line("a", [1, 2], [3, 4]))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Title <1>"
    assert root.find("desc").text == "What it shows & why."


def test_names_do_not_cover_each_other():
    lines = [Line(f"N = {n}", [0, 1], [1.0, 1.0 + n / 1000], colour=n) for n in range(7)]
    places = sorted(float(t.get("y")) for t in parsed(*lines).iter("text") if t.get("class"))
    assert len(places) == 7
    assert np.diff(places).min() >= 12.9


@pytest.mark.parametrize(
    "values", [[], [np.nan, np.inf], [0.0, 0.0], [5.0], [-3.0, -3.0], [1e-300, 1e300]]
)
def test_odd_values_are_drawn_or_left_out(values):
    for log in (False, True):
        text = draw(chart(Line("a", np.arange(len(values)), values), log_y=log))
        assert "nan" not in text
        assert "inf" not in text
        ET.fromstring(text)


def test_a_file_of_its_own_has_its_colours_and_the_dark_ones():
    text = draw(chart(Line("a", [1, 2], [3, 4])), standalone=True)
    assert "prefers-color-scheme:dark" in text
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_numbers_are_short():
    assert [number(v) for v in (12, 0.5, 12_000, 1e6)] == ["12", "0.5", "12k", "1M"]
