"""The attack finds what messages tell, and nothing where they tell nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.lab.inventory import inventory
from ddol.lab.leaks import check_attack, reconstruct
from ddol.node.leaving import EXAMPLES_BETWEEN, checked_between
from ddol.streams.errors import DataError
from ddol.update.budget import Budget

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1600, 4)) * [1.0, 50.0, 0.1, 3.0] + [0.0, 7.0, 1.0, 0.0]
Y = np.sign(X[:, 0] + 0.3 * RNG.standard_normal(len(X)))


@pytest.mark.parametrize("algorithm", (ddol.adaptive, ddol.coin, ddol.newton))
def test_two_agents_see_each_others_rows(algorithm):
    found = reconstruct(algorithm().on(2), X[:200], Y[:200])
    assert found.rows_found == found.rows > 50
    assert found.distance < 1e-6 < 0.5 < found.blind


def test_rows_are_found_without_statistics_too():
    rows = np.c_[np.ones(len(X)), X[:, [0, 2, 3]]]
    found = reconstruct(ddol.dogd(loss="logistic").on(2), rows[:60], Y[:60])
    assert found.rows_found == found.rows
    hinge = reconstruct(
        ddol.dogd().on(2), rows[:60], Y[:60]
    )  # sends nothing of rows beyond the margin
    assert 0.25 * hinge.rows < hinge.rows_found < hinge.rows


def test_one_neighbour_on_a_ring_does_not_know_what_the_others_said():
    algorithm = ddol.adaptive().on(ddol.ring(6))
    together, alone = (reconstruct(algorithm, X[:400], Y[:400], whole) for whole in (True, False))
    assert together.rows_found == together.rows
    assert alone.rows_found < 0.1 * alone.rows


def test_a_hundred_examples_between_two_messages_hide_single_rows():
    found = reconstruct(ddol.adaptive().on(2, period=EXAMPLES_BETWEEN), X, Y)
    assert found.examples == 100
    assert found.rows_found == 0
    assert found.distance > 0.9 * found.blind


def test_statistics_of_few_rows_give_one_of_them_away():
    # Later in a run statistics are taken of 1 round in 32: with as many between two messages, of one row.
    found = reconstruct(ddol.adaptive().on(2, period=32), X, Y)
    assert found.rows_found > 0


def test_what_a_safe_agent_sends_is_of_its_shared_learner():
    found = reconstruct(ddol.safe(ddol.adaptive()).on(2), X[:200], Y[:200])
    assert found.rows_found == found.rows > 50


def test_noise_hides_rows_from_an_attack_that_finds_them_without_it():
    budget, scaled = Budget(4.0, releases=200, every=1), (X[:300] - [0, 7, 1, 0]) / [1, 50, 0.1, 3]
    bare, noisy = (
        reconstruct(ddol.private(ddol.adaptive(), each).on(2), scaled, Y[:300])
        for each in (replace(budget, noise=0.0), budget)
    )
    assert bare.rows_found > 0.9 * bare.rows > 50
    assert noisy.rows_found == 0 and noisy.distance > noisy.blind
    few = {told.what for told in inventory(ddol.private(ddol.adaptive(), budget).on(2))}
    assert not few & {told.what for told in inventory(ddol.adaptive().on(2))[:3]}


def test_what_cannot_be_attacked_says_why():
    for algorithm in (ddol.dwm_i().on(2), ddol.adaptive().on(2, delay=3), ddol.adaptive()):
        with pytest.raises(ValueError, match=r"experts|delay|single agent"):
            check_attack(algorithm)


def test_whole_examples_are_in_the_list_where_they_are_sent():
    plain = {told.what for told in inventory(ddol.adaptive().on(2))}
    more = {told.what for told in inventory(ddol.adaptive().on(2, teach=1))}
    assert any("whole examples" in what for what in more - plain)


def test_the_command():
    done = CliRunner().invoke(app, ["leaks", "--agents", "2", "--limit", "400"])
    assert done.exit_code == 0, done.stderr
    assert "seen by: other sites" in done.stdout
    assert re.search(r"1 example between two messages: (99|100) % of", done.stdout)
    done = CliRunner().invoke(app, ["leaks", "--algorithm", "dwm-i", "--json"])
    found = json.loads(done.stdout)
    assert found["attacks"] == [] and "experts" in found["not_attacked"]


def test_a_job_in_a_file(tmp_path):
    job = tmp_path / "job.toml"
    done = CliRunner().invoke(
        app,
        [
            "train",
            "--agents",
            "2",
            "--period",
            "100",
            "--limit",
            "1600",
            "--save-job",
            str(job),
            "--quiet",
        ],
    )
    assert done.exit_code == 0, done.stderr
    for more, examples in ((), [100]), (("--period", "1"), [1, 100]):
        done = CliRunner().invoke(app, ["leaks", str(job), "--json", *more])
        assert done.exit_code == 0, done.stderr
        attacks = json.loads(done.stdout[done.stdout.index("{") :])["attacks"]
        assert [attack["examples"] for attack in attacks] == examples


def test_the_fewest_examples_between_two_messages():
    assert checked_between(None) == (100, None)
    assert "reconstruct" in (checked_between(10)[1] or "")
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(DataError):
            checked_between(wrong)


def test_what_a_budget_costs():
    words = ["privacy", "--agents", "2", "--privacy", "epsilon:2,releases:14,every:20"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    budget, free = json.loads(done.stdout)
    assert 1.9 < budget["spent"] <= 2.0 and free["noise"] == 0.0
    assert all(run["mixture"] <= run["alone"] + 0.03 for run in (budget, free))
    for wrong, said in (
        (("--privacy", "sites:1"), "expected epsilon"),
        (("--agents", "1"), "number of sites"),
        (("--missing", "mean"), "does not go with --privacy"),
    ):
        done = CliRunner().invoke(app, [*words, *wrong])
        assert done.exit_code == 2 and said in done.stderr
