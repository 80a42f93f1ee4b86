"""What a theorem promises a run: its bound before the run, while it goes on, and beside its trace."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ddol.measure.bounds import domd_before
from ddol.measure.theorems import (
    DOMD,
    DRWM,
    DRWM_A,
    Applicability,
    Bound,
    Setting,
    Theorem,
    applicable,
    on_mistakes,
)
from ddol.update.domains import EVERYWHERE, L1_BALL, SIMPLEX
from ddol.update.majority import Majority
from ddol.update.mirrors import MirrorDescent, PNorm
from ddol.update.rates import evaluate

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.trace import Trace

_ROUNDS_TRIED = 1024


class BoundExceededWarning(RuntimeWarning):
    """A run did worse than a theorem that applies to it allows: a bug in one of the two."""


@dataclass(frozen=True)
class MistakeBound:
    """The theorem that bounds the mistakes of a run of weighted majority.

    Parameters
    ----------
    theorem : Theorem
    n_experts, n_agents : int
    alpha : float
    """

    theorem: Theorem
    n_experts: int
    n_agents: int
    alpha: float

    def at(self, best_log_weight: ArrayLike) -> Bound:
        """The bound when the best expert has this log-weight, or these at several points."""
        return on_mistakes(self.theorem, best_log_weight, self.n_experts, self.n_agents, self.alpha)

    def before(self, expert_mistakes: float) -> Bound:
        """The bound if the best expert will have made so many mistakes, at all agents together.

        Averaged in the primal, the worst case has them at all agents in the same rounds.

        Examples
        --------
        How many mistakes can 8 agents make if the best of 50 experts makes 100?

        >>> from ddol.presets import dwm_i
        >>> float(applicable_bound(dwm_i(0.5).on(8), 50).before(100).value.round(1))
        349.7
        """
        return self.at(-expert_mistakes / self.n_agents * math.log(1 / self.alpha))


def setting_of(algorithm: Algorithm) -> Setting:
    """The facts of an algorithm on its network that decide which theorem speaks about it.

    Examples
    --------
    >>> from ddol.presets import doeg
    >>> setting_of(doeg().on(4, period=3)).period
    3
    """
    update = algorithm.update
    return Setting(
        family=_family(update),
        n_agents=algorithm.n_agents,
        uniform_complete=bool(algorithm.mixing.is_uniform_complete),
        average="dual" if _same_in_both(update) else algorithm.average,
        period=algorithm.period,
        batch=algorithm.batch,
        delay=algorithm.delay,
        randomized=update.randomized,
        rate_falls=bool(np.all(np.diff(evaluate(algorithm.rate, 1, _ROUNDS_TRIED)) <= 0)),
    )


def _family(update: Any) -> str:
    if isinstance(update, Majority):
        return "weighted-majority"
    return "mirror-descent" if isinstance(update, MirrorDescent) else type(update).__name__


def _same_in_both(update: Any) -> bool:
    return isinstance(update, MirrorDescent) and update.mirror.self_dual


def find_theorem(algorithm: Algorithm) -> Applicability:
    """The theorem about an algorithm, and what it misses there.

    Examples
    --------
    >>> from ddol import dwm_a, ring
    >>> find_theorem(dwm_a().on(ring(5))).reason
    'DWM-A bound not offered: the mixing is not that of the complete graph with equal weights'
    """
    return applicable(setting_of(algorithm))


def applicable_bound(algorithm: Algorithm, n_experts: int | None) -> MistakeBound | None:
    """The bound on an algorithm's mistakes; None where no theorem holds, or for other algorithms."""
    if not isinstance(algorithm.update, Majority) or n_experts is None:
        return None
    made = find_theorem(algorithm)
    if not made.holds or made.theorem is None:
        return None
    return MistakeBound(made.theorem, n_experts, algorithm.n_agents, algorithm.update.alpha)


def running_bound(algorithm: Algorithm, n_experts: int, best_log_weight: float) -> float | None:
    """The bound on all agents' mistakes at this moment of a run, None where there is none.

    Parameters
    ----------
    algorithm : Algorithm
    n_experts : int
        Number of experts P.
    best_log_weight : float
        Largest log-weight of an expert, as `ddol.engines.session.best_log_weight` reads it.

    Examples
    --------
    >>> from ddol.presets import wma
    >>> round(running_bound(wma(0.5), 2, 4 * math.log(0.5)), 2)
    12.05
    """
    made = applicable_bound(algorithm, n_experts)
    return None if made is None else float(made.at(best_log_weight).value)


def check_bounds(trace: Trace) -> dict[str, Any]:
    """Compare a run with the theorem about it, at every recorded point.

    A bound that was exceeded is a `BoundExceededWarning`, besides ``holds`` being False. Theorems on
    drawn experts bound the expected mistakes.

    Returns
    -------
    dict
        Name of the theorem → value, observed, holds, quantity, formula and assumptions; empty where
        no theorem on mistakes holds.
    """
    made = applicable_bound(trace.algorithm, trace.weights.shape[-1])
    if made is None:
        return {}
    curves = trace.curves
    bound = made.at(curves.best_log_weight)
    problem = bound.exceeded(curves.mistakes, curves.rounds)
    observed = float(curves.mistakes[-1])
    if made.theorem in (DRWM, DRWM_A):
        observed = float(trace.expected_mistakes.sum())
        last = Bound(made.theorem, bound.value[-1:])
        problem = problem or last.exceeded(observed, curves.rounds[-1:])
    if problem:
        warnings.warn(problem, BoundExceededWarning, stacklevel=2)
    return {made.theorem.name: entry(made.theorem, float(bound.value[-1]), observed, not problem)}


def entry(theorem: Theorem, value: float, observed: float, holds: bool) -> dict[str, Any]:
    """One bound as a trace and ``--json`` show it."""
    return {
        "value": value,
        "observed": observed,
        "holds": holds,
        "quantity": theorem.quantity,
        "formula": theorem.formula,
        "assumptions": list(theorem.assumptions),
    }


def bound_curves(trace: Trace) -> dict[str, np.ndarray]:
    """Name of the theorem → its bound at every recorded point; empty where none holds."""
    made = applicable_bound(trace.algorithm, trace.weights.shape[-1])
    return {} if made is None else {made.theorem.name: made.at(trace.curves.best_log_weight).value}


def strong_convexity(update: Any) -> float | None:
    """Constant a of a mirror map on its domain, None where none is known.

    1 for Euclidean in ‖·‖₂; 1/S for entropies on the L1 ball or simplex of radius S, in ‖·‖₁; p − 1
    for the p-norm map in ‖·‖_p.

    Examples
    --------
    >>> from ddol.presets import doeg
    >>> strong_convexity(doeg(radius=4.0).update)
    0.25
    """
    mirror = update.mirror
    if isinstance(mirror, PNorm):
        return float(mirror.p - 1.0)
    if mirror.logarithmic:
        bounded = update.domain.kind in (L1_BALL, SIMPLEX)
        return 1.0 / update.domain.radius if bounded else None
    return 1.0 if mirror.self_dual else None


def widest(update: Any) -> float | None:
    """Largest divergence ψ between two points of a domain that bounds it, None elsewhere.

    2R² on the L2 ball, and on the L1 ball and the simplex, which lie within it; entropies are
    unbounded at the edge of their domain.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> widest(dogd(radius=3.0).update)
    18.0
    """
    if not update.mirror.self_dual or update.domain.kind == EVERYWHERE:
        return None
    return float(2.0 * update.domain.radius**2)


def regret_before(
    algorithm: Algorithm, rounds: int, gradient_norm: float, divergence: float | None = None
) -> Bound:
    """Bound the social regret of mirror descent with η_t = η₀/√t before a run.

    Parameters
    ----------
    algorithm : Algorithm
        Placed on its network.
    rounds : int
        T.
    gradient_norm : float
        G, at least ‖g‖_* of every subgradient, in the norm of the mirror map.
    divergence : float, optional
        D, at least ψ(w*, w^t) in every round; by default that of the domain, where it has one.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> float(regret_before(dogd(l2=0.0, radius=1.0).on(4), 10_000, gradient_norm=1.0).value)
    1200.0
    """
    made = find_theorem(algorithm)
    if made.theorem != DOMD or not made.holds:
        raise ValueError(made.reason or f"no bound on the regret of {algorithm.name}")
    scale = getattr(algorithm.rate, "scale", None)
    if getattr(algorithm.rate, "exponent", None) != 0.5 or scale is None:
        raise ValueError("the bound before a run is for the rate η₀/√t, found another one")
    a = strong_convexity(algorithm.update)
    far = widest(algorithm.update) if divergence is None else divergence
    if a is None or far is None:
        raise ValueError(
            f"the domain of {algorithm.name} does not bound ψ(w*, w); give the divergence"
        )
    return Bound(DOMD, domd_before(far, gradient_norm, rounds, algorithm.n_agents, scale, a))
