"""Checks a list of events against the network and the data, and brings it into the form of the kernel."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import address, bytes_at, entry, inner, integers, ints
from ddol.schedules.clock import EventChunk
from ddol.schedules.events import (
    ADOPT,
    ANSWER,
    GRADIENT,
    JOIN,
    LEAVE,
    MIX,
    NONE,
    PREDICT,
    RECEIVE,
    SEND,
    TEACH,
    Events,
    groups_with,
    numbered_within,
)
from ddol.schedules.wiring import Wiring
from ddol.streams.errors import DataError


def linked(events: Events, wires: Wiring, n_rows: int, name: str = "the schedule") -> EventChunk:
    """Check a list, and give every gradient and message a slot while it is under way.

    Raises
    ------
    DataError
        One line that names the first event which cannot happen, and why.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.schedules.events import answer
    >>> linked(Events.of([answer(0, 3)]), Wiring.of(metropolis(ring(3))), n_rows=5)
    Traceback (most recent call last):
    ddol.streams.errors.DataError: the schedule: event 0, answer(0, 3), answers a row that agent...
    """
    check = _Check(events, wires, n_rows, name)
    check.agents_and_rows()
    wire = check.wires_of_peers()
    partner = np.full(len(events), NONE, np.int64)
    check.answers(partner)
    check.messages(partner)
    slot = np.full(len(events), NONE, np.int32)
    sizes = np.zeros(2, np.int64)
    status = _assign(
        len(events), wires.n_agents, *(address(a) for a in (events.kind, events.agent, partner, slot)),
        address(scratch := np.zeros(wires.n_agents + 2 * len(events) + 2, np.int64)), address(sizes),
    )  # fmt: skip
    del scratch
    if status >= 0:
        check.refuse(status, "happens to an agent that is absent")
    return EventChunk(
        events.kind, events.agent, wire.astype(np.int32), slot, events.row, events.time,
        int(sizes[0]), int(sizes[1]),
    )  # fmt: skip


class _Check:
    """The rules that a list keeps to."""

    def __init__(self, events: Events, wires: Wiring, n_rows: int, name: str) -> None:
        self.events, self.wires, self.n_rows, self.name = events, wires, n_rows, name

    def refuse(self, place: int, why: str) -> None:
        raise DataError(f"{self.name}: event {place}, {self.events[place]}, {why}")

    def none_of(self, wrong: NDArray, why: str) -> None:
        """Refuse the first event for which something is wrong."""
        places = np.flatnonzero(wrong)
        if len(places):
            self.refuse(int(places[0]), why)

    def agents_and_rows(self) -> None:
        events = self.events
        kind, agent, peer, row = events.kind, events.agent, events.peer, events.row
        unknown = np.flatnonzero((kind < PREDICT) | (kind > GRADIENT))
        if len(unknown):
            raise DataError(
                f"{self.name}: event {unknown[0]} is of kind {kind[unknown[0]]}, expected 0 to {GRADIENT}"
            )
        n = self.wires.n_agents
        self.none_of(
            (agent < 0) | (agent >= n), f"names an agent that does not exist, of 0 to {n - 1}"
        )
        self.none_of(
            (peer < NONE) | ((peer >= n) & (kind != ANSWER)),
            f"names an agent that does not exist, of 0 to {n - 1}",
        )
        met = (kind == RECEIVE) | (kind >= ADOPT)
        self.none_of(met & (peer == NONE), "does not say with whom")
        self.none_of((met | (kind == MIX)) & (peer == agent), "is of an agent with itself")
        rows = (kind == PREDICT) | (kind == ANSWER) | (kind >= TEACH)
        self.none_of(
            rows & ((row < NONE) | (row >= self.n_rows)),
            f"names a row that does not exist, of 0 to {self.n_rows - 1}",
        )
        self.none_of((kind == ANSWER) & (row == NONE), "answers no row")
        self.none_of((kind >= TEACH) & (row == NONE), "teaches no row")
        pieces = (row == NONE) | (row == 1) | (row == 2)
        self.none_of((kind == SEND) & ~pieces, "sends a piece that is neither −1 (all), 1 nor 2")
        self.none_of(~np.isfinite(self.events.time), "has a time that is not finite")

    def wires_of_peers(self) -> NDArray:
        """The wire of every event between two agents."""
        kind, agent, peer = self.events.kind, self.events.agent, self.events.peer
        between = (peer != NONE) & ((kind == RECEIVE) | (kind == MIX) | (kind >= ADOPT))
        wire = np.full(len(kind), NONE, np.int64)
        wire[between] = self.wires.between(agent[between], peer[between])
        self.none_of(between & (wire == NONE), "is between two agents that are not neighbours")
        return wire

    def answers(self, partner: NDArray) -> None:
        """Every answer belongs to the oldest prediction of its row that has none yet, or to a later one."""
        events = self.events
        made = np.flatnonzero((events.kind == PREDICT) & (events.row != NONE))
        told = np.flatnonzero(events.kind == ANSWER)
        if not len(told):
            return
        key = events.agent.astype(np.int64) * max(self.n_rows, 1) + events.row
        made = made[np.argsort(key[made], kind="stable")]
        keys, older = key[told], np.maximum(events.peer[told], 0)
        first, which = np.searchsorted(key[made], keys), numbered_within(keys)
        for answers in groups_with(keys, older > 0):
            end = np.searchsorted(key[made], keys[answers[0]], side="right")
            waiting = list(range(end - first[answers[0]]))
            for k in answers:
                which[k] = waiting.pop(older[k]) if older[k] < len(waiting) else len(made)
        places = first + which
        known = places < len(made)
        match = made[np.where(known, places, 0)] if len(made) else np.zeros(len(told), np.int64)
        good = known & (len(made) > 0) & (key[match] == keys) & (match < told)
        if not good.all():
            place = int(told[~good].min())
            who = events.agent[place]
            self.refuse(
                place, f"answers a row that agent {who} has not predicted, or that is answered"
            )
        partner[match], partner[told] = told, match

    def messages(self, partner: NDArray) -> None:
        """Every message was sent before, by the agent that it is said to be from."""
        events = self.events
        received = np.flatnonzero(events.kind == RECEIVE)
        place = events.row[received]
        there = (place >= 0) & (place < received)
        sent = there & (events.kind[np.where(there, place, 0)] == SEND) if len(received) else there
        good = sent & (events.agent[np.where(there, place, 0)] == events.peer[received])
        if not good.all():
            first = int(received[~good][0])
            self.refuse(
                first, f"there is no message of agent {events.peer[first]} at that place before"
            )
        partner[received] = place
        partner[place] = received  # the last one stays


@inner
def _taken(free, n_free, size, which):
    """A slot that is free, or a new one; and how many are free then."""
    if n_free > 0:
        return free[n_free - 1], n_free - 1
    size[which] += 1
    return size[which] - 1, 0


@entry("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def _assign(n, n_agents, kind, agent, partner, slot, scratch, sizes):
    """Give slots to what is under way; the place of an event of an absent agent, or −1."""
    kinds, agents, partners, slots = bytes_at(kind), ints(agent), integers(partner), ints(slot)
    absent, free_answers = integers(scratch), integers(scratch + 8 * n_agents)
    free_messages, size = integers(scratch + 8 * (n_agents + n + 1)), integers(sizes)
    n_answers, n_messages = 0, 0
    for e in range(n):
        what, i = kinds[e], agents[e]
        if absent[i] != 0 and what != JOIN and what != RECEIVE:
            return e
        if what == PREDICT and partners[e] >= 0:
            slots[e], n_answers = _taken(free_answers, n_answers, size, 0)
        elif what == ANSWER:
            slots[e] = slots[partners[e]]
            free_answers[n_answers] = slots[e]
            n_answers += 1
        elif what == SEND and partners[e] >= 0:
            slots[e], n_messages = _taken(free_messages, n_messages, size, 1)
        elif what == RECEIVE:
            slots[e] = slots[partners[e]]
            if partners[partners[e]] == e:
                free_messages[n_messages] = slots[e]
                n_messages += 1
        elif what == LEAVE:
            absent[i] = 1
        elif what == JOIN:
            absent[i] = 0
    return -1
