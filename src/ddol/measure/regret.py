"""Regret: how much larger the agents' loss is than that of the best fixed weights in hindsight.

R_i = Σ_t f_i^t(w_i^t) − Σ_t f_i^t(w*). The individual regret is R_i, the social regret Σ_i R_i. The
comparator w* is the best expert of weighted majority, counted, and the best weights of the domain for
everything else, found by a solver (`ddol.measure.regret`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.job.run import encoded
from ddol.measure.applicable import BoundExceededWarning, entry
from ddol.measure.replay import bound_on_regret, replay, why_no_bound
from ddol.measure.solvers import Problem, features, linear_program, on_l2_ball, solver_for
from ddol.measure.theorems import DOMD
from ddol.streams.dealing import deal
from ddol.streams.rows import Block, Rows, concatenate
from ddol.streams.stream import Stream
from ddol.trace import Trace
from ddol.update.domains import Domain, everywhere

MOST_ROWS = 10_000
_TIMES_MORE = 10


@dataclass(frozen=True)
class Comparator:
    """Weights that were best in hindsight.

    Parameters
    ----------
    weights : (D,)
    objective : float
        What they cost over all examples.
    gap : float
        The objective is at most this far above the least possible; infinite where that is unknown.
    method : str
        How they were found.

    Examples
    --------
    >>> Comparator(np.zeros(2), 3.0, 0.0, "counted: expert 0").gap
    0.0
    """

    weights: np.ndarray
    objective: float
    gap: float
    method: str


def best_weights(problem: Problem, most_rows: int = MOST_ROWS, seed: int = 0) -> Comparator:
    """The best weights of the domain in hindsight.

    Parameters
    ----------
    problem : Problem
    most_rows : int
        Rows up to which linear programs and problems on the L2 ball are solved as a whole; others are
        up to ten times as many.
    seed : int
        Of the choice of rows beyond that.

    Examples
    --------
    >>> from ddol.update.domains import l1_ball
    >>> from ddol.update.losses import hinge
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> best = best_weights(Problem(X, y, np.ones(2), hinge, 0.0, l1_ball(1.0)))
    >>> best.objective, best.gap < 1e-9
    (1.0, True)
    """
    solve, n = solver_for(problem), len(problem.y)
    slow = solve in (linear_program, on_l2_ball)
    most = most_rows if slow else _TIMES_MORE * most_rows
    if n <= most:
        w, gap, method = solve(problem)
        return Comparator(w, problem.objective(w), gap, method)
    chosen = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    w, _, method = solve(problem.some(chosen))
    label = f"approximation: {method} on {most:,} of {n:,} rows"
    return Comparator(w, problem.objective(w), np.inf, label)


def best_expert(advice: np.ndarray, answers: np.ndarray) -> Comparator:
    """The expert with the fewest mistakes, counted.

    Examples
    --------
    >>> best_expert(np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([1.0, -1.0])).objective
    1.0
    """
    mistakes = np.count_nonzero(advice != answers[:, None], axis=0)
    chosen = int(mistakes.argmin())
    weights = np.eye(advice.shape[1])[chosen]
    return Comparator(weights, float(mistakes[chosen]), 0.0, f"counted: expert {chosen}")


MOST_REPLAYED = 200_000
"""Rounds up to which a run is played again for its regret bound."""
MOST_REPORTED = 20_000
"""Examples up to which a report looks for the regret on its own."""
_QUICK = 2_000


@dataclass(frozen=True)
class Regret:
    """How much more than the comparator the agents paid.

    Parameters
    ----------
    individual : (N,)
        R_i of every agent.
    comparator : Comparator
        The one that all agents are compared with; where each has its own, that of the first.
    rounds : (points,)
        Rounds at which the trace has points.
    social_curve : (points,)
        Σ_i R_i up to those rounds; empty where each agent has a comparator of its own.
    bound_curve : (points,)
        The regret theorem at those rounds; empty where it does not apply.
    bounds : dict
        As in a trace.
    why_no_bound : str
        Why there is none.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((400, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> found = regret(ddol.run(ddol.dogd(), (X, y), 4), (X, y))
    >>> found.individual.shape, found.comparator.method, found.bounds["DOMD"]["holds"]
    ((4,), 'liblinear, hinge with a ridge', True)
    """

    individual: np.ndarray
    comparator: Comparator
    rounds: np.ndarray
    social_curve: np.ndarray
    bound_curve: np.ndarray
    bounds: dict[str, Any]
    why_no_bound: str = ""

    @property
    def social(self) -> float:
        """Σ_i R_i, at most the comparator's gap below the regret against the true optimum."""
        return float(self.individual.sum())


def regret(
    trace: Trace,
    data: Any,
    *,
    passes: int = 1,
    weights: np.ndarray | None = None,
    own: bool = False,
    bound: bool = True,
    most_rows: int = MOST_ROWS,
) -> Regret:
    """Regret of a run over the data that it was given.

    Parameters
    ----------
    trace : Trace
    data : (X, y), one stream, or one for each agent
        The same, in the same order, as the run's.
    passes : int
        Times that the run read them.
    weights : (D,), optional
        The comparator; by default the best in hindsight.
    own : bool
        Compare every agent with the best for its own examples, as the paper defines it. The
        theorem does not cover this.
    bound : bool
        Whether to play mirror descent again for its regret bound, where there is one and the run
        has at most 200,000 rounds.
    most_rows : int
        Rows that a solver is given at most; see `best_weights`.

    Examples
    --------
    >>> import ddol
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.dogd(), (X, y), 4)
    >>> found = regret(trace, (X, y))
    >>> found.individual.shape, found.social > 0, found.bounds["DOMD"]["holds"]
    ((4,), True, True)
    """
    algorithm: Algorithm = trace.algorithm
    dealt = _Dealt(algorithm, encoded(algorithm, data)[0], passes)
    if dealt.examples != trace.examples:
        raise ValueError(
            f"the trace is of {trace.examples} examples, the data have {dealt.examples} in {passes} "
            "passes; give the data and `passes` of that run"
        )
    if own:
        return _against_own(trace, dealt)
    if weights is None:
        best = _best(algorithm, dealt.rows, passes, most_rows)
    else:
        best = Comparator(np.asarray(weights, float), np.nan, np.inf, "given")
    costs = [_costs(algorithm, block, best.weights) for block in dealt.blocks()]
    by_agent = np.sum([cost.sum(axis=0) for cost in costs], axis=0)
    by_round = np.cumsum(np.concatenate([cost.sum(axis=1) for cost in costs]))
    if weights is not None:
        best = Comparator(best.weights, float(by_agent.sum()), np.inf, "given")
    rounds = trace.curves.rounds
    if trace.moments:
        # On a schedule examples are not seen in the order in which they are dealt: the end is known.
        total = trace.loss - by_agent
        why = (
            "the theorem is about rounds, and this run had a schedule; the certificate holds for it"
        )
        last = rounds[-1:], np.array([total.sum()]), np.empty(0)
        return Regret(total, best, *last, {}, why_no_bound=why)
    curve = trace.curves.loss - by_round[rounds - 1]
    found = Regret(trace.loss - by_agent, best, rounds, curve, np.empty(0), {})
    return _with_bound(trace, dealt, found, by_round, bound)


class _Dealt:
    """The rounds of a run, dealt again."""

    def __init__(self, algorithm: Algorithm, streams: list, passes: int) -> None:
        self.algorithm, self.streams, self.passes = algorithm, streams, passes
        once = [block for block, _ in deal(streams, algorithm.n_agents, algorithm.batch)]
        if not once:
            raise ValueError("the data have no example; expected at least one")
        self._once = once
        self.rows = concatenate([block.rows for block in once])
        self.examples = passes * sum(block.n_examples for block in once)

    def blocks(self) -> Iterator[Block]:
        """All rounds of all passes; a shuffle has another order in each."""
        if self.passes == 1:
            return iter(self._once)
        algorithm = self.algorithm
        dealt = deal(self.streams, algorithm.n_agents, algorithm.batch, self.passes)
        return (block for block, _ in dealt)

    def of_agent(self, agent: int) -> Rows:
        """The examples of one agent in one pass."""
        taken = [block.table[:, agent][block.table[:, agent] >= 0] for block in self._once]
        pairs = zip(self._once, taken, strict=True)
        return concatenate([block.rows.take(order) for block, order in pairs])


def regret_within_reach(trace: Trace, streams: list[Stream], passes: int = 1) -> Regret | None:
    """The regret where it takes no more than seconds to find: for reports.

    None for experts, whose theorems bound mistakes, for several classes, for streams that can be read
    once only, beyond 20,000 examples, and where no solver is known.
    """
    algorithm: Algorithm = trace.algorithm
    if algorithm.update.experts or algorithm.outputs > 1 or trace.examples > MOST_REPORTED:
        return None
    if not all(stream.restartable for stream in streams):
        return None
    try:
        return regret(trace, streams, passes=passes, most_rows=_QUICK)
    except ValueError:
        return None


def _best(algorithm: Algorithm, rows: Rows, passes: int, most_rows: int = MOST_ROWS) -> Comparator:
    if algorithm.update.experts:
        found = best_expert(features(rows), rows.y)
    else:
        found = best_weights(problem_of(algorithm, rows), most_rows)
    times = passes * found.objective, passes * found.gap
    return Comparator(found.weights, *times, found.method)


def problem_of(algorithm: Algorithm, rows: Rows) -> Problem:
    """What the best weights in hindsight minimise: the algorithm's objective over all rows."""
    if algorithm.outputs > 1:
        raise ValueError("the regret of one-against-all classification has no comparator here")
    cost = np.full(len(rows), float(algorithm.C))
    if len(rows.weight):
        cost = cost * rows.weight
    domain: Domain = getattr(algorithm.update, "domain", everywhere)
    ridge = algorithm.update.l2 * len(rows)
    return Problem(features(rows), rows.y, cost, algorithm.loss, ridge, domain)


def _costs(algorithm: Algorithm, block: Block, weights: np.ndarray) -> np.ndarray:
    """What the comparator would have paid in every round at every agent."""
    X, y = features(block.rows), block.rows.y
    if algorithm.update.experts:
        each = (X[:, int(weights.argmax())] != y).astype(float)
    else:
        cost = algorithm.C * (block.rows.weight if len(block.rows.weight) else 1.0)
        each = cost * algorithm.loss.values(X @ weights[: X.shape[1]], y)
        each = each + 0.5 * algorithm.update.l2 * float(weights @ weights)
    return np.where(block.table >= 0, each[block.table], 0.0).sum(axis=2)


def _against_own(trace: Trace, dealt: _Dealt) -> Regret:
    """Every agent against the best for its own examples."""
    agents = range(trace.agents)
    found = [_best(trace.algorithm, dealt.of_agent(i), dealt.passes) for i in agents]
    individual = trace.loss - np.array([best.objective for best in found])
    nothing = np.empty(0)
    why = "no bound: the theorem compares all agents with one common w*"
    return Regret(individual, found[0], trace.curves.rounds, nothing, nothing, {}, why)


def _with_bound(
    trace: Trace, dealt: _Dealt, found: Regret, by_round: np.ndarray, wanted: bool
) -> Regret:
    """Add the regret theorem where it applies; exceeding it is a `BoundExceededWarning`."""
    why = why_no_bound(trace.algorithm)
    if not why and trace.rounds > MOST_REPLAYED:
        why = f"no bound: {trace.rounds:,} rounds are too many to be played again"
    if why or not wanted:
        return replace(found, why_no_bound=why or "no bound: not asked for")
    seen = replay(trace.algorithm, dealt.blocks(), found.comparator.weights)
    bound = bound_on_regret(trace.algorithm, seen)
    social = seen.loss - by_round
    problem = bound.exceeded(social, np.arange(1, len(social) + 1))
    if problem:
        warnings.warn(problem, BoundExceededWarning, stacklevel=3)
    facts = entry(DOMD, float(bound.value[-1]), float(social[-1]), not problem)
    curve = bound.value[found.rounds - 1]
    return replace(found, bound_curve=curve, bounds={"DOMD": facts})
