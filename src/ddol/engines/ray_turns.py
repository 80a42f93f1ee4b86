"""Asynchronous turns of the agents of one actor: nobody waits, and letters are the newest rows of neighbours.

The actor plays its agents as one worker of `AsyncThreads`, in compiled code. What they publish is posted to
the actors that host their neighbours by a thread of its own, always the newest; what comes from there is
published here under the version that it had at its sender, so that a log of versions says who heard what.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.algorithm import Algorithm
from ddol.engines.async_threads import AsyncThreads
from ddol.engines.feed import Feed
from ddol.engines.grouped import neighbours_of
from ddol.engines.kernels.published import publish_as, read_row
from ddol.engines.live_turns import PlayedTurns, TurnPlan
from ddol.engines.pace import Pace
from ddol.engines.row_pool import RowPool
from ddol.engines.setup import Setup
from ddol.engines.shares import part_of
from ddol.engines.state import State
from ddol.schedules.events import ANSWER
from ddol.streams.dealing import deal
from ddol.streams.rows import Block
from ddol.streams.sharing import for_agents
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
    """What it takes to come back to the end of a block: own agents, and where they stand."""

    part: State
    position: Position | None
    plan: TurnPlan
    pool: RowPool
    slopes: NDArray[np.float64]
    turns: NDArray[np.int64]
    published: Letter


@dataclass(frozen=True)
class TurnsResult:
    """What an actor leaves: its agents, what was sent, and what was played if that is recorded.

    Rows of ``played`` are numbered within the stream of their agent.
    """

    part: State
    weights: NDArray[np.float64]
    letters: int
    bytes_sent: int
    played: PlayedTurns | None = None


class Turns:
    """The agents of one actor in an asynchronous run.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of all agents.
    setup : Setup
    shares : (first, agents) of every actor
    rank : int
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        setup: Setup,
        shares: Sequence[tuple[int, int]],
        rank: int,
    ) -> None:
        self.algorithm = algorithm
        self.first, self.agents = shares[rank]
        self.engine = AsyncThreads(algorithm, state, 1, setup.schedule, own=shares[rank])
        near = neighbours_of(algorithm, list(shares), rank)
        self.rows_to = {other: np.array(rows) + self.first for other, rows in near.rows_to.items()}
        self.position: Position | None = None
        self.letters = self.bytes_sent = 0
        self._posted = {
            other: np.zeros(len(rows), np.int64) for other, rows in self.rows_to.items()
        }
        self._played: list[PlayedTurns] = []

    # Letters.

    def hear(self, letter: Letter) -> None:
        """Publish what has come from another actor."""
        engine, size = self.engine, self.engine.published.shape[1]
        for agent, times, progress, row in zip(
            letter.agents.tolist(), letter.times.tolist(), letter.progress, letter.rows, strict=True
        ):
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

    def play(self, feed: Feed, after_block: Callable[[], None]) -> None:
        """Play what the own agents see of streams, to their end."""
        pace = Pace()
        for block, position in self._blocks(feed, pace):
            began = time.perf_counter()
            self.engine.play(block)
            self._played += self.engine.played
            pace.took(block.n_rounds, time.perf_counter() - began)
            self.position = position
            after_block()
        self.engine.played = []
        self.engine.end()
        self._played += self.engine.played
        self.engine.seats[0].wait_for_nobody()

    def stop(self) -> None:
        """Leave the turns early."""
        self.engine.control[0] = 1

    def _blocks(self, feed: Feed, pace: Pace) -> Iterator[tuple[Block, Position]]:
        n, streams = self.algorithm.n_agents, list(feed.streams)
        last = self.first + self.agents
        if len(streams) == 1:
            streams = [for_agents(streams[0], self.first, last, n)]
        position = self.position and self._whole(self.position, len(streams))
        most, own = feed.block_rounds or 1 << 40, _OwnAgents(range(self.first, last))
        return deal(streams, n, 1, feed.passes, position, lambda: min(pace.rounds, most), own)

    def _whole(self, position: Position, n_streams: int) -> Position:
        """A position whose places are those of the own streams, as `deal` has them for all."""
        if n_streams == 1:
            return position
        places: list[Any] = [None] * n_streams
        places[self.first : self.first + self.agents] = position["streams"]
        return {**position, "streams": places}

    # Copies and results.

    def counters(self) -> NDArray[np.float64]:
        """Mistakes, loss, expected mistakes and examples of the own agents."""
        state = self.engine.counters()
        return np.column_stack([state.mistakes, state.loss, state.expected, state.examples])

    def copy(self) -> TurnsCopy:
        """A copy of the own agents between two blocks."""
        engine, [seat] = self.engine, self.engine.seats
        own = np.arange(self.first, self.first + self.agents)
        pool = copy.copy(engine.pool)
        if not self.algorithm.delay:
            pool.keep_none()
        return TurnsCopy(
            seat.worker.state.copy(), self.position, copy.deepcopy(engine.plan), pool,
            seat.slopes.copy(), seat.turns.copy(), self.newest(own),
        )  # fmt: skip

    def go_back(self, kept: TurnsCopy) -> None:
        """Take up a copy that another actor has held."""
        engine, [seat] = self.engine, self.engine.seats
        seat.worker.adopt(part_of(kept.part, 0, self.agents))
        # What comes from Ray's store is not to be written to.
        engine.plan, engine.pool = copy.deepcopy((kept.plan, kept.pool))
        seat.slopes[...], seat.turns[...] = kept.slopes, kept.turns
        self.hear(kept.published)
        self.position = kept.position

    def result(self) -> TurnsResult:
        """What is left when all is played."""
        engine = self.engine
        left = TurnsResult(engine.state(), engine.weights(), self.letters, self.bytes_sent)
        if not engine.schedule.record:
            return left
        chunks = [played.chunk for played in self._played]
        kind, agent, row = (
            np.concatenate([getattr(chunk, name) for chunk in chunks])
            for name in ("kind", "agent", "row")
        )
        named = (kind <= ANSWER) & (row >= 0)
        row[named] = engine.pool.numbers.ranks()[row[named]]
        whole = chunks[0]._replace(kind=kind, agent=agent, row=row)
        log = np.concatenate([played.log for played in self._played])
        return replace(left, played=PlayedTurns(whole, self.first, log))


@dataclass(frozen=True)
class _OwnAgents:
    """The `Team` of an actor that deals without the others."""

    agents: range

    def fewest(self, rounds: int) -> int:
        return rounds

    def places(self, own: list[Position]) -> list[Position]:
        return own


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
        self._ending = False
        self._thread = threading.Thread(target=self._post, name="ddol-post", daemon=True)
        self._thread.start()

    def _post(self) -> None:
        while True:
            ending, idle = self._ending, True
            for other, under_way in self._under_way.items():
                if under_way:
                    _, under_way[:] = self.ray.wait(
                        under_way, num_returns=len(under_way), timeout=0, fetch_local=False
                    )
                if len(under_way) >= _UNDER_WAY and not ending:
                    continue
                letter = self.turns.news_for(other)
                if letter is not None:
                    idle = False
                    under_way.append(self.actors[other].hear.remote(letter))
                    self.turns.letters += 1
                    self.turns.bytes_sent += letter.rows.nbytes
            if ending and idle:
                return
            if idle:
                time.sleep(_PAUSE)

    def end(self) -> None:
        """Post the last news, and stop."""
        self._ending = True
        self._thread.join()
