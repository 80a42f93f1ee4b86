"""What agents send to each other: a message wherever one listens to another."""

from __future__ import annotations

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.state import numbers_sent


class Traffic:
    """Messages of a run by the number of rounds played.

    Agent j sends to i where A_ij > 0 and i ≠ j, in every round that the period divides. A matrix that
    changes is counted round by round.

    Parameters
    ----------
    algorithm : Algorithm

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.presets import dogd
    >>> Traffic(dogd().on(ring(8), period=2)).messages(10)
    80
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self._counted = 0
        self._messages = 0

    def messages(self, rounds: int) -> int:
        """Messages that all agents have sent in the first rounds."""
        mixing, period = self.algorithm.mixing, self.algorithm.period
        if not isinstance(mixing, Changing):
            return mixing.n_messages * (rounds // period)
        if rounds < self._counted:  # somebody went back
            self._counted = self._messages = 0
        for t in range(self._counted + 1, rounds + 1):
            if t % period == 0:
                self._messages += mixing.at(t).n_messages
        self._counted = rounds
        return self._messages

    def sent(self, rounds: int, n_features: int) -> tuple[int, int]:
        """Messages, and their bytes."""
        messages = self.messages(rounds)
        return messages, messages * numbers_sent(self.algorithm, n_features) * 8
