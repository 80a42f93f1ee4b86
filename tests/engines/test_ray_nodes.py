"""Several nodes of Ray on one machine: one of them goes away in mid-run, or joins."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ray_streams import at_once, or_skipped, small_nodes, until

import ddol
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule

ray = pytest.importorskip("ray")


@pytest.fixture
def nodes():
    with or_skipped(small_nodes()) as made:
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
    learner.follow(Feed([until(flag, 100_000, seed=k) for k in range(4)]))
    trace = learner.trace()
    learner.close()
    assert flag.exists() and "goes on with 3 actors" in capfd.readouterr().err
    assert trace.state.examples.tolist() == [100_000] * 4


def test_a_node_that_goes_away_changes_nothing(nodes, tmp_path, capfd):
    cluster, (second, _), add = nodes
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    learner, flag = Learner(algorithm, Setup("ray", 2)), tmp_path / "removed"

    def remove(progress):
        if not flag.exists():
            cluster.remove_node(second, allow_graceful=False)
            add()
            flag.touch()

    learner.on_progress = remove
    learner.follow(Feed([until(flag, 300_000)]))
    trace = learner.trace()
    learner.close()
    undisturbed = ddol.run(algorithm, at_once(300_000))
    assert flag.exists() and "was lost; Ray starts another one" in capfd.readouterr().err
    assert trace.mistakes.tolist() == undisturbed.mistakes.tolist()
    np.testing.assert_allclose(trace.weights, undisturbed.weights, rtol=0, atol=1e-9)
