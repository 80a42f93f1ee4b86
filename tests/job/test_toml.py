"""Jobs as files: what is written is read again, what is not understood is named, options override."""

from __future__ import annotations

import json
import tomllib
from dataclasses import FrozenInstanceError

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import ddol
from ddol.cli.app import app
from ddol.job.job import Job, places
from ddol.job.toml import as_toml, job_of_tables, read_job, write_job
from ddol.parameters import Parameter
from ddol.presets import PRESETS, preset_name

TEXT = st.text(min_size=1, max_size=8).filter(lambda text: "\x00" not in text)
WORDS = {
    "interactions": ["ab", "town*age"],
    "algorithm": ["dogd", "adaptive", "dual-averaging", "dwm-i", "p_norm"],
}
"""Options whose text must have a form."""


def values_of(name: str, parameter: Parameter) -> st.SearchStrategy:
    """Every kind of value that a declared option may have."""
    low, high = parameter.bounds, parameter.bounds
    low = (low and (low.least if low.least is not None else low.above)) or 0
    high = min((high and high.most) or 99, 99)
    kinds = {bool: st.booleans(), int: st.integers(int(low), int(high)), str: TEXT}
    kinds[float] = st.floats(
        low, high, exclude_min=bool(parameter.bounds) and parameter.bounds.above is not None
    )
    found = [kinds[kind] for kind in parameter.kinds]
    if parameter.words:
        found.append(st.sampled_from(parameter.words))
    if name in WORDS:
        found = [st.sampled_from(WORDS[name])]
    elif parameter.names is not None:
        found.append(st.sampled_from(list(parameter.names())))
    if parameter.many or name == "labels":
        return st.lists(st.one_of(found), max_size=3).map(tuple)
    return st.one_of(found)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        name: values_of(name, parameter)
        for name, (_, parameter) in places().items()
        if parameter is not None
    },
)


@st.composite
def jobs(draw):
    """Jobs with any declared option, and with parameters of their algorithm."""
    options = draw(OPTIONS)
    own = PRESETS[preset_name(options.get("algorithm", "adaptive"))].parameters
    parameters = {name: values_of(name, each) for name, each in own.items() if name != "average"}
    chosen = draw(st.fixed_dictionaries({}, optional=parameters))
    return Job.of(data=draw(st.lists(TEXT, max_size=3).map(tuple)), **{**options, **chosen})


@given(jobs())
@settings(max_examples=300)
def test_nothing_is_lost(job):
    assert job_of_tables(tomllib.loads(as_toml(job)), "no/such/folder/job.toml") == job


def test_a_job_is_a_value():
    job = Job.of(algorithm="dogd", rate=0.5, labels="no,yes", interactions=["ab"])
    assert (job.data.labels, job.data.interactions) == (("no", "yes"), ("ab",))
    assert job == Job.of(algorithm="dogd", rate=0.5).but(labels=["no", "yes"], interactions="ab")
    with pytest.raises(FrozenInstanceError):
        job.run.seed = 3
    with pytest.raises(ValueError, match="--interactions: found 'x', expected the first letters"):
        Job.of(interactions=["x"])


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
        ("[reading]\ndrop = [1]", "[reading] drop: found 1 in the list, expected text"),
        (
            "[algorithm]\nname = 'dogd'\nalpha = 1",
            "[algorithm]: found `alpha`, expected one of loss",
        ),
        (
            "[algorithm]\nname = 'dog'",
            "[algorithm] name: found 'dog', expected one of adaptive",
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


def test_an_editor_may_begin_a_file_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[run]\nseed = 3\n", encoding="utf-8-sig")
    assert Job.read(path).run.seed == 3


def test_what_is_in_memory_is_not_written():
    with pytest.raises(ValueError, match="data in memory"):
        as_toml(Job.of(data=([[1.0]], [1.0])))
    with pytest.raises(ValueError, match="`name` is a Algorithm"):
        as_toml(Job.of(algorithm=ddol.dogd()))
    for name, value in (("conditions", ddol.Conditions()), ("columns", (("a", "text"),))):
        with pytest.raises(ValueError, match=f"`{name}` cannot be written"):
            as_toml(Job.of(**{name: value}))


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
