"""A run as an ordered list of events: given the list and the data, the result is determined to the bit.

====  ======================  ====================================================================
kind  event                   what happens
====  ======================  ====================================================================
0     predict(i, row)         agent i takes a turn: it predicts the row (−1: a turn without an example)
1     answer(i, row)          the label of that row arrives, and i learns from it
2     send(i)                 what i shares is written down; the event's place names the message
3     receive(j, i, message)  it becomes i's newest message in j's mailbox, unless a newer one is there
4     mix(j)                  j averages its own with the newest messages of its neighbours, and projects
4     mix(j, i)               the same with i alone: j adopts the mean of the two
5     project(i)              i's state is brought back to the domain
6, 7  leave(i), join(i)       i is absent, and comes back with the state that it left with
8     adopt(j, i)             j takes i's newest message as its own state: a token that walks
9     teach(j, i, row)        j learns from a row of i's, at its own weights, and projects
10    gradient(j, i, row)     the same with the gradient at the weights that i takes j to have
====  ======================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PREDICT, ANSWER, SEND, RECEIVE, MIX, PROJECT, LEAVE, JOIN, ADOPT, TEACH, GRADIENT = range(11)
NAMES = (
    "predict", "answer", "send", "receive", "mix", "project", "leave", "join", "adopt", "teach", "gradient",
)  # fmt: skip
STRUCK = -1
"""In the place of the kind of an event that did not happen, since an agent had nothing to say."""
NONE = -1
"""In the place of a row, a peer or a message where there is none."""

FIELDS: dict[str, np.dtype[Any]] = {
    "kind": np.dtype(np.int8),
    "agent": np.dtype(np.int32),
    "peer": np.dtype(np.int32),
    "row": np.dtype(np.int64),
    "time": np.dtype(np.float64),
}
"""The arrays of a list and of a recording."""


class Event(NamedTuple):
    """One event, as a schedule of one's own yields it."""

    kind: int
    agent: int
    peer: int = NONE
    row: int = NONE
    time: float = 0.0

    def __str__(self) -> str:
        """As one would write it: ``receive(3, 1, 57)``."""
        named = [self.agent, *(value for value in (self.peer, self.row) if value != NONE)]
        return f"{NAMES[self.kind]}({', '.join(str(value) for value in named)})"


def predict(agent: int, row: int = NONE, time: float = 0.0) -> Event:
    """Let an agent take a turn: it predicts the row, or has no example in this turn."""
    return Event(PREDICT, agent, NONE, row, time)


def answer(agent: int, row: int, time: float = 0.0) -> Event:
    """Let the label of a row that was predicted arrive."""
    return Event(ANSWER, agent, NONE, row, time)


def send(agent: int, time: float = 0.0) -> Event:
    """Write down what an agent shares."""
    return Event(SEND, agent, NONE, NONE, time)


def receive(agent: int, sender: int, message: int, time: float = 0.0) -> Event:
    """Bring the message that was written down at a place of the list to an agent."""
    return Event(RECEIVE, agent, sender, message, time)


def mix(agent: int, peer: int = NONE, time: float = 0.0) -> Event:
    """Let an agent average with what it has heard of its neighbours, or of one of them."""
    return Event(MIX, agent, peer, NONE, time)


def project(agent: int, time: float = 0.0) -> Event:
    """Bring an agent's state back to the domain."""
    return Event(PROJECT, agent, NONE, NONE, time)


def leave(agent: int, time: float = 0.0) -> Event:
    """Let an agent go: it neither predicts nor receives."""
    return Event(LEAVE, agent, NONE, NONE, time)


def join(agent: int, time: float = 0.0) -> Event:
    """Let an agent come back, with the state that it left with."""
    return Event(JOIN, agent, NONE, NONE, time)


def adopt(agent: int, peer: int, time: float = 0.0) -> Event:
    """Let an agent take the newest message of another as its own state."""
    return Event(ADOPT, agent, peer, NONE, time)


def teach(agent: int, teacher: int, row: int, time: float = 0.0) -> Event:
    """Let an agent learn from an example that a neighbour sends it."""
    return Event(TEACH, agent, teacher, row, time)


@dataclass(frozen=True, eq=False)
class Events:
    """An ordered list of events.

    Parameters
    ----------
    kind : int8 array
        `PREDICT`, `ANSWER`, …
    agent, peer : int32 arrays
        The agent of the event and the other agent; −1 if there is none. Of an answer: how many older
        predictions of the same row, those of passes before, go on waiting; −1 where none does.
    row : int64 array
        The row's number in the whole data for predictions and answers, the place of the send event for
        `RECEIVE`, else −1.
    time : float64 array
        Virtual time, or seconds from the start.
    gradient : str
        Where gradients were taken, "kept" or "arrival"; empty where it is not known.

    Examples
    --------
    >>> events = Events.of([predict(0, 5), answer(0, 5)])
    >>> len(events), str(events[1])
    (2, 'answer(0, 5)')
    """

    kind: NDArray[np.int8]
    agent: NDArray[np.int32]
    peer: NDArray[np.int32]
    row: NDArray[np.int64]
    time: NDArray[np.float64]
    gradient: str = ""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Events:
        """Make a list of single events.

        A generator is sent the place of each event that it yields, so that it can name messages:
        ``message = yield send(0)``.
        """
        return cls.from_columns(list(_told_places(iter(events))))

    @classmethod
    def from_columns(cls, events: Sequence[Event]) -> Events:
        """The same of events that are there already."""
        columns: Any = zip(*events, strict=True) if events else ([],) * len(FIELDS)
        return cls.from_arrays(
            _column(name, values) for name, values in zip(FIELDS, columns, strict=True)
        )

    @classmethod
    def from_arrays(cls, arrays: Iterable[NDArray[Any]]) -> Events:
        """The arrays of a list, in the order of `FIELDS`."""
        kind, agent, peer, row, time = arrays
        return cls(kind, agent, peer, row, time)

    @classmethod
    def joined(cls, pieces: Sequence[Events]) -> Events:
        """Several pieces one after the other; messages are named by their place in the whole."""
        if not pieces:
            return cls.of([])
        return cls.from_arrays(
            np.concatenate([getattr(p, name) for p in pieces]) for name in FIELDS
        )

    def copy(self) -> Events:
        """The same list in memory of its own."""
        return Events.from_arrays(getattr(self, name).copy() for name in FIELDS)

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, place: int) -> Event:
        """The event at a place."""
        return Event(*(getattr(self, name)[place].item() for name in FIELDS))

    def __iter__(self) -> Iterator[Event]:
        return (self[place] for place in range(len(self)))

    def count(self, kind: int) -> int:
        """Number of events of a kind."""
        return int(np.count_nonzero(self.kind == kind))

    def amended(self, after: NDArray[np.int64], lessons: Events) -> Events:
        """The events that happened: without those struck out, and with lessons behind their places.

        Messages are named by their places in the new list.
        """
        kept = self.kind != STRUCK
        if kept.all() and not len(lessons):
            return self
        shift = np.searchsorted(after, np.arange(len(self)), side="left")  # lessons before an event
        places = np.cumsum(kept) - 1 + shift
        received = (self.kind == RECEIVE) & (self.row >= 0)
        row = np.where(received, places[np.where(received, self.row, 0)], self.row)
        order = np.argsort(np.concatenate([np.flatnonzero(kept), after]), kind="stable")
        columns = vars(self) | {"row": row}
        return Events.from_arrays(
            np.concatenate([columns[n][kept], getattr(lessons, n)])[order] for n in FIELDS
        )

    def renumbered(self, numbers: NDArray[np.int64]) -> Events:
        """The same list with rows that were counted through all passes named as in the whole data.

        Answers then say which prediction of their row they belong to where that is not the oldest one.

        Examples
        --------
        >>> late = Events.of([predict(0, 0), predict(0, 1), answer(0, 1), answer(0, 0)])
        >>> [str(event) for event in late.renumbered(np.array([0, 0]))]
        ['predict(0, 0)', 'predict(0, 0)', 'answer(0, 1, 0)', 'answer(0, 0)']
        """
        named = ((self.kind <= ANSWER) | (self.kind >= TEACH)) & (self.row >= 0)
        made, told = (np.flatnonzero(named & (self.kind == kind)) for kind in (PREDICT, ANSWER))
        row, peer = self.row.copy(), self.peer.copy()
        row[named] = numbers[self.row[named]]
        key, nth = self.agent * np.int64(len(numbers)) + row, np.zeros(len(numbers), np.int64)
        nth[self.row[made]] = numbered_within(key[made])
        which = nth[self.row[told]]
        for answers in groups_with(key[told], which != numbered_within(key[told])):
            waiting = list(range(int(nth.max()) + 1))
            for answer_to in answers:
                older = waiting.index(which[answer_to])
                peer[told[answer_to]] = older or NONE
                del waiting[older]
        return Events(self.kind, self.agent, peer, row, self.time)

    def same_as(self, other: Events) -> bool:
        """Whether both say that the same happens, at whatever times."""
        names = [name for name in FIELDS if name != "time"]
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)


def numbered_within(keys: NDArray) -> NDArray[np.int64]:
    """Number of every place among those with the same key.

    Examples
    --------
    >>> numbered_within(np.array([7, 8, 7, 7, 8])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(keys, kind="stable")
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return rank


def groups_with(keys: NDArray, chosen: NDArray) -> Iterator[NDArray[np.int64]]:
    """The places of each key that a chosen place has, rising.

    Examples
    --------
    >>> [places.tolist() for places in groups_with(np.array([7, 8, 7]), np.array([True, False, False]))]
    [[0, 2]]
    """
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order])) + 1
    return (places for places in np.split(order, starts) if chosen[places].any())


def _told_places(events: Iterator[Event]) -> Iterator[Event]:
    place = 0
    talks = isinstance(events, Generator)
    event: Any = next(events, None)
    while event is not None:
        if not isinstance(event, Event):
            raise TypeError(
                f"event {place} of the schedule is {event!r}, expected an Event; use predict(agent, row), "
                "answer, send, receive, mix, … of ddol.schedules.events"
            )
        yield event
        try:
            event = events.send(place) if talks else next(events)  # type: ignore[attr-defined]
        except StopIteration:
            return
        place += 1


def _column(name: str, values: Sequence[Any]) -> np.ndarray:
    kind = FIELDS[name]
    if not len(values):
        return np.empty(0, kind)
    found = np.asarray(values)
    if kind.kind == "i":
        if found.dtype.kind not in "iu":
            raise ValueError(f"`{name}` of an event must be a whole number, found {found.dtype}")
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        if found.min() < least or found.max() > most:
            raise ValueError(f"`{name}` of an event must lie between {least} and {most}")
    return found.astype(kind)
