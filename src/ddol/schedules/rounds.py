"""Synchronous rounds as a list of events, and a list of events as synchronous rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddol.schedules.events import (
    ANSWER,
    MIX,
    NONE,
    PREDICT,
    PROJECT,
    RECEIVE,
    SEND,
    Events,
)
from ddol.schedules.wiring import Wiring


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """Synchronous rounds as events: all predict, all answer, (all project,) all send, receive, mix.

    Parameters
    ----------
    wires : Wiring
    period : int
        Rounds between two exchanges; with more than one, all project before they send.
    delay : int
        Rounds between a prediction and its answer.
    """

    wires: Wiring
    period: int = 1
    delay: int = 0

    def events(self, table: NDArray, first: int = 1, late: NDArray | None = None) -> Events:
        """The events of rounds ``first``, … of a table; answers under way before it are in ``late``.

        Parameters
        ----------
        table : int64 (rounds, N)
            Who sees which row; −1 for none.
        first : int
        late : int64 (delay, N), optional
            The rows of the rounds before.

        Examples
        --------
        >>> from ddol.communicate.mixing import metropolis
        >>> from ddol.communicate.topologies import path
        >>> plan = RoundPlan(Wiring.of(metropolis(path(2))))
        >>> [str(event) for event in plan.events(np.array([[4, 5]]))]  # doctest: +NORMALIZE_WHITESPACE
        ['predict(0, 4)', 'predict(1, 5)', 'answer(0, 4)', 'answer(1, 5)', 'send(0)', 'send(1)',
         'receive(1, 0, 4)', 'receive(0, 1, 5)', 'mix(0)', 'mix(1)']
        """
        rounds, n = table.shape
        before = np.full((self.delay, n), NONE) if late is None else late
        told = np.concatenate([before, table])[:rounds]
        exchanging = (first + np.arange(rounds)) % self.period == 0
        agents = np.broadcast_to(np.arange(n), (rounds, n))
        steps = [_Step(PREDICT, agents, table), _Step(ANSWER, agents, told, told >= 0)]
        alone = ~exchanging if self.period == 1 else np.ones(rounds, bool)
        steps.append(_Step(PROJECT, agents, shown=_every(alone, n)))
        steps.append(_Step(SEND, agents, shown=_every(exchanging, n)))
        steps.append(self._receives(exchanging))
        steps.append(_Step(MIX, agents, shown=_every(exchanging, n)))
        return _assembled(steps, np.repeat(np.arange(rounds) + float(first), [1] * rounds))

    def _receives(self, exchanging: NDArray) -> _Step:
        wires = self.wires
        spoken, rounds = wires.spoken, len(exchanging)
        shape = (rounds, len(spoken))
        return _Step(
            RECEIVE,
            np.broadcast_to(wires.listener[spoken], shape),
            shown=_every(exchanging, len(spoken)),
            peer=np.broadcast_to(wires.sender[spoken], shape),
        )

    def table_of(self, events: Events) -> NDArray[np.int64] | None:
        """The table of which a list is made, or None where it is not what the round engine wrote down.

        Its rounds have the times 1, 2, …; others, such as those of the virtual clock or the turns of a single
        agent, were played as events, and are so again.

        Examples
        --------
        >>> from ddol.communicate.mixing import metropolis
        >>> from ddol.communicate.topologies import path
        >>> plan = RoundPlan(Wiring.of(metropolis(path(2))), delay=1)
        >>> plan.table_of(plan.events(np.array([[4, 5], [6, -1]]))).tolist()
        [[4, 5], [6, -1]]
        """
        n = self.wires.n_agents
        predicted = events.row[events.kind == PREDICT]
        if len(predicted) % n or (events.kind[:n] != PREDICT).any():
            return None
        table = predicted.reshape(-1, n)
        planned = self.events(table)
        same = planned.same_as(events) and np.array_equal(planned.time, events.time)
        return table if same else None


@dataclass(frozen=True)
class _Step:
    """One kind of event in all rounds: (rounds, events of a round)."""

    kind: int
    agent: NDArray
    row: NDArray | None = None
    shown: NDArray | None = None
    peer: NDArray | None = None


def _every(rounds: NDArray, n: int) -> NDArray:
    return np.broadcast_to(rounds[:, None], (len(rounds), n))


def _assembled(steps: list[_Step], times: NDArray) -> Events:
    """All steps of a round, one round after the other, and messages named by their places."""
    shape = [step.agent.shape for step in steps]
    whole = lambda value, s: np.full(s, NONE) if value is None else value  # noqa: E731
    kind = np.concatenate([np.full(s, t.kind) for t, s in zip(steps, shape, strict=True)], axis=1)
    shown = np.concatenate(
        [
            np.ones(s, bool) if t.shown is None else t.shown
            for t, s in zip(steps, shape, strict=True)
        ],
        axis=1,
    ).ravel()
    agent = np.concatenate([t.agent for t in steps], axis=1).ravel()[shown]
    row = np.concatenate([whole(t.row, s) for t, s in zip(steps, shape, strict=True)], axis=1)
    peer = np.concatenate([whole(t.peer, s) for t, s in zip(steps, shape, strict=True)], axis=1)
    time = np.broadcast_to(times[:, None], kind.shape).ravel()[shown]
    round_of = np.broadcast_to(np.arange(len(kind))[:, None], kind.shape).ravel()[shown]
    events = Events(
        kind.ravel()[shown].astype(np.int8),
        agent.astype(np.int32),
        peer.ravel()[shown].astype(np.int32),
        row.ravel()[shown].astype(np.int64),
        time.astype(np.float64),
    )
    _name_messages(events, round_of, steps[0].agent.shape[1])
    return events


def _name_messages(events: Events, round_of: NDArray, n: int) -> None:
    """Receive events say where in the list the message was sent: in the same round."""
    sends = np.flatnonzero(events.kind == SEND)
    received = np.flatnonzero(events.kind == RECEIVE)
    if not len(received):
        return
    key = round_of[sends] * n + events.agent[sends]  # rises with the place
    wanted = round_of[received] * n + events.peer[received]
    events.row[received] = sends[np.searchsorted(key, wanted)]
