"""A run as a fold over blocks: deal, play, record; `run` is the whole of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.graph import Topology
from ddol.engines.answers import check_advice
from ddol.engines.errors import RankLostError
from ddol.engines.kernels import COPIES
from ddol.engines.local import Local
from ddol.engines.state import State, numbers_sent, sharing, start_state
from ddol.engines.worker import Snapshots
from ddol.streams.arrays import RowsStream
from ddol.streams.dealing import deal
from ddol.streams.rows import Block
from ddol.streams.stream import Position, Stream
from ddol.trace import Recorder, Trace
from ddol.update.majority import Majority
from ddol.version import __version__


class Engine(Protocol):
    """Where rounds run. Engines differ in nothing that the result shows."""

    name: str
    workers: int

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block.

        Parameters
        ----------
        block : Block
        after : rising numbers from 1 to the block's rounds
            When so many rounds are played, counters and consensus distance are written down.
        """

    def state(self) -> State:
        """The state of all agents, in memory of its own."""

    def counters(self) -> State:
        """Counters of all agents, to be read only."""

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""

    def close(self) -> None:
        """Give threads and communicators back."""


@dataclass(frozen=True)
class Setup:
    """How a run is carried out; what it computes is the algorithm's.

    Parameters
    ----------
    engine : "local", "threads" or "mpi"
    workers : int or None
        Workers of the threads engine; None for one per core.
    passes : int
    seed : int
    n_features : int or None
        Needed beforehand by algorithms whose start depends on it, where streams do not know it.
    block_rounds : int or None
        Most rounds of one block.
    watched : bool
        Stop wherever the number of examples passes a power of two, so that it can be shown.
    """

    engine: str = "local"
    workers: int | None = None
    passes: int = 1
    seed: int = 0
    n_features: int | None = None
    block_rounds: int | None = None
    watched: bool = False


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a piece of a block.

    ``position`` is that of the streams, and None in the middle of a block.
    """

    rounds: int
    examples: int
    position: Position | None


class Processes(Protocol):
    """The processes that play a session together: `SingleProcess`, or those of an MPI job."""

    def blocks(self, session: Session) -> Iterator[tuple[Block, Position]]:
        """Deal the examples of this process's agents."""

    def after_block(self, session: Session) -> None:
        """Keep what is needed to go on without a process."""

    def at_end(self, session: Session) -> None:
        """Make sure that all processes have the result."""

    def recover(self, session: Session) -> None:
        """Take the session back to where all processes that are left can go on."""


class SingleProcess:
    """One process, which has nobody to lose."""

    def blocks(self, session: Session) -> Iterator[tuple[Block, Position]]:
        """Deal all examples."""
        algorithm, setup = session.algorithm, session.setup
        return deal(
            session.streams,
            algorithm.n_agents,
            algorithm.batch,
            setup.passes,
            session.position,
            setup.block_rounds,
        )

    def after_block(self, session: Session) -> None:
        """Nothing to keep."""

    def at_end(self, session: Session) -> None:
        """Nobody to wait for."""

    def recover(self, session: Session) -> None:
        """Nobody was lost."""


def _processes(engine: str) -> Processes:
    if engine != "mpi":
        return SingleProcess()
    from ddol.engines.recovery import MpiGroup

    return MpiGroup()


class Session:
    """One run, a block at a time.

    Parameters
    ----------
    algorithm : Algorithm
    streams : one Stream, or one for each agent
        Labels must be encoded: −1 and +1, or class numbers.
    setup : Setup
    state, position : State and Position, optional
        Where to go on, from a checkpoint.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        streams: Stream | Sequence[Stream],
        setup: Setup | None = None,
        state: State | None = None,
        position: Position | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.streams = [streams] if isinstance(streams, Stream) else list(streams)
        self.setup = setup or Setup()
        self.position = position
        self.recorder = Recorder(algorithm.n_agents)
        self.seconds = 0.0
        self.processes = _processes(self.setup.engine)
        self.engine: Engine | None = None
        self._start = state
        if state is not None:
            self.engine = self._open(state)

    def __iter__(self) -> Iterator[Progress]:
        """Play everything; yields after every piece, so that it can be watched and stopped."""
        began = time.perf_counter() - self.seconds
        while True:
            try:
                for block, position in self.processes.blocks(self):
                    for progress in self.play(block):
                        self.seconds = time.perf_counter() - began
                        yield progress
                    self.position = position
                    self.processes.after_block(self)
                    yield replace(progress, position=position)
                break
            except RankLostError:
                self.processes.recover(self)
        self.seconds = time.perf_counter() - began

    def past(self) -> tuple[Position | None, dict[str, Any]]:
        """All but the state that it takes to come back to this moment, between two blocks."""
        return self.position, self.recorder.to_dict()

    def go_back(self, state: State | None, past: tuple[Position | None, dict[str, Any]]) -> None:
        """Take up an earlier moment; no state is the beginning."""
        self.position, recorded = past
        self.recorder.restore(recorded)
        state = self._start if state is None else state
        self.engine = None if state is None else self._open(state)

    def play(self, block: Block) -> Iterator[Progress]:
        """Play the rounds of one block, which somebody has dealt; yields after every piece."""
        if self.engine is None:
            self.engine = self._open(self._first_state(block))
        before = self.engine.counters().rounds
        for lo, hi in self._pieces(before, block.n_rounds):
            points = self.recorder.between(before + lo, before + hi)
            piece = Block(block.rows, block.table[lo:hi])
            self._record(points, self.engine.play(piece, [p - before - lo for p in points]))
            counters = self.engine.counters()
            yield Progress(counters.rounds, int(counters.examples.sum()), None)

    def _first_state(self, block: Block) -> State:
        known = [s.n_features for s in self.streams if s.n_features is not None]
        n_features = max([self.setup.n_features or 0, block.rows.n_features, *known])
        return start_state(self.algorithm, n_features, self.setup.seed)

    def _open(self, state: State) -> Engine:
        from ddol.engines import open_engine

        return open_engine(self.setup.engine, self.algorithm, state, self.setup.workers)

    def _pieces(self, before: int, rounds: int) -> Iterator[tuple[int, int]]:
        """Cut rounds where somebody looks at the progress."""
        lo = 0
        while lo < rounds:
            hi = rounds
            if self.setup.watched:
                hi = min(hi, self._next_power(before + lo) - before)
            yield lo, hi
            lo = hi

    def _next_power(self, rounds: int) -> int:
        """First later round in which the number of examples passes a power of two."""
        per_round = self.algorithm.n_agents * self.algorithm.batch
        power = 2 ** math.floor(math.log2(max(rounds * per_round, 1)) + 1)
        return max(-(-power // per_round), rounds + 1)

    def _record(self, points: list[int], seen: Snapshots) -> None:
        """Keep points of the curves."""
        self.recorder.record(points, seen.counters, *seen.metrics.T)

    def finish(self) -> Trace:
        """Deliver answers still under way, and give the trace."""
        while True:
            try:
                trace = self._finish()
                self.processes.at_end(self)
                return trace
            except RankLostError:
                self.processes.recover(self)
                for _ in self:
                    pass

    def _finish(self) -> Trace:
        if self.engine is None:
            raise ValueError("no example was read; expected at least one")
        rounds = self.engine.counters().rounds
        distance = consensus(self.engine.weights())
        best = best_log_weight(self)
        curves = self.recorder.finish(rounds, self.engine.counters(), distance, best)
        if self.algorithm.delay:
            self._deliver()
        return self._trace(rounds, curves)

    def _deliver(self) -> None:
        """Play rounds without predictions until every answer has arrived."""
        assert self.engine is not None
        late = self.engine.counters().pending
        if late is not None:
            self.engine.play(Block(late.rows.slice(0, 0), np.full_like(late.table, -1)))

    def _check_features(self) -> None:
        """Refuse features in memory that are not finite, or no advice, where nobody looked before."""
        if self.algorithm.update.experts:
            check_advice(self.algorithm, self.streams)
        for stream in self.streams:
            if isinstance(stream, RowsStream):
                stream.rows.check_finite(stream.describe())

    def _trace(self, rounds: int, curves: Any) -> Trace:
        assert self.engine is not None
        state, weights = self.engine.state(), self.engine.weights()
        if not (np.isfinite(weights).all() and np.isfinite(state.loss).all()):
            self._check_features()
            raise FloatingPointError(
                f"the weights of {self.algorithm.name} left the range of numbers; lower the rate, "
                "scale the features, give a radius, or use the algorithm adaptive"
            )
        messages, sent = traffic(self.algorithm, rounds, state.n_features)
        return Trace(
            algorithm=self.algorithm,
            engine=self.engine.name,
            workers=self.engine.workers,
            examples=int(state.examples.sum()),
            rounds=rounds,
            mistakes=state.mistakes,
            loss=state.loss,
            expected_mistakes=state.expected,
            seconds=self.seconds,
            messages=messages,
            bytes_sent=sent,
            consensus=consensus(weights),
            weights=weights,
            curves=curves,
            seed=self.setup.seed,
            version=__version__,
            state=state,
        )

    def close(self) -> None:
        """Give the engine's threads back."""
        if self.engine is not None:
            self.engine.close()


def consensus(weights: np.ndarray) -> float:
    """√(mean over agents of ‖w_i − w̄‖²), 0 where all share one copy.

    Examples
    --------
    >>> consensus(np.array([[[1.0]], [[-1.0]]]))
    1.0
    """
    if len(weights) == 1:
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # the end of the run says what is wrong
        gaps = weights - weights.mean(axis=0)
        return float(math.sqrt(np.mean(np.sum(gaps * gaps, axis=(1, 2)))))


def best_log_weight(session: Session) -> float:
    """Largest log-weight of an expert on the shared copy; NaN where there is none."""
    assert session.engine is not None
    update = session.algorithm.update
    if not isinstance(update, Majority) or sharing(session.algorithm) == COPIES:
        return math.nan
    state = session.engine.counters()
    return float(update.log_weights(state.theta[0, 0], state.scalars[0, 0]).max())


def traffic(algorithm: Algorithm, rounds: int, n_features: int) -> tuple[int, int]:
    """Messages that agents sent to their neighbours, and their bytes."""
    topology = getattr(algorithm.mixing, "topology", None)
    if topology is None:
        n = algorithm.n_agents
        edges = n * (n - 1) // 2
    else:
        edges = topology.n_edges
    messages = 2 * edges * (rounds // algorithm.period)
    return messages, messages * numbers_sent(algorithm, n_features) * 8


def run(
    algorithm: Algorithm,
    streams: Any,
    topology: Topology | int | None = None,
    *,
    mixing: Any = None,
    engine: str = "local",
    workers: int | None = None,
    passes: int = 1,
    seed: int = 0,
    n_features: int | None = None,
    classes: Sequence[float] | None = None,
    **changes: Any,
) -> Trace:
    """Run an algorithm over streams of examples, and return its trace.

    Parameters
    ----------
    algorithm : Algorithm
        A preset such as ``dogd()``, or your own.
    streams : (X, y), one stream, or one stream for each agent
        One is dealt round-robin: example k goes to agent k mod N.
    topology : Topology or int, optional
        The network; an int is the number of agents of a complete graph.
    mixing : optional
        See `Algorithm.on`.
    engine, workers, passes, seed, n_features
        See `Setup`.
    classes : sequence of float, optional
        All labels, where streams come from files; −1 and +1, or 0, 1, …, if not given.
    **changes
        Fields of the algorithm to replace: ``batch``, ``period``, ``delay``, …

    Examples
    --------
    >>> import ddol
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.dogd(l2=0.0), (X, y), ddol.ring(4))
    >>> trace.examples, trace.rounds, trace.error < 0.1
    (1000, 250, True)
    """
    from ddol.engines.answers import encoded

    if topology is not None or mixing is not None:
        where = algorithm.n_agents if topology is None else topology
        algorithm = algorithm.on(where, mixing, **changes)
    elif changes:
        algorithm = replace(algorithm, **changes)
    setup = Setup(engine, workers, passes, seed, n_features, watched=False)
    # A pass over the memory takes half as long as learning: where the loss tells, at the end, of features
    # that are not finite, nobody looks before. Processes must agree beforehand.
    propagates_nan = algorithm.update.loops(algorithm.average).propagates_nan and engine != "mpi"
    found = encoded(algorithm, streams, classes, checked=not propagates_nan)
    session = Session(algorithm, found, setup)
    try:
        for _ in session:
            pass
        return session.finish()
    finally:
        session.close()


__all__ = ["Engine", "Local", "Progress", "Session", "Setup", "run"]
