"""The one run: blocks of rounds go in, and a trace comes out at any time."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.errors import EngineError, RankLostError
from ddol.engines.faults import LargestValue, check_numbers
from ddol.engines.feed import Feed, Past
from ddol.engines.groups.dealing import Dealt
from ddol.engines.groups.processes import Processes
from ddol.engines.history import History
from ddol.engines.kinds import engine_named, imported
from ddol.engines.local import Local
from ddol.engines.memory import check_memory
from ddol.engines.open_round import OpenRound
from ddol.engines.pace import Pace, Pieces
from ddol.engines.plans import open_engine, plan_of, seen_now
from ddol.engines.progress import Progress
from ddol.engines.registry import Engine
from ddol.engines.setup import Setup
from ddol.engines.state import State, numbers_in_round, start_state, with_outputs
from ddol.engines.state_checks import check_start
from ddol.engines.workers.partition import Snapshots
from ddol.storage import damaged
from ddol.streams.rows import Block, Rows
from ddol.streams.stream import Position
from ddol.trace import Trace
from ddol.version import __version__

if TYPE_CHECKING:
    from ddol.engines.groups.grouped import Grouped


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
        self.plan = plan_of(self.algorithm, self.setup)
        self.history = History(self.algorithm, state)
        self.open_round = OpenRound(algorithm.n_agents, algorithm.batch)
        self.feed = Feed()
        self.position: Position | None = None
        self.seconds = 0.0
        self.engine: Engine | None = None
        self.start = state
        """Where an engine that is opened now goes on; None for nothing."""
        self._under_way: dict[str, np.ndarray] = {}
        """What the plan has under way, where no engine is open."""
        per_round = algorithm.n_agents * algorithm.batch
        self._pieces = Pieces(per_round, isinstance(algorithm.mixing, Changing))
        self._since: float | None = None
        self._processes: Processes | None = None
        self._beginning: Past | None = None
        """To go back to where processes are lost before there is a copy."""
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
            width, held = block.rows.n_features, known.theta.nbytes
            if width > known.n_features:
                check_memory(self.algorithm, width, self.plan.separate, held)
            before = known.rounds
            if self.on_predicted is not None or self.plan.scored:
                room = np.full((len(block.rows), self.algorithm.outputs), np.nan)
                block = replace(block, scores=room)
            n = block.n_rounds
            alone = n == 1 and self.on_progress is None
            lo = 0
            while lo < n:
                hi = (
                    1
                    if alone
                    else lo + min(n - lo, self._pieces.pace.rounds, self._to_stop(before + lo))
                )
                whole = hi - lo == n
                piece = block if whole else replace(block, table=block.table[lo:hi])
                common = self.processes.alone or (meets and hi == n)
                seen = self._play_piece(engine, before + lo, piece, common)
                if self.on_predicted is not None:
                    self.on_predicted(piece)
                if self.history.weights is not None:
                    self.history.weights.look(before + hi, engine)
                between = position if hi == n else None
                if between is not None:
                    self.position = between = self.processes.position(
                        between, len(self.feed.streams)
                    )
                if common:
                    self._tell(seen, between)
                if between is not None:
                    self.processes.keep(engine, self.past)
                lo = hi

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
            feed.check_order()
        self.feed, self.position = replace(feed, passes=1) if given else feed, position
        if self.engine is None and self.plan.sized and self.setup.n_features is None:
            self.setup = replace(self.setup, n_features=feed.counted_features() or None)
        if self.engine is None and feed.n_features:
            self._pieces.pace = Pace.of(numbers_in_round(self.algorithm, feed.n_features))
        if self.engine is not None:
            self.plan.begin(self.engine, self.feed)
        if self.setup.can.remote:
            self._watch()
        else:
            self._play_feed()

    def _play_feed(self, lost: bool = False) -> None:
        """Play the feed from the present position on, or from a common one where a process was lost."""
        if self._beginning is None and not self.processes.alone:
            self._beginning = self.past()
        with self.timing():
            while True:
                try:
                    if lost:
                        self._recover()
                    lost = False
                    for block, position in self.processes.blocks(self._dealt(), self.position):
                        self.play(block, position, meets=position is not None)
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
                self._tell(self.history.keep(before, seen), self.position)

    def _recover(self) -> None:
        """Go back to the newest moment that all processes know which are left."""
        found = self.processes.recover(self.engine, self.algorithm, self.setup.on_lost)
        assert self._beginning is not None
        state, past = (None, self._beginning) if found is None else (found.part, found.past)
        self.go_back(state, past)

    def _watch(self) -> None:
        """Let workers elsewhere read the feed and play it, and take over what they tell."""
        if self.engine is None and not self.plan.separate:  # they find the number of features
            self.engine = open_engine(self.algorithm, self.start, self.setup, self.feed, self.plan)
        elif self.plan.sized and not (self.setup.n_features or self.feed.n_features):
            raise EngineError(
                "found streams that do not say how many features they have, expected to know it before "
                "messages are sent; use --features n (n_features=)"
            )
        engine: Any = self.opened(0)
        with self.timing():
            last = engine.follow(self.feed, self.past(), self.look)
            self.plan.fill(engine.counters().examples, self.feed.passes)
            if last is not None:
                self.look(progress=last)

    def _dealt(self) -> Dealt:
        """How the feed is dealt."""
        most = self.feed.block_rounds or 1 << 40

        def to_stop() -> int:
            before = 0 if self.engine is None else self.engine.counters().rounds
            return min(self._to_stop(before), most)

        def at_a_time() -> int:
            return min(to_stop(), self._pieces.dealt(self.on_progress is not None))

        algorithm, streams = self.algorithm, list(self.feed.streams)
        each = algorithm.n_agents, algorithm.batch, self.feed.passes
        return Dealt(streams, *each, at_a_time, to_stop)

    def _to_stop(self, before: int) -> int:
        """Rounds after which somebody looks at the progress, or weights are recorded."""
        weights = self.history.weights
        recorded = None if weights is None else weights.next_round(before)
        return self._pieces.at_once(before, self.on_progress is not None, recorded)

    @property
    def processes(self) -> Processes:
        """Who plays together."""
        if self._processes is None:
            self._processes = imported(engine_named(self.setup.engine).processes)()
        return self._processes

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

    def look(self, past: Past | None = None, progress: Progress | None = None) -> None:
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
                self._tell(seen, None, may_stop=True)

    def _play_piece(self, engine: Engine, before: int, piece: Block, common: bool) -> Snapshots:
        """Play rounds and keep points of the curves; what is seen at a common end if somebody looks."""
        last = before + piece.n_rounds
        points = self.history.curves.between(before, last)
        looked_at = common and self.on_progress is not None
        end = [last] if looked_at and last not in points[-1:] else []
        loss = self.plan.loss_before(engine)
        began = time.perf_counter()
        after = [point - before for point in points + end]
        # Only a group of processes (`Grouped`) has rounds at whose end its members do not meet.
        play = engine.play if common else partial(cast("Grouped", engine).play, meets=False)
        seen = play(piece, after)
        self.plan.played(engine, piece, before, loss, seen)
        self._pieces.pace.took(piece.n_rounds, time.perf_counter() - began)
        if self._largest is None and not np.isfinite(engine.counters().loss).all():
            self._largest = LargestValue.of(piece, before)
        return self.history.keep(before, seen)

    def _tell(self, seen: Snapshots, position: Position | None, may_stop: bool = False) -> None:
        if self.on_progress is None:
            return
        assert self.engine is not None and self._since is not None
        messages, sent, _ = self.plan.sent(self.algorithm, self.engine, int(seen.rounds[-1]))
        self.seconds = time.perf_counter() - self._since
        progress = Progress.of(
            seen,
            messages=messages,
            bytes_sent=sent,
            seconds=self.seconds,
            position=position,
            edges=self.plan.edges(self.engine),
            moments=self.plan.moments(self.engine),
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
                self.processes.finish()
                return trace
            except RankLostError:
                nested = self._since is not None  # in `_play_feed`, which recovers
                if nested or not (self.processes.recovers and self.feed.streams):
                    raise
                self._play_feed(lost=True)

    def _rounded(self) -> Engine:
        """An engine in which the open round is played: a copy if there is one.

        Events that are fed by hand, and may go on, end on a copy, too.
        """
        waiting = self.open_round.rows
        if waiting is None and self.engine is None and self.start is None:
            raise ValueError("no example was read; expected at least one")
        if waiting is None and not (self.plan.ends and not self.feed.streams):
            return self.opened(0)
        if self.plan.ends:
            now = self.opened(0 if waiting is None else waiting.n_features)
            ended = self._opened_at(now.state(), self.plan.state_dict(now))
        else:
            ended = Local(self.algorithm, self.state())
        if waiting is not None:
            ended.play(self.open_round.block())
        self.plan.end(ended)
        return ended

    def _ended(self) -> Engine:
        """An engine in which late answers have come, too."""
        return self.plan.delivered(self.algorithm, self._rounded())

    def _trace(self, last: bool) -> Trace:
        engine = self._rounded()
        counters, seen = engine.counters(), seen_now(engine)
        curves = self.history.curves.finish(counters.rounds, counters, *seen.metrics[0])
        engine = self.plan.delivered(self.algorithm, engine)
        if self.algorithm.delay:
            seen = seen_now(engine)
        state, weights = _state_of(engine, copy=not last), engine.weights()
        check_numbers(self.algorithm, state, weights, self.feed.streams, self._largest)
        messages, sent, dropped = self.plan.sent(self.algorithm, engine, counters.rounds)
        recorded = self.history.weights
        algorithm = self.algorithm
        if algorithm.mixing is not self._mixing:  # it was written out to be recorded
            algorithm = replace(algorithm, mixing=self._mixing)
        return Trace(
            algorithm=algorithm,
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
            edges=self.plan.edges(engine),
            refused=self.plan.refused(engine),
            weight_history=None if recorded is None else recorded.history(),
            moments=self.plan.moments(engine),
            events=self.plan.events(engine, self.feed),
        )

    # Going on.

    def past(self) -> Past:
        """All but the state that it takes to come back to this moment, between two blocks."""
        curves, waiting = self.history.curves.to_dict(), copy.copy(self.open_round)
        kept = {} if self.engine is None else self.plan.state_dict(self.engine)
        return Past(self.position, curves, waiting, kept)

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
        began = self.start if state is None else state
        self.engine = None if began is None else self._opened_at(began, past.kept, where)

    def grow(self, outputs: int) -> None:
        """Make room for classes that have not been seen before; they begin now."""
        if outputs <= self.algorithm.outputs:
            return
        if self.plan.separate:
            raise ValueError(
                f"found class {outputs} where messages of {self.algorithm.outputs} are under way; leave out "
                "the rules of talking where classes are not known beforehand"
            )
        self.close()
        self.algorithm = replace(self.algorithm, outputs=outputs)
        if self.start is not None:
            self.start = with_outputs(self.algorithm, self.start)

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
                    self.start = self.engine.state()
            finally:
                self.engine.close()
                self.engine = None

    def first_state(self, n_features: int) -> State:
        """Where an engine that is opened now begins: a beginning for so many features, or what was known."""
        if self.start is not None:
            return self.start
        width = max(self.setup.n_features or 0, n_features, self.feed.n_features)
        check_memory(self.algorithm, width, self.plan.separate)
        return start_state(self.algorithm, width, self.setup.seed, self.processes.agents)

    def opened(self, n_features: int) -> Engine:
        """The engine, opened for at least so many features where there is none yet."""
        if self.engine is None:
            first, given = self.first_state(n_features), self.start is not None
            if given:
                check_start(self.algorithm, first, self.plan.separate, self.processes.agents)
            kept, self._under_way = self._under_way, {}
            self.engine = self._opened_at(first, kept)
            width = self.engine.counters().n_features
            self._pieces.pace = Pace.of(numbers_in_round(self.algorithm, width))
        return self.engine

    def _opened_at(
        self, state: State, kept: Mapping[str, np.ndarray], where: str = "the earlier moment"
    ) -> Engine:
        """An engine at a state that was checked or made here, and with what was kept besides."""
        engine = open_engine(self.algorithm, state, self.setup, self.feed, self.plan)
        if kept:
            with damaged(where, "checkpoint"):
                self.plan.load_state_dict(engine, kept, where)
        return engine

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the engine, whose memory is known by address: its state is a value."""
        kept = vars(self).copy()
        if self.engine is not None:
            kept["start"] = self.engine.state()
            kept["_under_way"] = self.plan.state_dict(self.engine)
        return kept | dict.fromkeys(("engine", "_processes", "_since", "on_progress"))


def _state_of(engine: Engine, copy: bool) -> State:
    """The state of an engine in memory of its own, or, where copying would take long, as it lies there."""
    return engine.state() if copy or not isinstance(engine, Local) else engine.counters()
