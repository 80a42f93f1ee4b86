"""Lists of events in one thread: of a virtual clock, a recording, or a function of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events import keeping
from ddol.engines.events.player import EventPlayer
from ddol.engines.events.row_pool import RowPool
from ddol.engines.registry import MessageCounts, Turns
from ddol.engines.state import State, numbers_sent
from ddol.engines.workers.partition import Snapshots
from ddol.engines.workers.shadow import ShadowLearner, moment_of
from ddol.engines.workers.worker import KernelWorker, worker_of_all
from ddol.recording import Moment, ShadowSums, next_point
from ddol.schedules.clock import Clock, EventChunk
from ddol.schedules.conditions import Conditions, Draw, whole_delays
from ddol.schedules.events import (
    ADOPT,
    MIX,
    NONE,
    PREDICT,
    RECEIVE,
    SEND,
    Events,
)
from ddol.schedules.keeping import Kept, below, under
from ddol.schedules.linking import linked
from ddol.schedules.rounds import rounds_of_events
from ddol.schedules.schedule import ROUNDS, Schedule
from ddol.schedules.wiring import Wiring
from ddol.storage import Expected, check_arrays
from ddol.streams.errors import DataError
from ddol.streams.rows import Block

_NOT_KEPT = (
    "a recording or a schedule of your own is played when all examples are read: there is nothing to keep "
    "before its end; leave the checkpoint out"
)


class ScheduledTurns(Turns):
    """What a schedule lets happen, played by one worker that hosts all agents.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Copied.
    schedule : Schedule
    """

    def __init__(self, algorithm: Algorithm, state: State, schedule: Schedule) -> None:
        if schedule.staleness is not None and schedule.name != ROUNDS:
            raise ValueError(
                "`staleness` bounds how far threads or actors run ahead of each other; the virtual clock of "
                "the engine local has speeds and latencies instead"
            )
        self.algorithm, self.schedule = algorithm, schedule
        self.wires = Wiring.of(algorithm.mixing)
        shadow = None
        if ShadowLearner.covers(algorithm):
            shadow = ShadowLearner(algorithm, state.n_features)
        self.player = EventPlayer(algorithm, state, self.wires, schedule, shadow)
        self.shadow = shadow
        given = schedule.replay is not None or schedule.own is not None
        self.clock = None if given else Clock(
            schedule.name, algorithm.mixing, conditions_of(algorithm, schedule), algorithm.period, state.seed
        )  # fmt: skip
        self.pool = RowPool(algorithm.n_agents, keep_numbers=given or schedule.record)
        self.recorded: list[Events] = []
        self._moments: list[Moment] = []
        self._began = state
        self._rounds: KernelWorker | None = None
        """Plays a recording of rounds where all agents share one copy of the weights."""
        self._received = 0
        self._stranded = 0
        """Messages that were still under way when the run ended."""
        self._sent = 0
        self._time = 0.0
        self._over = False
        self._first = state.rounds
        """Rounds before the run."""

    @property
    def kernel_workers(self) -> list[KernelWorker]:
        """The one worker."""
        return [self.player.worker if self._rounds is None else self._rounds]

    # --- what the plan calls -------------------------------------------------------------------------

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Take in the examples of a block, and play what follows from them.

        Rounds are counted in turns of all agents divided by their number; points of the curves are those of
        these rounds, whatever ``after`` says, and the last snapshot is of now.
        """
        block = self.player.lying.spoiled(block)
        self.player.widen(block.rows.n_features)
        before = self.player.rounds
        if block.n_rounds == 0:
            return self._with_now([], before)._replace(rounds=np.array([0]))
        pieces = self._feed(block)
        return self._with_now(pieces, before) if len(after) else _together(pieces, before)

    def end(self) -> Snapshots:
        """The streams are over: play whatever is left to happen."""
        before = self.player.rounds
        if self._over:
            return self._with_now([], before)
        self._over = True
        if self.clock is not None:
            self.clock.end()
            pieces = self._run()
            self._stranded = self.clock.under_way
        else:
            pieces = self._play_list()
        self.player.end()
        return self._with_now(pieces, before)

    def sent(self) -> MessageCounts:
        """Messages sent so far, by edge where they are played one by one."""
        talk, refused = self.player.talk, self.player.lying.refused.copy()
        known = talk.sent()._replace(refused=refused)
        if not talk.plain:
            lost = known.messages - int(talk.arrived.sum()) if self._over else 0
            return known._replace(lost=lost)
        each = 8 * (
            numbers_sent(self.algorithm, self.player.worker.state.n_features) + self.player.push_sum
        )
        if self.clock is not None:
            sent, lost = self.clock.sent, self.clock.lost + self._stranded
        else:
            sent, lost = self._sent, self._sent - self._received
        edges = known.edges if self._rounds is None else None
        return MessageCounts(sent, sent * each, lost, edges, refused)

    def moments(self) -> tuple[Moment, ...]:
        """The run by its time; the last is now."""
        seen = self._look()
        shadow = None if self.shadow is None else self.shadow.seen()
        now = moment_of(int(seen.rounds[0]), self._time, seen.counters[0], shadow)
        now = replace(now, absent=self.player.absent.astype(bool))
        return (*(m for m in self._moments if m.rounds < now.rounds), now)

    def events(self) -> Events | None:
        """The recorded events, with rows numbered as in the whole data; None where they are not recorded."""
        if not self.schedule.record:
            return None
        whole = self.player.near.amended(Events.joined(self.recorded))
        if self.clock is None:
            return whole
        return whole.renumbered(self.pool.numbers.in_the_data(self.passes, self.n_streams))

    # --- checkpoints ---------------------------------------------------------------------------------

    def state_dict(self) -> Kept:
        """All but the state that it takes to go on from here."""
        if self.clock is None:
            raise ValueError(_NOT_KEPT)
        parts = {
            "clock": keeping.clock_state(self.clock),
            "player": keeping.player_state(self.player),
            "pool": keeping.pool_state(self.pool),
            "shadow": {} if self.shadow is None else keeping.shadow_state(self.shadow),
            "moments": keeping.moments_state(self._moments),
            "events": keeping.events_state(Events.joined(self.recorded)),
            "lying": self.player.lying.state_dict(),
            "run": {"numbers": np.array([self._time, self._over, self._stranded, self._first])},
        }
        return {k: v for part, kept in parts.items() for k, v in under(part, kept).items()}

    def load_state_dict(self, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from where another run like this one was, at the state with which this one was opened."""
        if self.clock is None:
            raise ValueError(_NOT_KEPT)
        parts = {
            part: below(part, kept) for part in ("clock", "player", "pool", "shadow", "moments")
        }
        keeping.load_pool(self.pool, parts["pool"], self.player.worker.state.n_features, where)
        keeping.load_clock(self.clock, parts["clock"], self.pool.numbers.count, where)
        keeping.load_player(self.player, parts["player"], where)
        if not np.isin(self.clock.waiting_rows(), self.pool.serials).all():
            raise DataError(
                f"{where}: found rows that no agent waits for; the file is damaged, use an earlier checkpoint"
            )
        if self.shadow is not None:
            keeping.load_shadow(self.shadow, parts["shadow"], where)
        self._moments = keeping.moments_from(parts["moments"], self.shadow, where)
        self.recorded = [keeping.events_from(below("events", kept), where)]
        self.player.lying.load_state_dict(below("lying", kept), where)
        numbers = below("run", kept)
        check_arrays(where, numbers, {"numbers": Expected("float64", (4,))})
        self._time, over, stranded, first = numbers["numbers"].tolist()
        self._over, self._stranded, self._first = bool(over), int(stranded), int(first)

    # --- the clock -----------------------------------------------------------------------------------

    def _feed(self, block: Block) -> list[Snapshots]:
        if self.clock is None:
            self.pool.add(block)
            return []
        needed = self.clock.waiting_rows()
        kept, first = len(needed), self.pool.first
        agents, serials = self.pool.add(block, needed)
        if self.schedule.name != ROUNDS:
            agents, serials = agents[serials >= 0], serials[serials >= 0]
        over = block.table[-1, :, 0] < 0 if self.passes == 1 else np.zeros(block.n_agents, bool)
        delays = self._delays(first, len(self.pool.serials) - kept)
        self.clock.feed(agents, serials, over, delays, self.pool.first)
        return self._run()

    def _delays(self, first: int, count: int) -> np.ndarray | None:
        """Delays of all rows that may be used from now on, where each row has its own.

        Parameters
        ----------
        first : int
            Serial number from which on the clock knows them.
        count : int
            Rows that are new to it.
        """
        assert self.clock is not None
        source, total = self.clock.conditions.delay, self.pool.numbers.count
        if isinstance(source, Draw):
            return None
        if self.n_streams > 1:
            raise DataError("delays by row are those of one stream; deal one file to all agents")
        new = np.arange(total - count, total)
        if callable(source):
            fresh = whole_delays(source(total - count, count))
        elif total > len(source) * self.passes:
            raise DataError(f"`delay` is given for {len(source)} rows, the data have more")
        else:
            fresh = source[new % len(source)]
        if len(fresh) != count:
            raise DataError(f"`delay` gave {len(fresh)} numbers for {count} rows")
        return np.concatenate([self.clock.delays[self.pool.first - first :], fresh])

    def _run(self) -> list[Snapshots]:
        assert self.clock is not None
        pieces = []
        while (chunk := self.clock.make()) is not None:
            pieces.append(self._play(chunk))
        return pieces

    def _play(self, chunk: EventChunk) -> Snapshots:
        turns = int(np.count_nonzero(chunk.kind == PREDICT))
        played, N = int(self.player.turns.sum()), self.algorithm.n_agents
        points, point = [], next_point(self._moments[-1].rounds if self._moments else self._first)
        # At the very end of a chunk it is not known yet whether the round goes on.
        while point * N < played + turns:
            points.append(point)
            point = next_point(point)
        seen = self.player.play(chunk, self.pool.rows, self.pool.where, self.pool.first, points)
        self._time = float(chunk.time[-1])
        if self.schedule.record:
            self.player.near.record(chunk, sum(len(piece) for piece in self.recorded))
            self.recorded.append(chunk.events(self.wires).copy())
        self._keep(seen, chunk, turns, played)
        return seen

    def _keep(self, seen: Snapshots, chunk: EventChunk, turns: int, played: int) -> None:
        """Moments of the run, at the points of its curves."""
        if not len(seen.rounds):
            return
        times = chunk.time[chunk.kind == PREDICT]
        for k, point in enumerate(seen.rounds):
            place = min(max(int(point) * self.algorithm.n_agents - played, 0), turns - 1)
            shadow = self.player.shadows[k] if self.player.shadows else None
            self._moments.append(
                moment_of(int(point), float(times[place]), seen.counters[k], shadow)
            )

    # --- lists ---------------------------------------------------------------------------------------

    def _play_list(self) -> list[Snapshots]:
        """Play a recording or a schedule of one's own, now that all rows are known."""
        numbers = self.pool.numbers.in_the_data(1, self.n_streams)
        n_rows = len(numbers)
        events, name = self._given(numbers)
        chunk = linked(events, self.wires, n_rows, name)
        # The list names rows by their number in the whole data.
        self.pool.where = np.empty(max(n_rows, 1), np.int64)
        self.pool.where[numbers] = np.arange(n_rows)
        self._received, self._sent = events.count(RECEIVE), messages_of(events, self.wires)
        self.player.read(events, in_pairs(events))
        by_events = self.player.push_sum or not self.player.talk.plain or self.player.lying.address
        table = None
        if not by_events:
            table = rounds_of_events(
                events, self.wires, self.algorithm.period, self.algorithm.delay
            )
        if table is not None:
            self.recorded.append(events)
            return [self._play_rounds(table)]
        return [self._play(chunk)] if len(events) else []

    def _play_rounds(self, table: np.ndarray) -> Snapshots:
        """Play a table as the local engine plays rounds, on one shared copy of the weights if it has one."""
        self._rounds = worker_of_all(self.algorithm, self._began)
        rows = np.where(table >= 0, self.pool.where[table], -1)
        points, last = [], next_point(0)
        while last < len(table):
            points.append(last)
            last = next_point(last)
        points.append(len(table))
        self._time = float(len(table))
        room = np.empty((len(self.pool.rows), self.algorithm.outputs))
        block, before = Block(self.pool.rows, rows[:, :, None], room), self._began.loss
        self._rounds.play_block(block, points)
        seen = self._rounds.snapshots
        sums: Sequence[ShadowSums | None] = [None] * len(points)
        if self.shadow is not None:
            sums = self.shadow.follow_block(block, points, before, seen.counters[:, :, 1])
        for point, counters, shadow in zip(points, seen.counters, sums, strict=True):
            self._moments.append(moment_of(point, float(point), counters, shadow))
        return seen

    def _given(self, numbers: np.ndarray) -> tuple[Events, str]:
        if self.schedule.replay is not None:
            events = self.schedule.replay
            check_same_data(events, len(numbers))
            return events, "the recording"
        assert self.schedule.own is not None
        own = self.schedule.own
        whose = self.pool.numbers.whose()
        rows = [numbers[np.flatnonzero(whose == i)] for i in range(self.algorithm.n_agents)]
        rng = np.random.default_rng([self.player.worker.state.seed, 17])
        name = f"the schedule {getattr(own, '__name__', 'of your own')}"
        made = own(rows, self.algorithm.mixing, rng)
        return made if isinstance(made, Events) else Events.of(iter(made)), name

    # --- what is seen --------------------------------------------------------------------------------

    def _with_now(self, pieces: list[Snapshots], before: int) -> Snapshots:
        return _together([*pieces, self._look()], before)

    def _look(self) -> Snapshots:
        """A snapshot of now."""
        if self._rounds is None:
            return self.player.look()._replace(rounds=np.array([self.player.rounds]))
        nothing = np.empty((0, self.algorithm.n_agents, 1), np.int64)
        self._rounds.play_block(Block(self.pool.rows.slice(0, 0), nothing), [0])
        return self._rounds.snapshots._replace(rounds=np.array([self._rounds.state.rounds]))


def _together(pieces: list[Snapshots], before: int) -> Snapshots:
    """Snapshots with rounds counted from those before."""
    found = Snapshots.joined(pieces)
    return found._replace(rounds=found.rounds - before)


def in_pairs(events: Events) -> bool:
    """Whether messages go to one neighbour, as those of meetings and of tokens do."""
    return bool(((events.kind == MIX) & (events.peer >= 0)).any()) or events.count(ADOPT) > 0


def messages_of(events: Events, wires: Wiring) -> int:
    """Messages that a list sends, each to one neighbour."""
    if in_pairs(events):
        return events.count(RECEIVE)
    return int(np.diff(wires.spoken_starts)[events.agent[events.kind == SEND]].sum())


def check_same_data(events: Events, n_rows: int) -> None:
    """Refuse a recording that predicts other rows than there are."""
    predicted = events.row[(events.kind == PREDICT) & (events.row != NONE)]
    times = np.bincount(predicted[predicted < n_rows], minlength=n_rows)
    if (len(predicted) and predicted.max() >= n_rows) or len(set(times)) > 1:
        raise DataError(
            f"the recording is of other data: it predicts {len(np.unique(predicted))} rows up to number "
            f"{predicted.max()}, the data have {n_rows}; give the data, --limit and --seed of that run"
        )


def conditions_of(algorithm: Algorithm, schedule: Schedule) -> Conditions:
    """The schedule's conditions, with the delay that the algorithm was given in rounds."""
    if algorithm.delay and schedule.conditions.is_prompt:
        return replace(schedule.conditions, delay=algorithm.delay)
    return schedule.conditions
