"""What a run keeps of its past besides its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.feed import Feed
from ddol.engines.past.round_log import RoundLog
from ddol.engines.past.traffic import Traffic
from ddol.engines.past.weight_record import WeightRecord
from ddol.engines.registry import Engine, is_scheduled
from ddol.engines.state import numbers_sent
from ddol.engines.workers.worker import Snapshots
from ddol.recording import Moment, Recorder
from ddol.schedules.events import Events
from ddol.schedules.schedule import Schedule
from ddol.streams.rows import Block

if TYPE_CHECKING:
    from ddol.engines.past.round_shadow import RoundShadow


class History:
    """Curves, messages, and, where they are wished for, events and weights over time.

    Engines that play a schedule count messages and keep events by themselves; of rounds both follow from
    what was dealt.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    schedule : Schedule
    """

    def __init__(self, algorithm: Algorithm, schedule: Schedule) -> None:
        self.curves = Recorder(algorithm.n_agents)
        self.traffic = Traffic(algorithm.mixing, algorithm.period)
        self.weights: WeightRecord | None = None
        logs = schedule.record and not schedule.plays_events
        self.log = RoundLog(algorithm) if logs else None
        keeps = schedule.certificate and not schedule.plays_events
        self.shadow = _shadow_of(algorithm) if keeps else None
        self._changing = isinstance(algorithm.mixing, Changing)

    def keep(self, before: int, seen: Snapshots) -> Snapshots:
        """Keep the snapshots that are points of the curves, and number all of them from the run's start."""
        if not len(seen.rounds):
            return seen
        rounds = before + seen.rounds
        # A scheduled run may see a point of its last piece only when it is known that the round is over.
        points = set(self.curves.between(self.curves.last, int(rounds[-1])))
        mine = np.array([point in points for point in rounds.tolist()], dtype=bool)
        self.curves.record(rounds[mine].tolist(), seen.counters[mine], *seen.metrics[mine].T)
        return seen._replace(rounds=rounds)

    def keep_now(self, seen: Snapshots) -> None:
        """The same for a single snapshot of a run whose points nobody could name beforehand."""
        rounds = int(seen.rounds[0])
        if self.curves.between(self.curves.last, rounds):
            self.curves.record([rounds], seen.counters, *seen.metrics.T)

    def add(self, engine: Engine, piece: Block, rounds: int) -> None:
        """A piece was played, with which so many rounds are over."""
        if self._changing:
            self.traffic.messages(rounds)  # while the matrices are at hand
        if self.log is not None:
            self.log.add(piece)
        if self.weights is not None:
            self.weights.look(rounds, engine)

    def sent(self, algorithm: Algorithm, engine: Engine, rounds: int) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many were lost."""
        state = engine.counters()
        questions, shown = state.questions
        if is_scheduled(engine):
            messages, sent, lost = engine.sent()
            return messages + questions, sent + shown, lost
        messages = self.traffic.messages(rounds)
        sent = messages * numbers_sent(algorithm, state.n_features) * 8
        return messages + questions, sent + shown, 0

    def events(self, engine: Engine, feed: Feed) -> Events | None:
        """What happened, if it was recorded."""
        if is_scheduled(engine):
            return engine.events()
        return None if self.log is None else self.log.events(feed.passes, feed.n_streams)

    def edges(self, engine: Engine) -> np.ndarray | None:
        """Sender, receiver, messages and bytes of every edge that was used, where an engine counts them."""
        count = getattr(engine, "edges", None)
        return None if count is None else count()

    def kept(self, engine: Engine | None) -> dict[str, np.ndarray]:
        """What is under way on a schedule, and what the shadow of rounds remembers."""
        if engine is not None and hasattr(engine, "kept"):
            return dict(engine.kept())
        return {} if self.shadow is None else self.shadow.kept()

    def give_back(self, engine: Engine, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what was kept."""
        if hasattr(engine, "give_back"):
            engine.give_back(kept, where)
        elif self.shadow is not None:
            self.shadow.give_back(kept, engine.counters().n_features, where)

    def moments(self, engine: Engine) -> tuple[Moment, ...]:
        """The run by its time, where a schedule has one, or a certificate of rounds is kept."""
        if is_scheduled(engine):
            return engine.moments()
        found = () if self.shadow is None else self.shadow.moments()
        # The shadow has not seen an open round, which is played on a copy.
        whole = not found or found[-1].examples == engine.counters().examples.sum()
        return found if whole else ()


def _shadow_of(algorithm: Algorithm) -> RoundShadow | None:
    """The shadow of a run in rounds, where there is a certificate; few runs ask for it."""
    from ddol.engines.past.round_shadow import RoundShadow
    from ddol.engines.workers.shadow import ShadowLearner

    return RoundShadow(algorithm) if ShadowLearner.covers(algorithm) else None
