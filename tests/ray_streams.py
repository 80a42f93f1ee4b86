"""What the tests of Ray share: a small cluster, and examples that actors make themselves."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.patience import wait_until

from ddol.engines.ray.cluster import start
from ddol.streams.rows import Rows
from ddol.streams.synthetic import SyntheticStream


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
    """A head without cores, two nodes with one each, and a function that adds another, sooner or later."""
    from ray.cluster_utils import Cluster

    import ray

    store = {"object_store_memory": 100 << 20}
    # A node whose port is closed is soon known to be gone, one that is only slow is not.
    health = {"health_check_period_ms": 500, "health_check_timeout_ms": 10_000}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": health}
    cluster = Cluster(initialize_head=True, head_node_args=store | head)
    add = partial(cluster.add_node, num_cpus=1, **store)
    try:
        ray.init(cluster.address, log_to_driver=False)  # by the head, which stays
        nodes = [add(), add()]
        yield cluster, nodes, partial(add, wait=False)
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def or_skipped(cluster):
    """A cluster, unless the machine is too busy, or too small, to start one: that is no news of ours."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(cluster)
        except Exception as error:
            pytest.skip(f"Ray started no cluster: {error}")
        yield made


def kill(engine, *ranks):
    """Kill actors, and return when their processes are no more."""
    import ray

    for rank in ranks:
        _, process = ray.get(engine.actors[rank].where.remote())
        os.kill(process, signal.SIGKILL)
        assert wait_until(lambda process=process: not Path(f"/proc/{process}").exists())


def rows_of(rng, first, n):
    """Six features, and the side of a plane that they lie on."""
    X = rng.standard_normal((n, 6))
    return Rows.from_dense(X, np.where(X @ np.arange(1.0, 7.0) >= 0, 1.0, -1.0))


def rows_until(flag, rng, first, n):
    """The same, slowly until a file is there."""
    if not Path(flag).exists():
        time.sleep(0.1)
    return rows_of(rng, first, n)


def slow_rows(rng, first, n):
    """The same, from a source that takes its time."""
    time.sleep(0.02)
    return rows_of(rng, first, n)


def until(flag: Path, n: int, seed: int = 3, block: int = 512) -> SyntheticStream:
    """Examples that take minutes until a file is there, so that what is to happen before happens."""
    return SyntheticStream(partial(rows_until, str(flag)), n, 6, seed=seed, block=block)


def at_once(n: int, seed: int = 3, block: int = 512) -> SyntheticStream:
    """The same examples."""
    return SyntheticStream(rows_of, n, 6, seed=seed, block=block)
