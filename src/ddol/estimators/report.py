"""Which expert won at which agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WeightReport:
    """Weights and mistakes of P experts at N agents.

    Parameters
    ----------
    experts, agents : names
    weights : (N, P)
        Each agent's weights; they sum to 1.
    expert_mistakes : (N, P)
        Wrong advice on each agent's own examples.
    mistakes, examples : (N,)
        Of the vote, before each answer was known.

    Examples
    --------
    >>> report = WeightReport(["a", "b"], ["0"], np.array([[0.9, 0.1]]), np.array([[1, 9]]),
    ...                       np.array([2]), np.array([20]))
    >>> report.heaviest, report.best
    (['a'], ['a'])
    """

    experts: list[str]
    agents: list[str]
    weights: np.ndarray
    expert_mistakes: np.ndarray
    mistakes: np.ndarray
    examples: np.ndarray

    @property
    def heaviest(self) -> list[str]:
        """The expert that each agent trusts most: who won."""
        return [self.experts[k] for k in self.weights.argmax(axis=1)]

    @property
    def best(self) -> list[str]:
        """The expert with the fewest mistakes on each agent's own examples."""
        return [self.experts[k] for k in self.expert_mistakes.argmin(axis=1)]

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.experts, "own best"))
        first = max(len(name) for name in (*self.agents, "agent"))
        lines = [
            f"{'agent':>{first}} {'examples':>9} {'vote wrong':>11}  {'won':<{width}} {'weight':>7}"
            f"  {'own best':<{width}} {'wrong':>6}"
        ]
        for i, agent in enumerate(self.agents):
            won, own = int(self.weights[i].argmax()), int(self.expert_mistakes[i].argmin())
            lines.append(
                f"{agent:>{first}} {self.examples[i]:>9} {self.mistakes[i]:>11}  "
                f"{self.experts[won]:<{width}} {self.weights[i, won]:>7.4f}  "
                f"{self.experts[own]:<{width}} {self.expert_mistakes[i, own]:>6}"
            )
        return "\n".join(lines)
