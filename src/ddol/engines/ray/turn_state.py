"""What actors of an asynchronous run send each other and the driver, and the gate that stops
all of them at a common round."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.engines.events.live_turns import PlayedTurns
from ddol.engines.state import State, copied
from ddol.streams.rows import Block
from ddol.streams.stream import Position


@dataclass(frozen=True)
class PublishedRows:
    """The newest rows of some agents: how often each had published, and how far it is."""

    agents: NDArray[np.int64]
    times: NDArray[np.int64]
    progress: NDArray[np.int64]
    rows: NDArray[np.float64]


@dataclass(frozen=True)
class TurnsCopy:
    """Some agents at the end of a block: enough to go on from there.

    ``counts`` are turns played, turns planned and labels of every agent, ``slots`` what it keeps of
    predictions whose labels are under way; their rows are in ``late``, whose table says whose they are.
    """

    first: int
    part: State
    position: Position | None
    rounds: int
    counts: NDArray[np.int64]
    slots: NDArray[np.float64]
    late: Block
    published: PublishedRows

    @property
    def agents(self) -> range:
        """The agents of the copy."""
        return range(self.first, self.first + len(self.part.mistakes))

    def copy(self) -> TurnsCopy:
        """The same in memory of its own."""
        said = replace(self.published, rows=copied(self.published.rows))
        return replace(self, part=self.part.copy(), slots=self.slots.copy(), published=said)


@dataclass(frozen=True)
class TurnsStart:
    """How asynchronous actors begin, at first or after their number has changed.

    ``generation`` counts the changes, ``shares`` are (first, agents) of every actor, ``copies`` the same of
    those before with what each has left, and ``leave_at`` the rounds after which another change is waiting.
    ``ended`` are the last rows of actors that have reached the end of their streams.
    """

    generation: int
    shares: list[tuple[int, int]]
    copies: tuple[tuple[tuple[int, int], Any], ...] = ()
    leave_at: int | None = None
    ended: tuple[PublishedRows, ...] = ()


@dataclass(frozen=True)
class TurnsResult:
    """The result of an actor: its agents, the messages sent, and the turns played if they are recorded.

    ``published`` are the last rows that agents elsewhere have received of them. Rows of ``played`` are
    numbered within the stream of their agent. Where the agents move to other actors before the end, ``left``
    is what these need, and ``part`` is None.
    """

    counters: NDArray[np.float64]
    messages: int
    bytes_sent: int
    published: PublishedRows
    played: PlayedTurns | None = None
    left: TurnsCopy | None = None
    part: State | None = None


class Gate:
    """Lets the driver stop all actors between two blocks, at rounds that all of them can reach.

    First every actor pauses: it deals no more rounds, and returns how many it has dealt. Then the driver
    names the rounds after which all leave, and they play on to there. So no actor waits in the middle of a
    block for one that has stopped before it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._dealing = self._paused = self._ended = False
        self.rounds = 0
        self._last: int | None = None

    def most(self) -> int:
        """Rounds that may be dealt at most."""
        return 1 << 40 if self._last is None else max(1, self._last - self.rounds)

    def enter(self) -> bool:
        """Call before a block is dealt: waits while paused; False for leaving."""
        with self._changed:
            self._changed.wait_for(lambda: self._last is not None or not self._paused)
            if self._last is not None and self.rounds >= self._last:
                return False
            self._dealing = True
            return True

    def dealt(self, rounds: int | None) -> bool:
        """Call after it, with its rounds, or None for the end of the streams; False for leaving."""
        with self._changed:
            self._dealing = False
            self._changed.notify_all()
            if rounds is not None:
                self.rounds += rounds
                return True
            self._ended = not self._paused
            return self._ended

    def pause(self) -> int | None:
        """Deal nothing more from now on: the rounds dealt so far; None where all are."""
        with self._changed:
            self._changed.wait_for(lambda: not self._dealing)
            if self._ended:
                return None
            self._paused = True
            return self.rounds

    def leave_at(self, rounds: int | None) -> None:
        """Leave when so many rounds are dealt and played; None to go on as before."""
        with self._changed:
            self._last, self._paused = rounds, rounds is not None
            self._changed.notify_all()
