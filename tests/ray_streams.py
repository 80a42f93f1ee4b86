"""What the tests of Ray share: a small cluster, and examples that actors make themselves."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ddol.engines.ray.cluster import start
from ddol.streams.rows import Rows


@contextmanager
def small_cluster():
    """Four cores, said to be there, within this machine."""
    import ray

    start(ray, cores=4)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def small_nodes():
    """A head without cores, two nodes with one each, and a function that adds another."""
    from ray.cluster_utils import Cluster

    import ray

    store = {"object_store_memory": 100 << 20}
    cluster = Cluster(
        initialize_head=True, head_node_args=store | {"num_cpus": 0, "include_dashboard": False}
    )

    def add():
        return cluster.add_node(num_cpus=1, **store)

    try:
        nodes = [add(), add()]
        ray.init(cluster.address, log_to_driver=False)
        yield cluster, nodes, add
    finally:
        ray.shutdown()
        cluster.shutdown()


def gone(process: int) -> None:
    """Return when a process is no more."""
    while Path(f"/proc/{process}").exists():
        time.sleep(0.01)


def rows_of(rng, first, n):
    """Six features, and the side of a plane that they lie on."""
    X = rng.standard_normal((n, 6))
    return Rows.from_dense(X, np.where(X @ np.arange(1.0, 7.0) >= 0, 1.0, -1.0))


def slow_rows(rng, first, n):
    """The same, from a source that takes its time."""
    time.sleep(0.02)
    return rows_of(rng, first, n)
