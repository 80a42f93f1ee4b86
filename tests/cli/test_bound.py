"""``ddol bound``: numbers before a run, or the reason why there are none."""

import json

import pytest
from click.testing import CliRunner

from ddol.cli.app import app


def call(*arguments):
    return CliRunner().invoke(app, ["bound", *map(str, arguments)])


def test_how_many_mistakes_can_eight_agents_make():
    result = call("--agents", 8, "--experts", 50, "--mistakes", 100, "--alpha", 0.5)
    assert result.exit_code == 0
    assert "at most 349.7 mistakes of all agents together" in result.stdout
    assert "complete graph with uniform mixing" in result.stdout


def test_as_json():
    options = ("--algorithm", "dogd", "--rounds", 10_000, "--gradient", 1, "--radius", 1)
    figures = json.loads(call(*options, "--json").stdout)
    assert figures["value"] == pytest.approx(1200.0)
    assert "convex losses" in figures["assumptions"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--experts is needed for the bound of dwm-i"),
        (("--topology", "ring", "--experts", 3, "--mistakes", 1), "not that of the complete graph"),
        (("--period", 2, "--experts", 3, "--mistakes", 1), "every 2 rounds"),
        (("--algorithm", "doeg", "--rounds", 10, "--gradient", 1), "give the divergence"),
        (("--algorithm", "coin"), "no theorem of the paper is about Coin"),
    ],
)
def test_no_number_without_a_theorem(options, message):
    result = call(*options)
    assert result.exit_code == 2
    assert message in result.stderr
