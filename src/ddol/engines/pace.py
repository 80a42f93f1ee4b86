"""How many rounds are played at a time: so few that whoever wants to stop is soon heard."""

from __future__ import annotations

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
