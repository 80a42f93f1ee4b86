"""Jobs as files: what is written is read again, what is not understood is named, options override."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import ddol
from ddol.cli.app import app
from ddol.job.job import Job
from ddol.job.toml import as_toml, job_of_tables, read_job, write_job

TEXT = st.text(min_size=1, max_size=8).filter(lambda text: "\x00" not in text)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "algorithm": st.sampled_from(["dogd", "adaptive", "dual-averaging"]),
        "rate": st.floats(1e-9, 1e9),
        "loss": st.sampled_from(["hinge", "squared-hinge"]),
        "label": TEXT,
        "labels": st.lists(st.floats(-5, 5), max_size=3).map(tuple),
        "drop": st.lists(TEXT, max_size=3).map(tuple),
        "missing": st.sampled_from(["error", "zero", "mean"]),
        "interactions": st.lists(st.sampled_from(["ab", "town*age"]), max_size=2).map(tuple),
        "intercept": st.booleans(),
        "header": st.booleans(),
        "bits": st.integers(1, 31),
        "holdout": st.floats(0, 0.5),
        "agents": st.integers(1, 99),
        "topology": st.sampled_from(["ring", "erdos-renyi:0.5"]),
        "query": st.sampled_from(["b:1", "0.2"]),
        "talk_to": st.sampled_from([2, "2:loss"]),
        "delay": st.sampled_from(["3", "0..5", "column:late"]),
        "schedule": st.sampled_from(["rounds", "gossip"]),
        "passes": st.integers(1, 9),
        "seed": st.integers(0, 9),
        "safe": st.booleans(),
        "model": TEXT,
        "live": st.integers(0, 65535),
        "quiet": st.booleans(),
    },
)


@given(data=st.lists(TEXT, max_size=3).map(tuple), options=OPTIONS)
def test_nothing_is_lost(data, options):
    import tomllib

    job = Job.of(data=data, **options)
    assert job_of_tables(tomllib.loads(as_toml(job)), "no/such/folder/job.toml") == job


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data = 3", "job.toml: found data = 3, expected a list of files"),
        ("agents = 3", "job.toml: found `agents`, expected one of data, [reading], [algorithm]"),
        ("network = 3", "job.toml: found network = 3, expected a table [network]"),
        ("[network]\nagnets = 3", "[network]: found `agnets`, expected 'agents'"),
        (
            "[network]\nagents = 0",
            "[network] agents: found 0, expected a whole number of at least 1",
        ),
        ("[network]\nagents = [1]", "[network] agents: found [1], expected a whole number"),
        (
            "[algorithm]\nname = 'dogd'\nalpha = 1",
            "[algorithm]: found `alpha`, expected one of loss",
        ),
        (
            "[algorithm]\nname = 'dog'",
            "[algorithm] algorithm: found 'dog', expected one of adaptive",
        ),
        (
            "[algorithm]\nname = 'dogd'\nrate = -1",
            "[algorithm] rate: found -1, expected a number above",
        ),
        (
            "[reading]\nmissing = 'nil'",
            "[reading] missing: found 'nil', expected one of error, zero",
        ),
        ("[reading]\ninteractions = ['a']", "[reading] interactions: --interactions: found 'a'"),
        ("[reading", "expected a job in TOML"),
    ],
)
def test_what_is_not_understood_is_named(tmp_path, text, message):
    path = tmp_path / "job.toml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["train", str(path)])
    assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_what_is_in_memory_is_not_written():
    with pytest.raises(ValueError, match="data in memory"):
        as_toml(Job.of(data=([[1.0]], [1.0])))
    with pytest.raises(ValueError, match="`name` is a Algorithm"):
        as_toml(Job.of(algorithm=ddol.dogd()))
    with pytest.raises(ValueError, match="`conditions` cannot be written"):
        as_toml(Job.of(conditions=ddol.Conditions()))


def test_a_file_runs_and_options_override(tmp_path):
    def train(*words):
        done = CliRunner().invoke(app, ["train", *map(str, words), "--json", "-"])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    job = tmp_path / "job.toml"
    words = ("--algorithm", "dogd", "--rate", 0.5, "--agents", 3, "-q")
    first = train(*words, "--save-job", job)
    again, other = train(job), train(job, "--agents", 2, "--rate", 2)
    assert (again["loss"], again["agents"]) == (first["loss"], 3)
    assert other["agents"] == 2 and other["loss"] != first["loss"]
    kept = read_job(job)
    assert kept.output.quiet and ddol.train(kept.but(json=None)).loss.sum() == sum(first["loss"])
    assert Job.read(job) == kept


def test_data_are_found_beside_the_job(tmp_path):
    (tmp_path / "points.csv").write_text("y,a\n" + "0,1.5\n1,2.5\n" * 20)
    write_job(Job.of(data=("points.csv",), agents=2), tmp_path / "job.toml")
    assert ddol.train(Job.read(tmp_path / "job.toml")).examples == 40
