"""The one recovery, on a group in memory: the others go on from the newest complete moment."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ddol
from ddol.engines.errors import RankLostError
from ddol.engines.groups import recovery
from ddol.engines.groups.recovery import Recovery, newest_complete
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.engines.workers.partition import split
from ddol.engines.workers.shares import part_of
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows

ALGORITHM = ddol.dogd().on(ddol.ring(6), delay=1)


class Meeting:
    """Where the workers of a group meet; one of them dies at its n-th call."""

    def __init__(self, size: int, victim: int = -1, call: int = 0) -> None:
        self.size, self.victim, self.call = size, victim, call
        self.changed, self.dead = threading.Condition(), False
        self.values: defaultdict[int, dict] = defaultdict(dict)


class InMemory:
    """One worker's view of a group in threads."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.size = meeting, rank, meeting.size
        self._calls = 0

    def shares(self, n_agents):
        return split(n_agents, self.size)

    def gather(self, value):
        meeting, self._calls = self.meeting, self._calls + 1
        found = meeting.values[self._calls]
        with meeting.changed:
            meeting.dead |= (self.rank, self._calls) == (meeting.victim, meeting.call)
            if self.rank != meeting.victim or not meeting.dead:
                found[self.rank] = value
            meeting.changed.notify_all()
            meeting.changed.wait_for(lambda: meeting.dead or len(found) == self.size)
        if len(found) < self.size:
            raise RankLostError
        return [found[rank] for rank in range(self.size)]

    def reduce(self, numbers):
        return [max(column) for column in zip(*self.gather(numbers), strict=True)]

    def snapshot(self, own):
        return self.gather(own)[self.rank - 1]

    def restore(self, copy, holder, takers):
        found = self.gather(copy)[holder]
        return found if self.rank in takers else copy


@pytest.fixture(autouse=True)
def always_due(monkeypatch):
    monkeypatch.setattr(recovery, "SECONDS", -1.0)


def moments():
    """The state of all agents after each of two blocks, with answers under way."""
    rng, engine = np.random.default_rng(0), Local(ALGORITHM, start_state(ALGORITHM, 3))
    for _ in range(2):
        X = rng.standard_normal((30, 3))
        engine.play(
            Block(Rows.from_dense(X, np.where(X[:, 0] > 0, 1.0, -1.0)), table_round_robin(30, 6))
        )
        yield engine.state()


def at_once(meeting, work):
    """What every worker does with its view of the group, or the error that it ends with."""

    def each(rank):
        try:
            return work(InMemory(meeting, rank), rank)
        except RankLostError as error:
            return error

    with ThreadPoolExecutor(meeting.size) as pool:
        return list(pool.map(each, range(meeting.size)))


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize(("call", "version"), [(1, 1), (2, 1), (3, 2)])
def test_two_workers_go_on_from_the_newest_moment_that_is_complete(victim, call, version):
    """The second moment is asked for (call 1), copied (2) and agreed on (3); it counts when all have it."""
    kept, seen = [Recovery() for _ in range(3)], list(moments())

    def keep(state, group, rank):
        share = group.shares(6)[rank]
        kept[rank].keep(group, share, part_of(state, *share), lambda: int(state.rounds))

    at_once(Meeting(3), lambda group, rank: keep(seen[0], group, rank))
    at_once(Meeting(3, victim, call), lambda group, rank: keep(seen[1], group, rank))
    left = [each for rank, each in enumerate(kept) if rank != victim]
    found = at_once(Meeting(2), lambda group, rank: left[rank].restore(group, ALGORITHM))
    expected = seen[version - 1]
    for copy, share in zip(found, split(6, 2), strict=True):
        assert (copy.version, copy.share, copy.past) == (version, share, expected.rounds)
        own, part = part_of(expected, *share), copy.part
        for name in ("theta", "scalars", "mistakes", "loss", "examples", "slopes"):
            assert np.array_equal(getattr(part, name), getattr(own, name)), name
        mine = slice(share[0], sum(share))
        late, there = part.pending, own.pending
        for place, other in zip(
            late.table[:, mine].ravel(), there.table[:, mine].ravel(), strict=True
        ):
            row, same = late.rows.take([place]), there.rows.take([other])
            assert np.array_equal(row.data, same.data) and row.y == same.y
    # Each of the two is known twice again, so that one more may be lost.
    alone = at_once(Meeting(1), lambda group, rank: left[victim % 2].restore(group, ALGORITHM))
    assert np.array_equal(alone[0].part.theta, expected.theta)


def test_without_a_complete_moment_it_is_the_beginning():
    kept = [Recovery() for _ in range(2)]
    assert at_once(Meeting(2), lambda g, rank: kept[rank].restore(g, ALGORITHM)) == [None, None]
    assert newest_complete([[(3, (0, 2))], []], 4) == (0, [])
    # Copies of one moment, made before and after a loss, overlap.
    pieces = [((0, 3), (0, 3)), ((2, 2), (3, 1))]
    assert newest_complete([[(1, (0, 3))], [(1, (2, 2)), (1, (1, 2))]], 4) == (1, pieces)
