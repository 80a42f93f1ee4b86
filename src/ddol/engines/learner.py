"""The one run: blocks of rounds go in, and a trace comes out at any time."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import KEPT, Changing
from ddol.engines.errors import RankLostError
from ddol.engines.local import Local
from ddol.engines.memory import check_memory
from ddol.engines.open_round import OpenRound
from ddol.engines.pace import Pace
from ddol.engines.processes import Processes
from ddol.engines.registry import Engine, ScheduledEngine, engine_named, is_scheduled
from ddol.engines.round_log import RoundLog
from ddol.engines.scoring import scores
from ddol.engines.setup import Setup
from ddol.engines.state import State, start_state
from ddol.engines.state_checks import check_state
from ddol.engines.traffic import Traffic
from ddol.engines.weight_record import WeightRecord
from ddol.engines.worker import Snapshots
from ddol.schedules.events import Events
from ddol.streams.rows import Block, Rows, no_rows
from ddol.streams.stream import Position, Stream
from ddol.trace import Moment, Recorder, Trace
from ddol.version import __version__

if TYPE_CHECKING:
    from ddol.engines.tickets import Ticket, TicketEngine


@dataclass(frozen=True)
class Feed:
    """Streams that a learner follows to their end.

    Parameters
    ----------
    streams : one Stream, or one for each agent
        Labels must be encoded: −1 and +1, or class numbers.
    passes : int
        Times that they are read.
    block_rounds : int or None
        Most rounds of one block; positions are known between blocks only.
    """

    streams: Sequence[Stream] = ()
    passes: int = 1
    block_rounds: int | None = None

    @property
    def n_features(self) -> int:
        """Number of columns, as far as the streams know it."""
        return max((s.n_features for s in self.streams if s.n_features is not None), default=0)


@dataclass(frozen=True)
class Progress:
    """Where a run stands after some rounds.

    Parameters
    ----------
    rounds, examples : int
        Of all agents.
    agent_examples, mistakes, expected_mistakes, loss : (N,)
        Per agent; expected where an expert is drawn.
    consensus, best_log_weight : float
        See `ddol.trace.Curves`.
    messages, bytes_sent : int
    seconds : float
    position : Position or None
        Of the streams; None in the middle of a block.
    moments : tuple of Moment
        See `ddol.trace.Trace`.
    """

    rounds: int
    examples: int
    agent_examples: np.ndarray
    mistakes: np.ndarray
    expected_mistakes: np.ndarray
    loss: np.ndarray
    consensus: float
    best_log_weight: float
    messages: int
    bytes_sent: int
    seconds: float
    position: Position | None
    moments: tuple[Moment, ...] = ()


class Past(NamedTuple):
    """What a learner remembers besides its state."""

    position: Position | None
    curves: Mapping[str, np.ndarray]
    open_round: OpenRound | None = None


class Learner:
    """N agents that learn: the object behind `ddol.run`, the command line, the estimators and river.

    It is fed by blocks (`play`), by the next rows of a stream in calls of any length (`learn`), or by
    streams that it reads to their end (`follow`). `weights` and `trace` can be asked for at any time,
    and are those of a stream that ends here: an open round is played, and late answers arrive, on a copy.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    setup : Setup
    state : State, optional
        Where to go on from.
    on_progress : function of Progress, optional
        Called after every piece of a block; pieces then end wherever the number of examples passes a
        power of two. What it raises ends the run.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> rows = Rows.from_dense(np.eye(3), [1.0, -1.0, 1.0])
    >>> whole, parts = Learner(dogd().on(2)), Learner(dogd().on(2))
    >>> whole.learn(rows); parts.learn(rows.slice(0, 1)); parts.learn(rows.slice(1, 3))
    >>> bool(np.all(whole.weights() == parts.weights())), parts.trace().examples
    (True, 3)
    """

    def __init__(
        self,
        algorithm: Algorithm,
        setup: Setup | None = None,
        state: State | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.setup = setup or Setup()
        self.on_progress = on_progress
        self.on_predicted: Callable[[Block], None] | None = None
        """Called with every piece that was played, and the scores its rows were predicted with."""
        self.recorder = Recorder(algorithm.n_agents)
        self.weight_record: WeightRecord | None = None
        self.traffic = Traffic(algorithm)
        self.open_round = OpenRound(algorithm.n_agents, algorithm.batch)
        schedule = self.setup.schedule
        logs = schedule.record and not schedule.plays_events
        self.log = RoundLog(algorithm) if logs else None
        self.feed = Feed()
        self.tickets = 1024
        self._desk: TicketEngine | None = None
        self.position: Position | None = None
        self.seconds = 0.0
        self.engine: Engine | None = None
        self._start = state
        self._pace = Pace()
        self._since: float | None = None
        self._processes: Processes | None = None

    # Feeding.

    def play(self, block: Block, position: Position | None = None) -> None:
        """Play rounds that are dealt already.

        Parameters
        ----------
        block : Block
        position : Position, optional
            Of the streams, right after the block.
        """
        if block.n_rounds == 0:
            return
        with self.timing():
            engine = self.opened(block.rows.n_features)
            before = engine.counters().rounds
            if self.on_predicted is not None:
                room = np.full((len(block.rows), self.algorithm.outputs), np.nan)
                block = replace(block, scores=room)
            for lo, hi in self._pieces(before, block.n_rounds):
                piece = replace(block, table=block.table[lo:hi])
                seen = self._play_piece(engine, before + lo, piece)
                if self.on_predicted is not None:
                    self.on_predicted(piece)
                if self.log is not None:
                    self.log.add(piece)
                if self.weight_record is not None:
                    self.weight_record.look(before + hi, engine)
                between = position if hi == block.n_rounds else None
                if between is not None:
                    self.position = between
                self._tell(seen, between)
                if between is not None:
                    self.processes.after_block(self)

    def learn(self, rows: Rows, agents: np.ndarray | None = None) -> None:
        """Learn from the next rows of a stream; rows that fill no round wait for the next call.

        Parameters
        ----------
        rows : Rows
        agents : (n,) of int, optional
            Agent of each row; row k of the stream goes to agent k mod N if it is not given.
        """
        for block in self.open_round.filled(rows, agents):
            self.play(block)

    def predict(self, agent: int, x: Any) -> Ticket:
        """Let an agent predict one example whose answer comes later, or never.

        The agents are asynchronous then: whoever gets an answer learns, sends to its neighbours, and mixes
        with the newest that they have sent. At most `tickets` predictions may be under way; the oldest is
        dropped to make room, and counted in `unanswered`.

        Parameters
        ----------
        agent : int
        x : vector, sparse row, or Rows of one row

        Examples
        --------
        >>> from ddol.presets import dogd
        >>> learner = Learner(dogd(l2=0.0).on(2))
        >>> first, second = learner.predict(0, [1.0, 0.0]), learner.predict(1, [0.0, 2.0])
        >>> learner.answer(second, -1.0); learner.answer(first, 1.0)
        >>> second.prediction, learner.trace().mistakes.tolist()
        (1.0, [0, 1])
        """
        return self._opened_desk(x).predict(agent, x)

    def answer(self, ticket: Ticket | int, y: float) -> None:
        """Learn from the answer to an earlier prediction, in any order; y is −1 or +1, a class, a number."""
        if self._desk is None or self.engine is not self._desk:
            raise KeyError("no ticket is waiting; `predict` gives one")
        self._desk.answer(ticket, y)

    @property
    def unanswered(self) -> int:
        """Predictions that were dropped before their answers came."""
        return 0 if self._desk is None else self._desk.unanswered

    def _opened_desk(self, x: Any) -> TicketEngine:
        """The engine of tickets, which goes on from what was learned before."""
        from ddol.engines.tickets import TicketEngine

        if self._desk is None or self.engine is not self._desk:
            known = self.state() if self.engine is not None or self._start is not None else None
            width = np.shape(x)[-1] if np.ndim(x) else getattr(x, "n_features", 0)
            state = self._first_state(int(width)) if known is None else known
            self.close()
            self.engine = self._desk = TicketEngine(self.algorithm, state, self.tickets)
        return self._desk

    def follow(self, feed: Feed, position: Position | None = None) -> None:
        """Deal and play streams to their end, from a position if there is one."""
        # A list says by itself how often a row is seen; it needs every row once.
        given = self.setup.schedule.is_given
        self.feed, self.position = replace(feed, passes=1) if given else feed, position
        self.processes.follow(self)

    def follow_here(self) -> None:
        """Read the feed from the present position on, and play what this process's agents see of it."""
        with self.timing():
            while True:
                try:
                    for block, position in self.processes.blocks(self):
                        self.play(block, position)
                    self._end()
                    return
                except RankLostError:
                    self.processes.recover(self)

    def _end(self) -> None:
        """The streams are over: on a schedule some agents may have much left to do."""
        if is_scheduled(self.engine):
            before = self.engine.counters().rounds
            self._tell(self._kept(before, self.engine.end()), self.position)

    @property
    def processes(self) -> Processes:
        """Who plays together."""
        if self._processes is None:
            self._processes = engine_named(self.setup.engine).processes()
        return self._processes

    def rounds_at_a_time(self) -> int:
        """Rounds that the next block should have at most."""
        before = 0 if self.engine is None else self.engine.counters().rounds
        return min(self._at_a_time(before), self.feed.block_rounds or self._pace.rounds)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Count the time, once where calls are nested."""
        if self._since is not None:
            yield
            return
        self._since = time.perf_counter() - self.seconds
        try:
            yield
        finally:
            self.seconds, self._since = time.perf_counter() - self._since, None

    def look(self) -> None:
        """Keep a point of the curves, and tell whoever looks, where an engine plays by itself."""
        engine = self.opened(0)
        rounds = engine.counters().rounds
        seen = _seen_now(engine)._replace(rounds=np.array([rounds]))
        if self.recorder.between(self.recorder.last, rounds):
            self.recorder.record([rounds], seen.counters, *seen.metrics.T)
        if rounds:
            self._tell(seen, None)

    def _pieces(self, before: int, rounds: int) -> Iterator[tuple[int, int]]:
        """Cut rounds so that signals are heard, and where somebody looks at the progress."""
        lo = 0
        while lo < rounds:
            size = self.processes.fewest(min(rounds - lo, self._at_a_time(before + lo)))
            yield lo, lo + size
            lo += size

    def _at_a_time(self, before: int) -> int:
        """Rounds of the next piece."""
        size = self._pace.rounds
        if isinstance(self.algorithm.mixing, Changing):
            size = min(size, KEPT)
        if self.on_progress is not None:
            size = min(size, self._next_power(before) - before)
        if self.weight_record is not None:
            size = min(size, self.weight_record.next_round(before) - before)
        return size

    def _next_power(self, rounds: int) -> int:
        """First later round in which the number of examples passes a power of two."""
        per_round = self.algorithm.n_agents * self.algorithm.batch
        power = 2 ** math.floor(math.log2(max(rounds * per_round, 1)) + 1)
        return max(-(-power // per_round), rounds + 1)

    def _play_piece(self, engine: Engine, before: int, piece: Block) -> Snapshots:
        """Play rounds and keep points of the curves; what is seen at the end if somebody looks."""
        last = before + piece.n_rounds
        points = self.recorder.between(before, last)
        end = [last] if self.on_progress is not None and last not in points[-1:] else []
        began = time.perf_counter()
        seen = engine.play(piece, [point - before for point in points + end])
        self._pace.took(piece.n_rounds, time.perf_counter() - began)
        if isinstance(self.algorithm.mixing, Changing):
            self.traffic.messages(last)  # while the matrices are at hand
        return self._kept(before, seen)

    def _kept(self, before: int, seen: Snapshots) -> Snapshots:
        """Keep the snapshots that are points of the curves; the last of them all may be for the progress."""
        if not len(seen.rounds):
            return seen
        rounds = before + seen.rounds
        points = set(self.recorder.between(before, int(rounds[-1])))
        mine = np.array([point in points for point in rounds.tolist()], dtype=bool)
        self.recorder.record(rounds[mine].tolist(), seen.counters[mine], *seen.metrics[mine].T)
        return seen._replace(rounds=rounds)

    def _tell(self, seen: Snapshots, position: Position | None) -> None:
        if self.on_progress is None:
            return
        assert self.engine is not None and self._since is not None
        rounds = int(seen.rounds[-1])
        mistakes, loss, expected, examples = seen.counters[-1].T
        consensus, best = seen.metrics[-1]
        messages, sent, _ = self._sent(self.engine, rounds)
        self.seconds = time.perf_counter() - self._since
        self.on_progress(
            Progress(
                rounds=rounds,
                examples=int(examples.sum()),
                agent_examples=examples.astype(np.int64),
                mistakes=mistakes.astype(np.int64),
                expected_mistakes=expected,
                loss=loss,
                consensus=float(consensus),
                best_log_weight=float(best),
                messages=messages,
                bytes_sent=sent,
                seconds=self.seconds,
                position=position,
                moments=_moments(self.engine),
            )
        )

    # What is known.

    def state(self) -> State:
        """The state after the last full round, in memory of its own."""
        if self.engine is not None:
            return self.engine.state()
        waiting = self.open_round.rows
        return self._first_state(0 if waiting is None else waiting.n_features)

    def counters(self) -> State:
        """Counters after the last full round, to be read only."""
        return self.opened(0).counters()

    def ended(self) -> State:
        """The state as if the stream ended here, to be read only."""
        return self._delivered(self._ended()).counters()

    def weights(self) -> np.ndarray:
        """Weights (copies, outputs, D) with which agents predict, averaged over rounds if asked for."""
        engine = self._delivered(self._ended())
        counters = engine.counters()
        if counters.sums.size:
            return counters.sums / max(counters.rounds, 1)
        return engine.weights()

    def scores(self, rows: Rows, agent: int | None = None) -> np.ndarray:
        """Scores (n, outputs) of rows by an agent, or the mean of all agents', as they would predict now.

        Now is after the last full round, where an agent that predicts is; nothing is learned.
        """
        engine = self.opened(rows.n_features)
        if isinstance(engine, Local):
            return engine.scores(rows, agent)
        state = engine.state()
        found = scores(self.algorithm, state.theta, state.scalars, rows)
        if agent is None or len(found) == 1:
            return np.asarray(found.mean(axis=0))
        return np.asarray(found[agent])

    def trace(self) -> Trace:
        """The run so far, as if the stream ended here."""
        while True:
            try:
                trace = self._trace()
                self.processes.at_end()
                return trace
            except RankLostError:
                if not self.feed.streams:
                    raise
                self.processes.recover(self)
                self.processes.follow(self)

    def _ended(self) -> Engine:
        """An engine in which the open round is played: a copy if there is one."""
        if not len(self.open_round):
            if self.engine is None and self._start is None:
                raise ValueError("no example was read; expected at least one")
            return self.opened(0)
        engine = Local(self.algorithm, self.state())
        engine.play(self.open_round.block())
        return engine

    def _delivered(self, engine: Engine) -> Engine:
        """An engine in which late answers have come, in rounds without predictions: a copy if any are."""
        late = engine.counters().pending
        if late is None or is_scheduled(engine):
            return engine
        ended = Local(self.algorithm, engine.state())
        ended.play(Block(late.rows.slice(0, 0), np.full_like(late.table, -1)))
        return ended

    def _trace(self) -> Trace:
        engine = self._ended()
        counters, seen = engine.counters(), _seen_now(engine)
        curves = self.recorder.finish(counters.rounds, counters, *seen.metrics[0])
        engine = self._delivered(engine)
        if self.algorithm.delay:
            seen = _seen_now(engine)
        state, weights = engine.state(), engine.weights()
        self._check_numbers(state, weights)
        messages, sent, dropped = self._sent(engine, counters.rounds)
        scheduled = engine if is_scheduled(engine) else None
        return Trace(
            algorithm=self.algorithm,
            engine=self.setup.engine_name,
            workers=1 if self.engine is None else self.engine.workers,
            examples=int(state.examples.sum()),
            rounds=counters.rounds,
            mistakes=state.mistakes,
            loss=state.loss,
            expected_mistakes=state.expected,
            seconds=self.seconds,
            messages=messages,
            bytes_sent=sent,
            consensus=float(seen.metrics[0, 0]),
            weights=weights,
            curves=curves,
            seed=self.setup.seed,
            version=__version__,
            state=state,
            dropped=dropped,
            weight_history=None if self.weight_record is None else self.weight_record.history(),
            moments=_moments(engine),
            events=self._events() if scheduled is None else scheduled.events(),
        )

    def _events(self) -> Events | None:
        if self.log is None:
            return None
        return self.log.events(self.feed.passes, max(len(self.feed.streams), 1))

    def _sent(self, engine: Engine, rounds: int) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many were lost."""
        if is_scheduled(engine):
            return engine.sent()
        return *self.traffic.sent(rounds, engine.counters().n_features), 0

    def _check_numbers(self, state: State, weights: np.ndarray) -> None:
        """Refuse a result that is none, and say whose fault it is: the data's, or the algorithm's."""
        if np.isfinite(weights).all() and np.isfinite(state.loss).all():
            return
        from ddol.engines.answers import check_features

        check_features(self.algorithm, self.feed.streams)
        raise FloatingPointError(
            f"the weights of {self.algorithm.name} left the range of numbers; lower the rate, "
            "scale the features, give a radius, or use the algorithm adaptive"
        )

    # Going on.

    def past(self) -> Past:
        """All but the state that it takes to come back to this moment, between two blocks."""
        return Past(self.position, self.recorder.to_dict(), copy.copy(self.open_round))

    def moment(self) -> tuple[State | None, Past]:
        """All that it takes to come back to this moment."""
        return (None if self.engine is None else self.state()), self.past()

    def go_back(self, state: State | None, past: Past) -> None:
        """Take up an earlier moment; no state is the beginning."""
        self.position = past.position
        self.recorder.restore(past.curves)
        if past.open_round is None:
            self.open_round = OpenRound(self.algorithm.n_agents, self.algorithm.batch)
        else:
            self.open_round = copy.copy(past.open_round)
        began = self._start if state is None else state
        self.engine = None if began is None else self._open(began)

    def grow(self, outputs: int) -> None:
        """Make room for classes that have not been seen before; they begin now."""
        if outputs <= self.algorithm.outputs:
            return
        self.close()
        self.algorithm = replace(self.algorithm, outputs=outputs)
        if self._start is not None:
            self._start = _with_outputs(self.algorithm, self._start)

    def close(self) -> None:
        """Give the engine's threads back; whoever learns on opens another one."""
        if self.engine is not None:
            try:
                self._start = self.engine.state()
            finally:
                self.engine.close()
                self.engine = None

    @property
    def start(self) -> State | None:
        """Where an engine that is opened now goes on; None for nothing."""
        return self._start

    def _first_state(self, n_features: int) -> State:
        if self._start is not None:
            return self._start
        width = max(self.setup.n_features or 0, n_features, self.feed.n_features)
        check_memory(self.algorithm, width)
        return start_state(self.algorithm, width, self.setup.seed)

    def opened(self, n_features: int) -> Engine:
        """The engine, opened for at least so many features where there is none yet."""
        if self.engine is None:
            self.engine = self._open(self._first_state(n_features))
            self._pace = Pace.of(self.engine.counters().theta.size)
        return self.engine

    def _open(self, state: State) -> Engine:
        kind = engine_named(self.setup.engine)
        if not self.setup.schedule.plays_events:
            check_state(self.algorithm, state)
            opened: Engine = kind.engine.open(self.algorithm, state, self.setup)
            return opened
        if kind.scheduled is None:
            raise ValueError(
                f"the engine {self.setup.engine_name} plays rounds; schedules and conditions are for "
                "the engines local and threads"
            )
        scheduled: ScheduledEngine = kind.scheduled.open(self.algorithm, state, self.setup)
        scheduled.begin(self.feed.passes, max(len(self.feed.streams), 1))
        return scheduled

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the engine, whose memory is known by address: its state is a value."""
        kept = vars(self).copy()
        if self.engine is not None:
            kept["_start"] = self.engine.state()
        return kept | dict.fromkeys(("engine", "_desk", "_processes", "_since", "on_progress"))


def _seen_now(engine: Engine) -> Snapshots:
    """What there is to see of an engine between two blocks."""
    counters = engine.counters()
    late = counters.pending
    rows = no_rows() if late is None else late.rows.slice(0, 0)
    nothing = np.empty((0, len(counters.mistakes), counters.slopes.shape[2]), np.int64)
    return engine.play(Block(rows, nothing), [0])


def _with_outputs(algorithm: Algorithm, state: State) -> State:
    """The state with fresh weights for the outputs that it has not yet."""
    fresh = start_state(algorithm, state.n_features, state.seed)

    def extended(name: str, axis: int) -> np.ndarray:
        old, new = getattr(state, name), getattr(fresh, name)
        more = np.arange(old.shape[axis], new.shape[axis])
        return np.concatenate([old, np.take(new, more, axis)], axis)

    return replace(
        state,
        theta=extended("theta", 1),
        scalars=extended("scalars", 1),
        sums=extended("sums", 1),
        slopes=extended("slopes", 3),
    )


def _moments(engine: Engine) -> tuple[Moment, ...]:
    """The run by its time, where a schedule has one."""
    return engine.moments() if is_scheduled(engine) else ()
