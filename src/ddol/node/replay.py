"""`ddol replay`: repeat what nodes did from their journals, to the bit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ddol.node import records as r
from ddol.node.about import ABOUT, read_about, store_in
from ddol.node.agent import LiveAgent
from ddol.node.errors import NodeError
from ddol.node.journal import Journal
from ddol.node.messages import read_message, short_digest
from ddol.node.options import NodeOptions
from ddol.node.private import read_account
from ddol.node.snapshots import restore
from ddol.presets import made_again
from ddol.streams.errors import DataError


@dataclass(frozen=True)
class Replayed:
    """Result of a replay of one node.

    Parameters
    ----------
    agent : LiveAgent
        As the node was when its journal ended.
    events : dict
        Records played, by kind.
    sent : dict
        Digests of its messages, by number: as they were sent, and as they are made again.
    heard : list of (sender, number, digest)
        Messages that it averaged with.
    """

    agent: LiveAgent
    events: dict[str, int] = field(default_factory=dict)
    sent: dict[int, list[str]] = field(default_factory=dict)
    heard: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def wrong(self) -> list[int]:
        """Numbers of messages that are made otherwise than they were sent."""
        return [n for n, found in self.sent.items() if len(found) == 2 and found[0] != found[1]]


def replay_store(folder: str | Path) -> Replayed:
    """Play the journal of a node from its beginning, or from the oldest snapshot that is there.

    Examples
    --------
    >>> import ddol, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with ddol.Node("eu", store=folder) as node:
    ...     for k in range(10):
    ...         node.learn({"x": k}, k > 4)
    ...     blob = node.message()
    >>> found = replay_store(folder)
    >>> found.agent.examples, found.events, found.wrong
    (10, {'names': 1, 'learn': 10, 'send': 1, 'sent': 1}, [])
    """
    place = store_in(folder)
    agent = _begun(place)
    journal = Journal(place, "none")
    try:
        first = 0
        numbers = list(journal.snapshots())
        if not journal.has_first:
            first, path = numbers[-1]
            restore(agent, path)
        found = Replayed(agent)
        for record in journal.behind(first):
            _play(found, record)
    finally:
        journal.close()
    return found


def _begun(place: Path) -> LiveAgent:
    told = read_about(place)
    try:
        # Journals say what was answered, and settings may have changed since: all may wait.
        options = NodeOptions(**{**told["options"], "waiting": 1 << 50})
        if told["algorithm"] is None:
            raise NodeError(
                f"{place}: the algorithm is one of your own, expected one of ddol's presets"
            )
        algorithm = replace(
            made_again(told["algorithm"]), safe=told["safe"], privacy=told.get("privacy")
        )
        name = str(told["name"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{place / ABOUT}: is damaged ({error})") from None
    account = read_account(place)
    return LiveAgent(name, algorithm, options, 0 if account is None else int(account.seed))


def _play(found: Replayed, record: r.Record) -> None:
    agent, kind = found.agent, r.KINDS[record.kind]
    found.events[kind] = found.events.get(kind, 0) + 1
    if record.kind == r.MIX:
        for heard in r.read_mixed(record.body):
            message = read_message(heard.blob)
            found.heard.append((message.sender, message.number, short_digest(heard.blob)))
    agent.play(record)
    if record.kind == r.SEND:
        told = json.loads(record.body)
        blob = agent.message(told["agents"]).write(agent.options.compress or "float64")
        found.sent.setdefault(told["number"], []).append(short_digest(blob))
    elif record.kind == r.SENT:
        told = json.loads(record.body)
        found.sent.setdefault(told["number"], []).append(told["digest"])


def compared(replays: Sequence[Replayed]) -> Iterator[str]:
    """Differences between replays and what was sent, one line each."""
    sent = {each.agent.name: each.sent for each in replays}
    for each in replays:
        for number in each.wrong:
            yield f"{each.agent.name}: message {number} is not what was sent"
        for sender, number, digest in each.heard:
            known = sent.get(sender, {}).get(number)
            if known and digest not in known:
                yield f"{each.agent.name}: heard another message {number} of {sender} than was sent"


def summary(replays: Sequence[Replayed]) -> list[dict[str, Any]]:
    """Figures of each node, as plain values."""
    found = []
    for each in replays:
        agent = each.agent
        total = agent.loss_sum if agent.regression else agent.mistakes
        found.append(
            {
                "name": agent.name,
                "examples": agent.examples,
                "answers": agent.answers,
                "error": total / max(agent.examples, 1),
                "waiting": len(agent.room),
                "events": dict(each.events),
                "messages_checked": sum(len(digests) == 2 for digests in each.sent.values()),
                "messages_heard": len(each.heard),
            }
        )
    return found
