"""Several nodes of Ray on one machine: one of them goes away in mid-run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ray_streams import rows_of, slow_rows

import ddol
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.streams.synthetic import SyntheticStream

ray = pytest.importorskip("ray")


@pytest.fixture
def nodes():
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 << 20}
    try:
        cluster = Cluster(initialize_head=True, head_node_args=small | {"include_dashboard": False})
        second, _ = cluster.add_node(**small), cluster.add_node(**small)
    except (TimeoutError, RuntimeError) as error:  # a machine that is too busy to start three nodes
        pytest.skip(f"Ray started no cluster of three nodes: {error}")
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


def test_a_node_that_goes_away_changes_nothing(nodes, capfd):
    cluster, second = nodes
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    learner, removed = Learner(algorithm, Setup("ray", 2)), []

    def remove(progress):
        if progress.examples > 100_000 and not removed:
            removed.append(progress.examples)
            cluster.remove_node(second, allow_graceful=False)

    learner.on_progress = remove
    learner.follow(Feed([SyntheticStream(slow_rows, 300_000, 6, seed=3)]))
    trace = learner.trace()
    learner.close()
    undisturbed = ddol.run(algorithm, SyntheticStream(rows_of, 300_000, 6, seed=3))
    assert removed
    assert trace.mistakes.tolist() == undisturbed.mistakes.tolist()
    np.testing.assert_allclose(trace.weights, undisturbed.weights, rtol=0, atol=1e-9)
