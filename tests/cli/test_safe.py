"""Safe runs on the command line: whom sharing helped, and predictions by site."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ddol as lib
from ddol.job.outputs import Hindsight, verdict

W = np.array([1.0, -2.0, 0.5, 1.5])
NAMES = ("alpha", "beta", "delta", "gamma")


@pytest.fixture
def sites(tmp_path: Path) -> list[Path]:
    """A file for each of four sites, the second of which has opposite labels."""
    rng = np.random.default_rng(1)
    for name in NAMES:
        X = rng.standard_normal((150, 4))
        y = np.where(X @ W > 0, 1.0, -1.0) * (-1.0 if name == "beta" else 1.0)
        table = np.column_stack([y, X])
        np.savetxt(tmp_path / f"{name}.csv", table, "%.5g", ",", header="y,a,b,c,d", comments="")
    return sorted(tmp_path.glob("*.csv"))


def test_a_safe_run_tells_whom_sharing_helped(ddol, sites, tmp_path):
    model = tmp_path / "m.ddol"
    done = ddol("train", *sites, "--safe", "--model", model, "--json", "-")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["sites"]
    assert [row["name"] for row in rows] == list(NAMES)
    assert all(
        row["loss"] <= min(row["loss_alone"], row["loss_shared"]) + row["bound"] for row in rows
    )
    assert "Sharing helped" in done.stderr
    said = {}
    for agent in ("beta", "alpha", "shared"):
        found = ddol("predict", model, sites[1], "--agent", agent)
        said[agent] = np.array(found.stdout.split(), float)
        assert found.stderr == ""
    assert np.mean(said["beta"] == said["alpha"]) < 0.2
    assert np.mean(said["shared"] == said["alpha"]) > 0.8
    new = ddol("predict", model, sites[1], "--agent", "omega")
    assert (np.array(new.stdout.split(), float) == said["shared"]).all()
    assert "alpha, beta" in new.stderr and "shared learner predicts" in new.stderr
    assert "--agent beta" in ddol("predict", model, sites[1]).stderr
    ddol("train", *sites, "--model", model)
    typo = ddol("predict", model, sites[1], "--agent", "omega")
    assert typo.exit_code == 2 and typo.stdout == "" and "alpha, beta" in typo.stderr


def test_a_run_of_many_sites_names_safe_at_its_end(ddol, sites):
    assert ddol("train", *sites).stderr.rstrip().splitlines()[-1].startswith("--safe tells")


def test_one_file_does_not(ddol, sites):
    assert "--safe" not in ddol("train", sites[0]).stderr


def test_neighbours_may_be_tested_without_a_mixture(ddol, sites):
    tested, short, plain = (
        json.loads(ddol("train", *sites, *more, "--json", "-").stdout)["mistakes"]
        for more in (("--trust", "test"), ("--mixing", "tested"), ())
    )
    assert sum(tested) < sum(plain) and short == tested


def test_safe_is_not_for_weighted_majority(ddol, sites):
    refused = ddol("train", *sites, "--algorithm", "dwm-i", "--safe")
    assert refused.exit_code == 2 and "safe" in refused.stderr


@pytest.mark.parametrize(
    ("streams", "cause"), [(1, "the order of rows"), (4, "the sites may differ")]
)
def test_a_bad_final_model_of_several_sites_may_be_due_to_the_sites(streams, cause):
    X, y = np.eye(4), np.array([-1.0, -1.0, 1.0, 1.0])
    trace = lib.run(lib.dogd(), (X, y), 2)
    assert cause in verdict(trace, Hindsight(4000, 0.99), False, "shuffle", streams)


def test_a_final_model_that_liars_spoil_is_not_laid_to_the_order_of_rows(ddol, sites):
    lied = ddol("train", *sites, "--liars", "0,1:labels", "--safe")
    assert lied.exit_code == 0 and "order of rows" not in lied.stderr
