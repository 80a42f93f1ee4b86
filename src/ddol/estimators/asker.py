"""Whether an answer is worth asking for, example by example, where no run decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddol.reference import margin_of
from ddol.update.asking import LABELS, NUMBERS, asking_of, buy, wish

_MOST_WAITING = 1024
"""Answers under way whose weights are kept."""


class Asker:
    """A rule of `ddol.update.asking`, with what each agent remembers of it.

    Parameters
    ----------
    query : str, float or None
        None asks for every answer.
    seed : int

    Examples
    --------
    >>> asker = Asker(0.2, seed=0)
    >>> sum(asker.ask([0.1 * k]) for k in range(100)) <= 20, asker.labels <= 20
    (True, True)
    """

    def __init__(self, query: Any, seed: int) -> None:
        self._rule = asking_of(query)
        if self._rule is not None and (self._rule.kind == "experts" or self._rule.neighbours):
            raise ValueError(
                f"`query`: found {query!r}, expected a share such as 0.2, b:1, adaptive:1, unbiased:1 or "
                "random:0.2, which need neither experts nor neighbours"
            )
        self._chances = np.random.default_rng(seed)
        self._agents: dict[Any, np.ndarray] = {}
        self._seen: dict[Any, int] = {}
        self._weights: dict[Any, float] = {}

    @property
    def labels(self) -> int:
        """Answers that were asked for."""
        if self._rule is None:
            return sum(self._seen.values())
        return int(sum(own[LABELS] for own in self._agents.values()))

    @property
    def weighs(self) -> bool:
        """Whether answers weigh what the rule says."""
        return self._rule is not None and self._rule.unbiased

    def ask(self, scores: Sequence[float], agent: Any = None, example: Any = None) -> bool:
        """Whether to ask for the answer to an example with these scores, of which an agent has none yet.

        By an unbiased rule the weight of the answer is kept under the example, whatever names it.
        """
        seen = self._seen[agent] = self._seen.get(agent, 0) + 1
        if self._rule is None:
            return True
        own = self._agents.setdefault(agent, np.zeros(NUMBERS))
        p = self._rule.parameters(0.0)
        margin = margin_of(scores) if len(scores) else 0.0
        wished = wish(p, own, float(seen), margin, self._chances.random())
        weight = buy(p, own, float(seen), wished)
        if weight > 0.0 and self.weighs:
            if len(self._weights) >= _MOST_WAITING:
                del self._weights[next(iter(self._weights))]
            self._weights[example] = float(weight)
        return bool(weight > 0.0)

    def weight(self, example: Any) -> float:
        """What the answer to an example that was asked about is to weigh: 1, or 1/probability; once."""
        return self._weights.pop(example, 1.0)
