"""``ddol bound``: numbers before a run, or the reason why there are none."""

import json
import math

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


def test_where_experts_share_a_sequence_of_them_counts():
    options = ("--agents", 8, "--experts", 50, "--mistakes", 100, "--alpha", 0.5, "--share", "auto")
    assert "--rounds is needed" in call(*options).stderr
    found = call(*options, "--rounds", 1000)
    prior = math.log(50) + math.log(1000)  # 1/50 of the weight, and 1/(t+1) less after each round
    expected = (100 * math.log(2) + 8 * prior) / math.log(4 / 3)
    assert f"at most {expected:.1f} mistakes of all agents together" in found.stdout
    figures = json.loads(call(*options, "--rounds", 1000, "--json").stdout)["with_switches"]
    more = 8 * (math.log(49) + math.log(1000)) / math.log(4 / 3)
    assert figures == pytest.approx([expected + m * more for m in range(4)])


def test_what_a_safe_agent_loses_at_most():
    result = call("--algorithm", "adaptive", "--safe", "--rounds", 10_000)
    assert result.exit_code == 0, result.output
    nats = math.log(3) + math.log1p(math.log(10_000))
    assert f"at most {nats:.1f} nats more over 10,000 labels" in result.stdout
    options = ("--algorithm", "adaptive", "--safe", "--rounds", 10_000, "--loss", "squared")
    assert "--spread is needed" in call(*options).stderr
    figures = json.loads(call(*options, "--spread", 2, "--json").stdout)
    gap = 2.0 * (2.0 * math.log(3) + 1.0)
    assert figures["value"] == pytest.approx(gap * (1 + nats / math.log(3)))


def test_as_json():
    options = ("--algorithm", "dogd", "--rounds", 10_000, "--gradient-norm", 1, "--radius", 1)
    figures = json.loads(call(*options, "--json").stdout)
    assert figures["value"] == pytest.approx(1200.0)
    assert "convex losses" in figures["assumptions"]


def test_the_old_name_of_the_norm_works_and_names_the_new_one():
    options = ("--algorithm", "dogd", "--rounds", 10_000, "--radius", 1, "--json")
    old, new = (call(*options, name, 1) for name in ("--gradient", "--gradient-norm"))
    assert old.stdout == new.stdout
    assert "--gradient is now --gradient-norm" in old.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--experts is needed for the bound of dwm-i"),
        (("--topology", "ring", "--experts", 3, "--mistakes", 1), "not that of the complete graph"),
        (("--period", 2, "--experts", 3, "--mistakes", 1), "every 2 rounds"),
        (("--algorithm", "doeg", "--rounds", 10, "--gradient-norm", 1), "give the divergence"),
        (("--algorithm", "coin"), "no theorem of the paper is about Coin"),
    ],
)
def test_no_number_without_a_theorem(options, message):
    result = call(*options)
    assert result.exit_code == 2
    assert message in result.stderr
