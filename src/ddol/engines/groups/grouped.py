"""Agents spread over a group of processes: each hosts some of them and exchanges only what others need.

The ranks of an MPI job and the actors of a Ray job are such groups; the engine is the same.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.groups.recovery import Copy
from ddol.engines.kernels import COPIES
from ddol.engines.state import State, averages_together, grow, numbers_sent, sharing
from ddol.engines.state_checks import check_block
from ddol.engines.workers.partition import Partition, Snapshots, cut_at_snapshots, most_seen
from ddol.engines.workers.shares import joined_parts, part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.streams.rows import Block
from ddol.update.rates import evaluate

if TYPE_CHECKING:
    from ddol.engines.threads.atomics import Addresses

REDUCE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Connection(Protocol):
    """How a kernel exchanges numbers with those of other processes; kept while it plays."""

    @property
    def addresses(self) -> Addresses:
        """Where the functions are that a kernel calls."""

    @property
    def context(self) -> int:
        """Address of the functions' memory."""

    @property
    def sent(self) -> int:
        """Numbers that this process has sent so far."""

    def free(self) -> None:
        """Free what it holds; all processes must call it."""

    def revoke(self) -> None:
        """Wake every process that waits in it."""


class Group(Protocol):
    """The workers that host the agents, and this one's place among them.

    `gather`, `reduce`, `snapshot` and `restore` are collective: all workers call the same methods in the same
    order. Where one is lost, a call raises `ddol.engines.errors.RankLostError`.
    """

    @property
    def rank(self) -> int:
        """Number of this worker."""

    @property
    def size(self) -> int:
        """Number of workers."""

    def shares(self, n_agents: int) -> list[tuple[int, int]]:
        """First agent and number of agents of every worker."""

    def gather(self, value: Any) -> list[Any]:
        """Every worker's value, in their order, on every worker."""

    def gather_rows(self, own: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        """Every worker's rows of numbers, one after the other; `rows` says how many each has."""

    def reduce(self, numbers: list[int]) -> list[int]:
        """The largest of every worker's numbers, element by element."""

    def snapshot(self, own: Copy) -> Copy:
        """Send a copy of the own agents to the next worker in a circle; return that of the one before."""

    def restore(self, copy: Copy | None, holder: int, takers: Sequence[int]) -> Copy | None:
        """Send a copy from the worker that has it to those that need it, which get it returned."""

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Refuse to go on where workers were started with different options."""

    def watching(self) -> AbstractContextManager[None]:
        """Turn a report of a dead process into `RankLostError`."""

    def error(self, code: int) -> Exception:
        """The exception for a status of the kernel."""

    def connect(self, near: Neighbours | None, agents: int, numbers: int) -> Connection:
        """Make the functions that a kernel calls to exchange numbers with the others.

        Parameters
        ----------
        near : Neighbours or None
            Rows to exchange; None where all workers only sum.
        agents : own agents
        numbers : numbers in a row
        """


@dataclass(frozen=True)
class Neighbours:
    """The agents whose numbers a process needs, and the processes that need its own.

    Parameters
    ----------
    places : int64 (N,)
        Row in which an agent's numbers stand here: own agents first, then the ghosts, which
        are agents of others that send to agents here; -1 for the rest.
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
    """Find the rows that must cross from process to process.

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


class Grouped:
    """Rounds of all agents, each process of a group playing those of its own.

    All processes must call the same methods in the same order: every one of them is collective
    except `counters`, and every one gives the same answer everywhere.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of all agents, or of this process's; copied.
    group : Group
    """

    name = "group"

    def __init__(self, algorithm: Algorithm, state: State, group: Group) -> None:
        self.algorithm, self.group = algorithm, group
        self.workers = group.size
        self._shared = sharing(algorithm) != COPIES
        self._sums_only = self._shared or averages_together(algorithm)
        group.check_same(described(algorithm, state))
        self._own_seen: list[Snapshots] = []
        self._all_seen: list[Snapshots] = []
        self._shares = group.shares(algorithm.n_agents)
        self.share = self._shares[group.rank]
        first = self.share[0] if len(state.mistakes) == algorithm.n_agents else 0
        self._seat(part_of(state, first, self.share[1]))

    def _seat(self, part: State) -> None:
        """Work on this part of the state from now on."""
        algorithm, group, (first, agents) = self.algorithm, self.group, self.share
        numbers, near = numbers_sent(algorithm, part.n_features), None
        if not self._sums_only:
            near = neighbours_of(algorithm, self._shares, group.rank)
        rows = near.rows if near is not None else (0 if self._shared else agents)
        with group.watching():
            self.connection = group.connect(near, agents, numbers)
        partition = Partition(
            first,
            agents,
            group.size,
            column=first,
            packed=np.empty((1, rows, numbers)),
            places=None if near is None else near.places,
            **self.connection.addresses._asdict(),
            context=self.connection.context,
        )
        self.worker = KernelWorker(algorithm, part, partition)
        self._gather_counters(np.empty((0, agents, 4)), np.empty(0))

    def play(self, block: Block, after: Sequence[int] = (), meets: bool = True) -> Snapshots:
        """Play the rounds of a block, whose table says who sees what on this process.

        Rounds that all processes play may be cut into blocks by each of them as it likes, wherever they need
        not meet.

        Parameters
        ----------
        block : Block
            With as many features as those of all processes in the same rounds.
        after : rising numbers from 0 to the block's rounds
            Those of other processes are of the same rounds.
        meets : bool
            Whether all processes end a block here. Until then what each of them sees stays with it, and
            nothing is returned.

        Returns
        -------
        Snapshots
            Those of all rounds since processes have met; rounds before the block's first are 0 or less.
        """
        check_block(self.algorithm, block)
        if block.rows.n_features > self.worker.state.n_features:
            connection = self.connection
            self._seat(grow(self.algorithm, self.worker.state, block.rows.n_features))
            connection.free()
        before, numbers = self.worker.state.rounds, self.worker.numbers_seen
        for lo, hi, seen in cut_at_snapshots(block.n_rounds, after, numbers, self._n_waiting):
            piece = block if hi - lo == block.n_rounds else replace(block, table=block.table[lo:hi])
            status = self.worker.play_block(piece, seen)
            if status != 0:
                raise self.group.error(status)
            found = self.worker.snapshots
            self._own_seen.append(found._replace(rounds=before + lo + found.rounds))
            if self._n_waiting == most_seen(numbers):
                self._share_snapshots()
        if not meets:
            return self.worker.nothing_seen
        self._share_snapshots()
        told, self._all_seen = Snapshots.joined(self._all_seen), []
        return told._replace(rounds=told.rounds - before)

    @property
    def _n_waiting(self) -> int:
        """Number of own snapshots that other processes do not have yet."""
        return sum(len(seen.rounds) for seen in self._own_seen)

    def _share_snapshots(self) -> None:
        """Put the snapshots of all processes together since the last time."""
        own = Snapshots.joined([self.worker.nothing_seen, *self._own_seen])
        squares = own.metrics[:, 0]
        if own.sums.size:
            squares = own.squares_around(self._summed(own.sums) / self.algorithm.n_agents)
        counters, squares = self._gather_counters(own.counters, squares)
        self._own_seen = []
        self._all_seen.append(own.with_squares(squares, counters) if self.workers > 1 else own)

    def _summed(self, own: np.ndarray) -> np.ndarray:
        """The sum of every process's numbers."""
        total, reduce = own.copy(), REDUCE(self.connection.addresses.reduce)
        with self.group.watching():
            status = reduce(self.connection.context, total.ctypes.data, total.size)
        if status != 0:
            raise self.group.error(status)
        return total

    def _gather_counters(
        self, counters: np.ndarray, squares: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counters of all agents, those of now, which are kept, and those seen; and the squares' sums."""
        state = self.worker.state
        now = state.by_agent
        own = np.zeros((len(now), len(counters) + 1, 5))
        own[:, :-1, :4], own[:, -1, :4] = counters.transpose(1, 0, 2), now
        own[0, :-1, 4] = squares
        gathered = self._gathered(own).transpose(1, 0, 2)
        mistakes, loss, expected, examples = gathered[-1, :, :4].T.copy()
        self._counters = replace(
            state,
            mistakes=mistakes.astype(np.int64),
            loss=loss,
            expected=expected,
            examples=examples.astype(np.int64),
        )
        return gathered[:-1, :, :4], gathered[:-1, :, 4].sum(axis=1)

    def _gathered(self, own: np.ndarray) -> np.ndarray:
        """Every process's rows, in the order of the agents."""
        return self.group.gather_rows(own, [agents for _, agents in self._shares])

    def state(self) -> State:
        """The state of all agents, in memory of its own."""
        parts = self.group.gather(self.worker.state)
        return joined_parts(parts, self._shares, self._shared)

    def counters(self) -> State:
        """Counters of all agents when all have met last, to be read only; the weights are this process's."""
        state = self.worker.state
        return replace(self._counters, pending=state.pending, t=state.t)

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""
        own = self.worker.weights()
        return own if self._shared else self._gathered(own)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this process has sent so far."""
        return 8 * self.connection.sent

    def abandon(self) -> None:
        """Wake every process that waits for one that is lost."""
        self.connection.revoke()

    def close(self) -> None:
        """Nothing to do: a process that fails must not wait for the others here."""


def described(algorithm: Algorithm, state: State) -> dict[str, Any]:
    """Facts that must be the same on all processes, by name."""
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
