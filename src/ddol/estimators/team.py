"""The agents of one estimator: who they are, where they sit, and what they have learned."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from ddol.algorithm import Algorithm
from ddol.communicate.graph import Topology
from ddol.communicate.mixing import Changing, Mixing
from ddol.engines.learner import Learner, Setup
from ddol.engines.registry import ENGINES
from ddol.estimators.arrival import AgentNames
from ddol.estimators.examples import Examples
from ddol.estimators.setting import Network

COUNT = Interval(Integral, 1, None, closed="left")
CONSTRAINTS: dict[str, Any] = {
    "n_agents": [COUNT, None],
    "topology": [str, Topology, HasMethods(["nodes", "edges"]), "array-like", callable, None],
    "mixing": [
        StrOptions({"uniform", "metropolis"}),
        Mixing,
        Changing,
        "array-like",
        callable,
        None,
    ],
    "engine": [StrOptions(set(ENGINES))],
    "workers": [COUNT, None],
    "batch": [COUNT, None],
    "period": [COUNT, None],
    "delay": [Interval(Integral, 0, None, closed="left"), None],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
"""Parameters that every estimator has because it has agents."""


@dataclass
class Team:
    """Agents in the middle of learning.

    Parameters
    ----------
    learner : Learner
    names : AgentNames
    rng : Generator
        Of the orders in which rows are learned from.
    """

    learner: Learner
    names: AgentNames
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        estimator: Any,
        algorithm: Algorithm,
        n_features: int,
        agents: Any = None,
        stream: bool = False,
    ) -> Team:
        """Agents as the parameters of an estimator say; they know nothing yet.

        Parameters
        ----------
        estimator : with the parameters of `CONSTRAINTS`
        algorithm : Algorithm
            Not placed on the network yet.
        n_features : int
            Features that agents see.
        agents : (n,), optional
            Agents of the first rows, where nothing else says how many there are.
        stream : bool
            Whether more rows are to come, which may name other agents.
        """
        seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
        names = AgentNames(by_arrival=stream)
        named = None if agents is None else int(names.numbers(agents).max()) + 1
        network = Network(estimator.n_agents, estimator.topology, estimator.mixing)
        setup = Setup(estimator.engine, estimator.workers, seed, n_features)
        learner = Learner(network.place(algorithm, named, seed), setup)
        return cls(learner, names, np.random.default_rng(seed))

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm on its network."""
        return self.learner.algorithm

    @property
    def seed(self) -> int:
        """Seed of everything that is drawn."""
        return self.learner.setup.seed

    def numbers(self, agents: Any, n_rows: int) -> np.ndarray | None:
        """Agent of each row, or None where rows are dealt in turn."""
        if agents is None:
            return None
        numbers = self.names.numbers(agents, self.algorithm.n_agents)
        if numbers.shape != (n_rows,):
            raise ValueError(
                f"`agents` must name one agent for each of the {n_rows} rows, it has the shape "
                f"{numbers.shape}"
            )
        return numbers

    def play(self, examples: Examples, shuffle: bool) -> None:
        """One pass over all examples; the last round is played even if it is not full."""
        order = self.rng if shuffle else None
        for block in examples.deal(self.algorithm.n_agents, self.algorithm.batch, order):
            self.learner.play(block)

    def learn(self, examples: Examples) -> None:
        """The next rows of a stream, in their order."""
        self.learner.learn(*examples.in_sequence())
