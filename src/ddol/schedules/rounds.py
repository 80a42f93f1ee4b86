"""Synchronous rounds as a list of events, and a list of events as synchronous rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.schedules.events import ANSWER, MIX, NONE, PREDICT, PROJECT, RECEIVE, SEND, Events
from ddol.schedules.wiring import Wiring


def events_of_rounds(table: NDArray, wires: Wiring, period: int = 1, delay: int = 0) -> Events:
    """Rounds 1, 2, … as events: all predict, all answer, (all project,) all send, receive, mix.

    Parameters
    ----------
    table : int64 (rounds, N)
        Row that each agent sees; −1 for none.
    wires : Wiring
    period : int
        Rounds between two exchanges; with more than one, all project before they send.
    delay : int
        Rounds between a prediction and its label.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import path
    >>> events = events_of_rounds(np.array([[4, 5]]), Wiring.of(metropolis(path(2))))
    >>> [str(event) for event in events]  # doctest: +NORMALIZE_WHITESPACE
    ['predict(0, 4)', 'predict(1, 5)', 'answer(0, 4)', 'answer(1, 5)', 'send(0)', 'send(1)',
     'receive(1, 0, 4)', 'receive(0, 1, 5)', 'mix(0)', 'mix(1)']
    """
    rounds, n = table.shape
    labels = np.concatenate([np.full((delay, n), NONE), table])[:rounds]
    number, agents, spoken = np.arange(1, rounds + 1)[:, None], np.arange(n), wires.spoken
    exchanging = number % period == 0

    def step(kind: int, agent: Any, shown: Any, row: Any = NONE, peer: Any = NONE) -> list[NDArray]:
        """One kind of event in all rounds: columns of shape (rounds, events of a round)."""
        columns = np.broadcast_arrays(shown, kind, agent, peer, row, number)
        return list(columns)

    steps = [
        step(PREDICT, agents, True, table),
        step(ANSWER, agents, labels >= 0, labels),
        step(PROJECT, agents, period > 1),
        step(SEND, agents, exchanging),
        step(RECEIVE, wires.listener[spoken], exchanging, peer=wires.sender[spoken]),
        step(MIX, agents, exchanging),
    ]
    shown, kind, agent, peer, row, time = (
        np.concatenate(columns, axis=1).ravel() for columns in zip(*steps, strict=True)
    )
    events = Events(
        kind[shown].astype(np.int8),
        agent[shown].astype(np.int32),
        peer[shown].astype(np.int32),
        row[shown].astype(np.int64),
        time[shown].astype(np.float64),
    )
    _name_messages(events, n)
    return events


def _name_messages(events: Events, n: int) -> None:
    """Let receive events name the place in the list where the message was sent, in the same round."""
    sends = np.flatnonzero(events.kind == SEND)
    received = np.flatnonzero(events.kind == RECEIVE)
    if not len(received):
        return
    key = events.time[sends] * n + events.agent[sends]  # rises with the place
    wanted = events.time[received] * n + events.peer[received]
    events.row[received] = sends[np.searchsorted(key, wanted)]


def rounds_of_events(
    events: Events, wires: Wiring, period: int = 1, delay: int = 0
) -> NDArray[np.int64] | None:
    """The table of which `events_of_rounds` makes this list; None where there is none.

    Its rounds have the times 1, 2, …; others, such as those of the virtual clock or the turns of a single
    agent, were played as events, and are so again.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import path
    >>> wires, table = Wiring.of(metropolis(path(2))), np.array([[4, 5], [6, -1]])
    >>> rounds_of_events(events_of_rounds(table, wires, delay=1), wires, delay=1).tolist()
    [[4, 5], [6, -1]]
    """
    predicted = events.row[events.kind == PREDICT]
    if len(predicted) % wires.n_agents or (events.kind[: wires.n_agents] != PREDICT).any():
        return None
    table = predicted.reshape(-1, wires.n_agents)
    planned = events_of_rounds(table, wires, period, delay)
    same = planned.same_as(events) and np.array_equal(planned.time, events.time)
    return table if same else None
