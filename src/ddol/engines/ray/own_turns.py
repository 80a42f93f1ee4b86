"""Asynchronous turns of the agents of one actor: nobody waits, and letters are the newest rows of neighbours.

The actor plays its agents as one worker of `AsyncThreads`, in compiled code. What they publish is posted to
the actors that host their neighbours by a thread of its own, always the newest; what comes from there is
published here under the version that it had at its sender, so that a log of versions says who heard what.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.algorithm import Algorithm
from ddol.engines.events.live_turns import PlayedTurns
from ddol.engines.feed import Feed
from ddol.engines.groups.grouped import neighbours_of
from ddol.engines.kernels.published import publish_as, read_row
from ddol.engines.pace import Pace
from ddol.engines.ray.group import checked
from ddol.engines.setup import Setup
from ddol.engines.state import State, copied
from ddol.engines.threads.turns import AsyncThreads
from ddol.engines.workers.shares import joined, part_of
from ddol.schedules.events import ANSWER
from ddol.streams.dealing import Ahead, beginning, deal
from ddol.streams.over.chained import ChainedStream
from ddol.streams.over.wrapped import for_agents
from ddol.streams.rows import Block, no_rows
from ddol.streams.stream import Position

_UNDER_WAY = 2
"""Letters to one actor that may be under way: more would only grow old in a queue."""

_PAUSE = 0.0005


@dataclass(frozen=True)
class Letter:
    """The newest rows of some agents: how often each had published, and how far it is."""

    agents: NDArray[np.int64]
    times: NDArray[np.int64]
    progress: NDArray[np.int64]
    rows: NDArray[np.float64]


@dataclass(frozen=True)
class TurnsCopy:
    """What it takes to come back to the end of a block: some agents, and where they stand.

    ``counts`` are turns played, turns planned and answers of every agent, ``slots`` what it keeps of
    predictions whose answers are under way; their rows are in ``late``, whose table says whose they are.
    """

    first: int
    part: State
    position: Position | None
    rounds: int
    counts: NDArray[np.int64]
    slots: NDArray[np.float64]
    late: Block
    published: Letter

    @property
    def agents(self) -> range:
        """Whose copy it is."""
        return range(self.first, self.first + len(self.part.mistakes))

    def copy(self) -> TurnsCopy:
        """The same in memory of its own."""
        said = replace(self.published, rows=copied(self.published.rows))
        return replace(self, part=self.part.copy(), slots=self.slots.copy(), published=said)


@dataclass(frozen=True)
class TurnsResult:
    """What an actor leaves: its agents, what was sent, and what was played if that is recorded.

    ``published`` is the last that agents of others have heard of them. Rows of ``played`` are numbered within
    the stream of their agent. Where the agents move to other actors before the end, ``left`` is what these
    need, and ``part`` is None.
    """

    counters: NDArray[np.float64]
    letters: int
    bytes_sent: int
    published: Letter
    played: PlayedTurns | None = None
    left: TurnsCopy | None = None
    part: State | None = None


class Gate:
    """Lets the driver stop all actors between two blocks, at rounds that all of them can reach.

    Every actor promises not to deal beyond the rounds that it has dealt until it is told where to leave; then
    all play on to there. Nobody waits in the middle of a block for one that has stopped before it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._dealing = self._promised = self._ended = False
        self.rounds = 0
        self._last: int | None = None

    def most(self) -> int:
        """Rounds that may be dealt at most."""
        return 1 << 40 if self._last is None else max(1, self._last - self.rounds)

    def enter(self) -> bool:
        """Before a block is dealt: wait for the driver's word if it was promised; False for leaving."""
        with self._changed:
            self._changed.wait_for(lambda: self._last is not None or not self._promised)
            if self._last is not None and self.rounds >= self._last:
                return False
            self._dealing = True
            return True

    def dealt(self, rounds: int | None) -> bool:
        """After it: so many rounds more, or None for the end of the streams; False for leaving."""
        with self._changed:
            self._dealing = False
            self._changed.notify_all()
            if rounds is not None:
                self.rounds += rounds
                return True
            self._ended = not self._promised
            return self._ended

    def promise(self) -> int | None:
        """Rounds beyond which nothing is dealt from now on; None where all is dealt."""
        with self._changed:
            self._changed.wait_for(lambda: not self._dealing)
            if self._ended:
                return None
            self._promised = True
            return self.rounds

    def leave_at(self, rounds: int | None) -> None:
        """Leave when so many rounds are dealt and played; None takes the promise back."""
        with self._changed:
            self._last, self._promised = rounds, rounds is not None
            self._changed.notify_all()


class Turns:
    """The agents of one actor in an asynchronous run.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of the own agents, before their first turn.
    setup : Setup
    feed : Feed
    shares : (first, agents) of every actor
    rank : int
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        setup: Setup,
        feed: Feed,
        shares: Sequence[tuple[int, int]],
        rank: int,
    ) -> None:
        self.algorithm, self.feed = algorithm, feed
        self.first, self.agents = shares[rank]
        self._own = range(self.first, self.first + self.agents)
        self.engine = AsyncThreads(algorithm, state, 1, setup.schedule, own=shares[rank])
        near = neighbours_of(algorithm, list(shares), rank)
        self.rows_to = {other: np.array(rows) + self.first for other, rows in near.rows_to.items()}
        self.rows_from = near.rows_from
        self._heard = near.places >= 0
        self.position: Position | None = None
        self.gate = Gate()
        self.letters = self.bytes_sent = 0
        self.failure: RuntimeError | None = None
        self._known = np.zeros(algorithm.n_agents, np.int64)
        self._posted = {
            other: np.zeros(len(rows), np.int64) for other, rows in self.rows_to.items()
        }
        self._played: list[PlayedTurns] = []

    def knows(self, first: int, agents: int) -> bool:
        """Whether some of these agents are here, or are listened to."""
        return bool(self._heard[first : first + agents].any())

    # Letters.

    def hear(self, letter: Letter) -> None:
        """Publish what has come from another actor; what cannot be right ends the turns."""
        engine, size = self.engine, self.engine.published.shape[1]
        try:
            if letter.times.any():
                checked(letter.rows, (len(letter.agents), size), "a neighbour's actor")
        except RuntimeError as error:
            self.failure = error
            self.stop()
            return
        for agent, times, progress, row in zip(
            letter.agents.tolist(), letter.times.tolist(), letter.progress, letter.rows, strict=True
        ):
            if not self._heard[agent]:
                continue
            row = np.ascontiguousarray(row)
            target = engine.published[agent].ctypes.data
            if times:
                publish_as(engine.versions.ctypes.data, agent, row.ctypes.data, target, size, times)
            engine.progress[agent, 0] = max(engine.progress[agent, 0], progress)

    def newest(self, agents: NDArray) -> Letter:
        """The newest rows of some agents, each of them whole."""
        engine, size = self.engine, self.engine.published.shape[1]
        rows, times = np.zeros((len(agents), size)), np.zeros(len(agents), np.int64)
        for k, agent in enumerate(agents.tolist()):
            source = engine.published[agent].ctypes.data
            times[k] = read_row(
                engine.versions.ctypes.data, agent, source, rows[k].ctypes.data, size
            )
        return Letter(agents, times, engine.progress[agents, 0].copy(), rows)

    def news_for(self, other: int) -> Letter | None:
        """What another actor has not been told yet; None if there is nothing."""
        agents = self.rows_to[other]
        marks = self.engine.versions[agents, 0] // 2 + self.engine.progress[agents, 0] // (1 << 61)
        changed = marks != self._posted[other]
        if not changed.any():
            return None
        self._posted[other] = np.where(changed, marks, self._posted[other])
        return self.newest(agents[changed])

    def tell_again(self, other: int) -> None:
        """Forget what another actor was told: it is a new one."""
        if other in self._posted:
            self._posted[other][:] = -1

    # Playing.

    def play(self, noted: Callable[..., Any], after_block: Callable[[], None]) -> bool:
        """Play what the own agents see of the streams to their end; False where it was left before.

        Parameters
        ----------
        noted : function of blocks that gives the same blocks
        after_block : function
        """
        pace = Pace()
        blocks = noted(self._blocks(pace))
        while self.gate.enter():
            block, position = next(blocks, (None, None))
            if block is None:
                break
            self.gate.dealt(block.n_rounds)
            began = time.perf_counter()
            try:
                self.engine.play_unseen(block)
            finally:
                if self.failure is not None:
                    raise self.failure
            self._played += self.engine.played
            pace.took(block.n_rounds, time.perf_counter() - began)
            self.position = position
            after_block()
        else:
            return False
        if not self.gate.dealt(None):
            return False
        self.engine.played = []
        self.engine.end_unseen()
        self._played += self.engine.played
        self.engine.seats[0].wait_for_nobody()
        return True

    def stop(self) -> None:
        """Leave the turns early."""
        self.engine.control[0] = 1

    def _blocks(self, pace: Pace) -> Iterator[tuple[Block, Position]]:
        n, streams, passes = self.algorithm.n_agents, list(self.feed.streams), self.feed.passes
        if len(streams) == 1:
            streams = [for_agents(streams[0], self._own.start, self._own.stop, n)]
        elif passes > 1:  # agents that come together here may be in different passes
            streams, passes = [ChainedStream((each,) * passes, True) for each in streams], 1
        position = self.position and self._whole(self.position, len(streams))
        most, team = self.feed.block_rounds or 1 << 40, _OwnAgents(self._own)
        return deal(
            streams, n, 1, passes, position, lambda: min(pace.rounds, most, self.gate.most()), team
        )

    def _whole(self, position: Position, n_streams: int) -> Position:
        """A position whose places are those of the own streams, as `deal` has them for all."""
        if n_streams == 1:
            return position
        places: list[Any] = [None] * n_streams
        places[self._own.start : self._own.stop] = position["streams"]
        return {**position, "streams": places}

    # Copies and results.

    def counters(self) -> NDArray[np.float64]:
        """Mistakes, loss, expected mistakes and examples of the own agents."""
        state = self.engine.counters()
        return np.column_stack([state.mistakes, state.loss, state.expected, state.examples])

    def present(self) -> TurnsCopy:
        """The own agents between two blocks, in the memory that they play in: good until the next one."""
        engine, [seat] = self.engine, self.engine.seats
        plan, own = engine.plan, slice(self._own.start, self._own.stop)
        slots = seat.slopes[:-1].reshape(self.agents, -1, seat.slopes.shape[1])
        counts = np.column_stack([seat.turns, plan.turns[own], plan.answers[own]])
        said = Letter(
            np.array(self._own), engine.versions[own, 0] // 2, engine.progress[own, 0].copy(),
            engine.published[own],
        )  # fmt: skip
        return TurnsCopy(
            self.first, seat.worker.state, self.position, self.gate.rounds, counts, slots,
            self._late(), said,
        )  # fmt: skip

    def _late(self) -> Block:
        """Rows whose answers are under way, the oldest first."""
        plan, pool = self.engine.plan, self.engine.pool
        table = np.full((plan.delay, self.algorithm.n_agents, 1), -1, np.int64)
        needed = plan.under_way()
        for agent in self._own:
            serials = np.array(plan.late[agent], np.int64)
            places = np.where(serials >= 0, np.searchsorted(needed, serials), -1)
            table[plan.delay - len(places) :, agent, 0] = places
        rows = pool.rows.take(pool.where[needed - pool.first]) if len(needed) else no_rows()
        return Block(rows, table)

    def go_back(self, copies: Sequence[TurnsCopy]) -> None:
        """Take up copies of all own agents, wherever they were, and hear what others had published."""
        mine = [kept for kept in copies if set(kept.agents) & set(self._own)]
        skipped = self.first - mine[0].first
        own = slice(skipped, skipped + self.agents)
        engine, [seat] = self.engine, self.engine.seats
        seat.worker.adopt(
            part_of(joined([kept.part for kept in mine], False), skipped, self.agents)
        )
        slots = np.concatenate([kept.slots for kept in mine])[own]
        seat.slopes[:-1] = slots.reshape(-1, slots.shape[2])
        counts = np.concatenate([kept.counts for kept in mine])[own]
        here = slice(self._own.start, self._own.stop)
        seat.turns[...], engine.plan.turns[here], engine.plan.answers[here] = counts.T
        self._known[here] = counts[:, 1]
        for kept in mine:
            self._take_late(kept)
        for kept in copies:
            self.hear(kept.published)
        self.gate.rounds = mine[0].rounds
        self.position = self._position_of(mine)

    def _take_late(self, kept: TurnsCopy) -> None:
        plan, table = self.engine.plan, kept.late.table.copy()
        if not plan.delay:
            return
        own = [agent for agent in kept.agents if agent in self._own]
        others = np.setdiff1d(np.arange(self.algorithm.n_agents), own)
        table[:, others] = -1
        _, serials = self.engine.pool.add(Block(kept.late.rows, table))
        for agent in own:
            plan.late[agent] = serials.reshape(plan.delay, -1)[:, agent].tolist()
            self._known[agent] -= int((table[:, agent] >= 0).sum())

    def _position_of(self, mine: Sequence[TurnsCopy]) -> Position:
        """Where the own agents stand: in the one stream at the same place, or each in its own."""
        if len(self.feed.streams) == 1:
            return mine[0].position or beginning(1)
        places: dict[int, Any] = {}
        for kept in mine:
            position = kept.position or beginning(len(kept.agents))
            places |= zip(kept.agents, position["streams"], strict=True)
        return {"pass": 0, "streams": [places[agent] for agent in self._own]}

    def result(self, ended: bool) -> TurnsResult:
        """What is left when all is played, or when the agents move elsewhere."""
        heard = sorted({int(agent) for rows in self.rows_to.values() for agent in rows})
        said = self.newest(np.array(heard, np.int64))
        found = TurnsResult(self.counters(), self.letters, self.bytes_sent, said, self._recorded())
        if not ended:
            return replace(found, left=self.present())
        return replace(found, part=self.engine.seats[0].worker.state)

    def _recorded(self) -> PlayedTurns | None:
        if not self.engine.schedule.record or not self._played:
            return None
        chunks = [played.chunk for played in self._played]
        kind, agent, row = (
            np.concatenate([getattr(chunk, name) for chunk in chunks])
            for name in ("kind", "agent", "row")
        )
        named = (kind <= ANSWER) & (row >= 0)
        before = self._known[self.first + agent[named]]
        row[named] = self.engine.pool.numbers.ranks()[row[named]] + before
        whole = chunks[0]._replace(kind=kind, agent=agent, row=row)
        return PlayedTurns(whole, self.first, np.concatenate([p.log for p in self._played]))


@dataclass(frozen=True)
class _OwnAgents:
    """The `Team` of an actor that deals without the others."""

    agents: range

    def fewest(self, ahead: Ahead) -> int:
        return ahead.rounds

    def knows_places(self, agreed: bool) -> bool:
        return True


class Poster:
    """Posts news to the actors of neighbours while the agents are played.

    Parameters
    ----------
    turns : Turns
    actors : handles of all actors
    """

    def __init__(self, turns: Turns, actors: Sequence[Any]) -> None:
        import ray

        self.ray, self.turns, self.actors = ray, turns, actors
        self._under_way: dict[int, list[Any]] = {other: [] for other in turns.rows_to}
        self._telling = threading.Lock()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="ddol-post", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            ending = self._ending
            idle = not self._post(ending)
            if ending and idle:
                return
            if idle:
                time.sleep(_PAUSE)

    def _post(self, all_of_it: bool) -> int:
        """Post the news that there are: how many letters."""
        posted = self.turns.letters
        with self._telling:
            for other, under_way in self._under_way.items():
                if under_way:
                    _, under_way[:] = self.ray.wait(
                        under_way, num_returns=len(under_way), timeout=0, fetch_local=False
                    )
                if len(under_way) >= _UNDER_WAY and not all_of_it:
                    continue
                letter = self.turns.news_for(other)
                if letter is not None:
                    under_way.append(self.actors[other].hear.remote(letter))
                    self.turns.letters += 1
                    self.turns.bytes_sent += letter.rows.nbytes
        return self.turns.letters - posted

    def tell_again(self, other: int) -> None:
        """Post to an actor that has just begun what it cannot have heard, also after the end."""
        with self._telling:
            self.turns.tell_again(other)
            self._under_way[other].clear()  # they were for whoever was there before
        if self._ending:
            self._thread.join()
            self._post(all_of_it=True)

    def end(self) -> None:
        """Post the last news, and stop."""
        self._ending = True
        self._thread.join()
