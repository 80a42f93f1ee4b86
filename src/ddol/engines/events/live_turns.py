"""The events of agents that run in real time, and merging those of several workers into one list."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import bytes_at, entry, inner, integers, ints, packed, unpacked
from ddol.schedules.clock import EventChunk
from ddol.schedules.events import ANSWER, MIX, NONE, PREDICT, PROJECT, RECEIVE, SEND, Events
from ddol.schedules.wiring import Wiring


class TurnPlan:
    """The events of an agent that does not wait for others: predict, answer, project, send, mix.

    Parameters
    ----------
    n_agents, period, delay : int
    """

    def __init__(self, n_agents: int, period: int, delay: int) -> None:
        self.period, self.delay = period, delay
        self.turns = np.zeros(n_agents, np.int64)
        self.answers = np.zeros(n_agents, np.int64)
        self.late: list[list[int]] = [[] for _ in range(n_agents)]

    def under_way(self) -> NDArray[np.int64]:
        """Rows whose labels are under way, rising."""
        rows = np.array([row for late in self.late for row in late], np.int64)
        return np.unique(rows[rows >= 0])

    def chunk(self, table: NDArray, first: int, agents: int) -> EventChunk:
        """Events of the agents ``first``, …, whose turns are interleaved; agents are numbered from 0.

        Parameters
        ----------
        table : int64 (rounds, N)
            Serial numbers of rows; −1 where an agent has none.
        """
        rows = [table[:, first + a] for a in range(agents)]
        return self._interleaved([own[own >= 0] for own in rows], first)

    def last(self, first: int, agents: int) -> EventChunk:
        """Turns without examples, until the last labels have arrived."""
        waits = [len(self.late[first + a]) for a in range(agents)]
        return self._interleaved([np.full(wait, NONE) for wait in waits], first)

    def _interleaved(self, rows: list[NDArray], first: int) -> EventChunk:
        pieces = [self._events(own, first + a, a) for a, own in enumerate(rows)]
        columns = [np.concatenate([piece[k] for piece in pieces]) for k in range(5)]
        order = np.argsort(columns[0], kind="stable")
        kind, agent, slot, row = (column[order] for column in columns[1:])
        no_peer = np.full(len(order), NONE, np.int32)
        return EventChunk(
            kind.astype(np.int8), agent.astype(np.int32), no_peer, slot.astype(np.int32),
            row.astype(np.int64), np.zeros(len(order)), len(rows) * (self.delay + 1), 0,
        )  # fmt: skip

    def _events(self, seen: NDArray, who: int, a: int) -> tuple[NDArray, ...]:
        """Turn, kind, agent, slot and row of one agent's events."""
        n, size = len(seen), self.delay + 1
        turn = np.arange(n)
        late = np.array(self.late[who], np.int64)
        everything = np.concatenate([late, seen])
        missing = self.delay - len(late)  # before the first answers arrive
        told = np.concatenate([np.full(max(missing, 0), NONE), everything])[:n]
        self.late[who] = np.concatenate([np.full(max(missing, 0), NONE), everything])[n:].tolist()
        now = self.turns[who] + turn
        answered = told >= 0
        count = self.answers[who] + np.cumsum(answered)
        exchanging = answered & (count % self.period == 0)
        self.turns[who] += n
        self.answers[who] += int(answered.sum())
        # A prediction's slot is free again when its label has arrived.
        slot, slot_told = a * size + now % size, a * size + (now - self.delay) % size
        none = np.full(n, NONE)
        kinds = np.array([PREDICT, ANSWER, PROJECT, SEND, MIX])
        shown = np.column_stack([np.ones(n, bool), answered, answered, exchanging, exchanging])
        rows = np.column_stack([seen, told, none, none, none])
        slots = np.column_stack([np.where(seen >= 0, slot, NONE), slot_told, none, none, none])
        whole = shown.ravel()
        return (
            np.repeat(turn, 5)[whole],
            np.tile(kinds, n)[whole],
            np.full(n * 5, a)[whole],
            slots.ravel()[whole],
            rows.ravel()[whole],
        )


class PlayedTurns(NamedTuple):
    """The events a worker has played, and the versions of its neighbours at every exchange."""

    chunk: EventChunk
    first: int
    log: NDArray[np.int64]


class Merger:
    """Merges the events of workers that ran at the same time: each message is received after it was sent.

    Parameters
    ----------
    wires : Wiring
    """

    def __init__(self, wires: Wiring) -> None:
        self.wires = wires
        n = wires.n_agents
        self.sent = np.zeros(n, np.int64)
        """Messages of each agent in the list."""
        self.last_place = np.full(n, NONE, np.int64)
        self.heard = np.zeros(len(wires.sender), np.int64)
        self.length = 0

    def merged(self, played: list[PlayedTurns], start: float, end: float) -> Events:
        """One list, with rows as they are named in the chunks, and times spread over a piece of time."""
        n = self.wires.n_agents
        kinds = np.concatenate([p.chunk.kind for p in played])
        agents = np.concatenate([p.chunk.agent + p.first for p in played]).astype(np.int32)
        rows = np.concatenate([p.chunk.row for p in played])
        log = np.concatenate([np.empty(0, np.int64), *(p.log for p in played)])
        ends = np.cumsum([len(p.chunk.kind) for p in played]).astype(np.int64)
        log_at = np.concatenate([[0], np.cumsum([len(p.log) for p in played])[:-1]]).astype(
            np.int64
        )
        at = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        sends = np.bincount(agents[kinds == SEND], minlength=n)
        # Places of all messages that may be heard: the last one before, and those of this piece.
        starts = (np.cumsum(sends + 1) - (sends + 1)).astype(np.int64)
        places = np.empty(int((sends + 1).sum()), np.int64)
        places[starts] = self.last_place
        base = self.sent.copy()
        room = len(kinds) + len(log)
        out = Events(
            np.empty(room, np.int8), np.empty(room, np.int32), np.full(room, NONE, np.int32),
            np.full(room, NONE, np.int64), np.empty(room),
        )  # fmt: skip
        arrays = {
            "kinds": kinds, "agents": agents, "rows": rows, "logs": log,
            "position": at, "last": ends, "read": log_at,
            "first_wire": self.wires.starts, "senders": self.wires.sender, "newest": self.heard,
            "sent": self.sent, "known": base, "place_starts": starts, "places": places,
            "to_kind": out.kind, "to_agent": out.agent, "to_peer": out.peer, "to_row": out.row,
        }  # fmt: skip
        places_of = {name: array.ctypes.data for name, array in arrays.items()}
        made = _merge(packed(MergeJob(n_workers=len(played), before=self.length, **places_of)))
        has_sent = sends > 0
        self.last_place[has_sent] = places[(starts + sends)[has_sent]]
        self.length += made
        time = np.linspace(start, end, made)
        return Events(out.kind[:made], out.agent[:made], out.peer[:made], out.row[:made], time)


class MergeJob(NamedTuple):
    """Addresses of the events of all workers, and of room for one list."""

    n_workers: int
    before: int
    """Events in the list before these."""
    kinds: int
    agents: int
    rows: int
    """int8, int32, int64: events of all workers, one worker after the other."""
    logs: int
    """int64: versions that were read at every exchange, wire by wire."""
    position: int
    last: int
    read: int
    """int64 (n_workers,): the next event of each, the end of its events, its place in `logs`."""
    first_wire: int
    senders: int
    newest: int
    """int64: as in `Wiring`; the newest message that each wire has carried."""
    sent: int
    known: int
    """int64 (N,): messages of each agent so far, and before."""
    place_starts: int
    places: int
    """int64: where in the list each message stands, agent by agent."""
    to_kind: int
    to_agent: int
    to_peer: int
    to_row: int


@inner
def _all_sent(logs, at, senders, count, lo, hi):
    """Whether the senders of some wires have sent the versions that an agent has read next."""
    sent = True
    for wire in range(lo, hi):
        sent = sent and logs[at + wire - lo] <= count[senders[wire]]
    return sent


@entry("int64(struct*)")
def _merge(job):
    job = unpacked(MergeJob, job)
    kinds, agents, rows, logs = (
        bytes_at(job.kinds), ints(job.agents), integers(job.rows), integers(job.logs),
    )  # fmt: skip
    position, last, read = integers(job.position), integers(job.last), integers(job.read)
    first_wire, senders, newest = (
        integers(job.first_wire), integers(job.senders), integers(job.newest),
    )  # fmt: skip
    count, known = integers(job.sent), integers(job.known)
    place_starts, places = integers(job.place_starts), integers(job.places)
    to_kind, to_agent = bytes_at(job.to_kind), ints(job.to_agent)
    to_peer, to_row = ints(job.to_peer), integers(job.to_row)
    made, w, idle = 0, 0, 0
    while idle < job.n_workers:
        idle += 1
        while position[w] < last[w]:
            e = position[w]
            i, what = agents[e], kinds[e]
            if what == MIX:
                lo, hi = first_wire[i], first_wire[i + 1]
                if not _all_sent(logs, read[w], senders, count, lo, hi):
                    break
                for wire in range(lo, hi):
                    j, version = senders[wire], logs[read[w] + wire - lo]
                    if j != i and version > newest[wire]:
                        newest[wire] = version
                        to_kind[made], to_agent[made], to_peer[made] = RECEIVE, i, j
                        to_row[made] = places[place_starts[j] + version - known[j]]
                        made += 1
                read[w] += hi - lo
            if what == SEND:
                count[i] += 1
                places[place_starts[i] + count[i] - known[i]] = job.before + made
            to_kind[made], to_agent[made], to_peer[made], to_row[made] = what, i, -1, rows[e]
            made += 1
            position[w] += 1
            idle = 0
        w = (w + 1) % job.n_workers
    return made
