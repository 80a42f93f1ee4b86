"""The error of the last examples, and an alarm when it has risen (the test of Page and Hinkley)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

_SLACK = 0.1
"""In deviations of one example: a rise by less is none."""
_LIMIT, _LIMIT_OF_LOSSES = 75.0, 150.0
"""In deviations of one example: how much excess, summed over examples, is a rise.

By chance mistakes have so much after an example with a probability of exp(−2·slack·limit) = 3·10⁻⁷. Losses of
numbers may have heavier tails.
"""
_FEWEST, _KEPT = 3, 64
"""Blocks before the first alarm; differences of blocks from which the deviation is known."""
_RAREST = 0.01
_MEDIAN_OF_SQUARE = 0.455
"""Of a standard normal variable."""


@dataclass(frozen=True)
class Rise:
    """An alarm: after ``examples`` the ``last`` of them have a larger ``error`` than those ``before``.

    Errors are mistakes by example, and mean losses for regression.
    """

    examples: int
    error: float
    before: float
    last: int


class PageHinkley:
    """Page–Hinkley test: sums by how much blocks exceed the mean since the last alarm, up to a limit.

    The deviation of one example is that of a mistake, or for regression the mean loss, and at least the
    median that the differences between successive blocks show, as a rise moves a mean and no median.
    While the error goes on rising after an alarm there is no other one.

    Examples
    --------
    >>> test = PageHinkley(classification=True)
    >>> [test.rose(1000, error) for error in (0.3, 0.1, 0.11, 0.1, 0.4, 0.5, 0.2, 0.1)]
    [None, None, None, None, 0.1525, None, None, None]
    """

    def __init__(self, classification: bool) -> None:
        self.classification = classification
        self._squares: deque[float] = deque(maxlen=_KEPT)
        self._last: tuple[int, float] | None = None
        self._rising = False
        self._restart()

    def _restart(self) -> None:
        self._examples = self._blocks = 0
        self._total = self._sum = self._least = self._before = 0.0

    def rose(self, examples: int, error: float) -> float | None:
        """Take the next block; the mean before the rise, if this one has shown it."""
        before, last = None, self._last
        self._rising = self._rising and last is not None and error > last[1]
        if self._rising:
            self._restart()
        elif self._blocks >= _FEWEST:
            before = self._tested(examples, error)
            if before is not None:
                self._rising = True
                self._restart()
        if last is not None:
            rise = error - last[1]  # may be so large that `**` raises
            self._squares.append(rise * rise / (1 / examples + 1 / last[0]))
        self._last = examples, error
        self._examples, self._blocks = self._examples + examples, self._blocks + 1
        self._total += examples * error
        if self._sum <= self._least:
            self._least, self._before = self._sum, self._total / self._examples
        return before

    def _tested(self, examples: int, error: float) -> float | None:
        mean = self._total / self._examples
        share = min(max(mean, _RAREST), 1 - _RAREST)
        least = share * (1 - share) if self.classification else mean * mean
        deviation = max(least, float(np.median(self._squares)) / _MEDIAN_OF_SQUARE) ** 0.5
        self._sum += examples * (error - mean - _SLACK * deviation)
        limit = _LIMIT if self.classification else _LIMIT_OF_LOSSES
        risen = self._sum - min(self._least, self._sum) > limit * deviation
        return self._before if risen else None


class Recent:
    """The error of the last examples of a run, from its counters at some points.

    Parameters
    ----------
    classification : bool
        Whether mistakes are counted; the mean loss is the error of regression.
    size : int
        Examples of the window; it may have more, since the run is looked at from point to point.

    Examples
    --------
    >>> recent = Recent(classification=True, size=100)
    >>> for k in range(1, 5):
    ...     recent.add(examples=90 * k, mistakes=9 * k * k, loss=0.0)
    >>> recent.examples, recent.error == (9 * 4**2 - 9 * 2**2) / 180
    (180, True)
    """

    def __init__(self, classification: bool, size: int = 1000) -> None:
        self.classification, self.size = classification, size
        self.begin()

    def begin(self, examples: int = 0, mistakes: float = 0, loss: float = 0) -> None:
        """Forget what was seen, and begin after so many examples."""
        first = int(examples), float(mistakes if self.classification else loss)
        self._points, self._tested = deque([first]), first
        self._test = PageHinkley(self.classification)
        self.rises: list[Rise] = []

    def look(self, counters: np.ndarray) -> None:
        """Look at counters (points, agents, 4) as `Snapshots` have them."""
        for mistakes, loss, _, examples in counters.sum(axis=1):
            self.add(examples, mistakes, loss)

    def add(self, examples: int, mistakes: float, loss: float) -> None:
        """Look at the sums over all agents so far."""
        now = int(examples), float(mistakes if self.classification else loss)
        while self._points and self._points[-1][0] >= now[0]:
            self._points.pop()
        # Of points that are close together few are kept, so that the largest window takes little memory.
        if len(self._points) > 1 and now[0] - self._points[-2][0] < self.size // 64:
            self._points.pop()
        self._points.append(now)
        while len(self._points) > 1 and self._points[1][0] <= now[0] - self.size:
            self._points.popleft()
        block = now[0] - self._tested[0]
        if block < self.size:
            return
        error = (now[1] - self._tested[1]) / block
        before = self._test.rose(block, error)
        if before is not None:
            self.rises.append(Rise(now[0], error, before, block))
        self._tested = now

    @property
    def examples(self) -> int:
        """Examples of the window: at least those asked for, or all until there are as many."""
        return self._points[-1][0] - self._points[0][0]

    @property
    def error(self) -> float | None:
        """Mistakes by example of the window, or its mean loss; None before the first example."""
        done = self._points[-1][1] - self._points[0][1]
        return done / self.examples if self.examples else None

    def figures(self, counters: np.ndarray) -> dict[str, Any]:
        """The window's figures for `Progress`, with the last counters."""
        self.look(counters)
        return {
            "window_error": self.error,
            "window": self.examples,
            "drift": tuple(self.rises),
        }
