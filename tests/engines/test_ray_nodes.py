"""Several nodes of Ray on one machine: one of them goes away in mid-run, or joins."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
from tests.ray_streams import rows_of, rows_until, slow_rows, small_nodes

import ddol
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule
from ddol.streams.synthetic import SyntheticStream

ray = pytest.importorskip("ray")


@pytest.fixture
def nodes():
    with ExitStack() as stack:
        try:
            made = stack.enter_context(small_nodes())
        except Exception as error:  # a machine that is too busy for three nodes
            pytest.skip(f"Ray started no cluster of three nodes: {error}")
        yield made


def test_a_node_that_joins_is_used(nodes, tmp_path, capfd):
    """A job that has not said how many actors it wants has one a core, of later nodes as well."""
    _, _, add = nodes
    algorithm, flag = ddol.dogd().on(ddol.ring(4), period=64), tmp_path / "joined"
    learner = Learner(algorithm, Setup("ray", schedule=Schedule("async")))
    added = []

    def look(progress):
        if not added:
            added.append(add())
        if learner.engine.workers == 3:
            flag.touch()

    learner.on_progress = look
    rows = partial(rows_until, str(flag))
    streams = [SyntheticStream(rows, 100_000, 6, seed=k, block=512) for k in range(4)]
    learner.follow(Feed(streams))
    trace = learner.trace()
    learner.close()
    assert flag.exists() and "goes on with 3 actors" in capfd.readouterr().err
    assert trace.state.examples.tolist() == [100_000] * 4


def test_a_node_that_goes_away_changes_nothing(nodes, capfd):
    cluster, (second, _), add = nodes
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    learner, removed = Learner(algorithm, Setup("ray", 2)), []

    def remove(progress):
        if progress.examples > 100_000 and not removed:
            removed.append(progress.examples)
            cluster.remove_node(second, allow_graceful=False)
            add()

    learner.on_progress = remove
    learner.follow(Feed([SyntheticStream(slow_rows, 300_000, 6, seed=3)]))
    trace = learner.trace()
    learner.close()
    undisturbed = ddol.run(algorithm, SyntheticStream(rows_of, 300_000, 6, seed=3))
    assert removed and "was lost; Ray starts another one" in capfd.readouterr().err
    assert trace.mistakes.tolist() == undisturbed.mistakes.tolist()
    np.testing.assert_allclose(trace.weights, undisturbed.weights, rtol=0, atol=1e-9)
