"""What agents send to each other: a message wherever one listens to another."""

from __future__ import annotations

from ddol.communicate.mixing import Changing, Mixing


class Traffic:
    """Messages of a run by the number of rounds played.

    Agent j sends to i where A_ij > 0 and i ≠ j, in every round that the period divides. A matrix that
    changes is counted round by round.

    Parameters
    ----------
    mixing : Mixing
    period : int
        Rounds from one exchange to the next.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import ring
    >>> Traffic(metropolis(ring(8)), period=2).messages(10)
    80
    """

    def __init__(self, mixing: Mixing | Changing, period: int = 1) -> None:
        self.mixing, self.period = mixing, period
        self._counted = 0
        self._messages = 0

    def messages(self, rounds: int) -> int:
        """Messages that all agents have sent in the first rounds."""
        mixing, period = self.mixing, self.period
        if not isinstance(mixing, Changing):
            return mixing.n_messages * (rounds // period)
        if rounds < self._counted:  # somebody went back
            self._counted = self._messages = 0
        for t in range(self._counted + 1, rounds + 1):
            if t % period == 0:
                self._messages += mixing.at(t).n_messages
        self._counted = rounds
        return self._messages
