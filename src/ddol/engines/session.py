"""A run between two blocks: its engine, what it remembers, and the way back to an earlier moment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.faults import LargestValue
from ddol.engines.feed import Feed, Past
from ddol.engines.history import History
from ddol.engines.kinds import engine_named, imported
from ddol.engines.local import Local
from ddol.engines.open_round import OpenRound
from ddol.engines.pace import Pace, Pieces, Stopwatch
from ddol.engines.plans import plan_of
from ddol.engines.processes import Processes
from ddol.engines.progress import Progress
from ddol.engines.registry import Engine
from ddol.engines.setup import Setup
from ddol.engines.state import State, numbers_in_round, start_state, with_outputs
from ddol.engines.state_checks import check_memory, check_start
from ddol.storage import damaged
from ddol.streams.rows import Block
from ddol.streams.stream import Position


class Session:
    """A run between two blocks.

    Its engine is opened when it is first needed, and can be closed and opened again at any state. In between
    the session has no threads or processes, and can be pickled. Parameters are those of
    `ddol.engines.learner.Learner`, which feeds it.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        setup: Setup | None = None,
        state: State | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.setup = setup or Setup()
        self.plan = plan_of(algorithm, self.setup)
        self.mixing = algorithm.mixing
        """As it was given; the plan may have written it out."""
        self.on_progress = on_progress
        self.on_predicted: Callable[[Block], None] | None = None
        """Called with every piece that was played, and the scores its rows were predicted with."""
        self.history = History(algorithm, state)
        self.open_round = OpenRound(algorithm.n_agents, algorithm.batch)
        self.feed = Feed()
        self.position: Position | None = None
        self.stopwatch = Stopwatch()
        self.engine: Engine | None = None
        self.start = state
        """The state at which the engine is opened next; None for a beginning."""
        self.pieces = Pieces(
            algorithm.n_agents * algorithm.batch, isinstance(algorithm.mixing, Changing)
        )
        self.largest: LargestValue | None = None
        """The largest value in the rounds in which a loss was first not finite."""
        self._plan_state: dict[str, np.ndarray] = {}
        """The plan's part of `start`."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm on its network, as it is played."""
        return self.plan.algorithm

    @cached_property
    def processes(self) -> Processes:
        """The processes that play this run together."""
        found: Processes = imported(engine_named(self.setup.engine).processes)()
        return found

    # The engine.

    def opened(self, n_features: int) -> Engine:
        """The engine, opened for at least so many features where there is none yet."""
        if self.engine is None:
            first = self.first_state(n_features)
            if self.start is not None:
                check_start(self.algorithm, first, self.plan.separate, self.processes.agents)
            plan_state, self._plan_state = self._plan_state, {}
            self.engine = self.open_at(first, plan_state)
            width = self.engine.counters().n_features
            self.pieces.pace = Pace.of(numbers_in_round(self.algorithm, width))
        return self.engine

    def open_at(
        self,
        state: State,
        plan_state: Mapping[str, np.ndarray],
        where: str = "the earlier moment",
    ) -> Engine:
        """Open another engine at a state that was checked or made here, and at the plan's part of it."""
        engine = self.plan.open(state, self.feed)
        if plan_state:
            with damaged(where, "checkpoint"):
                self.plan.load_state_dict(engine, plan_state, where)
        return engine

    def first_state(self, n_features: int) -> State:
        """The state at which the engine is opened next, for at least so many features."""
        if self.start is not None:
            return self.start
        width = max(self.setup.n_features or 0, n_features, self.feed.n_features)
        check_memory(self.algorithm, width, self.plan.separate)
        return start_state(self.algorithm, width, self.setup.seed, self.processes.agents)

    def grow(self, outputs: int) -> None:
        """Make room for classes that have not been seen before; they begin now."""
        if outputs <= self.algorithm.outputs:
            return
        if self.plan.separate:
            raise ValueError(
                f"found class {outputs} after messages of {self.algorithm.outputs} classes were sent; name "
                "all classes beforehand (--labels), or leave out talk, compress and talk_to"
            )
        self.close()
        self.plan.grow(outputs)
        if self.start is not None:
            self.start = with_outputs(self.algorithm, self.start)

    def close(self, keep: bool = True) -> None:
        """Close the engine, which frees its threads; it is opened again when it is needed.

        Parameters
        ----------
        keep : bool
            Whether the state is kept for that.
        """
        if self.engine is not None:
            try:
                if keep:
                    self.start = self.engine.state()
            finally:
                self.engine.close()
                self.engine = None

    # The state after the last full round.

    def state(self, copy: bool = True) -> State:
        """The state after the last full round.

        Parameters
        ----------
        copy : bool
            In memory of its own; else, where one engine holds all of it, that is good until the next block.
        """
        if self.engine is None:
            waiting = self.open_round.rows
            return self.first_state(0 if waiting is None else waiting.n_features)
        if copy or not isinstance(self.engine, Local):
            return self.engine.state()
        return self.engine.counters()

    def counters(self) -> State:
        """Counters after the last full round, to be read only."""
        return self.opened(0).counters()

    # Going back.

    def past(self) -> Past:
        """This moment without the state."""
        plan_state = {} if self.engine is None else self.plan.state_dict(self.engine)
        curves = self.history.curves.to_dict()
        return Past(self.position, curves, copy.copy(self.open_round), plan_state)

    def moment(self) -> tuple[State | None, Past]:
        """The state and the past, to come back to this moment."""
        return (None if self.engine is None else self.state()), self.past()

    def go_back(self, state: State | None, past: Past, where: str = "the earlier moment") -> None:
        """Go back to an earlier moment; without a state it is the beginning."""
        self.position = past.position
        self.history.restore(past.curves)
        if past.open_round is None:
            self.open_round = OpenRound(self.algorithm.n_agents, self.algorithm.batch)
        else:
            self.open_round = copy.copy(past.open_round)
        began = self.start if state is None else state
        self.engine = None if began is None else self.open_at(began, past.kept, where)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the engine, whose memory is known by address: its state is a value."""
        kept = vars(self).copy()
        kept.pop("processes", None)
        if self.engine is not None:
            kept["start"] = self.engine.state()
            kept["_plan_state"] = self.plan.state_dict(self.engine)
        return kept | {"engine": None, "on_progress": None, "stopwatch": self.stopwatch.stopped()}
