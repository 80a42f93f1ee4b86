"""Does sharing help? What every safe agent would have lost alone, by sharing, and what it did lose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.update.losses import REGRESSION
from ddol.update.mixtures import (
    CENTRE,
    COUNT,
    FIXED,
    HARMS,
    HEDGED,
    HELPS,
    LATE,
    LOG,
    LOSS,
    OUTSIDE,
    REACH,
    SPREAD,
    SWITCHES,
    VARIANCE,
    WRONG_ALONE,
    WRONG_SHARED,
    rule_for,
)

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.trace import Trace

SURE = math.log(40.0)
"""Capital of a bettor beyond which it is believed: at a level of 5 %, for either side."""
assert CENTRE < REACH


def mixture_bound(
    rule: int,
    experts: int,
    answers: float,
    switches: int = 0,
    numbers: Sequence[float] = (1.0, 0.0, 0.0),
) -> float:
    """What a mixture loses at most beyond the best sequence of experts with so many changes.

    Parameters
    ----------
    rule : int
        Of `ddol.update.mixtures`.
    experts, answers, switches : int
    numbers : (B, cost outside, 0) of squared loss, or (cost where all were alike, variance, spread) of
    AdaHedge

    Examples
    --------
    >>> round(mixture_bound(LOG, 3, 1e6), 2), round(mixture_bound(LOG, 3, 1e6, switches=1), 2)
    (14.91, 29.42)
    """
    if answers == 0:
        return 0.0
    several, log_t = math.log(max(experts, 2)), math.log(max(answers, 1.0))
    if rule == LOG:
        return math.log(experts) + switches * math.log(max(experts - 1, 1)) + (switches + 1) * log_t
    if rule == HEDGED:
        if switches:
            return math.inf
        return (
            2.0 * math.sqrt(numbers[1] * several)
            + numbers[2] * (4.0 / 3.0 * several + 2.1)
            + numbers[0]
        )
    reach, outside, _ = numbers
    nats = (switches + 4.0 / 3.0) * (several + log_t) + log_t
    return 4.0 * reach * reach * nats + outside


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
    """Figures of one safe agent, from its mixtures (outputs, numbers)."""
    update: Any = algorithm.update
    classes = algorithm.loss.task != REGRESSION
    K, one = len(update.opinions), classes and len(m) == 1
    answers = float(m[0, COUNT])
    losses, best = m[:, update.places.losses : update.places.best], update.places.best
    ends = m[:, best : best + (SWITCHES + 1) * K].reshape(len(m), SWITCHES + 1, K).min(axis=2)
    alone, shared, lost = losses[:, 0].sum(), losses[:, -1].sum(), m[:, LOSS].sum()
    rule = rule_for(algorithm.loss)
    bounds = [_bound(rule, own, K, switches) for own in m for switches in range(SWITCHES + 1)]
    within = np.reshape(bounds, (len(m), -1)).sum(axis=0)
    weights = m[:, FIXED : FIXED + K] @ update.opinions[:, : update.sent].sum(axis=1)

    def share(wrong: float) -> float | None:
        return float(wrong) / max(answers, 1.0) if one else None

    return {
        "examples": examples,
        "error_alone": share(m[0, WRONG_ALONE]),
        "error_shared": share(m[0, WRONG_SHARED]),
        "error": mistakes / max(examples, 1) if classes else None,
        "loss_alone": float(alone),
        "loss_shared": float(shared),
        "loss": float(lost),
        "weight_shared": float(weights.mean()),
        "bound": float(within[0]),
        "regret": float(lost - min(alone, shared)),
        "regret_with_switches": [float(lost - each) for each in ends.sum(axis=0)],
        "bound_with_switches": [float(each) for each in within],
        "helped": _verdict(m),
    }


def _bound(rule: int, m: np.ndarray, experts: int, switches: int) -> float:
    numbers = (
        (m[OUTSIDE], m[VARIANCE], m[SPREAD]) if rule == HEDGED else (m[REACH], m[OUTSIDE], 0.0)
    )
    found = mixture_bound(rule, experts, float(m[COUNT]), switches, numbers)
    return (1.0 + float(m[LATE])) * found


def _verdict(m: np.ndarray) -> str:
    """What two bettors make of the differences; of several outputs, what they own together."""
    helps, harms = (_mean_capital(m[:, place]) for place in (HELPS, HARMS))
    if helps >= SURE:
        return "yes"
    return "no" if harms >= SURE else "unclear"


def _mean_capital(logs: np.ndarray) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


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
    'Sharing helped 1 of 2 sites; b is better off alone, and was.'
    """
    helped = sum(row["helped"] == "yes" for row in rows)
    against = [row["name"] for row in rows if row["helped"] == "no"]
    open_ = len(rows) - helped - len(against)
    told = f"Sharing helped {helped} of {len(rows)} sites"
    if against:
        some = ", ".join(against[:5]) + (
            f" and {len(against) - 5} others" if len(against) > 5 else ""
        )
        told += f"; {some} {'is' if len(against) == 1 else 'are'} better off alone, and "
        told += "was" if len(against) == 1 else "were"
    if open_:
        told += f"; of {open_} it cannot be told yet"
    return told + "."


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
            told = [f"{100 * row[k]:.2f}" for k in ("error_alone", "error_shared", "error")]
        else:
            told = [f"{row[k] / n:.4g}" for k in ("loss_alone", "loss_shared", "loss")]
        lines.append(
            f"{row['name']:>{width}} {row['examples']:>10,} {told[0]:>14} {told[1]:>8} {told[2]:>8} "
            f"{100 * row['weight_shared']:>10.0f} {row['helped']}"
        )
    return lines
