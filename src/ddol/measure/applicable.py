"""What a theorem allows a run: its bound before the run, while it goes on, and beside its trace."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ddol.measure.bounds import domd_before, dwm_i, switching
from ddol.measure.theorems import (
    DOMD,
    DRAWN,
    LABEL_EFFICIENT,
    PATIENT,
    SELECTIVE,
    SHARED,
    Asked,
    Bound,
    Theorem,
    find_theorem,
    on_mistakes,
)
from ddol.update.domains import EVERYWHERE, L1_BALL, SIMPLEX
from ddol.update.majority import Majority
from ddol.update.mirrors import PNorm

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.trace import Trace


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
    share : float
        Of the answers that are asked for at random, where some are.
    given : float, optional
        Of its weight that every expert gives to the others in a round; by default 1/(t+1).
    """

    theorem: Theorem
    n_experts: int
    n_agents: int
    alpha: float
    share: float = 1.0
    given: float | None = None

    @property
    def needs_examples(self) -> bool:
        """Whether the bound grows with the number of examples."""
        return self.shares or self.theorem in (SELECTIVE, LABEL_EFFICIENT)

    @property
    def shares(self) -> bool:
        """Whether the bound is on sequences of experts."""
        return self.theorem in SHARED.values()

    def at(
        self, best_log_weight: ArrayLike, examples: ArrayLike = 0, estimated: bool = True
    ) -> Bound:
        """The bound when the best expert has this log-weight after so many examples, or at several points."""
        sizes = self.n_experts, self.n_agents, self.alpha
        asked = Asked(examples, self.share, estimated)
        return on_mistakes(self.theorem, best_log_weight, *sizes, asked)

    def before(self, expert_mistakes: float, examples: int = 0, switches: int = 0) -> Bound:
        """The bound if the best expert will have made so many mistakes, at all agents together.

        Averaged in the primal, the worst case has them at all agents in the same rounds. Where experts share
        their weights, it may be another expert after each of so many switches; `examples` are rounds.

        Examples
        --------
        How many mistakes can 8 agents make if the best of 50 experts makes 100?

        >>> from ddol.presets import dwm_i
        >>> float(applicable_bound(dwm_i(0.5).on(8), 50).before(100).value.round(1))
        349.7
        """
        kept = -expert_mistakes / self.n_agents * math.log(1 / self.alpha)
        if self.shares:
            kept -= math.log(self.n_experts)
            kept -= float(switching(self.n_experts, examples, switches, self.given))
        return self.at(kept, examples, estimated=False)


def applicable_bound(algorithm: Algorithm, n_experts: int | None) -> MistakeBound | None:
    """The bound on an algorithm's mistakes; None where no theorem holds, or for other algorithms.

    Examples
    --------
    >>> import ddol
    >>> bound = applicable_bound(ddol.dwm_i(0.5).on(8), n_experts=50)
    >>> bound.theorem.name, round(float(bound.before(100).value), 1)
    ('DWM-I', 349.7)
    >>> applicable_bound(ddol.dwm_i(0.5).on(ddol.ring(8)), n_experts=50) is None
    True
    """
    if algorithm.update.family != Majority.family or n_experts is None:
        return None
    made = find_theorem(algorithm)
    if not made.holds or made.theorem is None:
        return None
    alpha: float = algorithm.update.alpha  # type: ignore[attr-defined]  # the family has it
    share = 1.0 if algorithm.asking is None else algorithm.asking.share
    known: Any = algorithm.update
    given = known.share if known.shares and known.share != "auto" else None
    return MistakeBound(made.theorem, n_experts, algorithm.n_agents, alpha, share, given)


def check_bounds(trace: Trace) -> dict[str, Any]:
    """Compare a run with the theorem about it, at every recorded point.

    A bound that was exceeded is a `BoundExceededWarning`, besides ``holds`` being False. Theorems on
    drawn experts bound the expected mistakes.

    Returns
    -------
    dict
        Name of the theorem → value, observed, holds, quantity, formula and assumptions; empty where
        no theorem on mistakes holds.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> answers = np.random.default_rng(0).choice([-1.0, 1.0], 200)
    >>> trace = ddol.run(ddol.dwm_i(), (answers[:, None] * [1.0, -1.0], answers), 4)
    >>> bound = check_bounds(trace)["DWM-I"]
    >>> bound["holds"], bound["observed"] <= bound["value"]
    (True, True)
    """
    if trace.moments:
        return _patient_bound(trace)  # other theorems are about rounds
    made = applicable_bound(trace.algorithm, trace.weights.shape[-1])
    if made is None:
        return {}
    curves = trace.curves
    bound = made.at(curves.best_log_weight, curves.examples)
    problem = bound.exceeded(curves.mistakes, curves.rounds)
    observed = float(curves.mistakes[-1])
    if made.theorem in DRAWN:
        observed = float(trace.expected_mistakes.sum())
        last = Bound(made.theorem, bound.value[-1:])
        problem = problem or last.exceeded(observed, curves.rounds[-1:])
    if problem:
        warnings.warn(problem, BoundExceededWarning, stacklevel=2)
    return {made.theorem.name: entry(made.theorem, float(bound.value[-1]), observed, not problem)}


def _patient_bound(trace: Trace) -> dict[str, Any]:
    """The bound of one agent with a pool of copies, one for each answer under way."""
    pool, update = trace.moments[-1].patience, trace.algorithm.update
    alone = trace.agents == 1 and update.family == Majority.family and not update.randomized
    if pool is None or not alone or update.shares:
        return {}
    value = dwm_i(pool.best_expert, trace.weights.shape[-1], pool.copies, update.alpha)
    bound, observed = Bound(PATIENT, np.atleast_1d(value)), float(trace.mistakes.sum())
    problem = bound.exceeded(observed)
    if problem:
        warnings.warn(problem, BoundExceededWarning, stacklevel=3)
    return {PATIENT.name: entry(PATIENT, float(value), observed, not problem)}


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
    if trace.moments:
        return {}
    made = applicable_bound(trace.algorithm, trace.weights.shape[-1])
    if made is None:
        return {}
    curves = trace.curves
    return {made.theorem.name: made.at(curves.best_log_weight, curves.examples).value}


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
