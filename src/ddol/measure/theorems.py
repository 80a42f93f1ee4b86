"""Which theorem speaks about a run, whether its assumptions hold there, and whether it was kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ddol.algorithm import Algorithm
from ddol.measure.bounds import (
    FloatArray,
    chance_margin,
    domd,
    drwm,
    drwm_a,
    dwm_a,
    dwm_i,
    estimate_margin,
    label_efficient,
    selective,
)
from ddol.update.majority import Majority
from ddol.update.mirrors import MirrorDescent
from ddol.update.rates import PerAgent, evaluate

_ROUNDS_TRIED = 1024
_LUCK = 1e-6
"""Chance that a bound from estimated mistakes does not hold."""


@dataclass(frozen=True)
class Theorem:
    """What a bound says and what it needs.

    Parameters
    ----------
    name : str
        Short name for tables and ``bounds`` in JSON.
    quantity : str
        What is bounded.
    formula : str
        The bound in one line, M for mistakes of all agents, m_p for those of expert p.
    assumptions : tuple of str
        All that must be true of a run for the bound to hold.
    """

    name: str
    quantity: str
    formula: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Applicability:
    """The theorem about this kind of run, and what it misses in this one."""

    theorem: Theorem | None
    missing: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the bound may be shown beside the run."""
        return self.theorem is not None and not self.missing

    @property
    def reason(self) -> str:
        """Why there is no bound, in one line; empty when there is one."""
        if self.holds:
            return ""
        name = f"{self.theorem.name} bound not offered: " if self.theorem else "no bound: "
        return name + "; ".join(self.missing)


@dataclass(frozen=True)
class Bound:
    """A theorem evaluated at the recorded points of a run (or at one point before it).

    Parameters
    ----------
    theorem : Theorem
        What it says.
    value : array
        The bound at each point.
    chance : array or float
        What luck may add to a bound on an expectation before it counts as violated.
    """

    theorem: Theorem
    value: FloatArray
    chance: FloatArray | float = 0.0

    def exceeded(self, observed: ArrayLike, rounds: ArrayLike | None = None) -> str:
        """Compare with what happened; the message is empty as long as the bound holds.

        Parameters
        ----------
        observed : array
            Mistakes or regret of all agents together at the same points.
        rounds : array, optional
            Round of each point, for the message.

        Examples
        --------
        >>> bound = Bound(DWM_I, dwm_i([0, 0], n_experts=2, n_agents=2, alpha=0.5))
        >>> bound.exceeded([1, 9], rounds=[5, 10])
        'bound violated: DWM-I allows 4.819 mistakes of all agents together by round 10, 9 were
        observed; this is a bug in the code or in the theorem'
        """
        value, seen = np.broadcast_arrays(np.atleast_1d(self.value), np.atleast_1d(observed))
        allowed = value + self.chance + 1e-9 * (1 + np.abs(value))
        over = np.flatnonzero(~(seen <= allowed))
        if over.size == 0:
            return ""
        first = over[0]
        when = "" if rounds is None else f" by round {np.atleast_1d(rounds)[first]}"
        return (
            f"bound violated: {self.theorem.name} allows {value[first]:.4g} "
            f"{self.theorem.quantity}{when}, {seen[first]:.4g} were observed; "
            f"this is a bug in the code or in the theorem"
        )


_TOGETHER = (
    "complete graph with uniform mixing",
    "communication in every round",
    "one example per agent and round",
    "no delay",
)
_EXPERTS = "all experts start with equal weight"

WMA = Theorem(
    "WMA",
    "mistakes",
    "M ≤ (m_p log(1/α) + log P) / log(2/(1+α)) for every expert p",
    ("one agent, weighted vote, no delay", _EXPERTS),
)
DWM_I = Theorem(
    "DWM-I",
    "mistakes of all agents together",
    "M ≤ (m_p log(1/α) + N log P) / log(2/(1+α)) for every expert p",
    (*_TOGETHER, "weighted vote, average in the dual (geometric)", _EXPERTS),
)
DWM_A = Theorem(
    "DWM-A",
    "mistakes of all agents together",
    "M ≤ (log P − Σ_t log(1 − (1−α) m_p^t / N)) / (−log(1 − (1−α)/(2N))) for every expert p",
    (*_TOGETHER, "weighted vote, average in the primal (arithmetic)", _EXPERTS),
)
DRWM = Theorem(
    "DRWM",
    "expected mistakes of all agents together",
    "E M ≤ (m_p log(1/α) + N log P) / (1−α) for every expert p",
    (*_TOGETHER, "one expert drawn by weight, average in the dual (geometric)", _EXPERTS),
)
DRWM_A = Theorem(
    "DRWM-A",
    "expected mistakes of all agents together",
    "E M ≤ N (log P − Σ_t log(1 − (1−α) m_p^t / N)) / (1−α) for every expert p",
    (*_TOGETHER, "one expert drawn by weight, average in the primal (arithmetic)", _EXPERTS),
)
PATIENT = Theorem(
    "WMA, patient",
    "mistakes",
    "M ≤ (m_p log(1/α) + (τ* + 1) log P) / log(2/(1+α)) for every expert p, τ* answers under way at most",
    ("one agent with a copy for each answer under way", "weighted vote", _EXPERTS),
)
SELECTIVE = Theorem(
    "selective sampling",
    "expected mistakes",
    "E M ≤ m_p + log P/η + ηn/8 for every expert p, η = log(1/α), n examples",
    (
        "one agent, one expert drawn by weight, no delay",
        "asked with probability min(4A(1−A) + η/3, 1)",
        _EXPERTS,
    ),
)
LABEL_EFFICIENT = Theorem(
    "label-efficient",
    "expected mistakes",
    "E M ≤ m_p + log P/η + ηn/(2ε) for every expert p, η = log(1/α), n examples",
    ("one agent, one expert drawn by weight, no delay", "asked with probability ε", _EXPERTS),
)
_SEQUENCE = "for every sequence p of experts with m changes, S = m log(P−1) + (m+1) log T"
SHARED = {
    plain: Theorem(
        f"{plain.name}, shares",
        plain.quantity,
        plain.formula.replace("log P", "(log P + S)").replace("for every expert p", _SEQUENCE),
        (
            *plain.assumptions,
            "shares of 1/(t+1), or a constant α: S = m log((P−1)/α) − (T−1−m) log(1−α)",
        ),
    )
    for plain in (WMA, DWM_I, DWM_A, DRWM, DRWM_A)
}
"""The same where experts share their weights: the proofs of docs/background/safe-proofs.md."""
_PLAIN = {shared: plain for plain, shared in SHARED.items()}
DRAWN = (DRWM, DRWM_A, SHARED[DRWM], SHARED[DRWM_A], SELECTIVE, LABEL_EFFICIENT)
"""Theorems on the expected mistakes of drawn experts."""
DOMD = Theorem(
    "DOMD",
    "social regret against one common w*",
    "Σ_i R_i(T) ≤ N D/η_T + (1/(2aN)) Σ_t η_t ‖Σ_j g_j^t‖_*², D = sup_t ψ(w*, w^t)",
    (*_TOGETHER, "convex losses", "η_t never increases", "average in the dual"),
)


def find_theorem(algorithm: Algorithm) -> Applicability:
    """The theorem about an algorithm on its network, and what it misses there.

    Examples
    --------
    >>> from ddol import dwm_a, dwm_i, ring
    >>> find_theorem(dwm_i().on(8)).theorem.name
    'DWM-I'
    >>> find_theorem(dwm_a().on(ring(5))).reason
    'DWM-A bound not offered: the mixing is not that of the complete graph with equal weights'
    """
    theorem = _theorem_about(algorithm)
    if theorem is None:
        family = type(algorithm.update).__name__
        return Applicability(None, (f"no theorem of the paper is about {family}",))
    if getattr(algorithm.update, "shares", False):
        theorem = SHARED.get(theorem, theorem)
    return Applicability(theorem, tuple(_missing(algorithm, theorem)))


def _theorem_about(algorithm: Algorithm) -> Theorem | None:
    update, alone, asking = algorithm.update, algorithm.n_agents == 1, algorithm.asking
    if update.family == MirrorDescent.family:
        return DOMD
    if update.family != Majority.family:
        return None
    dual = algorithm.average == "dual"
    if update.randomized and asking is not None and asking.kind in _ASKED:
        return _ASKED[asking.kind]
    if update.randomized:
        return DRWM if dual or alone else DRWM_A
    if alone:
        return WMA
    return DWM_I if dual else DWM_A


_ASKED = {"experts": SELECTIVE, "random": LABEL_EFFICIENT}


def _missing(algorithm: Algorithm, theorem: Theorem) -> list[str]:
    together, mirror = algorithm.n_agents > 1, theorem is DOMD
    asking, about_asking = algorithm.asking, theorem in _ASKED.values()
    doubts = [
        (
            asking is not None and (not about_asking or asking.neighbours),
            "not every answer is asked for, the proof needs all",
        ),
        (about_asking and together, f"{algorithm.n_agents} agents, the proof is for one"),
        (asking is not None and asking.share == 0.0, "no answer is asked for at all"),
        (
            together and not about_asking and not algorithm.mixing.is_uniform_complete,
            "the mixing is not that of the complete graph with equal weights",
        ),
        (
            together and algorithm.period != 1,
            f"agents communicate every {algorithm.period} rounds, not in every round",
        ),
        (algorithm.batch != 1, f"{algorithm.batch} examples per agent and round, not one"),
        (algorithm.delay != 0, f"news is {algorithm.delay} rounds late, the proof needs no delay"),
        (
            together and mirror and not _averages_in_dual(algorithm),
            "weights are averaged in the primal, not in the dual",
        ),
        (
            about_asking and algorithm.update.shares,  # type: ignore[attr-defined]
            "experts share their weights, the proof is for weights that mistakes alone change",
        ),
        (isinstance(algorithm.rate, PerAgent), "agents have rates of their own"),
        (mirror and not _rate_falls(algorithm), "the rate may increase"),
    ]
    return [why for is_missing, why in doubts if is_missing]


def _averages_in_dual(algorithm: Algorithm) -> bool:
    """Also where dual and primal are the same."""
    update = algorithm.update
    return algorithm.average == "dual" or (
        isinstance(update, MirrorDescent) and update.mirror.self_dual
    )


def _rate_falls(algorithm: Algorithm) -> bool:
    return bool(np.all(np.diff(evaluate(algorithm.rate, 1, _ROUNDS_TRIED)) <= 0))


def on_mistakes(
    theorem: Theorem,
    expert_log_weight: ArrayLike,
    n_experts: int,
    n_agents: int,
    alpha: float,
    asked: Asked | None = None,
) -> Bound:
    """Evaluate a theorem on experts at every recorded point of a run, for its best expert.

    Parameters
    ----------
    theorem : Theorem
        `WMA`, `DWM_I`, `DWM_A`, `DRWM` or `DRWM_A`, or one of `SHARED`.
    expert_log_weight : array (points,) or (points, P)
        Log-weight that all agents hold of the best expert, or of each, when it started at 0:
        −(m_p / N) log(1/α) where they average in the dual, Σ_t log(1 − (1−α) m_p^t / N) in the
        primal. Where experts share their weights, that of the mean expert: it counts for all sequences.
    n_experts, n_agents, alpha
        P, N and the penalty α.
    asked : Asked, optional
        What `SELECTIVE` and `LABEL_EFFICIENT` need besides.

    Examples
    --------
    >>> on_mistakes(WMA, [0.0, 4 * np.log(0.5)], 2, 1, 0.5).value.round(2).tolist()
    [2.41, 12.05]
    """
    kept = np.asarray(expert_log_weight, dtype=np.float64)
    kept = np.minimum(kept.max(axis=-1) if kept.ndim == 2 else kept, 0.0)
    if asked is not None and theorem in _ASKED.values():
        return _on_asked(theorem, -kept / np.log(1 / alpha), n_experts, alpha, asked)
    if theorem in _PLAIN:  # the prior of sequences is in the weight of their mean
        plain = on_mistakes(_PLAIN[theorem], kept, 1, n_agents, alpha)
        return replace(plain, theorem=theorem)
    if theorem in (DWM_A, DRWM_A):
        formula = dwm_a if theorem == DWM_A else drwm_a
        value = formula(kept, n_experts, n_agents, alpha)
    else:
        mistakes = -n_agents * kept / np.log(1 / alpha)
        value = (drwm if theorem == DRWM else dwm_i)(mistakes, n_experts, n_agents, alpha)
    return Bound(theorem, value, chance_margin(value) if theorem in (DRWM, DRWM_A) else 0.0)


@dataclass(frozen=True)
class Asked:
    """What bounds on asking need besides.

    Parameters
    ----------
    examples : array
        Examples so far.
    share : float
        Of the answers that is asked for at random.
    estimated : bool
        Whether experts' mistakes are known from the answers bought only: then luck is added, which is more
        than this once in a million runs.
    """

    examples: ArrayLike
    share: float = 1.0
    estimated: bool = True


def _on_asked(
    theorem: Theorem, losses: FloatArray, n_experts: int, alpha: float, asked: Asked
) -> Bound:
    """An expert makes at most one mistake per example; each that is seen counts for up to `most`."""
    if theorem == SELECTIVE:
        value = selective(losses, asked.examples, n_experts, alpha)
        most = max(3.0 / np.log(1 / alpha), 1.0)
    else:
        value = label_efficient(losses, asked.examples, n_experts, alpha, asked.share)
        most = 1.0 / asked.share
    if asked.estimated:
        paid = losses + np.log(n_experts) / np.log(1 / alpha)
        value = np.minimum(value + estimate_margin(paid, most, _LUCK), asked.examples)
    return Bound(theorem, value, chance_margin(value))


def on_regret(
    divergence: ArrayLike,
    gradient_sum: ArrayLike,
    last_rate: ArrayLike,
    n_agents: int,
    strong_convexity: float = 1.0,
) -> Bound:
    """Evaluate the theorem on mirror descent at every recorded point; see `bounds.domd`.

    Examples
    --------
    >>> on_regret([0.5, 0.5], [2.0, 4.0], [0.1, 0.05], n_agents=4).value.tolist()
    [20.25, 40.5]
    """
    return Bound(DOMD, domd(divergence, gradient_sum, last_rate, n_agents, strong_convexity))
