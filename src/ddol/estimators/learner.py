"""Agents that go on learning from one call to the next."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.local import Local
from ddol.engines.session import Engine, Session, Setup
from ddol.engines.state import State, start_state
from ddol.estimators.arrival import table_by_arrival
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows, concatenate
from ddol.trace import Recorder, Trace


class Learner:
    """A run that is fed by calls: the state, the curves, and the rows of a round that is still open.

    A round is up to `batch` examples for each of the N agents. Rows that do not fill a round wait for
    the next call, so that the cut into calls changes nothing. Meanwhile `weights` and `trace` are those
    of a stream that ends here: the open round is played on a copy of the state.

    Parameters
    ----------
    algorithm : Algorithm
        Placed on its network.
    setup : Setup
        Its engine, workers, seed and number of features are used.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> rows = Rows.from_dense(np.eye(3), [1.0, -1.0, 1.0])
    >>> whole, parts = Learner(dogd().on(2), Setup()), Learner(dogd().on(2), Setup())
    >>> whole.learn(rows); parts.learn(rows.slice(0, 1)); parts.learn(rows.slice(1, 3))
    >>> bool(np.all(whole.weights() == parts.weights())), len(parts.waiting)
    (True, 1)
    """

    def __init__(self, algorithm: Algorithm, setup: Setup) -> None:
        self.algorithm = algorithm
        self.setup = setup
        self.recorder = Recorder(algorithm.n_agents)
        self.seconds = 0.0
        self.workers = 1
        self.waiting: Rows | None = None
        self.waiting_agents: np.ndarray | None = None
        self._named: bool | None = None
        self._saved: State | None = None
        self._session: Session | None = None

    def learn(self, rows: Rows, agents: np.ndarray | None = None) -> None:
        """Learn from the next rows of the stream.

        Parameters
        ----------
        rows : Rows
        agents : (n,) of int, optional
            Agent of each row; row k of the stream goes to agent k mod N if it is not given.
        """
        self._check_agents(agents)
        if len(rows) == 0:
            return
        if agents is None:
            self._learn_by_turns(rows)
        else:
            self._learn_by_arrival(rows, agents)

    def play(self, block: Block) -> None:
        """Play rounds that are dealt already."""
        if block.n_rounds == 0:
            return
        began = time.perf_counter()
        session = self._open(block)
        for _ in session.play(block):
            pass
        self._saved = None
        assert session.engine is not None
        self.workers = session.engine.workers
        self.seconds += time.perf_counter() - began

    def rest(self) -> None:
        """Give threads and communicators back until there is more to learn from."""
        if self.setup.engine != "local":
            self._close()

    def state(self) -> State:
        """The state after the last full round."""
        if self._saved is None:
            assert self._session is not None and self._session.engine is not None
            self._saved = self._session.engine.state()
        return self._saved

    def grow(self, outputs: int) -> None:
        """Make room for classes that have not been seen before; they begin now."""
        if outputs <= self.algorithm.outputs:
            return
        self._close()
        self.algorithm = replace(self.algorithm, outputs=outputs)
        if self._saved is not None:
            self._saved = _with_outputs(self.algorithm, self._saved)

    def weights(self) -> np.ndarray:
        """Weights (copies, outputs, D) with which agents predict, averaged over rounds if asked for."""
        engine = self._ended()
        counters = engine.counters()
        if counters.sums.size:
            return counters.sums / max(counters.rounds, 1)
        return engine.weights()

    def trace(self) -> Trace:
        """The run so far, as if the stream ended here."""
        setup = Setup(seed=self.setup.seed)
        session = Session(self.algorithm, [], setup, state=self._present_state())
        session.recorder = copy.deepcopy(self.recorder)
        if self.waiting is not None:
            list(session.play(self._open_round(self.waiting)))
        return replace(
            session.finish(),
            engine=self.setup.engine,
            workers=self.workers,
            seconds=self.seconds,
        )

    def _ended(self) -> Engine:
        """An engine in which the open round is played and late answers have come."""
        if (
            self._session
            and self._session.engine
            and self.waiting is None
            and not self.algorithm.delay
        ):
            return self._session.engine
        engine = Local(self.algorithm, self._present_state())
        if self.waiting is not None:
            engine.play(self._open_round(self.waiting))
        late = engine.counters().pending
        if late is not None:
            engine.play(Block(late.rows.slice(0, 0), np.full_like(late.table, -1)))
        return engine

    def _present_state(self) -> State:
        if self._saved is None and self._session is None:
            return start_state(self.algorithm, self._n_features(self.waiting), self.setup.seed)
        return self.state()

    def _n_features(self, rows: Rows | None) -> int:
        return max(self.setup.n_features or 0, rows.n_features if rows is not None else 0)

    def _open_round(self, waiting: Rows) -> Block:
        n, batch = self.algorithm.n_agents, self.algorithm.batch
        if self.waiting_agents is None:
            return Block(waiting, table_round_robin(len(waiting), n, batch))
        return Block(waiting, table_by_arrival(self.waiting_agents, n, batch))

    def _learn_by_turns(self, rows: Rows) -> None:
        n, batch = self.algorithm.n_agents, self.algorithm.batch
        size = n * batch
        if self.waiting is not None:
            missing = size - len(self.waiting)
            joined = concatenate([_like(self.waiting, rows), rows.slice(0, missing)])
            rows = rows.slice(missing, len(rows))
            self.waiting = joined
            if len(joined) < size:
                return
            self.play(Block(joined, table_round_robin(size, n, batch)))
        whole = len(rows) // size * size
        self.play(Block(rows, table_round_robin(whole, n, batch)))
        self.waiting = rows.take(np.arange(whole, len(rows))) if whole < len(rows) else None

    def _learn_by_arrival(self, rows: Rows, agents: np.ndarray) -> None:
        n, batch = self.algorithm.n_agents, self.algorithm.batch
        if self.waiting is not None and self.waiting_agents is not None:
            rows = concatenate([_like(self.waiting, rows), rows])
            agents = np.concatenate([self.waiting_agents, agents])
        table = table_by_arrival(agents, n, batch)
        last = table[-1]
        full = len(table) if np.all(last >= 0) else len(table) - 1
        self.play(Block(rows, table[:full]))
        self.waiting = self.waiting_agents = None
        if full < len(table):
            left = np.sort(last[last >= 0])
            self.waiting, self.waiting_agents = rows.take(left), agents[left]

    def _check_agents(self, agents: np.ndarray | None) -> None:
        if self._named is not None and self._named != (agents is not None):
            raise ValueError(
                "`agents` must be given in every call or in none: rows go to the agents that they "
                "name, or to all agents in turn"
            )
        self._named = agents is not None

    def _open(self, block: Block) -> Session:
        if self._session is None:
            if self._saved is None:
                n_features = self._n_features(block.rows)
                self._saved = start_state(self.algorithm, n_features, self.setup.seed)
            self._session = Session(self.algorithm, [], self.setup, state=self._saved)
            self._session.recorder = self.recorder
        return self._session

    def _close(self) -> None:
        if self._session is not None:
            self.state()
            self._session.close()
            self._session = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the engine, whose memory is known by address: its state is a value."""
        kept = vars(self).copy()
        if self._session is not None:
            kept["_saved"] = self.state()
        kept["_session"] = None
        return kept


def _with_outputs(algorithm: Algorithm, state: State) -> State:
    """The state with fresh weights for the outputs that it has not yet."""
    fresh = start_state(algorithm, state.n_features, state.seed)

    def extended(name: str, axis: int) -> np.ndarray:
        old, new = getattr(state, name), getattr(fresh, name)
        more = np.arange(old.shape[axis], new.shape[axis])
        return np.concatenate([old, np.take(new, more, axis)], axis)

    return replace(
        state,
        theta=extended("theta", 1),
        scalars=extended("scalars", 1),
        sums=extended("sums", 1),
        slopes=extended("slopes", 3),
    )


def _like(rows: Rows, model: Rows) -> Rows:
    """The same rows, dense or sparse as ``model`` is."""
    if rows.dense == model.dense:
        return rows
    weight = rows.weight if len(rows.weight) else None
    if model.dense:
        return Rows.from_dense(rows.to_scipy().toarray(), rows.y, weight)
    return Rows.from_csr(rows.to_scipy(), rows.y, weight)
