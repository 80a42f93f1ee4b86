"""The mistake bound beside a run of weighted majority, where its theorem's assumptions hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ddol.algorithm import Algorithm
from ddol.engines.session import Session, best_log_weight
from ddol.measure.theorems import Setting, Theorem, applicable, on_mistakes
from ddol.measure.trace import Trace


@dataclass(frozen=True)
class MistakeBound:
    """A theorem that speaks about the run.

    Parameters
    ----------
    theorem : Theorem
    n_experts : int
    algorithm : Algorithm
    """

    theorem: Theorem
    n_experts: int
    algorithm: Algorithm

    def value(self, log_weight: float) -> tuple[float, float]:
        """The bound, and what luck may add to it, when the best expert has this log-weight."""
        alpha = getattr(self.algorithm.update, "alpha", 0.5)
        bound = on_mistakes(
            self.theorem, log_weight, self.n_experts, self.algorithm.n_agents, alpha
        )
        return float(bound.value), float(bound.chance)

    def now(self, session: Session) -> float:
        """The bound at this moment of a run."""
        return self.value(best_log_weight(session))[0]

    def kept(self, trace: Trace) -> dict[str, Any]:
        """Name → value and whether the run kept it, as ``--json`` shows them."""
        value, chance = self.value(float(trace.curves.best_log_weight[-1]))
        mistakes = int(trace.mistakes.sum())
        return {self.theorem.name: {"value": value, "holds": mistakes <= value + chance}}


def mistake_bound(algorithm: Algorithm, n_experts: int | None) -> MistakeBound | None:
    """The bound on this algorithm's mistakes, or None where no theorem speaks about it."""
    if not algorithm.update.experts or n_experts is None:
        return None
    setting = Setting(
        family="weighted-majority",
        n_agents=algorithm.n_agents,
        uniform_complete=algorithm.mixing.is_uniform_complete,
        average=algorithm.average,
        period=algorithm.period,
        batch=algorithm.batch,
        delay=algorithm.delay,
        randomized=algorithm.update.randomized,
    )
    offer = applicable(setting)
    if not offer.holds or offer.theorem is None:
        return None
    return MistakeBound(offer.theorem, n_experts, algorithm)
