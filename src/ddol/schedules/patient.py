"""The patient pool: a copy of an agent's learner for each label under way (Mesterharm; Joulani et al.).

A prediction is made by a copy that waits for nothing, so no copy ever learns late: whatever is known of the
learner without delays holds for each of them. Copies of the same number on different agents are one network.
"""

from __future__ import annotations

import heapq

import numpy as np

from ddol.communicate.graph import from_pairs
from ddol.communicate.mixing import Changing, Mixing
from ddol.schedules.events import (
    ANSWER,
    JOIN,
    LEAVE,
    NONE,
    PREDICT,
    RECEIVE,
    SEND,
    Event,
    Events,
)


def in_layers(events: Events, n_agents: int) -> tuple[Events, int]:
    """The same list for copies: copy c of agent i is agent ``c · N + i``; and how many copies there are.

    What follows a label (project, send, mix) is done by the copy that got it.

    Examples
    --------
    >>> from ddol.schedules.events import answer, predict
    >>> late = Events.of([predict(0, 0), predict(0, 1), answer(0, 1), answer(0, 0), predict(0, 2)])
    >>> layered, copies = in_layers(late, n_agents=1)
    >>> copies, layered.agent.tolist()
    (2, [0, 1, 1, 0, 0])
    """
    copies = max(1, int(_most_under_way(events, n_agents)))
    free = [list(range(copies)) for _ in range(n_agents)]
    asked: dict[tuple[int, int], list[int]] = {}
    present, layer_of, place_of = [0] * n_agents, {}, {}
    made: list[Event] = []
    for place, event in enumerate(events):
        i = event.agent
        if event.kind == PREDICT and event.row != NONE:
            present[i] = heapq.heappop(free[i])
            asked.setdefault((i, event.row), []).append(present[i])
        elif event.kind == ANSWER:
            present[i] = asked[i, event.row].pop(max(event.peer, 0))
            heapq.heappush(free[i], present[i])
        elif event.kind in (LEAVE, JOIN):
            made += [event._replace(agent=c * n_agents + i) for c in range(copies)]
            continue
        layer, row, peer = present[i], event.row, event.peer
        if event.kind == SEND:
            layer_of[place], place_of[place] = layer, len(made)
        elif event.kind == RECEIVE:
            layer, row = layer_of[event.row], place_of[event.row]
        if event.kind == ANSWER:
            peer = NONE  # a copy waits for one answer
        elif peer != NONE:
            peer += layer * n_agents
        made.append(event._replace(agent=layer * n_agents + i, peer=peer, row=row))
    return Events.from_columns(made), copies


def _most_under_way(events: Events, n_agents: int) -> int:
    """Most labels that were under way at one agent, that of the prediction just made included."""
    change = np.where(events.kind == ANSWER, -1, 0)
    change[(events.kind == PREDICT) & (events.row != NONE)] = 1
    most = 0
    for i in range(n_agents):
        most = max(most, int(np.cumsum(change[events.agent == i]).max(initial=0)))
    return most


def layered_mixing(mixing: Mixing | Changing, copies: int) -> Mixing:
    """The network of all copies: the same matrix once for each number, and nothing between them."""
    if isinstance(mixing, Changing):
        raise ValueError(
            "--patient needs a fixed mixing matrix, and this one changes by the round; leave out --patient"
        )
    indptr, indices, weights = mixing.csr()
    n, size = mixing.n_agents, len(indices)
    starts = np.concatenate([indptr[:-1] + c * size for c in range(copies)] + [[copies * size]])
    senders = np.concatenate([indices + c * n for c in range(copies)])
    listeners = np.repeat(np.arange(copies * n), np.diff(starts))
    graph = from_pairs("layers", copies * n, listeners, senders)
    return Mixing("layers", graph, starts.astype(np.int64), senders, np.tile(weights, copies))
