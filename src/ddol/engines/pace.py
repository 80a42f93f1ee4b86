"""The number of rounds played at a time, such that signals are handled soon; and the time of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from ddol.communicate.mixing import KEPT

SECONDS = 0.25
"""Most seconds of one piece."""

_FIRST = 1 << 26
"""Numbers that rounds process in a tenth of a second, or less."""


class Pace:
    """Rounds of the next piece, from the time that the last ones took.

    Python handles a signal between two pieces only, so rounds that take long are played a few at a time;
    short ones are eight times as many in the next piece, until one takes its time or ends with its block.

    Examples
    --------
    >>> pace = Pace()
    >>> for _ in range(3):
    ...     pace.took(pace.rounds, seconds=0.0001)
    >>> pace.rounds
    512
    >>> pace.took(8, seconds=2.0)
    >>> pace.rounds
    1
    """

    def __init__(self, rounds: int = 1) -> None:
        self.rounds = rounds

    @classmethod
    def of(cls, numbers: int) -> Pace:
        """Begin with rounds that go through 64 million numbers, of so many that a round may go through.

        Examples
        --------
        >>> Pace.of(55).rounds, Pace.of(8 << 20).rounds
        (1048576, 8)
        """
        return cls(1 << max(0, (_FIRST // max(numbers, 1)).bit_length() - 1))

    def took(self, rounds: int, seconds: float) -> None:
        """Learn how long some rounds took."""
        affordable = int(SECONDS * rounds / max(seconds, 1e-9))
        # A short piece, which ended with its block, says nothing against longer ones: what it took was
        # the call rather than the rounds.
        if rounds >= self.rounds or seconds > SECONDS:
            self.rounds = max(1, min(8 * self.rounds, affordable, 1 << 40))


_ROWS_DEALT = 1 << 20
"""Rows of a block whose table takes little memory."""


class Pieces:
    """Cuts rounds into pieces, so that signals are handled and progress is reported between them.

    Parameters
    ----------
    per_round : int
        Examples of a round.
    changing : bool
        Whether the mixing matrix changes.
    """

    def __init__(self, per_round: int, changing: bool) -> None:
        self.per_round, self.pace = per_round, Pace()
        self._most = KEPT if changing else 1 << 40

    def to_stop(self, before: int, reports: bool, recorded: int | None) -> int:
        """Rounds to the next at which a piece must end.

        Parameters
        ----------
        before : int
            Rounds played.
        reports : bool
            Whether progress is reported when the number of examples passes a power of two.
        recorded : int or None
            The next round whose weights are recorded.
        """
        size = self._most
        if reports:
            size = min(size, self._next_power(before) - before)
        return size if recorded is None else min(size, recorded - before)

    def cut(self, rounds: int, to_stop: Callable[[int], int]) -> Iterator[tuple[int, int]]:
        """First and last round of every piece of a block; the pace is that of the pieces before.

        Parameters
        ----------
        rounds : int
            Of the block.
        to_stop : function of the block's rounds that are played
        """
        lo = 0
        while lo < rounds:
            hi = lo + (1 if rounds == 1 else min(rounds - lo, self.pace.rounds, to_stop(lo)))
            yield lo, hi
            lo = hi

    def dealt(self, reports: bool) -> int:
        """Rounds that a block should have at most.

        Blocks are dealt where rows lie, and played in pieces: without reports, short ones gain nothing.
        """
        return self.pace.rounds if reports else max(self.pace.rounds, _ROWS_DEALT // self.per_round)

    def _next_power(self, rounds: int) -> int:
        """First later round in which the number of examples passes a power of two."""
        power = 2 ** math.floor(math.log2(max(rounds * self.per_round, 1)) + 1)
        return max(-(-power // self.per_round), rounds + 1)


class Stopwatch:
    """Counts the seconds in which a run goes on, once where uses are nested.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> with watch, watch:
    ...     watch.running
    True
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._before, self._began, self._depth = seconds, 0.0, 0

    @property
    def running(self) -> bool:
        """Whether it counts now."""
        return self._depth > 0

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return self._before + (time.perf_counter() - self._began if self.running else 0.0)

    def stopped(self) -> Stopwatch:
        """One that has counted as much and stands still."""
        return Stopwatch(self.seconds)

    def __enter__(self) -> Stopwatch:
        if not self.running:
            self._began = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        seconds = self.seconds
        self._depth -= 1
        if not self.running:
            self._before = seconds
