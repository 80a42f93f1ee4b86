"""Synchronous rounds, recorded as events."""

from __future__ import annotations

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events.row_pool import RowNumbers
from ddol.schedules.events import PREDICT, Events
from ddol.schedules.rounds import RoundPlan
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block


class RoundLog:
    """Synchronous rounds, written down as the events that they are: the tables of all, on whatever engine.

    Parameters
    ----------
    algorithm : Algorithm
        Of one example a turn.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        if algorithm.batch > 1:
            raise ValueError(
                f"a recording is of one example a turn, `batch` is {algorithm.batch}; use 1"
            )
        self.algorithm = algorithm
        self.numbers = RowNumbers(algorithm.n_agents)
        self.tables: list[np.ndarray] = []

    def add(self, block: Block) -> None:
        """Rounds that were played."""
        self.tables.append(self.numbers.add(block.table[:, :, 0])[0])

    def fill(self, examples: np.ndarray, passes: int) -> None:
        """Put all rounds of a run in place of those that were added, where no process has seen all.

        Every agent sees its examples one after the other.

        Parameters
        ----------
        examples : (N,) of int
            Those of every agent, in all passes together.
        passes : int
        """
        lengths = examples // passes
        seen = np.arange(int(lengths.max()))[:, None] < lengths
        table = np.where(seen, np.cumsum(seen).reshape(seen.shape) - 1, -1)
        self.numbers = RowNumbers(self.algorithm.n_agents)
        self.tables = [self.numbers.add(table)[0] for _ in range(passes)]

    def events(self, passes: int, n_streams: int) -> Events:
        """All rounds, with those in which the last answers arrive."""
        n, delay = self.algorithm.n_agents, self.algorithm.delay
        table = np.concatenate([*self.tables, np.full((delay, n), -1, np.int64)])
        if self.numbers.count:
            named = self.numbers.in_the_data(passes, n_streams)
            table = np.where(table >= 0, named[table], -1)
        mixing = self.algorithm.mixing
        wires = Wiring.of(mixing)
        events = RoundPlan(wires, self.algorithm.period, delay).events(table)
        if len(wires.sender) == n * n and not mixing.is_uniform_complete:
            # All hear all, with copies of their own: as on the virtual clock a round takes a unit of time.
            events.time[events.kind == PREDICT] -= 1.0
        return events
