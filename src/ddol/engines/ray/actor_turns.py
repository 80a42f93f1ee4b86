"""Asynchronous turns of the agents of one actor: no agent waits, and messages are neighbours' newest rows.

The actor plays its agents as one worker of `LiveTurns`, in compiled code. A thread of its own sends what
they publish to the actors that host their neighbours, always the newest. What it receives from there is
published here under the version that it had at its sender, so that the log of versions tells which row an
agent has used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.algorithm import Algorithm
from ddol.engines.events.live_turns import PlayedTurns
from ddol.engines.feed import Feed
from ddol.engines.groups.grouped import neighbours_of
from ddol.engines.kernels.published import publish_as, read_row
from ddol.engines.pace import Pace
from ddol.engines.ray.cluster import lost_errors
from ddol.engines.ray.group import checked
from ddol.engines.ray.turn_state import Gate, PublishedRows, TurnsCopy, TurnsResult, TurnsStart
from ddol.engines.setup import Setup
from ddol.engines.state import State
from ddol.engines.threads.crew import WorkerThreads
from ddol.engines.threads.turns import LiveTurns
from ddol.engines.workers.shares import joined, part_of
from ddol.schedules.events import ANSWER
from ddol.streams.dealing import Alone, beginning, deal
from ddol.streams.over.chained import ChainedStream
from ddol.streams.over.wrapped import for_agents
from ddol.streams.rows import Block, no_rows
from ddol.streams.stream import Position

_IN_FLIGHT = 2
"""Messages to one actor that may be in flight: more would only grow old in a queue."""

_PAUSE = 0.0005


class ActorTurns:
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
        self.engine = LiveTurns(algorithm, state, WorkerThreads(1), setup.schedule, shares[rank])
        near = neighbours_of(algorithm, list(shares), rank)
        self.rows_to = {other: np.array(rows) + self.first for other, rows in near.rows_to.items()}
        self.rows_from = near.rows_from
        self._visible = near.places >= 0
        self.position: Position | None = None
        self.gate = Gate()
        self.messages = self.bytes_sent = 0
        self.failure: RuntimeError | None = None
        self._known = np.zeros(algorithm.n_agents, np.int64)
        self._sent = {other: np.zeros(len(rows), np.int64) for other, rows in self.rows_to.items()}
        self._played: list[PlayedTurns] = []

    def knows(self, first: int, agents: int) -> bool:
        """Whether some of these agents are here, or send to agents here."""
        return bool(self._visible[first : first + agents].any())

    # Messages.

    def receive(self, news: PublishedRows) -> None:
        """Publish rows of another actor's agents here; rows of the wrong shape end the turns."""
        engine, size = self.engine, self.engine.published.shape[1]
        try:
            if news.times.any():
                checked(news.rows, (len(news.agents), size), "a neighbour's actor")
        except RuntimeError as error:
            self.failure = error
            self.stop()
            return
        for agent, times, progress, row in zip(
            news.agents.tolist(), news.times.tolist(), news.progress, news.rows, strict=True
        ):
            if not self._visible[agent]:
                continue
            row = np.ascontiguousarray(row)
            target = engine.published[agent].ctypes.data
            if times:
                publish_as(engine.versions.ctypes.data, agent, row.ctypes.data, target, size, times)
            engine.progress[agent, 0] = max(engine.progress[agent, 0], progress)

    def newest(self, agents: NDArray) -> PublishedRows:
        """The newest rows of some agents, each of them whole."""
        engine, size = self.engine, self.engine.published.shape[1]
        rows, times = np.zeros((len(agents), size)), np.zeros(len(agents), np.int64)
        for k, agent in enumerate(agents.tolist()):
            source = engine.published[agent].ctypes.data
            times[k] = read_row(
                engine.versions.ctypes.data, agent, source, rows[k].ctypes.data, size
            )
        return PublishedRows(agents, times, engine.progress[agents, 0].copy(), rows)

    def news_for(self, other: int) -> PublishedRows | None:
        """Rows that another actor has not been sent yet; None if there are none."""
        agents = self.rows_to[other]
        marks = self.engine.versions[agents, 0] // 2 + self.engine.progress[agents, 0] // (1 << 61)
        changed = marks != self._sent[other]
        if not changed.any():
            return None
        self._sent[other] = np.where(changed, marks, self._sent[other])
        return self.newest(agents[changed])

    def forget_sent(self, other: int) -> None:
        """Count all rows as not sent to another actor, which was started anew."""
        if other in self._sent:
            self._sent[other][:] = -1

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
        self.engine.seats[0].release_others()
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
        most, team = self.feed.block_rounds or 1 << 40, Alone(self._own)
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
        return self.engine.seats[0].worker.state.by_agent

    def present(self) -> TurnsCopy:
        """The own agents between two blocks, in the memory that they play in: good until the next one."""
        engine, [seat] = self.engine, self.engine.seats
        plan, own = engine.plan, slice(self._own.start, self._own.stop)
        slots = seat.slopes[:-1].reshape(self.agents, -1, seat.slopes.shape[1])
        counts = np.column_stack([seat.turns, plan.turns[own], plan.answers[own]])
        said = PublishedRows(
            np.array(self._own), engine.versions[own, 0] // 2, engine.progress[own, 0].copy(),
            engine.published[own],
        )  # fmt: skip
        return TurnsCopy(
            self.first, seat.worker.state, self.position, self.gate.rounds, counts, slots,
            self._late(), said,
        )  # fmt: skip

    def _late(self) -> Block:
        """Rows whose labels are under way, the oldest first."""
        plan, pool = self.engine.plan, self.engine.pool
        table = np.full((plan.delay, self.algorithm.n_agents, 1), -1, np.int64)
        needed = plan.under_way()
        for agent in self._own:
            serials = np.array(plan.late[agent], np.int64)
            places = np.where(serials >= 0, np.searchsorted(needed, serials), -1)
            table[plan.delay - len(places) :, agent, 0] = places
        rows = pool.rows.take(pool.where[needed - pool.first]) if len(needed) else no_rows()
        return Block(rows, table)

    def take_up(self, after: Any, start: TurnsStart) -> None:
        """Take up copies of the own agents, where there are any, and the rows that others published.

        Parameters
        ----------
        after : handle of the next actor in the circle, or None
            It has the newest copy, if agents were played here before.
        start : TurnsStart
        """
        copies = self._copies(after, start)
        if copies:
            self.go_back(copies)
        for rows in start.ended:
            self.receive(rows)
        self.gate.leave_at(start.leave_at)

    def _copies(self, after: Any, start: TurnsStart) -> list[TurnsCopy]:
        """Copies of the own agents: at the next actor, or where they were left to this one."""
        import ray

        while after is not None:
            try:
                kept = ray.get(after.held_copy.remote(start.generation))
            except lost_errors(ray):  # it may itself be about to start
                time.sleep(0.2)
                continue
            if kept is not None:
                return [kept]
            break
        return [ray.get(copy) for share, copy in start.copies if self.knows(*share)]

    def go_back(self, copies: Sequence[TurnsCopy]) -> None:
        """Take up copies of all own agents, wherever they were, and the rows that others published."""
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
            self.receive(kept.published)
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
        """The result when all is played, or when the agents move to other actors."""
        sent = sorted({int(agent) for rows in self.rows_to.values() for agent in rows})
        said = self.newest(np.array(sent, np.int64))
        found = TurnsResult(self.counters(), self.messages, self.bytes_sent, said, self._recorded())
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


class RowSender:
    """Sends the newest rows to the actors of neighbours, in a thread, while the agents are played.

    Parameters
    ----------
    turns : ActorTurns
    actors : handles of all actors
    """

    def __init__(self, turns: ActorTurns, actors: Sequence[Any]) -> None:
        import ray

        self.ray, self.turns, self.actors = ray, turns, actors
        self._in_flight: dict[int, list[Any]] = {other: [] for other in turns.rows_to}
        self._sending = threading.Lock()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="ddol-send", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            ending = self._ending
            idle = not self._send(ending)
            if ending and idle:
                return
            if idle:
                time.sleep(_PAUSE)

    def _send(self, all_of_it: bool) -> int:
        """Send what is new: how many messages."""
        before = self.turns.messages
        with self._sending:
            for other, in_flight in self._in_flight.items():
                if in_flight:
                    _, in_flight[:] = self.ray.wait(
                        in_flight, num_returns=len(in_flight), timeout=0, fetch_local=False
                    )
                if len(in_flight) >= _IN_FLIGHT and not all_of_it:
                    continue
                news = self.turns.news_for(other)
                if news is not None:
                    in_flight.append(self.actors[other].receive.remote(news))
                    self.turns.messages += 1
                    self.turns.bytes_sent += news.rows.nbytes
        return self.turns.messages - before

    def resend(self, other: int) -> None:
        """Send all rows to an actor that has just begun, also after the end of the turns."""
        with self._sending:
            self.turns.forget_sent(other)
            self._in_flight[other].clear()  # they were for the actor that was lost
        if self._ending:
            self._thread.join()
            self._send(all_of_it=True)

    def end(self) -> None:
        """Send the last rows, and stop."""
        self._ending = True
        self._thread.join()
