"""The learner: blocks of rounds go in, and the trace so far can be asked for at any time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.engines.errors import EngineError, RankLostError
from ddol.engines.faults import LargestValue
from ddol.engines.feed import Feed, Past
from ddol.engines.pace import Pace
from ddol.engines.plans import seen_now
from ddol.engines.processes import Dealt
from ddol.engines.progress import Progress
from ddol.engines.registry import Engine
from ddol.engines.results import ended, scores_of, trace_of, weights_of
from ddol.engines.session import Session
from ddol.engines.state import State, numbers_in_round
from ddol.engines.state_checks import check_memory
from ddol.engines.workers.partition import Snapshots
from ddol.streams.rows import Block, Rows
from ddol.streams.stream import Position
from ddol.trace import Trace


class Learner(Session):
    """N agents that learn: the object behind `ddol.run`, the command line, the estimators and river.

    It is fed by streams that it reads to their end (`follow`), by the next rows of a stream in calls of any
    length (`learn`), or by blocks (`play`); each of these calls the next. `weights` and `trace` can be asked
    for at any time, and are those of a stream that ends here.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    setup : Setup, optional
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

    _beginning: Past | None = None
    """Where to go back to if a process is lost before there is a copy."""

    def follow(self, feed: Feed, position: Position | None = None) -> None:
        """Deal and play streams to their end, from a position if there is one."""
        if self.setup.schedule.record and feed.passes > 1:
            feed.check_order()
        # A list says by itself how often a row is seen; it needs every row once.
        self.feed = replace(feed, passes=1) if self.setup.schedule.is_given else feed
        self.position = position
        if self.engine is not None:
            self.plan.begin(self.engine, self.feed)
        else:
            if self.plan.sized and self.setup.n_features is None:
                self.setup = replace(self.setup, n_features=feed.counted_features() or None)
            if feed.n_features:
                self.pieces.pace = Pace.of(numbers_in_round(self.algorithm, feed.n_features))
        if self.setup.can.remote:
            self._follow_there()
        else:
            self._follow_here()

    def _follow_here(self, lost: bool = False) -> None:
        """Deal and play the feed; where a process is lost, all go back to a common moment."""
        if self._beginning is None and not self.processes.alone:
            self._beginning = self.past()
        with self.stopwatch:
            while True:
                try:
                    if lost:
                        self._recover()
                    lost = False
                    for block, position in self.processes.blocks(self._dealt(), self.position):
                        self.play(block, position, meets=position is not None)
                        if position is not None:
                            self.processes.keep(self.engine, self.past)
                    break
                except RankLostError:
                    if not self.processes.recovers:
                        raise
                    lost = True
            if self.engine is None:
                return
            if not self.processes.alone:
                self.plan.fill(self.counters().examples, self.feed.passes)
            before, seen = self.engine.counters().rounds, self.plan.end(self.engine)
            if seen is not None:
                self._report(self.history.keep(before, seen), self.position)

    def _recover(self) -> None:
        """Go back to the newest moment that all processes know which are left."""
        found = self.processes.recover(self.engine, self.algorithm, self.setup.on_lost)
        assert self._beginning is not None
        state, past = (None, self._beginning) if found is None else (found.part, found.past)
        self.go_back(state, past)

    def _follow_there(self) -> None:
        """Let workers in other processes read the feed and play it, and take over what they report."""
        if self.engine is None and not self.plan.separate:  # they find the number of features
            self.engine = self.plan.open(self.start, self.feed)
        elif self.plan.sized and not (self.setup.n_features or self.feed.n_features):
            raise EngineError(
                "found streams that do not say how many features they have, expected to know it before "
                "messages are sent; use --features n (n_features=)"
            )
        engine: Any = self.opened(0)
        with self.stopwatch:
            last = engine.follow(self.feed, self.past(), self._take_over)
            self.plan.fill(engine.counters().examples, self.feed.passes)
            if last is not None:
                self._take_over(progress=last)

    def _dealt(self) -> Dealt:
        """How the feed is dealt: in blocks that end where a report is due."""
        most, reports = self.feed.block_rounds or 1 << 40, self.on_progress is not None

        def to_stop() -> int:
            rounds = 0 if self.engine is None else self.engine.counters().rounds
            return min(self._to_stop(rounds), most)

        def at_a_time() -> int:
            return min(to_stop(), self.pieces.dealt(reports))

        algorithm, streams = self.algorithm, list(self.feed.streams)
        each = algorithm.n_agents, algorithm.batch, self.feed.passes
        return Dealt(streams, *each, at_a_time, to_stop)

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

    def play(self, block: Block, position: Position | None = None, meets: bool = True) -> None:
        """Play rounds that are dealt already.

        Parameters
        ----------
        block : Block
        position : Position, optional
            Of the streams that this process reads, right after the block.
        meets : bool
            Whether all processes that play the run end a block here.
        """
        if block.n_rounds == 0:
            return
        with self.stopwatch:
            engine, block = self._prepared(block)
            before = engine.counters().rounds
            for lo, hi in self.pieces.cut(block.n_rounds, lambda lo: self._to_stop(before + lo)):
                last = hi == block.n_rounds
                piece = block if last and lo == 0 else replace(block, table=block.table[lo:hi])
                common = self.processes.alone or (meets and last)
                seen = self._play_piece(engine, before + lo, piece, common)
                reached = None
                if last and position is not None:
                    reached = self.processes.position(position, len(self.feed.streams))
                    self.position = reached
                if common:
                    self._report(seen, reached)

    def _prepared(self, block: Block) -> tuple[Engine, Block]:
        """The engine with enough memory for a block, and the block with room for scores if needed."""
        engine, width = self.opened(block.rows.n_features), block.rows.n_features
        known = engine.counters()
        if width > known.n_features:
            check_memory(self.algorithm, width, self.plan.separate, known.theta.nbytes)
        if self.on_predicted is not None or self.plan.scored:
            room = np.full((len(block.rows), self.algorithm.outputs), np.nan)
            block = replace(block, scores=room)
        return engine, block

    def _to_stop(self, rounds: int) -> int:
        """Rounds to the next at which progress is reported, or weights are recorded."""
        weights = self.history.weights
        recorded = None if weights is None else weights.next_round(rounds)
        return self.pieces.to_stop(rounds, self.on_progress is not None, recorded)

    def _play_piece(self, engine: Engine, before: int, piece: Block, common: bool) -> Snapshots:
        """Play rounds and keep points of the curves; what is seen at a common end if it is reported."""
        last = before + piece.n_rounds
        points: Sequence[int] = self.history.curves.between(before, last)
        reported = common and self.on_progress is not None
        end = [last] if reported and last not in points[-1:] else []
        began = time.perf_counter()
        after = [point - before for point in [*points, *end]]
        seen = self.plan.play(engine, piece, before, after, common)
        self.pieces.pace.took(piece.n_rounds, time.perf_counter() - began)
        if self.largest is None and not np.isfinite(engine.counters().loss).all():
            self.largest = LargestValue.of(piece, before)
        seen = self.history.keep(before, seen)
        if self.on_predicted is not None:
            self.on_predicted(piece)
        if self.history.weights is not None:
            self.history.weights.look(last, engine)
        return seen

    def _report(self, seen: Snapshots, position: Position | None, may_stop: bool = False) -> None:
        """Call `on_progress` with what was seen last."""
        if self.on_progress is None:
            return
        plan, engine = self.plan, self.engine
        assert engine is not None
        sent = plan.sent(engine, int(seen.rounds[-1]))
        progress = Progress.of(
            seen,
            messages=sent.messages,
            bytes_sent=sent.bytes,
            seconds=self.stopwatch.seconds,
            position=position,
            edges=sent.edges,
            moments=plan.moments(engine),
            may_stop=may_stop,
            **self.history.recent.figures(seen.counters),
        )
        self.on_progress(progress)

    def _take_over(self, past: Past | None = None, progress: Progress | None = None) -> None:
        """Take over what workers report that play by themselves; without a report, look from here."""
        if past is not None:
            self.position = past.position
            self.history.restore(past.curves)
        if progress is not None:
            if self.on_progress is not None:
                self.on_progress(progress)
        elif past is None:
            engine = self.opened(0)
            rounds = engine.counters().rounds
            seen = seen_now(engine)._replace(rounds=np.array([rounds]))
            self.history.keep_now(seen)
            if rounds:
                self._report(seen, None, may_stop=True)

    # What was learned, as if the stream ended here.

    def ended(self) -> State:
        """The state as if the stream ended here, to be read only."""
        return ended(self).counters()

    def weights(self) -> np.ndarray:
        """Weights (copies, outputs, D) with which agents predict, averaged over rounds if asked for."""
        return weights_of(self)

    def scores(self, rows: Rows, agent: int | None = None) -> np.ndarray:
        """Scores (n, outputs) of rows by an agent, or the mean of all agents', as they would predict now.

        Now is after the last full round, where an agent that predicts is; nothing is learned.
        """
        return scores_of(self, rows, agent)

    def trace(self, last: bool = False) -> Trace:
        """The run so far, as if the stream ended here.

        Parameters
        ----------
        last : bool
            Whether the run ends here: then the trace has the state itself, where one engine holds all of it,
            rather than a copy, which takes long where it is wide.
        """
        while True:
            try:
                trace = trace_of(self, last)
                self.processes.finish()
                return trace
            except RankLostError:
                within = self.stopwatch.running  # in `follow`, which recovers
                if within or not (self.processes.recovers and self.feed.streams):
                    raise
                self._follow_here(lost=True)
