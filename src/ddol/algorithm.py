"""An algorithm as a value: the parts of Algorithm 1 by name, and the network that they are on.

`ddol.reference.play_round` plays a round of it in plain Python, engines play it compiled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.communicate.graph import Topology, check_count
from ddol.communicate.mixing import Changing, Mixing, metropolis, mixing_for, uniform
from ddol.communicate.topologies import complete
from ddol.update.asking import Asking, asking_of
from ddol.update.budget import Budget, budget_of
from ddol.update.contract import ARRIVAL, DUAL, KEPT, PRIMAL, Update
from ddol.update.losses import REGRESSION, Loss, hinge, one_against_all
from ddol.update.rates import PerAgent, Rate, inverse_sqrt

if TYPE_CHECKING:
    from ddol.communicate.robust import Robust
    from ddol.communicate.talking import Compression, Partners, Talking, Teaching

_TALKING = ("talk", "compress", "talk_to", "teach")
"""Rules of who sends what to whom."""


@dataclass(frozen=True)
class Algorithm:
    """update × communicate × average: everything that decides what a round does.

    Parameters
    ----------
    name : str
    update : Update
        What an agent does alone, such as ``MirrorDescent(euclidean)``.
    loss : Loss
    rate : callable of the round t = 1, 2, …
    C : float
        Weight of the loss in the objective C·loss + λ‖w‖²/2.
    average : "dual" or "primal", a rule such as "clip:1" or "trim:1", or a function
        The space in which neighbours average; or, in the dual, how, so that some false messages do no harm:
        see `ddol.communicate.robust`. A rule is kept as `robust`.
    mixing : Mixing or Changing
        The matrix A: set by `on`.
    batch, period, delay : int
        Examples per agent and round; rounds between two communications; rounds between a prediction
        and its answer.
    outputs : int
        1, or the number of classes, which the loss learns together or one against all.
    gradient : "kept", "arrival" or None
        Where the gradient of a late answer is taken: at the weights that predicted, or at those of now. None
        is the update's own way: "arrival" for `adaptive`, `coin` and `newton`, "kept" for the paper's.
    query : Asking, float, str or None
        When agents ask for answers; see `ddol.update.asking`. All of them if it is None.
    talk, compress, talk_to, teach
        When agents send, how messages are written, to whom they go, and what is taught; see
        `ddol.communicate.talking`. Everything, to all neighbours and after every period, if they are None.
    safe : bool
        Every agent keeps a learner of its own beside the shared one, and predicts with a mixture of both; see
        `ddol.safe`.
    trust : "test" or None
        Average only with neighbours whose weights predict an agent's own examples well; see
        `ddol.update.trust`. None is "test" for safe agents whose messages can be tested, else "all".
    memories : tuple of float
        Rounds after which examples count 1/e, of learners whose mixture predicts; where safe, the first and
        the last of them. See `ddol.adaptive` with the memory "auto".
    privacy : Budget, str or None
        What messages may tell of one example, such as "epsilon:4". They are differentially private, and
        the agent's own learner, which is not sent, sees no noise; so it is `safe`. See `ddol.private`.
    recipe : dict or None
        How a preset made it, in plain values: what a saved model needs to score again.

    Examples
    --------
    >>> import ddol
    >>> gradient_descent = Algorithm("mine", ddol.MirrorDescent(l2=0.1), rate=lambda t: 0.5 / t)
    >>> placed = gradient_descent.on(ddol.ring(8), period=4)
    >>> placed.n_agents, placed.mixing.topology.name, placed.period
    (8, 'ring', 4)
    """

    name: str
    update: Update
    loss: Loss = hinge
    rate: Rate = field(default_factory=inverse_sqrt)
    C: float = 1.0
    average: str | Any = DUAL
    mixing: Mixing | Changing = field(default_factory=lambda: uniform(complete(1)))
    batch: int = 1
    period: int = 1
    delay: int = 0
    outputs: int = 1
    average_iterates: bool = False
    gradient: str | None = None
    query: Asking | float | str | None = None
    talk: Talking | str | None = None
    compress: Compression | str | None = None
    talk_to: Partners | int | str | None = None
    teach: Teaching | int | str | None = None
    safe: bool = False
    trust: str | None = None
    memories: tuple[float, ...] = ()
    privacy: Budget | str | None = None
    robust: Robust | None = None
    recipe: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.C < math.inf:
            raise ValueError(f"`C` must be a positive number, it is {self.C}")
        if self.average not in (DUAL, PRIMAL):
            self._read_rule()
        for name, least in (("batch", 1), ("period", 1), ("delay", 0), ("outputs", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"`{name}` must be a whole number ≥ {least}, it is {value!r}")
        if not callable(self.rate):
            raise TypeError(f"`rate` must be a function of the round, it is {self.rate!r}")
        if isinstance(self.rate, PerAgent) and self.n_agents not in (1, len(self.rate.factors)):
            raise ValueError(
                f"`rate` is given for {len(self.rate.factors)} agents, expected {self.n_agents}"
            )
        if self.outputs > 1 and self.loss.task == REGRESSION:
            raise ValueError(f"the loss {self.loss.name} is for regression, which has one output")
        object.__setattr__(self, "query", asking_of(self.query))
        if self.asking is not None:
            self._check_asking(self.asking)
        if self.gradient not in (None, KEPT, ARRIVAL):
            raise ValueError(f"`gradient` must be 'kept' or 'arrival', it is {self.gradient!r}")
        if self.trust not in (None, "test", "all"):
            raise ValueError(f"`trust` must be 'test' or 'all', it is {self.trust!r}")
        if self.trust == "test" and not self._can_test:
            raise ValueError(
                f"`trust`: messages of {self.name} hold a whole matrix and cannot be tested; leave trust out"
            )
        object.__setattr__(self, "memories", tuple(map(float, self.memories)))
        if self.privacy is not None:
            self._check_private()
        two, fresh = self.has_mixture, self.at_arrival
        if self.privacy is not None and self.outputs > 1:  # noise is for one output at a time
            object.__setattr__(self, "loss", one_against_all(self.loss))
        update = self._with_own_learner() if two else self.update.alone()
        told = update.with_gradient(fresh).with_delay(0 if fresh else self.delay)
        told = told.with_outputs(self.outputs).with_period(self.period if self.n_agents > 1 else 1)
        told = told.with_chosen_answers(self.asking is not None and self.asking.by_margin)
        object.__setattr__(self, "update", told)
        if self.chooses_messages:
            self._read_rules()

    @property
    def has_mixture(self) -> bool:
        """Whether agents have several learners."""
        return self.safe or self.trust == "test" or bool(self.memories)

    @property
    def tests(self) -> bool:
        """Whether agents test what neighbours send before it counts."""
        tested = self.trust == "test" or (self.safe and self.trust is None and self._can_test)
        return tested and self.n_agents > 1 and not isinstance(self.mixing, Changing)

    @property
    def _can_test(self) -> bool:
        """Whether a message can be tried on a few features: not that of a full matrix."""
        learner = getattr(self.update, "learner", self.update)
        return not learner.layout(DUAL, 2).whole

    def _with_own_learner(self) -> Update:
        """The update with a learner of the agent's own beside it."""
        from ddol.update.safe import Safe

        asking = self.asking
        if asking is not None and asking.neighbours:
            raise ValueError(
                "`query` with +neighbours does not go with `safe`, which learns from true labels only: "
                "leave +neighbours out"
            )
        if self.teach is not None:
            raise ValueError(
                "`teach` does not go with `safe`, which learns from an agent's own examples"
            )
        owns = self.safe or self.trust == "test"
        mixes = self.safe or bool(self.memories)
        if self.memories and owns and not self.safe:
            raise ValueError(
                "`trust` with several memories needs `safe`: set both, or leave trust out"
            )
        wires = 0
        if self.tests:
            assert isinstance(self.mixing, Mixing)
            wires = int(np.diff(self.mixing.csr()[0]).max())
        update = self.update
        safe = (
            update
            if isinstance(update, Safe)
            else Safe(update, self.loss, self.n_agents, self.mixing.at_once)
        )
        learner = self._private(safe.learner)
        safe = safe if learner is safe.learner else replace(safe, learner=learner)
        return safe.told(self.loss, mixes, wires, owns, self.memories)

    def _private(self, learner: Update) -> Update:
        """The learner with a privacy budget, where there is one and the learner has none yet."""
        if self.privacy is None:
            return learner
        from ddol.update.private import Private

        assert isinstance(self.privacy, Budget)
        known = isinstance(learner, Private)
        return learner if known else Private(learner.with_network(1), self.privacy)

    def _check_private(self) -> None:
        """Read the budget, and refuse what would tell of examples beside messages."""
        object.__setattr__(self, "privacy", budget_of(self.privacy))
        if not self.classification:
            raise ValueError(
                f"`privacy` is for classes; the loss {self.loss.name} is for numbers, whose gradients "
                "have no bound that is known beforehand"
            )
        telling = {"query": self.query, "talk_to": self.talk_to, "teach": self.teach}
        telling |= {"trust": self.trust if self.trust == "test" else None}
        for name, rule in telling.items():
            if rule is not None:
                raise ValueError(
                    f"`{name}` does not go with `privacy`: what it decides follows from an agent's own "
                    "examples, and shows in messages; leave one out"
                )
        if self.memories:
            raise ValueError("`privacy` goes with one memory of all examples; leave memory out")
        object.__setattr__(self, "safe", True)
        object.__setattr__(self, "trust", "all")

    def _read_rule(self) -> None:
        """Make a value of a rule of averages, and refuse what has none."""
        from ddol.communicate.robust import AVERAGES, robust_of

        robust = robust_of(self.average)
        if robust is None:
            names = ", ".join(f"{name}:1" for name in AVERAGES)
            raise ValueError(
                f"`average` must be 'dual', 'primal', a rule ({names}) or a function, it is {self.average!r}"
            )
        if self.update.experts:
            raise ValueError(
                f"`average` {robust.name} does not go with weighted majority, whose averages are of votes' "
                "weights; leave it out"
            )
        object.__setattr__(self, "robust", robust)
        object.__setattr__(self, "average", DUAL)

    def _read_rules(self) -> None:
        """Make values of the rules of talking that are given as text; few algorithms have any."""
        from ddol.communicate.talking import RULES

        for name in _TALKING:
            object.__setattr__(self, name, RULES[name](getattr(self, name)))

    def _check_asking(self, asking: Asking) -> None:
        """Refuse rules that this algorithm cannot follow."""
        if not self.classification:
            raise ValueError(f"`query` is for classes; the loss {self.loss.name} is for regression")
        if self.batch > 1:
            raise ValueError(f"`query` needs one example a round, `batch` is {self.batch}")
        if asking.kind == "experts" and not self.update.experts:
            raise ValueError(
                "`query` is experts, expected an algorithm with experts, such as dwm_i"
            )
        if self.update.experts and self.outputs > 1:
            raise ValueError("`query` is for experts' advice in two classes")

    @property
    def asking(self) -> Asking | None:
        """When agents ask for answers; None where they ask for all."""
        assert self.query is None or isinstance(self.query, Asking)
        return self.query

    @property
    def at_arrival(self) -> bool:
        """Whether the gradient of a late answer is taken at the weights of now."""
        chosen = self.update.gradient if self.gradient is None else self.gradient
        return chosen == ARRIVAL and not self.update.experts

    @property
    def chooses_messages(self) -> bool:
        """Whether it is decided on the way who sends what to whom: such runs play events."""
        return any(getattr(self, name) is not None for name in _TALKING)

    @property
    def draws(self) -> bool:
        """Whether anything is drawn at random: predictions, or which answers to ask for."""
        return self.update.randomized or self.asking is not None

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return self.mixing.n_agents

    @property
    def graph(self) -> Topology:
        """Who talks to whom; that of the first round where a changing matrix says no more."""
        return self.mixing.topology or self.mixing.at(1).topology

    @property
    def classification(self) -> bool:
        """Whether predictions are classes, which can be wrong."""
        return self.loss.task != REGRESSION

    def on(self, topology: Topology | int, mixing: Any = None, **changes: Any) -> Algorithm:
        """Place the algorithm on a network.

        Parameters
        ----------
        topology : Topology, or the number of agents of a complete graph
        mixing : None, "uniform", "metropolis", "tested", a matrix, a Mixing or a callable of t
            None is uniform on the complete graph and Metropolis elsewhere; "tested" is short for
            ``trust="test"``.

        Examples
        --------
        >>> from ddol.communicate.topologies import ring
        >>> from ddol.presets import dogd
        >>> dogd().on(ring(8), period=4).n_agents
        8
        """
        graph = topology
        if isinstance(mixing, str) and mixing == "tested":
            changes, mixing = {"trust": "test", **changes}, None
        if not isinstance(graph, Topology):
            graph = complete(check_count(graph, "topology"))
        if mixing is None:
            mixing = uniform(graph) if graph.is_complete else metropolis(graph)
        matrix = mixing_for(mixing, graph)
        update = self.update.with_network(matrix.n_agents, matrix.at_once)
        return replace(self, mixing=matrix, update=update, **changes)
