"""The local engine: all agents in this thread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.registry import Turns
from ddol.engines.setup import Setup
from ddol.engines.state import State, grow
from ddol.engines.state_checks import check_block, check_examples
from ddol.engines.workers.partition import Snapshots
from ddol.engines.workers.worker import KernelWorker, worker_of_all
from ddol.streams.rows import Block, Rows


class Local:
    """All agents in this thread: they play tables of rounds, or lists of events.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Copied; `state()` returns the present one at any time.
    turns : Turns, optional
        Plays lists of events from this state on; rounds are played if it is not given.
    """

    name = "local"
    workers = 1

    def __init__(self, algorithm: Algorithm, state: State, turns: Turns | None = None) -> None:
        self.algorithm, self.turns = algorithm, turns
        if turns is None:
            self._worker = worker_of_all(algorithm, state)

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Local:
        """Open it for rounds, or for the schedule of the setup."""
        schedule = setup.schedule
        if not schedule.needs_events(algorithm):
            return cls(algorithm, state)
        if schedule.patient:
            from ddol.engines.events.patient import PatientTurns

            return cls(algorithm, state, PatientTurns(algorithm, state, schedule))
        from ddol.engines.events.scheduled import ScheduledTurns

        return cls(algorithm, state, ScheduledTurns(algorithm, state, schedule))

    @property
    def worker(self) -> KernelWorker:
        """The worker of all agents."""
        found: KernelWorker = self._worker if self.turns is None else self.turns.kernel_workers[0]
        return found

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play a block; see `ddol.engines.registry.Engine`."""
        if self.turns is not None:
            return self.turns.play(block, after)
        check_block(self.algorithm, block)
        self._widen(block.rows.n_features)
        self._worker.play_block(block, after)
        return self._worker.snapshots

    def scores(self, rows: Rows, agent: int | None = None) -> np.ndarray:
        """Scores (n, outputs) by an agent, or the mean of all agents' scores; of rounds only."""
        self._widen(rows.n_features)
        copies = len(self.worker.state.theta)
        if agent is not None or copies == 1:
            return self.worker.scores(rows, agent if agent and copies > 1 else 0)
        return np.mean([self.worker.scores(rows, copy) for copy in range(copies)], axis=0)

    def _widen(self, n_features: int) -> None:
        if n_features > self._worker.state.n_features:
            self._worker.adopt(grow(self.algorithm, self._worker.state, n_features))

    def state(self) -> State:
        """The state as it is now, in memory of its own."""
        return self.worker.state.copy()

    def counters(self) -> State:
        """The live state, for reading counters between blocks without a copy."""
        return self.worker.state

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""
        return self.worker.weights()

    def close(self) -> None:
        """Nothing to close."""


def advance(algorithm: Algorithm, state: State, block: Block) -> State:
    """Play the rounds of one block: the one way that rounds happen.

    Examples
    --------
    >>> from ddol.engines.state import start_state
    >>> from ddol.presets import dogd
    >>> from ddol.streams.rows import Rows
    >>> algorithm = dogd(l2=0.0).on(2)
    >>> rows = Rows.from_dense([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0])
    >>> state = advance(algorithm, start_state(algorithm, 2), Block(rows, np.array([[[0], [1]]])))
    >>> state.t, state.mistakes.tolist()
    (2, [0, 1])
    """
    check_examples(algorithm, block)
    engine = Local(algorithm, state)
    engine.play(block)
    return engine.state()
