"""Messages in a run of events: the rules by which agents send, their last messages, and counts by edge."""

from __future__ import annotations

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.talking import (
    LOSS,
    PLAIN,
    compression_of,
    partners_of,
    talking_of,
    teaching_of,
)
from ddol.compiled import address
from ddol.engines.kernels.talking import Talk
from ddol.engines.registry import MessageCounts
from ddol.engines.state import layout_of, loops_of, n_states, numbers_sent
from ddol.schedules.conditions import Conditions
from ddol.schedules.events import SEND, Events
from ddol.schedules.schedule import ROUNDS, Schedule
from ddol.schedules.wiring import Wiring
from ddol.update.contract import Interpreted

IN_PAIRS = ("gossip", "walk")
"""Schedules in which a message goes to one neighbour."""


class Messaging:
    """The rules by which agents send, their last messages, and counts of every edge.

    Parameters
    ----------
    algorithm : Algorithm
        On its network, with the rules by which agents talk.
    wires : Wiring
    schedule : Schedule
    """

    def __init__(self, algorithm: Algorithm, wires: Wiring, schedule: Schedule) -> None:
        check_talking(algorithm, schedule)
        self.algorithm, self.wires = algorithm, wires
        self.pairs = schedule.name in IN_PAIRS
        self.chooses = algorithm.talk is not None and schedule.replay is None
        self.pieces_named = False
        """Whether a recording says which pieces were sent."""
        self.projects = schedule.name == ROUNDS and algorithm.period == 1
        given = schedule.replay is not None or schedule.own is not None
        arrives = schedule.conditions.is_still and not schedule.conditions.loses
        self.together = schedule.name == ROUNDS and arrives and not given
        n = algorithm.n_agents
        self.last, self.news = np.full(n, -1, np.int64), np.zeros(n, np.int64)
        self.messages, self.bytes, self.arrived = (
            np.zeros(len(wires.sender), np.int64) for _ in range(3)
        )

    @property
    def plain(self) -> bool:
        """Whether all agents send everything, uncompressed."""
        coded, addressed = self.algorithm.compress, self.algorithm.talk_to
        counted = addressed is not None or self.algorithm.teach is not None
        return not (self.chooses or self.pieces_named or coded is not None or counted)

    def prepare(self, n_features: int) -> None:
        """Make room for messages of so many features."""
        algorithm = self.algorithm
        self.layout = layout_of(algorithm, n_features)
        compress = compression_of(algorithm.compress)
        self.code = PLAIN if compress is None else compress.code
        self.most = 0 if compress is None else compress.features(n_features)
        self.sizes = np.zeros(n_features if self.code != PLAIN else 0)
        self.origin = _first_message(algorithm, n_features)

    def read(self, events: Events, pairs: bool) -> None:
        """Read what a given list names of its messages, which may all go to one neighbour each."""
        self.pairs = pairs
        sends = events.kind == SEND
        self.pieces_named = bool((events.row[sends] >= 0).any())

    def memory(self, coded: np.ndarray | None = None, first: int = 0) -> Talk:
        """The addresses that kernels need; ``first`` is a thread's first agent, ``coded`` its buffer."""
        talk, wires, layout = talking_of(self.algorithm.talk), self.wires, self.layout
        return Talk(
            plain=self.plain, chooses=self.chooses, together=self.together,
            code=self.code, most=self.most,
            threshold=float("inf") if talk is None else talk.threshold,
            statistics=layout.statistics[0], counts=layout.statistics[1], projects=self.projects,
            origin=address(self.origin), last=address(self.last), news=address(self.news) + 8 * first,
            sizes=address(self.sizes), spoken_starts=address(wires.spoken_starts),
            spoken=address(wires.spoken), pairs=self.pairs, coded=0 if coded is None else address(coded),
            messages=address(self.messages), bytes=address(self.bytes), arrived=address(self.arrived),
        )  # fmt: skip

    def sent(self) -> MessageCounts:
        """Messages sent so far, and by edge."""
        used = np.flatnonzero(self.messages)
        wires = self.wires.sender, self.wires.listener, self.messages, self.bytes
        edges = np.column_stack([column[used] for column in wires])
        return MessageCounts(int(self.messages.sum()), int(self.bytes.sum()), edges=edges)


def check_talking(algorithm: Algorithm, schedule: Schedule) -> None:
    """Refuse rules of talking that do not go with a schedule or its conditions."""
    named = schedule.name not in (*IN_PAIRS, "push-sum")
    for name in ("talk", "talk_to", "teach", "compress"):
        if getattr(algorithm, name) is None:
            continue
        if not named and name != "compress":
            raise ValueError(
                f"`{name}` is for rounds and async; in {schedule.name} a schedule says who meets whom"
            )
        if schedule.patient:
            raise ValueError(f"`{name}` does not go with --patient; leave one out")
    if algorithm.teach is not None:
        _check_teaching(algorithm, schedule.conditions)
    _check_borrowed(algorithm)
    compress = compression_of(algorithm.compress)
    if compress is not None and schedule.name == "push-sum":
        raise ValueError("`compress` would bias the sums of push-sum; use the schedule async")
    if compress is None or not compress.has_memory:
        return
    if algorithm.talk_to is not None:
        raise ValueError(
            f"`compress`: {compress.kind} sends differences from the last message, and with `talk_to` not "
            "every neighbour has had that one; use float32"
        )
    if not named:
        raise ValueError(
            f"`compress`: {compress.kind} sends differences from the last message; in {schedule.name} "
            "not every neighbour has had that one; use float32"
        )
    if schedule.conditions.loses:
        raise ValueError(
            f"`compress`: {compress.kind} sends differences, and a lost one would be missing for good; use "
            "float32 where messages are lost or agents are away"
        )


def _check_teaching(algorithm: Algorithm, conditions: Conditions) -> None:
    teaching, loops = teaching_of(algorithm.teach), loops_of(algorithm)
    if algorithm.update.experts:
        raise ValueError(f"`teach` is for weights that are learned; {algorithm.name} has experts")
    if conditions.loses or not conditions.is_still:
        raise ValueError(
            "`teach` does not go with latency, drop, churn and partitions; leave these out"
        )
    if teaching is not None and teaching.gradients and loops.observe is not None:
        raise ValueError(
            f"`teach`: {algorithm.name} standardises examples, which a gradient does not show; leave out "
            "`gradients`, or use dogd"
        )


def _check_borrowed(algorithm: Algorithm) -> None:
    """Refuse rules that need labels where predictions of neighbours take their place."""
    partners = partners_of(algorithm.talk_to)
    by_loss = partners is not None and partners.by == LOSS
    if algorithm.asking is None or not algorithm.asking.neighbours:
        return
    if by_loss or algorithm.teach is not None:
        raise ValueError(
            f"`{'talk_to' if by_loss else 'teach'}` needs labels, and `query` takes what neighbours say for "
            "one; leave out +neighbours"
        )


def _first_message(algorithm: Algorithm, n_features: int) -> np.ndarray:
    """The message of an agent that has learned nothing."""
    loops = Interpreted(algorithm.update, algorithm.average, n_features)
    rows, scalars = loops.to_message(algorithm.update.start(n_features))
    whole = np.concatenate([rows.ravel(), scalars])
    found = np.tile(whole, n_states(algorithm))
    assert len(found) == numbers_sent(algorithm, n_features)
    return found
