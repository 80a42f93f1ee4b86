"""The schedule of a run: where its events come from, under which conditions, and what is recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ddol.schedules.conditions import CALM, Conditions

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.schedules.events import Event, Events

    OwnSchedule: TypeAlias = Callable[[Sequence[np.ndarray], Any, Any], Iterable[Event] | Events]
    """A schedule of one's own: from every agent's rows, the mixing and a generator of random numbers."""

ROUNDS, ASYNC, PUSH_SUM = "rounds", "async", "push-sum"
SCHEDULES = (ROUNDS, ASYNC, PUSH_SUM, "gossip", "walk")


@dataclass(frozen=True)
class Schedule:
    """Where the events of a run come from, and what is kept of them.

    Parameters
    ----------
    name : "rounds", "async", "push-sum", "gossip" or "walk"
    conditions : Conditions
    own : function, optional
        A schedule of one's own, in the place of a named one: ``own(rows, mixing, rng)`` yields events, where
        ``rows[i]`` are the numbers of agent i's examples in their order.
    replay : Events, optional
        What happened in another run, in the place of a schedule.
    staleness : int, optional
        Exchanges that an agent may be ahead of a neighbour on engines that really run at the same time; None
        for any number, 0 for a barrier.
    record : bool
        Keep the list of events, in ``trace.events``.
    patient : bool
        Each agent has a copy of its learner for every label under way, so that none learns late; on the
        engine local, with all examples in memory.
    certificate : bool
        Keep the regret certificate of rounds, too; wherever events are played there is one.

    Examples
    --------
    >>> Schedule("async", Conditions(latency=3)).plays_events
    True
    """

    name: str = ROUNDS
    conditions: Conditions = CALM
    own: OwnSchedule | None = None
    replay: Events | None = None
    staleness: int | None = None
    record: bool = False
    certificate: bool = False
    patient: bool = False

    def __post_init__(self) -> None:
        if self.name not in SCHEDULES:
            raise ValueError(f"unknown schedule {self.name!r}; use one of {', '.join(SCHEDULES)}")
        if self.own is not None and self.replay is not None:
            raise ValueError(
                "found a schedule of your own and a recording to replay; leave one of them out"
            )
        if self.staleness is not None and self.staleness < 0:
            raise ValueError(f"`staleness` must be at least 0, it is {self.staleness}")
        if self.staleness == 0 and self.name == ASYNC:
            object.__setattr__(self, "name", ROUNDS)  # a barrier

    @property
    def is_given(self) -> bool:
        """Whether there is a list, or something that yields one, in the place of a clock."""
        return self.own is not None or self.replay is not None

    @property
    def described(self) -> str:
        """The schedule in a few words, for messages."""
        if self.is_given:
            return "a recording or a schedule of your own"
        if self.patient:
            return "a patient pool"
        if self.name == ROUNDS and not self.conditions.is_calm:
            return "a run with conditions"
        return f"the schedule {self.name}"

    @cached_property
    def plays_events(self) -> bool:
        """Whether a run needs more than rounds."""
        special = self.name != ROUNDS or not self.conditions.is_calm
        return special or self.is_given or self.patient

    def needs_events(self, algorithm: Algorithm) -> bool:
        """Whether a run of an algorithm is a list of events rather than a table of rounds.

        Where agents choose what they send, it is known only on the way who sends when.
        """
        return self.plays_events or algorithm.chooses_messages


def schedule_of(
    schedule: Schedule | str | OwnSchedule | None,
    conditions: Conditions | None = None,
    record: bool = False,
    replay: Events | None = None,
    certificate: bool = False,
) -> Schedule:
    """The schedule that a call asks for by name, by function, or as a whole.

    Examples
    --------
    >>> schedule_of("gossip", record=True).record
    True
    """
    if isinstance(schedule, Schedule):
        changes: dict[str, Any] = {
            "conditions": conditions,
            "record": record or None,
            "replay": replay,
            "certificate": certificate or None,
        }
        return dataclasses.replace(schedule, **{k: v for k, v in changes.items() if v is not None})
    more: dict[str, Any] = {"record": record, "replay": replay, "certificate": certificate}
    if conditions is not None:
        more["conditions"] = conditions
    if callable(schedule):
        return Schedule(own=schedule, **more)
    return Schedule(schedule or ROUNDS, **more)
