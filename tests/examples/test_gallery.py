"""Every example of the gallery runs, is short, draws a picture, and shows what it says."""

import importlib.util
import runpy
import sys
from pathlib import Path

import matplotlib
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
GALLERY = ["pipeline", "hospitals", "drifting_experts", "ring_or_complete", "threads", "frontier"]


@pytest.fixture
def draw(tmp_path):
    """Run an example without a display; what its `main` returns."""

    def run(name):
        matplotlib.use("Agg")
        spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = module.main(tmp_path / "picture.png")
        drawn = (tmp_path / "picture.png").read_bytes()
        assert drawn[:8] == b"\x89PNG\r\n\x1a\n" and len(drawn) > 10_000
        return found

    return run


@pytest.mark.parametrize("name", GALLERY)
def test_examples_are_short_and_shown(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60
    assert (EXAMPLES / "pictures" / f"{name}.png").stat().st_size > 10_000
    assert f"pictures/{name}.png" in (EXAMPLES / "README.md").read_text()


def test_sixteen_agents_come_near_one_in_a_sixteenth_of_the_rounds(tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.setattr(sys, "argv", ["first.py", str(tmp_path / "first.svg")])
    traces = runpy.run_path(str(EXAMPLES / "first.py"))["traces"]
    assert [trace.rounds for trace in traces] == [200_000, 50_000, 12_500]
    assert max(trace.error for trace in traces[1:]) < traces[0].error + 0.003
    assert "1/16 of the rounds" in (tmp_path / "first.svg").read_text()


def test_a_pipeline_knows_digits(draw):
    assert draw("pipeline") > 0.92


def test_hospitals_are_better_off_together(draw):
    assert draw("hospitals") > 0.02


def test_the_vote_is_nearly_as_good_as_the_best_expert(draw):
    assert draw("drifting_experts") < 1.2


def test_a_ring_pays_little_for_few_neighbours(draw):
    found = draw("ring_or_complete")
    assert found["complete"] <= found["torus"] <= found["ring"] < found["complete"] + 0.01


def test_threads_change_no_weight(draw):
    assert draw("threads") < 1e-9


def test_spending_less_where_it_helps_beats_the_line(draw):
    for found in draw("frontier").values():
        best = min(row["of_line"] for row in found.rows if row["policy"] != found.line)
        assert best < 0.5
