"""The agents of one estimator: who they are, where they sit, and what they have learned."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from ddol.algorithm import Algorithm
from ddol.communicate.graph import Topology
from ddol.communicate.mixing import Changing, Mixing
from ddol.communicate.talking import Compression, Partners, Talking, Teaching
from ddol.engines.kinds import ENGINES
from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.engines.setup import Setup
from ddol.estimators.agent_ids import AgentIds
from ddol.estimators.placing import later_names, network_of
from ddol.estimators.training_rows import TrainingRows
from ddol.job.algorithm import on_network
from ddol.knowledge import Knowledge
from ddol.model import Model
from ddol.streams.coding.encoding import Encoding
from ddol.trace import Trace
from ddol.update.asking import Asking

COUNT = Interval(Integral, 1, None, closed="left")
_LEAST_0 = Interval(Integral, 0, None, closed="left")
QUERY = [Interval(Real, 0, 1, closed="both"), str, Asking, None]
"""`query`, of those that learn classes."""


@dataclass(eq=False, repr=False)
class AgentsEstimator(BaseEstimator):
    """An estimator of scikit-learn with agents; its fields are its parameters.

    `DDOLClassifier` says what they mean.
    """

    _: KW_ONLY
    n_agents: int | None = None
    topology: Any = None
    mixing: Any = None
    engine: str = "local"
    workers: int | None = None
    batch: int | None = None
    period: int | None = None
    delay: int | None = None
    gradient: str | None = None
    talk: Any = None
    compress: Any = None
    talk_to: Any = None
    teach: Any = None
    shuffle: bool = True
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_agents": [COUNT, None],
        "topology": [str, Topology, HasMethods(["nodes", "edges"]), "array-like", callable, None],
        "mixing": [
            StrOptions({"uniform", "metropolis", "tested"}),
            Mixing,
            Changing,
            "array-like",
            callable,
            None,
        ],
        "engine": [StrOptions(ENGINES.keys())],
        "workers": [COUNT, None],
        "batch": [COUNT, None],
        "period": [COUNT, None],
        "delay": [_LEAST_0, None],
        "gradient": [StrOptions({"kept", "arrival"}), None],
        "talk": [str, Talking, None],
        "compress": [str, Compression, None],
        "talk_to": [COUNT, str, Partners, None],
        "teach": [_LEAST_0, str, Teaching, None],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted({*super()._get_param_names(), *later_names(cls)})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, those of presets included."""
        for name in later_names(type(self)):
            self.__dict__.setdefault(name, None)
        return dict(super().get_params(deep))


@dataclass
class LearningAgents:
    """The agents of one estimator, in the middle of learning.

    Parameters
    ----------
    learner : Learner
    ids : AgentIds
    rng : Generator
        Of the orders in which rows are learned from.
    """

    learner: Learner
    ids: AgentIds
    rng: np.random.Generator
    _at_rest: Trace | None = None

    @classmethod
    def of(
        cls,
        estimator: AgentsEstimator,
        algorithm: Algorithm,
        n_features: int,
        agents: Any = None,
        stream: bool = False,
    ) -> LearningAgents:
        """Agents by the parameters of an estimator, before they learn.

        Parameters
        ----------
        estimator : AgentsEstimator
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
        network = network_of(estimator, seed)
        ids = AgentIds(network.known_agents, as_they_come=stream)
        named = None if agents is None else int(ids.numbers(agents).max()) + 1
        setup = Setup(estimator.engine, estimator.workers, seed, n_features)
        learner = Learner(on_network(algorithm, network, named), setup)
        if estimator.verbose > 1:
            learner.on_progress = Doublings()
        return cls(learner, ids, np.random.default_rng(seed))

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm on its network."""
        return self.learner.algorithm

    @property
    def seed(self) -> int:
        """Seed of everything that is drawn."""
        return self.learner.setup.seed

    @property
    def known(self) -> list[Any]:
        """Ids of the agents in their order: those that rows named, or their numbers."""
        n = self.algorithm.n_agents
        return (
            self.ids.known + list(range(len(self.ids.known), n))
            if self.ids.known
            else list(range(n))
        )

    def numbers(self, agents: Any, n_rows: int) -> np.ndarray | None:
        """Agent of each row, or None where rows are dealt in turn."""
        if agents is None:
            return None
        numbers = self.ids.numbers(agents, self.algorithm.n_agents)
        if numbers.shape != (n_rows,):
            raise ValueError(
                f"`agents` must name one agent for each of the {n_rows} rows, it has the shape "
                f"{numbers.shape}"
            )
        return numbers

    def play(self, rows: TrainingRows, shuffle: bool) -> None:
        """One pass over all rows; the last round is played even if it is not full."""
        n, batch, self._at_rest = self.algorithm.n_agents, self.algorithm.batch, None
        self.learner.play(rows.deal(n, batch, self.rng if shuffle else None))

    def learn(self, rows: TrainingRows) -> None:
        """The next rows of a stream, in their order."""
        self._at_rest = None
        self.learner.learn(*rows.in_sequence())

    @property
    def trace(self) -> Trace:
        """The run so far."""
        return self.learner.trace() if self._at_rest is None else self._at_rest

    def rest(self) -> None:
        """Release threads, actors and a cluster of our own; learning on opens others."""
        if self.learner.setup.can.parallel:
            self._at_rest = self.learner.trace()
            self.learner.close()

    def model(self, weights: np.ndarray, encoding: Encoding) -> Model:
        """What predicts as the agents would now.

        Parameters
        ----------
        weights : (copies, outputs, D)
            Of the learner, now.
        encoding : Encoding
            Of the rows.
        """
        algorithm, known = self.algorithm, None
        if not algorithm.average_iterates:
            ended = self.learner.ended()
            known = Knowledge(algorithm, ended.theta.copy(), ended.scalars.copy())
        training = {"agents": algorithm.n_agents}
        return Model(weights.mean(axis=0), encoding, training=training, known=known)

    @property
    def tells_of_nan(self) -> bool:
        """Whether a row that is not finite makes the loss NaN; no where processes must agree beforehand."""
        loops = self.algorithm.update.loops(self.algorithm.average)
        return loops.propagates_nan and not self.learner.setup.can.replicated

    @property
    def is_finite(self) -> bool:
        """Whether the loss so far is a number, and so are the rows that wait for others."""
        waiting = self.learner.open_round.rows
        learned = np.isfinite(self.learner.counters().loss).all()
        return bool(learned and (waiting is None or np.isfinite(waiting.data).all()))


class Doublings:
    """Prints a line whenever the examples have doubled."""

    def __init__(self) -> None:
        self.next = 1

    def __call__(self, progress: Progress) -> None:
        """Print how far the run has come, if it is time to."""
        if progress.examples < self.next:
            return
        self.next = 1 << progress.examples.bit_length()
        parts = [f"{progress.examples:>12,} examples"]
        parts.append(f"mean loss {progress.loss.sum() / progress.examples:.5g}")
        if progress.mistakes.any():
            parts.append(f"error {100 * progress.mistakes.sum() / progress.examples:.2f} %")
        print(", ".join(parts))
