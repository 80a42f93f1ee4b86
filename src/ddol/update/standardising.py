"""What the updates share that learn in the coordinates of `ddol.update.coordinates`."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ddol.update import answers, statistics
from ddol.update import coordinates as at
from ddol.update.contract import ARRIVAL, COLLECT, LARGEST, Field, Layout, Loops, Update
from ddol.update.own_statistics import Sent, loops_of_own, scalars_of_own

_layout = functools.lru_cache(maxsize=16)(Layout)
"""A run asks for its layout some twenty times, and making one takes as long as a hundred examples."""


SHARED, OWN = "shared", "own"
"""Whose statistics an agent standardises by."""
_SHARED_RANGE = tuple(
    field._replace(average=LARGEST) if k in (answers.HIGHEST, answers.LOWEST) else field
    for k, field in enumerate(at.SCALARS)
)
"""Where answers are numbers, neighbours share their range."""
_COUNTS, _SUMS, _SQUARES = range(len(at.STATISTICS))


def _between(message: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """By how much squares about a reference are more than those about the mean."""
    counts = np.maximum(message[_COUNTS], 1e-300)
    return counts * (message[_SUMS] / counts - reference) ** 2


def standardising_loops(*own: Callable) -> Loops:
    """Loops of an update that observes, and collects on a shared copy."""
    common = at.observe, statistics.to_statistics, statistics.from_statistics
    return Loops.of(*common, *own, additive=True, shared=COLLECT, propagates_nan=True)


@dataclass(frozen=True, kw_only=True)
class Standardising(Update):
    """An update whose features, and answers, are centred and scaled while it learns.

    Parameters
    ----------
    regression : bool
        Answers are numbers of any size and offset; else they are classes.
    n_agents, at_once : int, float
        Set by `Algorithm.on`: agents in all, and how many of them one exchange averages.
    fresh : bool
        Set by `Algorithm`: slopes are taken when answers arrive.
    statistics : "shared" or "own"
        Whether neighbours average what they know of features, and answers, or each agent standardises by
        what it has seen itself; see `ddol.update.own_statistics`.
    own_intercept : bool
        Each agent keeps its own intercept; so it does where statistics are its own.
    clip : bool
        Numbers are predicted within the range of the answers that were heard.
    """

    regression: bool = False
    n_agents: int = 1
    at_once: float = 1.0
    fresh: bool = False
    statistics: str = SHARED
    own_intercept: bool = False
    clip: bool = True

    intercept_sums: ClassVar[tuple[int, ...]] = ()
    """Places of the scalars that the intercept is made of."""
    positive_sums: ClassVar[tuple[int, ...]] = ()
    """Places of the update's own scalars that cannot be negative, in messages neither."""
    gradient: ClassVar[str] = ARRIVAL
    centres: ClassVar[float] = 0.5
    """Share of values other than 0 from which on a feature is centred: rows cost O(non-zeros) then."""
    memory: ClassVar[float] = math.inf
    """Rounds after which an example counts 1/e."""

    def __post_init__(self) -> None:
        if self.statistics not in (SHARED, OWN):
            raise ValueError(
                f"`statistics` must be {SHARED!r} or {OWN!r}, it is {self.statistics!r}"
            )

    @property
    def keeps_own(self) -> bool:
        """Whether each agent standardises by what it has seen itself."""
        return self.statistics == OWN

    @property
    def sent(self) -> Sent | None:
        """What is sent where an agent keeps something of its own."""
        if not (self.keeps_own or self.own_intercept):
            return None
        return Sent.of(self.keeps_own, self.intercept_sums, 2 if self.regression else 0)

    @property
    def _behind(self) -> int:
        """Scalars in front of those of the coordinates."""
        return 0 if self.sent is None else self.sent.size

    @property
    def coordinates(self) -> tuple[int, int, int]:  # type: ignore[override]
        """Centre, 1/scale and how far x̃ may be from 0."""
        return at.CENTRE, at.INVERSE, at.REACH + self._behind

    def with_network(self, n_agents: int, at_once: float | None = None) -> Self:
        """The same update, told how many agents there are, and how many an exchange averages."""
        return replace(self, n_agents=n_agents, at_once=at_once or float(n_agents))

    def with_gradient(self, fresh: bool) -> Self:
        """The same update, told when slopes are taken."""
        return self if fresh == self.fresh else replace(self, fresh=fresh)

    def range_of(self, scalars: np.ndarray) -> tuple[float, float]:
        """Of the answers that were heard, where predictions are clipped to it."""
        own = scalars[self._behind :]
        if not (self.regression and self.clip and own[answers.HIGHEST] > -math.inf):
            return -math.inf, math.inf
        return -float(own[answers.LOWEST]), float(own[answers.HIGHEST])

    def without_range(self) -> Self:
        """The same update, whose predictions may be anywhere."""
        return replace(self, clip=False)

    def to_strangers(self, message: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Squares about the mean, which the message has, and not about the own reference."""
        if self.keeps_own:
            return message
        between = _between(message, rows[at.REFERENCE])
        message[_SQUARES] = np.maximum(message[_SQUARES] - between, 0.0)
        return message

    def from_strangers(self, message: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Squares about the own reference, which for features never met is the mean of others."""
        if self.keeps_own:
            return message
        fresh = (rows[at.FILLED] == 0.0) & (message[_COUNTS] > 0.0)
        rows[at.REFERENCE, fresh] = message[_SUMS, fresh] / message[_COUNTS, fresh]
        message[_SQUARES] += _between(message, rows[at.REFERENCE])
        return message

    @property
    @abstractmethod
    def own_loops(self) -> Loops:
        """The loops, but for what answers that are numbers need."""

    @property
    @abstractmethod
    def own_parameters(self) -> list[float]:
        """Numbers that the loops find in ``p`` behind those of the coordinates."""

    def loops(self, space: str) -> Loops:
        """The update's own loops, which hear answers if these are numbers."""
        loops = replace(self.own_loops, hear=answers.hear) if self.regression else self.own_loops
        return loops if self.sent is None else loops_of_own(loops, self.sent)

    def parameters(self) -> list[float]:
        """How fast to forget, the task, how many agents there are, and how many of them pool statistics;
        other numbers above, and the update's own."""
        agents = float(self.n_agents)
        known = [math.exp(-1.0 / self.memory), float(self.regression), agents]
        return [
            *known,
            1.0 if self.keeps_own else agents,
            float(self.fresh),
            self.centres,
            float(self.regression and self.clip),
            *self.own_parameters,
        ]

    def standardised_layout(
        self,
        own: tuple[Field, ...],
        message: tuple[int | Field, ...],
        collected: int,
        whole: bool = False,
        notes: tuple[Field, ...] = (),
    ) -> Layout:
        """Statistics, then an update's own rows; so do messages begin, and what is collected.

        More notes of the update itself stand behind the scalars.
        """
        sent, scalars = at.STATISTICS + message, at.SCALARS + notes
        if self.regression:
            scalars = _SHARED_RANGE + notes
        scalars = tuple(
            field._replace(least=0.0) if k in self.positive_sums else field
            for k, field in enumerate(scalars)
        )
        rows, counted, sampled = at.ROWS + own, at.COUNTED, math.isinf(self.memory)
        if self.sent is not None:
            scalars, collected = scalars_of_own(scalars, self.sent), 0
        if self.keeps_own:
            return _layout(rows, scalars, message, 0, 0, whole, lists=at.LISTS)
        return _layout(rows, scalars, sent, collected, 0, whole, counted, sampled, at.LISTS)
