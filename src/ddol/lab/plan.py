"""How many times faster several workers will be, from measurements that take seconds.

A worker that hosts n of the N agents plays a round in

    T = n · batch · (example + (entry + (W − 1) · crowding) · nnz) + E / period,
    E = latency · ⌈log₂ W⌉ + 16 · (W − 1)/W · D / bandwidth + copies · copy · D,

where `example` and `entry` are the time of an example and of each of its entries, and `copy` the
time in which one number is packed, averaged and unpacked. The second term of E is what a sum of D
numbers over W workers moves in the best case, there and back. A worker has n copies of the
weights, but one where agents exchange in every round, because they then share it. Threads read
their examples from the same memory: `crowding` is how much longer each entry takes for every other
worker there.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kinds import engine_named
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.engines.threads.rounds import Threads
from ddol.presets import dogd
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.version import __version__

WANTED = 0.9
"""Efficiency that a period is recommended for."""
_ENTRIES = 1 << 23
"""Of the data on which examples are timed: 64 MB, which caches do not hold."""


@dataclass(frozen=True)
class Costs:
    """What things take on a machine, in seconds.

    Parameters
    ----------
    example : float
        An example, whatever its length.
    entry : float
        Each of its entries.
    copy : float
        Packing, averaging and unpacking one number of one agent.
    latency : float
        A message, whatever its length.
    bandwidth : float
        Bytes per second between two workers.
    crowding : float
        Each entry, in addition, for every other worker that reads from the same memory.
    """

    example: float
    entry: float
    copy: float
    latency: float
    bandwidth: float
    crowding: float = 0.0


@dataclass(frozen=True)
class Workload:
    """What is to be run.

    Parameters
    ----------
    dim : int
        Features D.
    workers : int
    agents : int or None
        None for 16 per worker.
    batch : int
        Examples per agent and round.
    nnz : int or None
        Entries of an example; None for dense rows.
    """

    dim: int
    workers: int
    agents: int | None = None
    batch: int = 1
    nnz: int | None = None

    def __post_init__(self) -> None:
        for name in ("dim", "workers", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, it is {getattr(self, name)}")
        if self.agents is not None and self.agents < self.workers:
            raise ValueError(
                f"`agents` must be at least as many as workers ({self.workers}), "
                f"found {self.agents}"
            )

    @property
    def n_agents(self) -> int:
        """Agents in all."""
        return 16 * self.workers if self.agents is None else self.agents

    @property
    def entries(self) -> int:
        """Entries of an example."""
        return min(self.dim, self.nnz or self.dim)

    def example(self, costs: Costs, workers: int) -> float:
        """Seconds of an example on one of some workers."""
        return costs.example + (costs.entry + (workers - 1) * costs.crowding) * self.entries

    def playing(self, costs: Costs, workers: int) -> float:
        """Seconds of a round on some workers, without any exchange."""
        share = math.ceil(self.n_agents / workers)
        return share * self.batch * self.example(costs, workers)

    def exchange(self, costs: Costs, workers: int, period: int) -> float:
        """Seconds of an exchange among some workers, on the complete graph."""
        steps, moved = math.ceil(math.log2(workers)), 16 * (workers - 1) / workers * self.dim
        copies = math.ceil(self.n_agents / workers) if period > 1 else int(workers > 1)
        return steps * costs.latency + moved / costs.bandwidth + copies * costs.copy * self.dim

    def seconds(self, costs: Costs, workers: int, period: int) -> float:
        """Seconds of a round."""
        return self.playing(costs, workers) + self.exchange(costs, workers, period) / period

    def speedup(self, costs: Costs, period: int) -> float:
        """How many times faster the workers are than one."""
        return self.seconds(costs, 1, period) / self.seconds(costs, self.workers, period)

    def period(self, costs: Costs, efficiency: float = WANTED) -> int | None:
        """Least power of two as a period that reaches an efficiency; None where none does."""
        for power in range(31):
            if self.speedup(costs, 1 << power) >= efficiency * self.workers:
                return 1 << power
        return None


@dataclass(frozen=True)
class Plan:
    """What to expect of a job.

    Parameters
    ----------
    job : Workload
    costs : Costs
    period : int
        The one that was asked for, or else the recommended one.
    recommended : int or None
        Least period for 90 % efficiency; None where agents cannot be shared out evenly enough.
    """

    job: Workload
    costs: Costs
    period: int
    recommended: int | None

    @property
    def speedup(self) -> float:
        """At the period of the plan."""
        return self.job.speedup(self.costs, self.period)

    @property
    def efficiency(self) -> float:
        """Speed-up per worker."""
        return self.speedup / self.job.workers

    @property
    def best_workers(self) -> int:
        """How many of the workers play a round in the least time, at the period of the plan."""
        times = {
            n: self.job.seconds(self.costs, n, self.period) for n in range(1, self.job.workers + 1)
        }
        return min(times, key=lambda n: times[n])

    @property
    def examples_per_second(self) -> float:
        """Of all workers together."""
        seconds = self.job.seconds(self.costs, self.job.workers, self.period)
        return self.job.n_agents * self.job.batch / seconds

    def table(self) -> str:
        """Speed-up and efficiency at several periods, as text."""
        job, costs = self.job, self.costs
        periods = sorted({1, 4, 16, 64, 256, 1024, self.period, self.recommended or 1})
        lines = [f"{'period':>8} {'speed-up':>9} {'efficiency':>11} {'examples/s':>14}"]
        for period in periods:
            at = replace(self, period=period)
            mark = " *" if period == self.recommended else ""
            lines.append(
                f"{period:8d} {at.speedup:9.2f} {100 * at.efficiency:10.0f} % "
                f"{at.examples_per_second:14,.0f}{mark}"
            )
        example = 1e9 * job.example(costs, job.workers)
        exchange = 1e6 * job.exchange(costs, job.workers, self.period)
        lines.append(
            f"{job.n_agents} agents on {job.workers} workers, {job.dim} features: an example takes "
            f"{example:,.0f} ns, an exchange {exchange:,.1f} µs"
        )
        if self.best_workers < job.workers:
            lines.append(
                f"at period {self.period}, {self.best_workers} workers are faster than more"
            )
        if self.recommended is None:
            lines.append("no period reaches 90 %: give every worker as many agents as the others")
        else:
            lines.append(f"* least period for 90 % efficiency: --period {self.recommended}")
        return "\n".join(lines)


def plan(
    dim: int,
    workers: int,
    period: int | None = None,
    *,
    agents: int | None = None,
    batch: int = 1,
    nnz: int | None = None,
    engine: str = "mpi",
    latency: float | None = None,
    bandwidth: float | None = None,
    costs: Costs | None = None,
) -> Plan:
    """Predict how many times faster several workers are on the complete graph.

    Parameters
    ----------
    dim, workers, agents, batch, nnz
        See `Workload`.
    period : int, optional
        Rounds between two exchanges; by default the least for 90 % efficiency.
    engine : "threads", "mpi" or "ray"
        By what workers exchange, where that is measured.
    latency, bandwidth : float, optional
        Of the network, in seconds and bytes per second, instead of this machine's.
    costs : Costs, optional
        Instead of measuring.

    Examples
    --------
    >>> costs = Costs(20e-9, 0.7e-9, 1e-9, latency=20e-6, bandwidth=1e9)
    >>> found = plan(54, 8, costs=costs)
    >>> found.recommended, round(found.speedup, 1)
    (1024, 7.5)
    """
    job = Workload(dim, workers, agents, batch, nnz)
    if bandwidth is not None and bandwidth <= 0:
        raise ValueError(f"`bandwidth` must be positive, it is {bandwidth}")
    network = None if latency is None or bandwidth is None else (latency, bandwidth)
    found = measured(engine, network) if costs is None else costs
    found = replace(
        found,
        latency=found.latency if latency is None else latency,
        bandwidth=found.bandwidth if bandwidth is None else bandwidth,
    )
    recommended = job.period(found)
    return Plan(job, found, period or recommended or 1, recommended)


# --- Measuring ----------------------------------------------------------------------------


def measured(engine: str = "mpi", network: tuple[float, float] | None = None) -> Costs:
    """Measure this machine: a second for the playing, and as much for the exchange.

    Parameters
    ----------
    engine : "threads", "mpi" or "ray"
    network : (latency, bandwidth), optional
        Known, and not measured.
    """
    if engine not in MEASURED:
        raise ValueError(f"`engine` must be one of {', '.join(MEASURED)}, it is {engine!r}")
    short, long = 16, 2048
    brief, full = _an_example(short), _an_example(long)
    entry = max((full - brief) / (long - short), 1e-12)
    copy = _a_copy(long)
    crowding = _crowding(long) if engine_named(engine).can.in_process else 0.0
    if network is None:
        small, large = MEASURED[engine]((1, 1 << 16))
        network = small, 8 * (1 << 16) / max(large - small, 1e-9)
    return Costs(max(brief - short * entry, 1e-9), entry, copy, *network, crowding)


def _an_example(dim: int, workers: int = 1) -> float:
    return _seconds(dogd(l2=0.0).on(4, period=1 << 20), dim, workers)


def _a_copy(dim: int) -> float:
    """Time of one number, from an exchange in every second round and none at all."""
    talking, silent = (_seconds(dogd(l2=0.0).on(4, period=period), dim) for period in (2, 1 << 20))
    return max(2 * (talking - silent) / dim, 1e-12)


def _crowding(dim: int) -> float:
    """How much longer an entry takes on each of two threads than on one alone."""
    return max(2 * _an_example(dim, 2) - _an_example(dim), 0.0) / dim


def _seconds(algorithm: Algorithm, dim: int, workers: int = 1) -> float:
    """Seconds of an example on random dense rows, the best of a few times."""
    examples, rng = _ENTRIES // dim, np.random.default_rng(0)
    rows = Rows.from_dense(rng.random((examples, dim)), rng.choice([-1.0, 1.0], examples))
    block = Block(rows, table_round_robin(examples, algorithm.n_agents))
    engine = Threads(algorithm, start_state(algorithm, dim), workers)
    found = _best(partial(engine.play, block)) / examples
    engine.close()
    return found


def _best(work: Callable[[], object], times: int = 5) -> float:
    work()
    found = math.inf
    for _ in range(times):
        began = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - began)
    return found


def _threads_messages(sizes: tuple[int, ...]) -> list[float]:
    """Seconds of a sum over two threads: what rounds with it take longer than without."""
    found = []
    for numbers in sizes:
        algorithm = dogd(l2=0.0).on(2)
        rounds = max(64, min(4096, (1 << 22) // numbers))
        rows = Rows.from_dense(np.zeros((1, numbers)), [1.0])
        block = Block(rows, np.zeros((rounds, 2, 1), np.int64))
        start = start_state(algorithm, numbers)
        engine = Threads(algorithm, start, workers=2)
        together = _best(partial(engine.play, block))
        engine.close()
        alone = _best(partial(Local(algorithm, start).play, block))
        found.append(max(together - alone / 2, 1e-9) / rounds)
    return found


def _mpi_messages(sizes: tuple[int, ...]) -> list[float]:
    """Seconds of a sum over two processes of this machine, in a job of its own."""
    from ddol.engines.mpi.job import find_mpiexec

    command = [
        str(find_mpiexec()),
        "-n",
        "2",
        "--oversubscribe",
        sys.executable,
        "-m",
        "ddol.lab.plan",
    ]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = subprocess.run(
        [*command, json.dumps(sizes)],
        env={**os.environ, **root},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if job.returncode != 0:
        reason = " ".join(job.stderr.split())[:200]
        raise RuntimeError(f"mpiexec could not be measured ({reason}); give latency and bandwidth")
    return [float(seconds) for seconds in json.loads(job.stdout.splitlines()[-1])]


def _time_sums(sizes: list[int]) -> None:
    """What the job of `_mpi_messages` runs."""
    from mpi4py import MPI

    world, found = MPI.COMM_WORLD, []
    for numbers in sizes:
        here, sums = np.zeros(numbers), np.zeros(numbers)
        times = max(16, min(2000, (1 << 21) // numbers))

        def add(here: np.ndarray = here, sums: np.ndarray = sums, times: int = times) -> None:
            for _ in range(times):
                world.Allreduce(here, sums)

        found.append(_best(add) / times)
    if world.rank == 0:
        print(json.dumps(found))


def _ray_messages(sizes: tuple[int, ...]) -> list[float]:
    """Seconds in which two actors of a cluster of this machine give each other some numbers."""
    from ddol.engines.ray.cluster import Cluster
    from ddol.engines.ray.pool import actor_class

    cluster = Cluster(None, 2)
    kind, ray = actor_class(cluster.ray), cluster.ray
    actors = [kind.remote(rank, __version__) for rank in range(2)]
    try:
        timed = ray.get([actor.time_exchanges.remote(actors, sizes) for actor in actors])
    finally:
        for actor in actors:
            ray.kill(actor)
        cluster.close()
    return [max(both) for both in zip(*timed, strict=True)]


MEASURED: dict[str, Callable[[tuple[int, ...]], list[float]]] = {
    "threads": _threads_messages,
    "mpi": _mpi_messages,
    "ray": _ray_messages,
}
"""How exchanges are timed, by engine."""


def figures(found: Plan) -> dict[str, object]:
    """The plan as plain values."""
    numbers = {name: getattr(found, name) for name in ("speedup", "efficiency")}
    return {
        **asdict(found.job),
        "agents": found.job.n_agents,
        "period": found.period,
        "recommended_period": found.recommended,
        "recommended_workers": found.best_workers,
        **numbers,
        "examples_per_second": found.examples_per_second,
        "costs": asdict(found.costs),
    }


def shown(found: Plan, as_json: bool = False) -> str:
    """The plan as text."""
    return json.dumps(figures(found), indent=2) if as_json else found.table()


if __name__ == "__main__":
    _time_sums(json.loads(sys.argv[1]))
