"""Does sharing help? What every safe agent would have lost alone, by sharing, and what it did lose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.update.losses import REGRESSION
from ddol.update.mixtures import (
    ALIKE_LOSS,
    COUNT,
    FIXED,
    GAP,
    HARMS,
    HARMS_FACTOR,
    HELPS,
    HELPS_FACTOR,
    LOG,
    LOSS,
    SWITCHES,
    WRONG,
    WRONG_ALONE,
    WRONG_SHARED,
    rule_for,
)

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.trace import Trace

_CAPITAL = (HELPS, HELPS_FACTOR), (HARMS, HARMS_FACTOR)
SURE = math.log(40.0)
"""Capital of a bettor beyond which it is believed: at a level of 5 %, for either side."""


def mixture_bound(
    rule: int, experts: int, answers: float, switches: int = 0, gap: float = 1.0
) -> float:
    """What a mixture loses at most beyond the best sequence of experts with so many changes.

    With n = ln K + m·(ln(K−1) + ln T) + (m+1)·ln(1 + ln T) these are n nats of the log loss, and
    Δ·(1 + n/ln K) of others.

    Parameters
    ----------
    rule : int
        Of `ddol.update.mixtures`.
    experts, answers, switches : int
    gap : float
        Δ of AdaHedge, which a run adds up; before it, `largest_gap` is at least as much.

    Examples
    --------
    >>> round(mixture_bound(LOG, 3, 1e6), 2), round(mixture_bound(LOG, 3, 1e6, switches=1), 2)
    (3.79, 21.0)
    """
    if answers == 0:
        return 0.0
    K = max(experts, 2)
    changes = math.log(K - 1) + math.log(answers)
    nats = math.log(K) + switches * changes + (switches + 1) * math.log1p(math.log(answers))
    return nats if rule == LOG else gap * (1.0 + nats / math.log(K))


def largest_gap(experts: int, answers: float, spread: float, squared: bool = False) -> float:
    """The largest Δ of AdaHedge where the losses of experts differ by at most `spread` on any answer.

    Δ ≤ S·(√(T·ln K)/2 + ⅔·ln K + 1) (de Rooij et al. 2014, theorem 8, for the largest variance). Losses
    ½(z−y)² within a range of 2B, whose spread is 2B², are exp-concave: Δ grows only while η = ln K/Δ > 1/4B²,
    so Δ ≤ 2S·ln K + S.

    Examples
    --------
    >>> round(largest_gap(3, 1e4, 1.0), 1), round(largest_gap(3, 1e4, 1.0, squared=True), 1)
    (54.1, 3.2)
    """
    several = math.log(max(experts, 2))
    slow = spread * (0.5 * math.sqrt(answers * several) + 2.0 / 3.0 * several + 1.0)
    return min(slow, spread * (2.0 * several + 1.0)) if squared else slow


def sites_of(trace: Trace, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row for each agent of a safe run; none of other runs.

    Losses are totals over the answered examples, of clipped probabilities where the loss is logistic.
    `bound` is what `loss` exceeds the smaller of `loss_alone` and `loss_shared` by at most.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((400, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> rows = sites_of(ddol.run(ddol.safe(ddol.adaptive()), (X, y), 2))
    >>> [row["name"] for row in rows], all(row["regret"] <= row["bound"] for row in rows)
    (['0', '1'], True)
    """
    if not trace.algorithm.safe or trace.state is None:
        return []
    update: Any = trace.algorithm.update
    scalars = trace.state.scalars
    called = names if len(names) == len(scalars) else [str(i) for i in range(len(scalars))]
    heard = listening(trace)
    found = []
    for i, name in enumerate(called):
        examples, mistakes = int(trace.state.examples[i]), float(trace.mistakes[i])
        row = site_row(trace.algorithm, update.mixture_of(scalars[i]), examples, mistakes)
        others = {
            str(called[int(j)]): round(float(heard[i, j]), 4)
            for j in np.flatnonzero(heard[i])
            if j != i
        }
        unheard = not others and trace.agents > 1 and row["loss"] >= row["loss_alone"]
        if unheard and row["helped"] == "unclear":
            row["helped"] = "no"  # it listens to no other site, and predicts no better for it
        found.append({"name": str(name), **row, "listens_to": others})
    return found


def privacy_of(trace: Trace) -> dict[str, Any] | None:
    """The budget of a private run, and what every agent has spent of it."""
    budget: Any = trace.algorithm.privacy
    if budget is None or trace.state is None:
        return None
    update: Any = trace.algorithm.update
    released = [
        update.learner.released(update.part_of(trace.state.theta[i], own, 0)[1])
        for i, own in enumerate(trace.state.scalars)
    ]
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "every": budget.every,
        "public": budget.public,
        "releases": budget.releases,
        "released": released,
        "spent": [budget.spent(count) for count in released],
        "used_up": [count >= budget.releases for count in released],
    }


def site_row(algorithm: Algorithm, m: np.ndarray, examples: int, mistakes: float) -> dict[str, Any]:
    """Figures of one safe agent, from its numbers of mixtures (outputs, numbers)."""
    update: Any = algorithm.update
    classes, m = algorithm.loss.task != REGRESSION, m[0]  # the first state has those of all classes
    K, answers = len(update.opinions), float(m[COUNT])
    losses, best = m[update.places.losses : update.places.best], update.places.best
    ends = m[best : best + (SWITCHES + 1) * K].reshape(SWITCHES + 1, K).min(axis=1)
    alone, shared, lost = float(losses[0]), float(losses[-1]), float(m[LOSS])
    bounds = [_bound(rule_for(algorithm.loss), m, K, switches) for switches in range(SWITCHES + 1)]
    weights = m[FIXED : FIXED + K] @ update.opinions[:, : update.sent].sum(axis=1)

    def share(wrong: float) -> float | None:
        return float(wrong) / max(answers, 1.0) if classes else None

    return {
        "examples": examples,
        "error_alone": share(m[WRONG_ALONE]),
        "error_shared": share(m[WRONG_SHARED]),
        "error": share(m[WRONG]),
        "loss_alone": alone,
        "loss_shared": shared,
        "loss": lost,
        "weight_shared": float(weights),
        "bound": bounds[0],
        "regret": lost - min(alone, shared),
        "regret_with_switches": [lost - float(each) for each in ends],
        "bound_with_switches": bounds,
        "helped": _verdict(m),
    }


def _bound(rule: int, m: np.ndarray, experts: int, switches: int) -> float:
    found = mixture_bound(rule, experts, float(m[COUNT]), switches, float(m[GAP]))
    return found + float(m[GAP] if rule == LOG else m[ALIKE_LOSS])


def _verdict(m: np.ndarray) -> str:
    """What two bettors make of the differences."""
    helps, harms = (m[k] + math.log(m[factor]) for k, factor in _CAPITAL)
    if helps >= SURE:
        return "yes"
    return "no" if harms >= SURE else "unclear"


def listening(trace: Trace) -> np.ndarray:
    """Weights (N, N) with which agents average now: row i is whom agent i listens to.

    Where neighbours are tested, those that failed count nothing, and the agent itself that much more.

    Examples
    --------
    >>> import ddol
    >>> listening(ddol.run(ddol.dogd(), (np.eye(2), [1.0, -1.0]), 2))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    algorithm = trace.algorithm
    matrix = np.array(algorithm.mixing.at(1).dense())
    if not algorithm.tests or trace.state is None:
        return matrix
    from ddol.update.trust import BOXES, passes

    boxes = algorithm.update.layout(algorithm.average, trace.state.n_features).boxes
    for i, outputs in enumerate(trace.state.scalars):
        known = outputs[:, boxes.scalar + BOXES :]
        neighbours, _ = algorithm.mixing.at(1).row(i)
        for wire, j in enumerate(neighbours.tolist()):
            box = known[:, wire * boxes.scalars :]
            if j != i:
                kept = matrix[i, j] * float(np.mean([passes(own) for own in box]))
                matrix[i, i] += matrix[i, j] - kept
                matrix[i, j] = kept
    return matrix


def in_words(rows: Sequence[dict[str, Any]]) -> str:
    """One sentence for people: whom sharing helped.

    Examples
    --------
    >>> in_words([{"name": "a", "helped": "yes"}, {"name": "b", "helped": "no"}])
    'Sharing helped 1 of 2 sites; b does better alone, so it relies on its own model.'
    """
    helped = sum(row["helped"] == "yes" for row in rows)
    against = [row["name"] for row in rows if row["helped"] == "no"]
    open_ = len(rows) - helped - len(against)
    text = f"Sharing helped {helped} of {len(rows)} sites"
    if against:
        some = ", ".join(against[:5]) + (
            f" and {len(against) - 5} others" if len(against) > 5 else ""
        )
        text += f"; {some} {'does' if len(against) == 1 else 'do'} better alone, so "
        text += (
            "it relies on its own model" if len(against) == 1 else "they rely on their own models"
        )
    if open_:
        text += f"; for {open_} there are too few examples to tell"
    return text + "."


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows as lines of text."""
    errors = all(row["error_alone"] is not None for row in rows)
    unit = "error %" if errors else "loss"
    width = max(6, *(len(row["name"]) for row in rows))
    lines = [
        f"{'site':>{width}} {'examples':>10} {unit + ' alone':>14} {'shared':>8} {'mixture':>8} "
        f"{'sharing %':>10} helped"
    ]
    for row in rows:
        n = max(row["examples"], 1)
        if errors:
            cells = [f"{100 * row[k]:.2f}" for k in ("error_alone", "error_shared", "error")]
        else:
            cells = [f"{row[k] / n:.4g}" for k in ("loss_alone", "loss_shared", "loss")]
        lines.append(
            f"{row['name']:>{width}} {row['examples']:>10,} {cells[0]:>14} {cells[1]:>8} {cells[2]:>8} "
            f"{100 * row['weight_shared']:>10.0f} {row['helped']}"
        )
    return lines
