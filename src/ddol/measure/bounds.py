"""One function per theorem: how many mistakes, or how much regret, the agents can have at most.

All are plain formulas of numbers or arrays (elementwise), with natural logarithms, used before a
run ("how many mistakes can 8 agents make if the best expert makes 100?") and at every recorded
point of a run. They bound all agents *together*: the paper's bounds on the worst agent, max_i M_i,
do not hold (see docs/errata.md); divided by N they bound the average agent.

What the proofs need is that all agents hold the same weights before every round: the complete graph
with equal weights, communication in every round, one example per agent and round, no delay
(`ddol.measure.theorems` decides where that is so). An agent without an example in a round neither
errs nor penalises an expert, so its weights are multiplied by 1: streams of unequal length change no
proof, and neither do several passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def wma(expert_mistakes: ArrayLike, n_experts: int, alpha: float) -> FloatArray:
    """Bound the mistakes of one weighted-majority agent (Littlestone and Warmuth).

    M ≤ (m_p log(1/α) + log P) / log(2/(1+α)).

    An agent that errs had at least half its weight on wrong experts, with any number of classes:
    the right class lost to another, so it held at most half. Hence a mistake leaves at most
    (1+α)/2 of the total weight, of which expert p alone holds α^m_p.

    Parameters
    ----------
    expert_mistakes : array
        Mistakes m_p of one expert, or of each (the bound holds for every expert: take the least).
    n_experts : int
        Number of experts P.
    alpha : float
        Penalty α in (0, 1).

    Examples
    --------
    >>> float(wma(10, n_experts=100, alpha=0.5).round(1))
    40.1
    """
    return dwm_i(expert_mistakes, n_experts, 1, alpha)


def dwm_i(expert_mistakes: ArrayLike, n_experts: int, n_agents: int, alpha: float) -> FloatArray:
    """Bound the mistakes of all DWM-I agents together (Theorem 1, corrected).

    M ≤ (m_p log(1/α) + N log P) / log(2/(1+α)), m_p counted over all agents.

    By Hölder's inequality the total of a geometric mean is at most the geometric mean of the
    totals, so a round with k mistakes leaves at most ((1+α)/2)^(k/N) of the total weight.

    Examples
    --------
    How many mistakes can 8 agents make if the best of 50 experts makes 100?

    >>> float(dwm_i(100, n_experts=50, n_agents=8, alpha=0.5).round(1))
    349.7
    """
    mistakes = _counts(expert_mistakes)
    _check(n_experts, n_agents, alpha)
    lost = -np.log1p(-(1 - alpha) / 2)
    return (mistakes * np.log(1 / alpha) + n_agents * np.log(n_experts)) / lost


def dwm_a(expert_log_weight: ArrayLike, n_experts: int, n_agents: int, alpha: float) -> FloatArray:
    """Bound the mistakes of all DWM-A agents together (Theorem 2, corrected).

    M ≤ (log P − Σ_t log(1 − (1−α) m_p^t / N)) / (−log(1 − (1−α)/(2N))).

    The total of an arithmetic mean is the mean of the totals, so a round with k mistakes leaves at
    most 1 − (1−α)k/(2N) ≤ (1 − (1−α)/(2N))^k of the total weight.

    Parameters
    ----------
    expert_log_weight : array
        Σ_t log(1 − (1−α) m_p^t / N) so far, of one expert or of each: see `log_weight`.
    n_experts, n_agents, alpha
        As in `dwm_i`.

    Examples
    --------
    >>> float(dwm_a(0.0, n_experts=1025, n_agents=4, alpha=0.5).round(1))
    107.4
    """
    _check(n_experts, n_agents, alpha)
    kept = _log_weights(expert_log_weight)
    return (np.log(n_experts) - kept) / -np.log1p(-(1 - alpha) / (2 * n_agents))


def dwm_a_before(
    expert_mistakes: ArrayLike, n_experts: int, n_agents: int, alpha: float
) -> FloatArray:
    """Bound DWM-A when only the number of the best expert's mistakes is known, not their rounds.

    The worst case has them at all agents in the same rounds: −log(1 − (1−α)x) ≤ x log(1/α) on
    [0, 1], so Σ_t −log(1 − (1−α) m_p^t / N) ≤ (m_p / N) log(1/α).

    Examples
    --------
    >>> float(dwm_a_before(100, n_experts=50, n_agents=8, alpha=0.5).round(1))
    396.1
    """
    kept = -_counts(expert_mistakes) / n_agents * np.log(1 / alpha)
    return dwm_a(kept, n_experts, n_agents, alpha)


def drwm(expert_mistakes: ArrayLike, n_experts: int, n_agents: int, alpha: float) -> FloatArray:
    """Bound the expected mistakes of agents that draw an expert and average in the dual.

    E M ≤ (m_p log(1/α) + N log P) / (1−α); with N = 1 the classic randomised weighted majority.

    With a share F of its weight on wrong experts an agent errs with probability F and keeps
    1 − (1−α)F ≤ exp(−(1−α)F) of the total; then as in `dwm_i`.

    Examples
    --------
    >>> float(drwm(100, n_experts=50, n_agents=8, alpha=0.5).round(1))
    201.2
    """
    _check(n_experts, n_agents, alpha)
    lost = _counts(expert_mistakes) * np.log(1 / alpha)
    return (lost + n_agents * np.log(n_experts)) / (1 - alpha)


def drwm_a(expert_log_weight: ArrayLike, n_experts: int, n_agents: int, alpha: float) -> FloatArray:
    """Bound the expected mistakes of agents that draw an expert and average in the primal.

    E M ≤ N (log P − Σ_t log(1 − (1−α) m_p^t / N)) / (1−α). Not in the paper: the proof of `drwm`
    with the total weight of `dwm_a`.

    Examples
    --------
    >>> float(drwm_a(0.0, n_experts=50, n_agents=8, alpha=0.5).round(1))
    62.6
    """
    _check(n_experts, n_agents, alpha)
    kept = _log_weights(expert_log_weight)
    return n_agents * (np.log(n_experts) - kept) / (1 - alpha)


def selective(
    expert_losses: ArrayLike, examples: ArrayLike, n_experts: int, alpha: float
) -> FloatArray:
    """Bound the expected mistakes of one agent that draws an expert and asks where experts disagree.

    E M ≤ m_p + log P/η + ηn/8 after n examples, η = log(1/α), as if all answers had been bought.

    With F the weight of the wrong experts and q = min(4F(1−F) + η/3, 1) the chance of asking,
    F ≤ −(q/η)·log(1 − F + F·e^(−η/q)) + η/8 (Castro, Hellström and van Erven 2023): what a step takes
    from the total weight pays for the mistake.

    Parameters
    ----------
    expert_losses : array
        m_p, or its unbiased estimate: mistakes that were seen, each divided by its chance.
    examples : array
        n.

    Examples
    --------
    >>> float(selective(10, 1000, n_experts=20, alpha=0.8).round(1))
    51.3
    """
    _check(n_experts, 1, alpha)
    eta = np.log(1 / alpha)
    return _counts(expert_losses) + np.log(n_experts) / eta + eta / 8 * _counts(examples)


def label_efficient(
    expert_losses: ArrayLike, examples: ArrayLike, n_experts: int, alpha: float, share: float
) -> FloatArray:
    """Bound the expected mistakes of one agent that draws an expert and asks with a fixed chance ε.

    E M ≤ m_p + log P/η + ηn/(2ε) (Cesa-Bianchi, Lugosi and Stoltz 2005).

    Examples
    --------
    >>> float(label_efficient(10, 1000, n_experts=20, alpha=0.95, share=0.1).round(1))
    324.9
    """
    _check(n_experts, 1, alpha)
    eta = np.log(1 / alpha)
    added = eta / (2 * share) * _counts(examples)
    return _counts(expert_losses) + np.log(n_experts) / eta + added


def switching(
    n_experts: int, rounds: ArrayLike, switches: int, share: float | None = None
) -> FloatArray:
    """Nats that a sequence of experts with m changes costs, beside the log P of its first one.

    m log(P−1) + Σ −log α_t where it changes + Σ −log(1−α_t) where it stays: with α_t = 1/(t+1) the sums are
    at most (m+1) log T. A bound for sequences has log P and this where the bound for one expert has log P.

    Parameters
    ----------
    n_experts : int
        P.
    rounds : array
        T.
    switches : int
        m.
    share : float, optional
        α_t where it is the same in every round; by default 1/(t+1).

    Examples
    --------
    >>> float(switching(10, 1000, switches=1).round(2)), float(switching(10, 1000, 1, 0.01).round(2))
    (16.01, 16.83)
    """
    T, moved = _counts(rounds), switches * np.log(max(n_experts - 1, 1))
    if share is None:
        return np.asarray(moved + (switches + 1) * np.log(np.maximum(T, 1)))
    stays = np.maximum(T - 1 - switches, 0)
    return np.asarray(moved - switches * np.log(share) - stays * np.log1p(-share))


def log_weight(wrong_agents: ArrayLike, n_agents: int, alpha: float) -> FloatArray:
    """Return the log-weight log(1 − (1−α) m_p^t / N) that an expert loses in a round of DWM-A.

    ``wrong_agents`` is m_p^t, at how many agents it errs. Sum it over rounds for `dwm_a`.

    Examples
    --------
    >>> log_weight([1, 2, 4], n_agents=4, alpha=0.5).round(3).tolist()
    [-0.134, -0.288, -0.693]
    """
    _check(1, n_agents, alpha)
    wrong = _counts(wrong_agents)
    if np.any(wrong > n_agents):
        raise ValueError(f"an expert can err at {n_agents} agents in a round, got {wrong.max():g}")
    if alpha > 0.5:
        return np.log1p(-(1 - alpha) * wrong / n_agents)
    # 1 − (1 − α) would lose a small α.
    return np.log((n_agents - wrong + alpha * wrong) / n_agents)


def domd(
    divergence: ArrayLike,
    gradient_sum: ArrayLike,
    last_rate: ArrayLike,
    n_agents: int,
    strong_convexity: float = 1.0,
) -> FloatArray:
    """Bound the social regret of mirror descent for any rate that never increases.

    Σ_i R_i(T) ≤ N D/η_T + (1/(2aN)) Σ_t η_t ‖Σ_j g_j^t‖_*².

    The regret is against one w* common to all agents, any w* of the domain.

    Parameters
    ----------
    divergence : array
        D = sup of ψ(w*, w^t) over the rounds so far: measured, or known where the domain bounds it
        (2R² on the L2 ball of radius R). The comparator is the first argument.
    gradient_sum : array
        Σ_t η_t ‖Σ_j g_j^t‖_*² so far, in the dual norm.
    last_rate : array
        η_T, the rate of the last round.
    n_agents : int
        Number of agents N.
    strong_convexity : float
        a of the mirror map: 1 for Euclidean, 1/S for (signed) entropy on the L1 ball of radius S,
        whose dual norm is the largest absolute coordinate; p − 1 for the p-norm, 1 < p ≤ 2.

    Examples
    --------
    >>> float(domd(0.5, 2.0, 0.1, n_agents=4))
    20.25
    """
    far, norms = _counts(divergence), _counts(gradient_sum)
    rate = np.asarray(last_rate, dtype=np.float64)
    if not (np.all(rate > 0) and strong_convexity > 0 and n_agents >= 1):
        raise ValueError("`last_rate`, `strong_convexity` and `n_agents` must be positive")
    return n_agents * far / rate + norms / (2 * strong_convexity * n_agents)


def domd_paper(
    divergence: ArrayLike,
    gradient_sum: ArrayLike,
    rounds: ArrayLike,
    n_agents: int,
    strong_convexity: float = 1.0,
) -> FloatArray:
    """Bound the social regret with the paper's rate η_t = 1/√t (its regret theorem, corrected).

    Σ_i R_i(T) ≤ N D √T + (1/(2aN)) Σ_t t^(−1/2) ‖Σ_j g_j^t‖_*²: `domd` with η_T = 1/√T.

    Examples
    --------
    >>> float(domd_paper(0.5, 2.0, 100, n_agents=4))
    20.25
    """
    return domd(divergence, gradient_sum, 1 / np.sqrt(_counts(rounds)), n_agents, strong_convexity)


def domd_before(
    divergence: float,
    gradient_norm: float,
    rounds: ArrayLike,
    n_agents: int,
    rate: float = 1.0,
    strong_convexity: float = 1.0,
) -> FloatArray:
    """Bound the social regret before a run, with η_t = η₀/√t and every ‖g_j^t‖_* ≤ G.

    Σ_i R_i(T) ≤ N √T (D/η₀ + η₀ G²/a), since ‖Σ_j g_j‖_* ≤ N G and Σ_t t^(−1/2) ≤ 2√T: the worst
    case, in which all agents have the same subgradients.

    Examples
    --------
    >>> float(domd_before(2.0, 1.0, 10_000, n_agents=4))
    1200.0
    """
    root = np.sqrt(_counts(rounds))
    norms = rate * (n_agents * gradient_norm) ** 2 * 2 * root
    return domd(divergence, norms, rate / root, n_agents, strong_convexity)


def chance_margin(expected: ArrayLike, probability: float = 1e-12) -> FloatArray:
    """How far a count of mistakes may lie above a bound on its expectation, by bad luck.

    A sum of 0/1 draws with expectation at most B exceeds B + L/3 + √(L²/9 + 2BL) with probability
    at most e^(−L) (Bernstein, and Freedman where later draws depend on earlier ones).

    Examples
    --------
    >>> float(chance_margin(100.0).round(1))
    84.1
    """
    luck = np.log(1 / probability)
    return luck / 3 + np.sqrt(luck**2 / 9 + 2 * np.asarray(expected, dtype=np.float64) * luck)


def estimate_margin(paid: ArrayLike, most: float, probability: float) -> FloatArray:
    """How far a sum may lie above one in which each term is there by chance, and weighs 1/chance then.

    Terms c_t of up to `most` are bought with probability q_t, Σ Z_t c_t = `paid`. Σ q_t c_t is at most the y
    with y = paid + √(2·most·y·L) + most·L/3, but with probability e^(−L) (Freedman).

    Examples
    --------
    >>> float(estimate_margin(100.0, most=1.0, probability=1e-6).round(1))
    73.9
    """
    luck, sums = np.log(1 / probability), np.asarray(paid, dtype=np.float64)
    half = np.sqrt(most * luck / 2)
    root = half + np.sqrt(half**2 + sums + most * luck / 3)
    return np.asarray(root**2 - sums)


def _counts(values: ArrayLike) -> FloatArray:
    counts = np.asarray(values, dtype=np.float64)
    if not np.all((counts >= 0) & np.isfinite(counts)):
        raise ValueError("mistakes, rounds and norms must be finite and at least 0")
    return counts


def _log_weights(values: ArrayLike) -> FloatArray:
    kept = np.asarray(values, dtype=np.float64)
    if not np.all(kept <= 0):
        raise ValueError("`expert_log_weight` must be at most 0: sum log_weight(...) over rounds")
    return kept


def _check(n_experts: int, n_agents: int, alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must lie between 0 and 1, got {alpha}")
    if n_experts < 1 or n_agents < 1:
        raise ValueError(f"there must be experts and agents, got {n_experts} and {n_agents}")
