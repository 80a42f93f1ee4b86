"""Agents that go on learning from one call to the next."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.session import Session, Setup
from ddol.engines.state import State, start_state
from ddol.estimators.arrival import table_by_arrival
from ddol.measure.trace import Recorder, Trace
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows, concatenate


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
        if self.setup.engine != "local":
            self._close()
        self.seconds += time.perf_counter() - began

    @property
    def rounds(self) -> int:
        """Rounds played so far, without the open one."""
        engine = self._session and self._session.engine
        if engine:
            return engine.counters().rounds
        return self._saved.rounds if self._saved else 0

    def state(self) -> State:
        """The state after the last full round."""
        if self._saved is None:
            assert self._session is not None and self._session.engine is not None
            self._saved = self._session.engine.state()
        return self._saved

    def adopt(self, algorithm: Algorithm, state: State) -> None:
        """Go on with another algorithm, from a state that fits it."""
        self._close()
        self.algorithm, self._saved = algorithm, state

    def weights(self) -> np.ndarray:
        """Weights (copies, outputs, D) with which agents predict, averaged over rounds if asked for."""
        engine = self._ended().engine
        assert engine is not None
        counters = engine.counters()
        if counters.sums.size:
            return counters.sums / max(counters.rounds, 1)
        return engine.weights()

    def trace(self) -> Trace:
        """The run so far, as if the stream ended here."""
        trace = self._ended(with_curves=True).finish()
        return replace(trace, engine=self.setup.engine, workers=self.workers, seconds=self.seconds)

    def _ended(self, with_curves: bool = False) -> Session:
        """A session in which the open round is played and late answers have come."""
        untouched = self.waiting is None or len(self.waiting) == 0
        if untouched and not self.algorithm.delay and self._session and not with_curves:
            return self._session
        session = Session(
            self.algorithm, [], Setup(seed=self.setup.seed), state=self._present_state()
        )
        session.recorder = copy.deepcopy(self.recorder)
        if self.waiting is not None and len(self.waiting):
            for _ in session.play(Block(self.waiting, self._open_table())):
                pass
        if self.algorithm.delay and not with_curves:
            session.finish()
        return session

    def _present_state(self) -> State:
        if self._saved is None and self._session is None:
            return start_state(self.algorithm, self._n_features(self.waiting), self.setup.seed)
        return self.state()

    def _n_features(self, rows: Rows | None) -> int:
        return max(self.setup.n_features or 0, rows.n_features if rows is not None else 0)

    def _open_table(self) -> np.ndarray:
        assert self.waiting is not None
        n, batch = self.algorithm.n_agents, self.algorithm.batch
        if self.waiting_agents is None:
            return table_round_robin(len(self.waiting), n, batch)
        return table_by_arrival(self.waiting_agents, n, batch)

    def _learn_by_turns(self, rows: Rows) -> None:
        n, batch = self.algorithm.n_agents, self.algorithm.batch
        size = n * batch
        if self.waiting is not None and len(self.waiting):
            missing = size - len(self.waiting)
            joined = concatenate([_like(self.waiting, rows), rows.slice(0, missing)])
            rows = rows.slice(missing, len(rows))
            self.waiting = joined
            if len(joined) < size:
                return
            self.play(Block(joined, table_round_robin(size, n, batch)))
        whole = len(rows) // size * size
        self.play(Block(rows, table_round_robin(whole, n, batch)))
        self.waiting = rows.take(np.arange(whole, len(rows)))

    def _learn_by_arrival(self, rows: Rows, agents: np.ndarray) -> None:
        n, batch = self.algorithm.n_agents, self.algorithm.batch
        if self.waiting is not None and self.waiting_agents is not None:
            rows = concatenate([_like(self.waiting, rows), rows])
            agents = np.concatenate([self.waiting_agents, agents])
        table = table_by_arrival(agents, n, batch)
        last = table[-1]
        full = len(table) if np.all(last >= 0) else len(table) - 1
        left = np.sort(last[last >= 0]) if full < len(table) else np.empty(0, np.int64)
        self.play(Block(rows, table[:full]))
        self.waiting, self.waiting_agents = rows.take(left), agents[left]

    def _check_agents(self, agents: np.ndarray | None) -> None:
        if self.waiting is not None and (self.waiting_agents is None) != (agents is None):
            raise ValueError(
                "`agents` must be given in every call or in none: rows go to the agents that they "
                "name, or to all agents in turn"
            )

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


def _like(rows: Rows, model: Rows) -> Rows:
    """The same rows, dense or sparse as ``model`` is."""
    if rows.dense == model.dense:
        return rows
    weight = rows.weight if len(rows.weight) else None
    if model.dense:
        return Rows.from_dense(rows.to_scipy().toarray(), rows.y, weight)
    return Rows.from_csr(rows.to_scipy(), rows.y, weight)
