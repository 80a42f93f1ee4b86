"""Sites of a model and sites of the data are matched by their names, in any order and number."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ddol as library

NAMES = ("alpha", "beta", "gamma")
APART = ("--topology", "ring", "--period", 10_000)
"""Sites that never exchange: each knows its own data only."""


@pytest.fixture
def sites(tmp_path):
    """Files of sites whose labels follow opposite rules."""
    paths = {}
    for k, name in enumerate((*NAMES, "new")):
        rng = np.random.default_rng(k)
        X = rng.standard_normal((120, 2)).round(3)
        y = np.where(X[:, 0] * (-1) ** k + 0.2 * X[:, 1] > 0, "yes", "no")
        town = rng.choice(["Rome", name], 120)
        rows = [f"{t},{a},{b},{c}" for t, (a, b), c in zip(y, X, town, strict=True)]
        paths[name] = tmp_path / f"{name}.csv"
        paths[name].write_text("\n".join(["label,a,b,town", *rows]) + "\n")
    return paths


def predictions(ddol, model, path, agent=None):
    who = () if agent is None else ("--agent", agent)
    done = ddol("predict", model, path, "--scores", *who)
    assert done.exit_code == 0, done.stderr
    return np.array(done.stdout.split(), float)


@pytest.mark.parametrize("algorithm", ["adaptive", "dogd", "coin", "newton"])
@pytest.mark.parametrize("topology", [APART, ("--topology", "complete")])
def test_sites_go_on_by_name(ddol, sites, tmp_path, algorithm, topology):
    # A full matrix has no room for towns that are met later.
    fixed = ("--drop", "town") if algorithm == "newton" else ()
    options = ("--algorithm", algorithm, *topology, *fixed, "--quiet")
    first, model = tmp_path / "first.ddol", tmp_path / "next.ddol"
    files = [sites[name] for name in NAMES]
    assert ddol("train", *files, "--agents", 3, *options, "--model", first).exit_code == 0
    before = {name: predictions(ddol, first, sites[name], name) for name in NAMES}

    # Another order, one site less, and a new one.
    given = [sites["gamma"], sites["new"], sites["alpha"]]
    done = ddol("train", *given, "--agents", 3, *options, "--initial", first, "--model", model)
    assert done.exit_code == 0, done.stderr
    found = library.load(model)
    assert found.encoding.sites == ("gamma", "new", "alpha", "beta")
    assert np.allclose(predictions(ddol, model, sites["beta"], "beta"), before["beta"])
    assert not np.allclose(predictions(ddol, model, sites["alpha"], "alpha"), before["alpha"])

    # One alone, whose model can be read, predicted with and gone on from.
    done = ddol(
        "train", sites["beta"], "--agents", 1, *options, "--initial", first, "--model", model
    )
    assert done.exit_code == 0, done.stderr
    for name in ("alpha", "gamma"):
        assert np.allclose(predictions(ddol, model, sites[name], name), before[name])
    again = ddol("train", *files, "--agents", 3, *options, "--initial", model, "--model", model)
    assert again.exit_code == 0 and set(library.load(model).encoding.sites) == set(NAMES)


def test_the_order_of_files_changes_no_site(ddol, sites, tmp_path):
    options = (*APART, "--agents", 2, "--quiet")
    first = tmp_path / "first.ddol"
    a, b = sites["alpha"], sites["beta"]
    assert ddol("train", a, b, *options, "--model", first).exit_code == 0
    models = [tmp_path / "ab.ddol", tmp_path / "ba.ddol"]
    for model, files in zip(models, ((a, b), (b, a)), strict=True):
        assert ddol("train", *files, *options, "--initial", first, "--model", model).exit_code == 0
    for name in ("alpha", "beta"):
        one, other = (predictions(ddol, model, sites[name], name) for model in models)
        assert np.allclose(one, other)


def test_a_new_site_begins_with_the_mean_of_the_others(ddol, sites, tmp_path):
    options = (*APART, "--agents", 2, "--algorithm", "dogd")
    first, model = tmp_path / "first.ddol", tmp_path / "next.ddol"
    files = sites["alpha"], sites["gamma"]
    assert ddol("train", *files, *options, "--model", first).exit_code == 0
    short = tmp_path / "new.csv"
    short.write_text("".join(sites["alpha"].read_text().splitlines(keepends=True)[:2]))
    done = ddol("train", short, files[0], *options, "--initial", first, "--model", model)
    assert done.exit_code == 0, done.stderr
    assert "alpha goes on; new is new and begins with the mean; gamma is not there" in done.stderr
    mean = predictions(ddol, first, sites["beta"])
    found = predictions(ddol, model, sites["beta"], "new")
    assert np.corrcoef(mean, found)[0, 1] > 0.9


def test_agents_in_turn_begin_with_the_mean_of_sites(ddol, sites, tmp_path):
    first, model = tmp_path / "first.ddol", tmp_path / "next.ddol"
    files = [sites[name] for name in NAMES]
    assert ddol("train", *files, "--agents", 3, "--model", first, "--quiet").exit_code == 0
    done = ddol("train", sites["new"], "--agents", 3, "--initial", first, "--model", model)
    assert done.exit_code == 0 and "all agents begin with the mean" in done.stderr
    assert library.load(model).encoding.sites == ()


def test_there_are_as_many_agents_as_files(ddol, sites, tmp_path):
    files = [sites[name] for name in NAMES]
    done = ddol("train", *files)
    assert done.exit_code == 0 and "3 agents: alpha, beta, gamma" in done.stderr
    done = ddol("train", tmp_path / "[ab]*a.csv")
    assert done.exit_code == 0 and "2 agents: alpha, beta" in done.stderr
    assert "4 agents in turn" in ddol("train", files[0]).stderr
    assert "found 3 files for 2 agents" in ddol("train", *files, "--agents", 2).stderr


def test_sites_whose_files_have_one_name_are_known_by_their_paths(ddol, sites, tmp_path):
    """A folder for each hospital, with a file data.csv in it, is a usual way to keep them."""
    paths = [tmp_path / name / "data.csv" for name in ("alpha", "beta")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(sites[path.parent.name].read_text())
    model, more = tmp_path / "m", tmp_path / "more"
    options = (*APART, "--quiet")
    assert ddol("train", *paths, *options, "--model", model).exit_code == 0
    assert library.load(model).encoding.sites == tuple(map(str, paths))
    figures = json.loads(ddol("evaluate", model, *paths, "--json", "-").stdout)
    assert [figures["agents"][str(path)]["accuracy"] > 0.8 for path in paths] == [True, True]
    for files in ([paths[1]], [paths[1], sites["new"]]):
        run = ("train", *files, "--agents", len(files), *options, "--initial", model)
        assert ddol(*run, "--model", more).exit_code == 0
        found = library.load(more).encoding.sites
        assert found[0] == str(paths[1]) and len(found) == len(files) + 1
