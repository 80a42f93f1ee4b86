"""The local engine: one worker hosts all agents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.setup import Setup
from ddol.engines.state import State, grow
from ddol.engines.workers.partition import Partition, Snapshots
from ddol.engines.workers.shares import part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.streams.rows import Block, Rows


class Local:
    """Rounds of all agents in this thread.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Copied; `state()` returns the present one at any time.
    """

    name = "local"
    workers = 1

    def __init__(self, algorithm: Algorithm, state: State) -> None:
        self.algorithm = algorithm
        # A part, though it is all: in memory that begins with a cache line, vectors cross none.
        own = part_of(state, 0, algorithm.n_agents)
        self.worker = KernelWorker(algorithm, own, Partition(0, algorithm.n_agents))

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Local:
        """One worker, whatever the setup asks for."""
        return cls(algorithm, state)

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block; see `ddol.engines.registry.Engine`."""
        check_block(self.algorithm, block)
        self._widen(block.rows.n_features)
        self.worker.play_block(block, after)
        return self.worker.snapshots

    def scores(self, rows: Rows, agent: int | None = None) -> np.ndarray:
        """Scores (n, outputs) by an agent, or the mean of all agents' scores."""
        self._widen(rows.n_features)
        copies = len(self.worker.state.theta)
        if agent is not None or copies == 1:
            return self.worker.scores(rows, agent if agent and copies > 1 else 0)
        return np.mean([self.worker.scores(rows, copy) for copy in range(copies)], axis=0)

    def _widen(self, n_features: int) -> None:
        if n_features > self.worker.state.n_features:
            self.worker.adopt(grow(self.algorithm, self.worker.state, n_features))

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


def check_block(algorithm: Algorithm, block: Block) -> None:
    """Refuse a block that was dealt for another number of agents or another batch."""
    found, expected = block.table.shape[1:], (algorithm.n_agents, algorithm.batch)
    if found != expected:
        raise ValueError(
            f"the block was dealt to {found[0]} agents in batches of {found[1]}, expected "
            f"{expected[0]} agents and batches of {expected[1]}"
        )


def check_examples(algorithm: Algorithm, block: Block) -> None:
    """Refuse rows that do not exist and labels that are not encoded: the kernel trusts both."""
    rows, table = block.rows, block.table
    if table.size and not (table.min() >= -1 and table.max() < len(rows)):
        raise ValueError(
            f"the block's table names rows {table.min()} to {table.max()}, expected 0 to "
            f"{len(rows) - 1}, or -1 for none"
        )
    if not algorithm.classification:
        return
    classes = [-1.0, 1.0] if algorithm.outputs == 1 else list(range(algorithm.outputs))
    strange = np.flatnonzero(~np.isin(rows.y, classes))
    if strange.size:
        raise ValueError(
            f"found label {rows.y[strange[0]]:g} in row {strange[0]} of the block, expected one of "
            f"{', '.join(f'{c:g}' for c in classes[:10])}; ddol.run encodes labels by itself"
        )
