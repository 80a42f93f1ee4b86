"""What a run keeps of its past besides its state: curves, messages, events, weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing, Mixing
from ddol.engines.drift import Recent
from ddol.engines.feed import Feed
from ddol.engines.registry import Engine, is_scheduled
from ddol.engines.state import numbers_seldom_sent, numbers_sent
from ddol.engines.workers.partition import Snapshots
from ddol.recording import Moment, Recorder, WeightHistory
from ddol.streams.rows import Block
from ddol.update.contract import ARRIVAL, KEPT
from ddol.update.sampling import count_sampled, samples

if TYPE_CHECKING:
    from ddol.engines.events.round_log import RoundLog
    from ddol.engines.events.round_shadow import RoundShadow
    from ddol.engines.state import State
    from ddol.schedules.events import Events
    from ddol.schedules.schedule import Schedule

_MOST_POINTS = 512


class History:
    """Curves, messages, and, where they are wished for, events and weights over time.

    Engines that play a schedule count messages and keep events by themselves; of rounds both follow from
    what was dealt.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    schedule : Schedule
    state : State, optional
        Where the run goes on from.
    """

    def __init__(
        self, algorithm: Algorithm, schedule: Schedule, state: State | None = None
    ) -> None:
        self._gradient = ARRIVAL if algorithm.at_arrival else KEPT
        self.curves = Recorder(algorithm.n_agents)
        self.recent = Recent(algorithm.classification)
        if state is not None:
            self.recent.begin(state.examples.sum(), state.mistakes.sum(), state.loss.sum())
        self.traffic = Traffic(algorithm.mixing, algorithm.period)
        self.weights: WeightRecord | None = None
        logs = schedule.record and not schedule.plays_events
        self.log = _log_of(algorithm) if logs else None
        keeps = schedule.certificate and not schedule.plays_events
        self.shadow = _shadow_of(algorithm) if keeps else None
        self._changing = isinstance(algorithm.mixing, Changing)
        self._message: tuple[tuple[int, int], int, int] = ((0, 0), 0, 0)

    def keep(self, before: int, seen: Snapshots) -> Snapshots:
        """Keep the snapshots that are points of the curves, and number all of them from the run's start."""
        if not len(seen.rounds):
            return seen
        rounds = before + seen.rounds
        self.recent.look(seen.counters)
        # A scheduled run may see a point of its last piece only when it is known that the round is over.
        points = self.curves.between(self.curves.last, int(rounds[-1]))
        mine = slice(None) if rounds.tolist() == points else np.isin(rounds, points)
        self.curves.record(rounds[mine], seen.counters[mine], *seen.metrics[mine].T)
        return seen._replace(rounds=rounds)

    def keep_now(self, seen: Snapshots) -> None:
        """The same for a single snapshot of a run whose points nobody could name beforehand."""
        rounds = int(seen.rounds[0])
        if self.curves.between(self.curves.last, rounds):
            self.curves.record([rounds], seen.counters, *seen.metrics.T)

    def restore(self, curves: Mapping[str, np.ndarray]) -> None:
        """Take up the curves of an earlier moment, and look at their points again."""
        self.curves.restore(curves)
        self.recent.begin()
        for point in zip(curves["examples"], curves["mistakes"], curves["loss"], strict=True):
            self.recent.add(*point)

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
        numbers, seldom = self._in_message(algorithm, state.n_features)
        sent = messages * numbers
        if seldom and messages:  # counting sampled rounds takes as long as a few of them
            sent -= (messages - self.traffic.with_statistics(rounds)) * seldom
        return messages + questions, 8 * sent + shown, 0

    def _in_message(self, algorithm: Algorithm, n_features: int) -> tuple[int, int]:
        """Numbers of a message, and those that are seldom sent, for whoever asks after every piece."""
        size = algorithm.outputs, n_features
        if self._message[0] != size:
            numbers = numbers_sent(algorithm, n_features)
            self._message = size, numbers, numbers_seldom_sent(algorithm, n_features)
        return self._message[1:]

    def events(self, engine: Engine, feed: Feed) -> Events | None:
        """What happened, if it was recorded."""
        if is_scheduled(engine):
            events = engine.events()
        else:
            events = None if self.log is None else self.log.events(feed.passes, feed.n_streams)
        return None if events is None else replace(events, gradient=self._gradient)

    def edges(self, engine: Engine) -> np.ndarray | None:
        """Sender, receiver, messages and bytes of every edge that was used, where an engine counts them."""
        count = getattr(engine, "edges", None)
        return None if count is None else count()

    def state_dict(self, engine: Engine | None) -> dict[str, np.ndarray]:
        """What is under way on a schedule, and what the shadow of rounds remembers."""
        if engine is not None and hasattr(engine, "state_dict"):
            return dict(engine.state_dict())
        return {} if self.shadow is None else self.shadow.state_dict()

    def load_state_dict(self, engine: Engine, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what was kept."""
        if hasattr(engine, "load_state_dict"):
            engine.load_state_dict(kept, where)
        elif self.shadow is not None:
            self.shadow.load_state_dict(kept, engine.counters().n_features, where)

    def moments(self, engine: Engine) -> tuple[Moment, ...]:
        """The run by its time, where a schedule has one, or a certificate of rounds is kept."""
        if is_scheduled(engine):
            return engine.moments()
        found = () if self.shadow is None else self.shadow.moments()
        # The shadow has not seen an open round, which is played on a copy.
        whole = not found or found[-1].examples == engine.counters().examples.sum()
        return found if whole else ()


def _log_of(algorithm: Algorithm) -> RoundLog:
    """The events that rounds are; few runs are recorded."""
    from ddol.engines.events.round_log import RoundLog

    return RoundLog(algorithm)


def _shadow_of(algorithm: Algorithm) -> RoundShadow | None:
    """The shadow of a run in rounds, where there is a certificate; few runs ask for it."""
    from ddol.engines.events.round_shadow import RoundShadow
    from ddol.engines.workers.shadow import ShadowLearner

    return RoundShadow(algorithm) if ShadowLearner.covers(algorithm) else None


class Traffic:
    """Messages of a run by the number of rounds played.

    Agent j sends to i where A_ij > 0 and i ≠ j, in every round that the period divides. A matrix that
    changes is counted round by round.

    Parameters
    ----------
    mixing : Mixing
    period : int
        Rounds from one exchange to the next.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import ring
    >>> traffic = Traffic(metropolis(ring(8)), period=2)
    >>> traffic.messages(10), traffic.with_statistics(2 * 256 + 80)
    (80, 4112)
    """

    def __init__(self, mixing: Mixing | Changing, period: int = 1) -> None:
        self.mixing, self.period = mixing, period
        self._counted = self._messages = self._sampled = 0

    def messages(self, rounds: int) -> int:
        """Messages that all agents have sent in the first rounds."""
        if not isinstance(self.mixing, Changing):
            return self.mixing.n_messages * (rounds // self.period)
        self._count(self.mixing, rounds)
        return self._messages

    def with_statistics(self, rounds: int) -> int:
        """Messages among them of sampled exchanges."""
        self._count(self.mixing, rounds)
        return self._sampled

    def _count(self, mixing: Mixing | Changing, rounds: int) -> None:
        """Go on counting: it is asked for after every piece of a run."""
        if rounds < self._counted:  # somebody went back
            self._counted = self._messages = self._sampled = 0
        before, self._counted = self._counted, rounds
        if not isinstance(mixing, Changing):
            met = count_sampled(rounds // self.period, before // self.period)
            self._sampled += mixing.n_messages * met
            return
        for t in range(before + 1, rounds + 1):
            if t % self.period == 0:
                sent = mixing.at(t).n_messages
                self._messages += sent
                self._sampled += sent * samples(t // self.period)


class WeightRecord:
    """Weights at every k-th round; beyond 512 points every second one is dropped, and k doubled.

    Parameters
    ----------
    every : int
        k.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"`record_weights` must be at least 1 round, it is {every}")
        self.every = every
        self._rounds: list[int] = []
        self._weights: list[np.ndarray] = []

    def next_round(self, rounds: int) -> int:
        """First round after ``rounds`` that is to be recorded."""
        return (rounds // self.every + 1) * self.every

    def look(self, rounds: int, engine: Engine) -> None:
        """Keep the weights, if so many rounds are a multiple of k."""
        if rounds % self.every:
            return
        self._rounds.append(rounds)
        self._weights.append(np.array(engine.weights()))
        if len(self._rounds) >= _MOST_POINTS:
            self.every *= 2
            self._rounds, self._weights = self._rounds[1::2], self._weights[1::2]

    def history(self) -> WeightHistory | None:
        """What was kept."""
        if not self._rounds:
            return None
        return WeightHistory(np.array(self._rounds), np.array(self._weights))
