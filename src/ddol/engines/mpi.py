"""The MPI engine: every process hosts some of the agents and exchanges only what others need."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines import mpi_calls
from ddol.engines.atomics import SENT
from ddol.engines.kernels import COPIES
from ddol.engines.local import check_block
from ddol.engines.ranks import open_ranks, tolerant
from ddol.engines.shares import joined, merged, part_of
from ddol.engines.state import State, averages_together, grow, numbers_sent, sharing
from ddol.engines.worker import KernelWorker, Partition, Snapshots
from ddol.streams.rows import Block
from ddol.update.rates import evaluate


@dataclass(frozen=True)
class Neighbours:
    """Whose numbers a process needs, and who needs its own.

    Parameters
    ----------
    places : int64 (N,)
        Row in which an agent's numbers stand here: own agents first, then the ghosts, which
        are agents of others that this process hears; -1 for the rest.
    rows : int
        Own agents and ghosts.
    rows_to : dict of rank to rows
    rows_from : dict of rank to number of rows
    """

    places: np.ndarray
    rows: int
    rows_to: dict[int, list[int]]
    rows_from: dict[int, int]


def neighbours_of(algorithm: Algorithm, shares: list[tuple[int, int]], rank: int) -> Neighbours:
    """Find out what must cross from process to process.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.presets import dogd
    >>> found = neighbours_of(dogd().on(ring(64)), [(0, 32), (32, 32)], rank=0)
    >>> found.rows_to, found.rows_from
    ({1: [0, 31]}, {1: 2})
    """
    first, agents = shares[rank]
    last = first + agents
    ghosts = _heard_by(algorithm, first, last)
    places = np.full(algorithm.n_agents, -1, np.int64)
    places[first:last] = np.arange(agents)
    places[ghosts] = agents + np.arange(len(ghosts))
    rows_to, rows_from = {}, {}
    for other, (start, n) in enumerate(shares):
        if other == rank:
            continue
        theirs = _heard_by(algorithm, start, start + n)
        wanted = theirs[(theirs >= first) & (theirs < last)]
        if len(wanted):
            rows_to[other] = (wanted - first).tolist()
        count = int(np.count_nonzero((ghosts >= start) & (ghosts < start + n)))
        if count:
            rows_from[other] = count
    return Neighbours(places, agents + len(ghosts), rows_to, rows_from)


def _heard_by(algorithm: Algorithm, first: int, last: int) -> np.ndarray:
    """Agents outside first … last − 1 to which these listen, in rising order."""
    if isinstance(algorithm.mixing, Changing):
        heard = np.arange(algorithm.n_agents)
    else:
        indptr, indices, _ = algorithm.mixing.at(1).csr()
        heard = np.unique(indices[indptr[first] : indptr[last]])
    return heard[(heard < first) | (heard >= last)]


class Mpi:
    """Rounds of all agents, each process playing those of its own.

    All processes must call the same methods in the same order: every one of them is collective
    except `counters`, and every one gives the same answer everywhere.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of all agents; each process copies its part.
    workers : None or int
        As many as the job has processes, whatever is wished for.
    """

    name = "mpi"

    def __init__(self, algorithm: Algorithm, state: State, workers: int | None = None) -> None:
        self.algorithm = algorithm
        self.ranks = open_ranks()
        self.workers = self.ranks.size
        self._shared = sharing(algorithm) != COPIES
        self._sums_only = self._shared or averages_together(algorithm)
        self.ranks.check_same(described(algorithm, state))
        self._shares = self.ranks.shares(algorithm.n_agents)
        self.share = self._shares[self.ranks.rank]
        self._seat(part_of(state, *self.share))

    def _seat(self, part: State) -> None:
        """Work on this part of the state from now on."""
        algorithm, ranks, (first, agents) = self.algorithm, self.ranks, self.share
        numbers = numbers_sent(algorithm, part.n_features)
        with ranks.watching():
            if self._sums_only:
                rows, places = (0 if self._shared else agents), None
                self.context = mpi_calls.open_context(ranks.comm)
            else:
                near = neighbours_of(algorithm, self._shares, ranks.rank)
                rows, places = near.rows, near.places
                self.context = mpi_calls.open_context(
                    ranks.comm, near.rows_to, near.rows_from, agents, numbers, tolerant()
                )
        partition = Partition(
            first,
            agents,
            ranks.size,
            column=first,
            packed=np.empty((1, rows, numbers)),
            places=places,
            **mpi_calls.mpi_addresses()._asdict(),
            context=self.context.words.ctypes.data,
        )
        self.worker = KernelWorker(algorithm, part, partition)
        self._gather_counters(np.empty((0, agents, 4)))

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block, whose table says who sees what on this process.

        Every process must have as many rounds and features in its block, and the same rounds in `after`.
        """
        check_block(self.algorithm, block)
        if block.rows.n_features > self.worker.state.n_features:
            context = self.context
            self._seat(grow(self.algorithm, self.worker.state, block.rows.n_features))
            context.free()
        status = self.worker.play_block(block, after)
        if status != 0:
            raise self.ranks.error(status)
        seen = self.worker.snapshots
        return seen._replace(counters=self._gather_counters(seen.counters))

    def _gather_counters(self, counters: np.ndarray) -> np.ndarray:
        """Counters of all agents: those of now, which are kept, and those written down."""
        state = self.worker.state
        now = np.transpose([state.mistakes, state.loss, state.expected, state.examples])
        own = np.concatenate([counters, now[None]]).transpose(1, 0, 2)
        gathered = self._gathered(own).transpose(1, 0, 2)
        mistakes, loss, expected, examples = gathered[-1].T.copy()
        self._counters = replace(
            state,
            mistakes=mistakes.astype(np.int64),
            loss=loss,
            expected=expected,
            examples=examples.astype(np.int64),
        )
        return gathered[:-1]

    def _gathered(self, own: np.ndarray) -> np.ndarray:
        """Every process's rows, in the order of the agents."""
        sizes = [agents * own[0].size for _, agents in self._shares]
        whole = np.empty((self.algorithm.n_agents, *own.shape[1:]))
        with self.ranks.watching():
            self.ranks.comm.Allgatherv(np.ascontiguousarray(own), [whole, sizes])
        return whole

    def state(self) -> State:
        """The state of all agents, in memory of its own."""
        parts = self.ranks.gather(self.worker.state)
        return joined_parts(parts, self._shares, self._shared)

    def counters(self) -> State:
        """Counters of all agents, to be read only; the weights are those of this process."""
        return replace(self._counters, pending=self.worker.state.pending)

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""
        own = self.worker.weights()
        return own if self._shared else self._gathered(own)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this process has given to MPI for others so far."""
        return 8 * int(self.context.words[SENT])

    def abandon(self) -> None:
        """Wake everybody who waits for a process that is lost."""
        self.context.revoke()

    def close(self) -> None:
        """Nothing to do: a process that fails must not wait for the others here."""


def joined_parts(parts: list[State], shares: list[tuple[int, int]], shared: bool) -> State:
    """The whole state, from the parts of all processes and the answers under way at each."""
    whole = joined(parts, shared)
    late = [part.pending for part in parts if part.pending is not None]
    return replace(whole, pending=merged(late, shares)) if late else whole


def described(algorithm: Algorithm, state: State) -> dict[str, Any]:
    """What must be the same on all processes, by name."""
    facts = {
        name: getattr(algorithm, name)
        for name in ("name", "n_agents", "C", "average", "batch", "period", "delay", "outputs")
    }
    mixing = algorithm.mixing.at(1)
    arrays = (mixing.indptr, mixing.indices, mixing.weights)
    matrix = hashlib.sha1(b"".join(array.tobytes() for array in arrays)).hexdigest()[:12]
    return facts | {
        "loss": algorithm.loss.name,
        "parameters": np.asarray(algorithm.update.parameters(), float).tolist(),
        "rate": evaluate(algorithm.rate, 1, 4).tolist(),
        "mixing": f"{algorithm.mixing.name} on {mixing.topology.name} ({matrix})",
        "the round": state.t,
        "features": state.n_features,
        "seed": state.seed,
    }
