"""Starting again: a node's newest good snapshot, and the journal behind it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ddol.node import private
from ddol.node.about import check_same, describe
from ddol.node.agent import LiveAgent
from ddol.node.errors import NodeError
from ddol.node.journal import Journal
from ddol.node.records import KINDS
from ddol.node.sites import released_by
from ddol.node.snapshots import restore, snapshot_of
from ddol.streams.errors import DataError

_STRANGE = (
    ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, struct.error,
)  # fmt: skip
"""What a record of a damaged journal may cause, though its checksum is right."""


class Recovered(NamedTuple):
    """A node as it was.

    Parameters
    ----------
    agent : LiveAgent
    journal : Journal
        Open for what comes next.
    news : list of str
        What was restored, one line each.
    """

    agent: LiveAgent
    journal: Journal
    news: list[str]


def recover(agent: LiveAgent, account: private.Account | None) -> Recovered:
    """Restore a new agent from its store, which is made if it is missing."""
    options = agent.options
    assert options.store is not None
    journal = Journal(options.store, options.durability, options.keep_all)
    try:
        waiting = check_same(journal.folder, agent)
        agent, first, news = _restored(agent, journal)
        agent.room.most = max(agent.room.most, waiting)  # as many as waited then
        count = play(agent, journal, first)
        if account is not None:
            private.check_restored(account, journal.folder, released_by(agent))
        agent.room.limit(options.waiting)
        _check_width(agent)
        if count and waiting > options.waiting:
            write = snapshot_of(agent)  # the journal before it needs the limit of before
            write(journal.rotate()[1])
        describe(journal.folder, agent)
    except OSError as error:
        journal.close()
        raise NodeError(f"{options.store}: cannot be used ({error})") from None
    except BaseException:
        journal.close()
        raise
    if first or count:
        cut = f", {journal.cut}" if journal.cut else ""
        news.append(
            f"{options.store}: {agent.examples} examples and {len(agent.room)} waiting predictions are back, "
            f"by {'a snapshot and ' if first else ''}{count} records{cut}"
        )
    return Recovered(agent, journal, news)


def _restored(agent: LiveAgent, journal: Journal) -> tuple[LiveAgent, int, list[str]]:
    """The agent of the newest good snapshot, and the number of the first log behind it."""
    news: list[str] = []
    for number, path in journal.snapshots():
        fresh = LiveAgent(agent.name, agent.learning.algorithm, agent.options, agent.learning.seed)
        try:
            restore(fresh, path)
            return fresh, number, news
        except DataError as error:
            news.append(f"{error}; going on from an older one")
    if news:
        last = news[-1].removesuffix("; going on from an older one")
        raise NodeError(f"{last}; there is no older snapshot to go on from")
    return agent, 0, news


def _check_width(agent: LiveAgent) -> None:
    wanted, found = agent.options.n_features, agent.features.n_values
    if wanted is not None and found != wanted:
        raise NodeError(
            f"{agent.options.store}: began with arrays of {found} numbers, found `n_features` {wanted}; use "
            "another store, or the value of before"
        )


def play(agent: LiveAgent, journal: Journal, first: int) -> int:
    """Carry out the records of a journal from a log on; how many."""
    count = 0
    for record in journal.behind(first):
        count += 1
        try:
            agent.play(record)
        except _STRANGE as error:
            raise NodeError(
                f"{journal.folder}: record {count} behind the snapshot ({KINDS[record.kind]}) cannot be "
                f"played ({error}); restore the store from a backup, or use another one"
            ) from None
    return count
