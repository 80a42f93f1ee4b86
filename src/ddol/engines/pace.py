"""How many rounds are played at a time: so few that whoever wants to stop is soon heard."""

from __future__ import annotations

import math

from ddol.communicate.mixing import KEPT

SECONDS = 0.25
"""What one piece should take at most."""

_FIRST = 1 << 26
"""Numbers that rounds go through in a tenth of a second, or less."""


class Pace:
    """Rounds of the next piece, from the time that the last ones took.

    Python hears a signal between two pieces only, so rounds that take long are played a few at a time;
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
    """Where rounds are cut into pieces: so that signals are heard, and where somebody looks at the run.

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

    def at_once(self, before: int, looked_at: bool, recorded: int | None) -> int:
        """Rounds that may be played at once after those before, as far as time is no matter.

        Parameters
        ----------
        before : int
        looked_at : bool
            Whether somebody looks when the number of examples passes a power of two.
        recorded : int or None
            The next round whose weights are recorded.
        """
        size = self._most
        if looked_at:
            size = min(size, self._next_power(before) - before)
        return size if recorded is None else min(size, recorded - before)

    def dealt(self, looked_at: bool) -> int:
        """Rounds that a block should have at most.

        Blocks are dealt where rows lie, and played in pieces: where nobody looks, short ones gain nothing.
        """
        return (
            self.pace.rounds if looked_at else max(self.pace.rounds, _ROWS_DEALT // self.per_round)
        )

    def _next_power(self, rounds: int) -> int:
        """First later round in which the number of examples passes a power of two."""
        power = 2 ** math.floor(math.log2(max(rounds * self.per_round, 1)) + 1)
        return max(-(-power // self.per_round), rounds + 1)
