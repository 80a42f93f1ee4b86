"""The one run: blocks of rounds go in, and a trace comes out at any time."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import KEPT, Changing
from ddol.engines.ending import delivered, seen_now
from ddol.engines.errors import RankLostError
from ddol.engines.faults import LargestValue, check_numbers
from ddol.engines.feed import Feed, Past
from ddol.engines.groups.processes import Processes
from ddol.engines.history import History
from ddol.engines.kinds import engine_named, imported
from ddol.engines.local import Local
from ddol.engines.memory import check_memory
from ddol.engines.open_round import OpenRound
from ddol.engines.pace import Pace
from ddol.engines.progress import Progress
from ddol.engines.registry import Engine, is_scheduled, open_engine
from ddol.engines.setup import Setup
from ddol.engines.state import State, layout_of, n_states, start_state, with_outputs
from ddol.engines.workers.partition import Snapshots
from ddol.storage import damaged
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.streams.stream import Position
from ddol.trace import Trace
from ddol.version import __version__

if TYPE_CHECKING:
    from ddol.engines.groups.grouped import Grouped

_ROWS_DEALT = 1 << 20
"""Rows of a block whose table takes little memory."""


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
        self.setup = (setup or Setup()).playing(algorithm)
        self._mixing = algorithm.mixing
        self.algorithm = self.setup.replayable(algorithm)
        self.on_progress = on_progress
        self.on_predicted: Callable[[Block], None] | None = None
        """Called with every piece that was played, and the scores its rows were predicted with."""
        self.history = History(self.algorithm, self.setup.schedule, state)
        self.open_round = OpenRound(algorithm.n_agents, algorithm.batch)
        self.feed = Feed()
        self.position: Position | None = None
        self.seconds = 0.0
        self.engine: Engine | None = None
        self._start = state
        self._under_way: dict[str, np.ndarray] = {}
        """What a schedule has under way, where no engine is open."""
        self._pace = Pace()
        self._since: float | None = None
        self._processes: Processes | None = None
        self._largest: LargestValue | None = None
        """Where a loss was first not finite."""

    # Feeding.

    def play(self, block: Block, position: Position | None = None, meets: bool = True) -> None:
        """Play rounds that are dealt already.

        Parameters
        ----------
        block : Block
        position : Position, optional
            Of the streams, right after the block.
        meets : bool
            Whether all processes that play the run end a block here.
        """
        if block.n_rounds == 0:
            return
        with self.timing():
            engine = self.opened(block.rows.n_features)
            known = engine.counters()
            if block.rows.n_features > known.n_features:
                self._check_memory(block.rows.n_features, known.theta.nbytes)
            before = known.rounds
            if self.on_predicted is not None or self.history.shadow is not None:
                room = np.full((len(block.rows), self.algorithm.outputs), np.nan)
                block = replace(block, scores=room)
            n = block.n_rounds
            alone = n == 1 and self.on_progress is None
            for lo, hi in ((0, 1),) if alone else self._pieces(before, n):
                whole = hi - lo == n
                piece = block if whole else replace(block, table=block.table[lo:hi])
                common = self.processes.alone or (meets and hi == n)
                seen = self._play_piece(engine, before + lo, piece, common)
                if self.on_predicted is not None:
                    self.on_predicted(piece)
                self.history.add(engine, piece, before + hi)
                between = position if hi == n else None
                if between is not None:
                    self.position = between = self.processes.position(self, between)
                if common:
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

    def follow(self, feed: Feed, position: Position | None = None) -> None:
        """Deal and play streams to their end, from a position if there is one."""
        # A list says by itself how often a row is seen; it needs every row once.
        given = self.setup.schedule.is_given
        if self.setup.schedule.record and feed.passes > 1:
            _check_order(feed)
        self.feed, self.position = replace(feed, passes=1) if given else feed, position
        if self.engine is None and self.setup.in_real_time and self.setup.n_features is None:
            self.setup = replace(self.setup, n_features=feed.counted_features() or None)
        if self.engine is None and feed.n_features:
            self._pace = self._first_pace(feed.n_features)
        if is_scheduled(self.engine):
            self.engine.begin(self.feed.passes, self.feed.n_streams)
        self._follow()

    def _follow(self) -> None:
        """Play the feed from the present position on, here or where its processes are."""
        if self.processes.plays_feed(self):
            return
        with self.timing():
            while True:
                try:
                    for block, position in self.processes.blocks(self):
                        self.play(block, position, meets=position is not None)
                    self._end()
                    return
                except RankLostError:
                    self.processes.recover(self)

    def _end(self) -> None:
        """The streams are over: on a schedule some agents may have much left to do."""
        if self.history.log is not None and not self.processes.alone:  # no process saw all rounds
            self.history.log.fill(self.counters().examples, self.feed.passes)
        if is_scheduled(self.engine):
            before = self.engine.counters().rounds
            self._tell(self.history.keep(before, self.engine.end()), self.position)

    @property
    def processes(self) -> Processes:
        """Who plays together."""
        if self._processes is None:
            self._processes = imported(engine_named(self.setup.engine).processes)()
        return self._processes

    def rounds_at_a_time(self) -> int:
        """Rounds that the next block should have at most.

        Blocks are dealt where rows lie, and played in pieces: where nobody looks, short ones gain nothing.
        """
        rounds = self._pace.rounds
        if self.on_progress is None:
            rounds = max(rounds, _ROWS_DEALT // (self.algorithm.n_agents * self.algorithm.batch))
        return min(self.rounds_to_stop(), rounds)

    def rounds_to_stop(self) -> int:
        """Rounds after which somebody looks at the progress, or weights are kept; blocks end there."""
        before = 0 if self.engine is None else self.engine.counters().rounds
        return min(self._to_stop(before), self.feed.block_rounds or 1 << 40)

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
        seen = seen_now(engine)._replace(rounds=np.array([rounds]))
        self.history.keep_now(seen)
        if rounds:
            self._tell(seen, None, may_stop=True)

    def _pieces(self, before: int, rounds: int) -> Iterator[tuple[int, int]]:
        """Cut rounds so that signals are heard, and where somebody looks at the progress."""
        lo = 0
        while lo < rounds:
            size = min(rounds - lo, self._pace.rounds, self._to_stop(before + lo))
            yield lo, lo + size
            lo += size

    def _to_stop(self, before: int) -> int:
        """Rounds that may be played at once, as far as time is no matter."""
        size = 1 << 40
        if isinstance(self.algorithm.mixing, Changing):
            size = min(size, KEPT)
        if self.on_progress is not None:
            size = min(size, self._next_power(before) - before)
        if self.history.weights is not None:
            size = min(size, self.history.weights.next_round(before) - before)
        return size

    def _next_power(self, rounds: int) -> int:
        """First later round in which the number of examples passes a power of two."""
        per_round = self.algorithm.n_agents * self.algorithm.batch
        power = 2 ** math.floor(math.log2(max(rounds * per_round, 1)) + 1)
        return max(-(-power // per_round), rounds + 1)

    def _play_piece(self, engine: Engine, before: int, piece: Block, common: bool) -> Snapshots:
        """Play rounds and keep points of the curves; what is seen at a common end if somebody looks."""
        last = before + piece.n_rounds
        points = self.history.curves.between(before, last)
        looked_at = common and self.on_progress is not None
        end = [last] if looked_at and last not in points[-1:] else []
        shadow = self.history.shadow
        loss = None if shadow is None else engine.counters().loss.copy()
        began = time.perf_counter()
        after = [point - before for point in points + end]
        # Only a group of processes (`Grouped`) has rounds at whose end its members do not meet.
        play = engine.play if common else partial(cast("Grouped", engine).play, meets=False)
        seen = play(piece, after)
        if shadow is not None and loss is not None:
            shadow.follow(piece, before, loss, seen, engine.counters())
        self._pace.took(piece.n_rounds, time.perf_counter() - began)
        if self._largest is None and not np.isfinite(engine.counters().loss).all():
            self._largest = LargestValue.of(piece, before)
        return self.history.keep(before, seen)

    def _tell(self, seen: Snapshots, position: Position | None, may_stop: bool = False) -> None:
        if self.on_progress is None:
            return
        assert self.engine is not None and self._since is not None
        messages, sent, _ = self.history.sent(self.algorithm, self.engine, int(seen.rounds[-1]))
        self.seconds = time.perf_counter() - self._since
        progress = Progress.of(
            seen,
            messages=messages,
            bytes_sent=sent,
            seconds=self.seconds,
            position=position,
            edges=self.history.edges(self.engine),
            moments=self.history.moments(self.engine),
            may_stop=may_stop,
            **self.history.recent.figures(seen.counters),
        )
        self.on_progress(progress)

    # What is known.

    def state(self, copy: bool = True) -> State:
        """The state after the last full round.

        Parameters
        ----------
        copy : bool
            In memory of its own; else, where one engine holds all of it, that is good until the next block.
        """
        if self.engine is not None:
            return _state_of(self.engine, copy)
        waiting = self.open_round.rows
        return self.first_state(0 if waiting is None else waiting.n_features)

    def counters(self) -> State:
        """Counters after the last full round, to be read only."""
        return self.opened(0).counters()

    def ended(self) -> State:
        """The state as if the stream ended here, to be read only."""
        return self._ended().counters()

    def weights(self) -> np.ndarray:
        """Weights (copies, outputs, D) with which agents predict, averaged over rounds if asked for."""
        engine = self._ended()
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
        from ddol.engines.workers.scoring import Scorer

        state = engine.state()
        found = Scorer(self.algorithm, state.theta, state.scalars)(rows)
        if agent is None or len(found) == 1:
            return np.asarray(found.mean(axis=0))
        return np.asarray(found[agent])

    def trace(self, last: bool = False) -> Trace:
        """The run so far, as if the stream ended here.

        Parameters
        ----------
        last : bool
            Whether nobody learns on: then it has the state itself, where one engine holds all of it,
            rather than a copy, which takes long where it is wide.
        """
        while True:
            try:
                trace = self._trace(last)
                self.processes.at_end()
                return trace
            except RankLostError:
                if self._since is not None or not self.feed.streams:  # whoever follows recovers
                    raise
                self.processes.recover(self)
                self._follow()

    def _rounded(self) -> Engine:
        """An engine in which the open round is played: a copy if there is one.

        A schedule that is fed by hand, and may go on, is over on a copy, too.
        """
        waiting = self.open_round.rows
        if waiting is None and self.engine is None and self._start is None:
            raise ValueError("no example was read; expected at least one")
        by_hand = self.setup.schedule.plays_events and not self.feed.streams
        if waiting is None and not by_hand:
            return self.opened(0)
        if by_hand:
            now = self.opened(0 if waiting is None else waiting.n_features)
            ended = self._opened_at(now.state(), self.history.state_dict(now))
        else:
            ended = Local(self.algorithm, self.state())
        if waiting is not None:
            ended.play(self.open_round.block())
        if is_scheduled(ended):
            ended.end()
        return ended

    def _ended(self) -> Engine:
        """An engine in which late answers have come, too."""
        return delivered(self.algorithm, self._rounded())

    def _trace(self, last: bool) -> Trace:
        engine = self._rounded()
        counters, seen = engine.counters(), seen_now(engine)
        curves = self.history.curves.finish(counters.rounds, counters, *seen.metrics[0])
        engine = delivered(self.algorithm, engine)
        if self.algorithm.delay:
            seen = seen_now(engine)
        state, weights = _state_of(engine, copy=not last), engine.weights()
        check_numbers(self.algorithm, state, weights, self.feed.streams, self._largest)
        messages, sent, dropped = self.history.sent(self.algorithm, engine, counters.rounds)
        recorded = self.history.weights
        return Trace(
            algorithm=self._as_given(),
            engine=self.setup.engine_name,
            workers=1 if self.engine is None else self.engine.workers + self.setup.readers,
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
            edges=self.history.edges(engine),
            refused=engine.refused()
            if is_scheduled(engine) and hasattr(engine, "refused")
            else None,
            weight_history=None if recorded is None else recorded.history(),
            moments=self.history.moments(engine),
            events=self.history.events(engine, self.feed),
        )

    def _as_given(self) -> Algorithm:
        """The algorithm, with the mixing matrix that it came with."""
        same = self.algorithm.mixing is self._mixing
        return self.algorithm if same else replace(self.algorithm, mixing=self._mixing)

    # Going on.

    def past(self) -> Past:
        """All but the state that it takes to come back to this moment, between two blocks."""
        curves, waiting = self.history.curves.to_dict(), copy.copy(self.open_round)
        return Past(self.position, curves, waiting, self.history.state_dict(self.engine))

    def moment(self) -> tuple[State | None, Past]:
        """All that it takes to come back to this moment."""
        return (None if self.engine is None else self.state()), self.past()

    def go_back(self, state: State | None, past: Past, where: str = "the earlier moment") -> None:
        """Take up an earlier moment; no state is the beginning."""
        self.position = past.position
        self.history.restore(past.curves)
        if past.open_round is None:
            self.open_round = OpenRound(self.algorithm.n_agents, self.algorithm.batch)
        else:
            self.open_round = copy.copy(past.open_round)
        began = self._start if state is None else state
        self.engine = None if began is None else self._opened_at(began, past.kept, where)

    def grow(self, outputs: int) -> None:
        """Make room for classes that have not been seen before; they begin now."""
        if outputs <= self.algorithm.outputs:
            return
        if self.setup.schedule.plays_events:
            raise ValueError(
                f"found class {outputs} where messages of {self.algorithm.outputs} are under way; leave out "
                "the rules of talking where classes are not known beforehand"
            )
        self.close()
        self.algorithm = replace(self.algorithm, outputs=outputs)
        if self._start is not None:
            self._start = with_outputs(self.algorithm, self._start)

    def close(self, keep: bool = True) -> None:
        """Give the engine's threads back; whoever learns on opens another one.

        Parameters
        ----------
        keep : bool
            Whether the state is kept for that.
        """
        if self.engine is not None:
            try:
                if keep:
                    self._start = self.engine.state()
            finally:
                self.engine.close()
                self.engine = None

    @property
    def start(self) -> State | None:
        """Where an engine that is opened now goes on; None for nothing."""
        return self._start

    def first_state(self, n_features: int) -> State:
        """Where an engine that is opened now begins: a beginning for so many features, or what was known."""
        if self._start is not None:
            return self._start
        width = max(self.setup.n_features or 0, n_features, self.feed.n_features)
        self._check_memory(width)
        return start_state(self.algorithm, width, self.setup.seed, self.processes.agents)

    def _check_memory(self, n_features: int, held: int = 0) -> None:
        check_memory(self.algorithm, n_features, self.setup.schedule.plays_events, held)

    def opened(self, n_features: int) -> Engine:
        """The engine, opened for at least so many features where there is none yet."""
        if self.engine is None:
            first, made_here = self.first_state(n_features), self._start is None
            self.engine = self._opened_at(first, self._under_way, trusted=made_here)
            self._pace = self._first_pace(self.engine.counters().n_features)
        return self.engine

    def _first_pace(self, n_features: int) -> Pace:
        """Every example of a round may go through all that its agent holds."""
        algorithm = self.algorithm
        held = n_states(algorithm) * len(layout_of(algorithm, n_features).rows) * n_features
        return Pace.of(algorithm.n_agents * algorithm.batch * held)

    def _opened_at(
        self,
        state: State,
        kept: Mapping[str, np.ndarray],
        where: str = "the earlier moment",
        trusted: bool = False,
    ) -> Engine:
        """Another engine, at a state and with what was kept besides."""
        given = self.algorithm, state, self.setup, self.feed, self.processes.agents
        engine = open_engine(*given, trusted)
        if kept:
            with damaged(where, "checkpoint"):
                self.history.load_state_dict(engine, kept, where)
        return engine

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the engine, whose memory is known by address: its state is a value."""
        kept = vars(self).copy()
        if self.engine is not None:
            kept["_start"] = self.engine.state()
            if self.setup.schedule.plays_events:
                kept["_under_way"] = self.history.state_dict(self.engine)
        return kept | dict.fromkeys(("engine", "_processes", "_since", "on_progress"))


def _check_order(feed: Feed) -> None:
    """Refuse to record passes whose orders differ."""
    from ddol.streams.over.shuffle import is_shuffled

    if any(map(is_shuffled, feed.streams)):
        raise DataError(
            "a recording names rows by their number in the data, and a shuffle gives every pass "
            "another order; record one pass (--passes 1), or shuffle the data beforehand "
            "and leave --shuffle out"
        )


def _state_of(engine: Engine, copy: bool) -> State:
    """The state of an engine in memory of its own, or, where copying would take long, as it lies there."""
    return engine.state() if copy or not isinstance(engine, Local) else engine.counters()
