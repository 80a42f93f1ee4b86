"""The virtual clock: from conditions and a seed to the list of events, a chunk at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.communicate.mixing import Changing, Mixing
from ddol.compiled import address, packed
from ddol.schedules import clock_memory as words
from ddol.schedules.clock_kernel import run_clock
from ddol.schedules.clock_memory import ClockMemory
from ddol.schedules.conditions import CALM, Conditions, Draw
from ddol.schedules.events import NONE, STRUCK, Events
from ddol.schedules.schedule import SCHEDULES
from ddol.schedules.wiring import Wiring, walk_chances

_CODES = {
    "rounds": words.ROUNDS,
    "async": words.ASYNC,
    "push-sum": words.ASYNC,
    "gossip": words.GOSSIP,
    "walk": words.WALK,
}
"""Schedules as the kernel knows them; push-sum is asynchronous, too, with messages averaged differently."""

_ROOM = 1 << 17
_MOST_WHEEL = 1 << 12


class EventChunk(NamedTuple):
    """Some events in the form that the event kernel plays.

    Wires are those of `Wiring`; a slot is where the gradient of a prediction, or a message, is kept while it
    is under way; ``row`` is a row's serial number, or the place of the send event.
    """

    kind: NDArray[np.int8]
    agent: NDArray[np.int32]
    wire: NDArray[np.int32]
    slot: NDArray[np.int32]
    row: NDArray[np.int64]
    time: NDArray[np.float64]
    answers: int
    """Slots of labels under way, in all."""
    messages: int
    """Slots of messages under way, in all."""

    def events(self, wires: Wiring) -> Events:
        """The same as a list, with rows as they are numbered here."""
        peer = np.where(self.wire >= 0, wires.sender[self.wire], NONE).astype(np.int32)
        return Events(self.kind, self.agent, peer, self.row, self.time)

    def without_struck(self) -> EventChunk:
        """The events that happened."""
        kept = self.kind != STRUCK
        columns = {name: getattr(self, name)[kept] for name in self._fields[:6]}
        return self if kept.all() else self._replace(**columns)


class Clock:
    """Makes the events of a schedule under conditions.

    Examples are named by serial numbers, in whatever order they are fed. The list depends on the seed, the
    conditions and the agents' streams, and not on the pieces in which they are fed.

    Parameters
    ----------
    schedule : "rounds", "async", "push-sum", "gossip" or "walk"
    mixing : Mixing or Changing
    conditions : Conditions
    period : int
        Labels between two exchanges.
    seed : int

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import ring
    >>> clock = Clock("async", metropolis(ring(3)), Conditions(latency=2.0), seed=1)
    >>> clock.feed(np.array([0, 1, 2]), np.array([0, 1, 2]))
    >>> clock.end()
    >>> [str(event) for event in clock.make().events(clock.wires)][:3]
    ['predict(1, 1)', 'answer(1, 1)', 'project(1)']
    """

    def __init__(
        self,
        schedule: str,
        mixing: Mixing | Changing,
        conditions: Conditions | None = None,
        period: int = 1,
        seed: int = 0,
    ) -> None:
        if schedule not in SCHEDULES:
            raise ValueError(f"unknown schedule {schedule!r}; use one of {', '.join(SCHEDULES)}")
        self.name, self.period = schedule, period
        self.conditions = conditions or CALM
        self.schedule = _CODES[schedule]
        self.wires = Wiring.of(mixing)
        self.n_agents = n = self.wires.n_agents
        self.rng = np.random.default_rng([seed, 17])
        self.interval = 1.0 / self.conditions.speeds(n, self.rng)
        self.latency = self.conditions.on_wires("latency", self.wires)
        self.drops = self.conditions.on_wires("drop_messages", self.wires)
        self.cut_times, self.cut_groups = self.conditions.groups(n)
        self.walk = np.empty(0)
        if self.schedule == words.WALK:
            self.walk = self._walk(mixing)
        self.words, self.now = np.zeros(words.N_WORDS, np.int64), np.zeros(1)
        self.words[words.GOING_ON] = n
        self.turns, self.answers, self.late, self.absent, self.parked, self.ended = (
            np.zeros(n, np.int64) for _ in range(6)
        )
        self.queue = np.empty(0, np.int64)
        self.queue_at, self.queue_end = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.delays = np.empty(0, np.int64)
        self._make_wheel()
        self.copies, self.place_of, self.free_messages = (np.empty(0, np.int64) for _ in range(3))
        self.due_time, self.due_order = np.empty(0), np.empty(0, np.int64)
        self.due_what = np.empty(0, np.int64)
        self.numbers = self.rng.random(4 * n)
        self.room = _ROOM
        self._make_room()
        self._start()

    def _make_wheel(self) -> None:
        """Places for labels by the turn in which they arrive; a place is used again a wheel's turn later."""
        delay = self.conditions.delay
        most = (
            max(delay.low, delay.high, 2 * delay.mean) if isinstance(delay, Draw) else _MOST_WHEEL
        )
        self.wheel = min(1 << int(most).bit_length(), _MOST_WHEEL)
        self.first = np.full(self.n_agents * self.wheel, -1, np.int64)
        self.last = np.full(self.n_agents * self.wheel, -1, np.int64)
        self.next_answer, self.due_turn, self.row_of, self.free_answers = (
            np.empty(0, np.int64) for _ in range(4)
        )

    def _start(self) -> None:
        """Put the first turns and absences into what is due."""
        n, due = self.n_agents, []
        phase = self.rng.random(n) * self.interval
        if self.schedule == words.WALK:
            due.append((0.0, words.TURN))
        elif self.schedule != words.ROUNDS:
            due += [(phase[i], words.TURN + (i << 3)) for i in range(n)]
        if self.conditions.churn:
            up, down = self.conditions.churn
            away, later = self.rng.random(n) < down / (up + down), self.rng.exponential(up, n)
            due += [(0.0 if away[i] else later[i], words.GOING + (i << 3)) for i in range(n)]
        due.sort()
        while len(self.due_time) < len(due) + n + 2:
            self._grow_due()
        self.due_time[: len(due)] = [time for time, _ in due]
        self.due_order[: len(due)] = np.arange(len(due))
        self.due_what[: len(due)] = [what for _, what in due]
        self.words[words.DUE] = self.words[words.ORDER] = len(due)

    # --- examples ------------------------------------------------------------------------------------

    def _walk(self, mixing: Mixing | Changing) -> np.ndarray:
        """Chances with which the token goes along each wire."""
        if np.isinf(self.cut_times).any():
            raise ValueError(
                "found a partition without an end, expected one that ends for the schedule walk; use async"
            )
        return walk_chances(mixing, self.wires)

    def feed(
        self,
        agents: NDArray,
        rows: NDArray,
        ended: NDArray | None = None,
        delays: NDArray | None = None,
        first_row: int = 0,
    ) -> None:
        """Give agents their next examples.

        Parameters
        ----------
        agents, rows : whole numbers
            Whose each example is, in the order in which the agent sees it; row −1 is a turn without one.
        ended : bool (N,), optional
            Agents that have no more to come.
        delays : int (rows,), optional
            Delay of each row from ``first_row`` on, where the data say it.
        first_row : int
            The lowest serial number that is still to be used.
        """
        left = [self.queue[a:b] for a, b in zip(self.queue_at, self.queue_end, strict=True)]
        whose = np.concatenate(
            [np.repeat(np.arange(self.n_agents), [len(q) for q in left]), agents]
        )
        everything = np.concatenate([*left, rows]).astype(np.int64)
        order = np.argsort(whose, kind="stable")
        self.queue = np.ascontiguousarray(everything[order])
        ends = np.cumsum(np.bincount(whose, minlength=self.n_agents))
        self.queue_at[:] = np.concatenate([[0], ends[:-1]])
        self.queue_end[:] = ends
        self.words[words.LEFT] = len(self.queue)
        if ended is not None:
            self.ended[:] = ended
            self.words[words.GOING_ON] = self.n_agents - np.count_nonzero(ended)
        if delays is not None:
            self.delays = np.ascontiguousarray(delays, np.int64)
        self.words[words.FIRST_ROW] = first_row

    def end(self) -> None:
        """No agent has any more to come."""
        self.ended[:] = 1
        self.words[words.GOING_ON] = 0

    def waiting_rows(self) -> NDArray[np.int64]:
        """Rows that are to be predicted, or whose labels are under way."""
        queued = [self.queue[a:b] for a, b in zip(self.queue_at, self.queue_end, strict=True)]
        used = np.ones(len(self.row_of), bool)
        used[self.free_answers[: self.words[words.FREE_ANSWERS]]] = False
        rows = np.unique(np.concatenate([*queued, self.row_of[used]]))
        return rows[rows >= 0]

    # --- events --------------------------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """Messages sent so far, each to one neighbour."""
        return int(self.words[words.SENT])

    @property
    def lost(self) -> int:
        """Messages that did not arrive."""
        return int(self.words[words.LOST])

    @property
    def under_way(self) -> int:
        """Messages that are still to arrive."""
        free = self.free_messages[: self.words[words.FREE_MESSAGES]]
        return int(np.delete(self.copies, free).sum())

    @property
    def time(self) -> float:
        """The present time."""
        return float(self.now[0])

    def make(self) -> EventChunk | None:
        """Make events until there are many, or an agent lacks an example; None where there are none."""
        self.words[words.MADE] = 0
        while True:
            status = run_clock(packed(self._memory()))
            if status == words.MORE_NUMBERS:
                self._draw()
            elif status == words.MORE_ANSWERS:
                self._grow_answers()
            elif status == words.MORE_MESSAGES:
                self._grow_messages()
            elif status == words.MORE_DUE:
                self._grow_due()
            elif status == words.FULL and self.words[words.MADE] == 0:
                self.room *= 2
                self._make_room()
            else:
                break
        made = int(self.words[words.MADE])
        if made == 0:
            return None
        return EventChunk(
            self.kind[:made],
            self.agent[:made],
            self.wire[:made],
            self.slot[:made],
            self.row[:made],
            self.times[:made],
            len(self.due_turn),
            len(self.copies),
        )

    def _make_room(self) -> None:
        self.kind = np.empty(self.room, np.int8)
        self.agent, self.wire, self.slot = (np.empty(self.room, np.int32) for _ in range(3))
        self.row, self.times = np.empty(self.room, np.int64), np.empty(self.room)

    def _draw(self) -> None:
        """More random numbers, after those that are not used yet."""
        rest = self.numbers[self.words[words.NUMBER] :]
        self.numbers = np.concatenate([rest, self.rng.random(max(1 << 14, 2 * len(rest)))])
        self.words[words.NUMBER] = 0

    def _grow_answers(self) -> None:
        more = max(len(self.due_turn), 2 * self.n_agents)
        self._more_slots("free_answers", words.FREE_ANSWERS, len(self.due_turn), more)
        self.next_answer, self.due_turn, self.row_of = (
            np.append(a, np.full(more, -1)) for a in (self.next_answer, self.due_turn, self.row_of)
        )

    def _grow_messages(self) -> None:
        more = max(len(self.copies), 2 * self.n_agents)
        self._more_slots("free_messages", words.FREE_MESSAGES, len(self.copies), more)
        self.copies, self.place_of = (
            np.append(a, np.zeros(more, np.int64)) for a in (self.copies, self.place_of)
        )

    def _more_slots(self, name: str, word: int, used: int, more: int) -> None:
        """Put new slots under those that are free, so that the ones used last are used again."""
        free = getattr(self, name)[: self.words[word]]
        fresh = np.arange(used + more - 1, used - 1, -1)
        room = np.zeros(used - len(free), np.int64)
        setattr(self, name, np.concatenate([fresh, free, room]).astype(np.int64))
        self.words[word] += more

    def _grow_due(self) -> None:
        more = max(len(self.due_time), 4 * self.n_agents + 16)
        self.due_time = np.append(self.due_time, np.zeros(more))
        self.due_order = np.append(self.due_order, np.zeros(more, np.int64))
        self.due_what = np.append(self.due_what, np.zeros(more, np.int64))

    def _memory(self) -> ClockMemory:
        wires, conditions = self.wires, self.conditions
        latency = conditions.latency if isinstance(conditions.latency, Draw) else Draw(0, 0.0)
        delay = conditions.delay if isinstance(conditions.delay, Draw) else Draw(0, 0.0)
        up, down = conditions.churn or (0.0, 0.0)
        return ClockMemory(
            schedule=self.schedule, n_agents=self.n_agents, period=self.period,
            degree=int(np.diff(wires.spoken_starts).max(initial=0)),
            starts=address(wires.starts), sender=address(wires.sender), listener=address(wires.listener),
            spoken_starts=address(wires.spoken_starts), spoken=address(wires.spoken), walk=address(self.walk),
            interval=address(self.interval),
            latency_kind=latency.kind, latency_low=latency.low, latency_high=latency.high,
            latency=address(self.latency),
            drop=0.0 if len(self.drops) else float(conditions.drop_messages), drops=address(self.drops),
            delay_kind=delay.kind, delay_low=delay.low, delay_high=delay.high,
            delays=address(self.delays), up=up, down=down,
            n_cuts=len(self.cut_times), cut_times=address(self.cut_times),
            cut_groups=address(self.cut_groups),
            words=address(self.words), now=address(self.now), turns=address(self.turns),
            answers=address(self.answers), late=address(self.late), absent=address(self.absent),
            parked=address(self.parked), ended=address(self.ended), queue=address(self.queue),
            queue_at=address(self.queue_at), queue_end=address(self.queue_end),
            wheel=self.wheel, first=address(self.first), last=address(self.last),
            next_answer=address(self.next_answer), due_turn=address(self.due_turn),
            row_of=address(self.row_of), free_answers=address(self.free_answers),
            copies=address(self.copies), place_of=address(self.place_of),
            free_messages=address(self.free_messages),
            due_time=address(self.due_time), due_order=address(self.due_order),
            due_what=address(self.due_what), due_room=len(self.due_time),
            numbers=address(self.numbers), n_numbers=len(self.numbers),
            kind=address(self.kind), agent=address(self.agent), wire=address(self.wire),
            slot=address(self.slot), row=address(self.row), time=address(self.times), room=self.room,
        )  # fmt: skip
