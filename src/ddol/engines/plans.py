"""What a run plays: a table of rounds, or a list of events. Only here is it known which of the two.

Messages, events and a certificate of rounds follow from the tables that were dealt, so `RoundTable` keeps
them for every engine. What happens in a list of events is only known to the engine that plays it, so
`EventList` asks that engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing, Mixing
from ddol.engines.errors import SetupError
from ddol.engines.feed import Feed
from ddol.engines.kinds import engine_named, imported, require
from ddol.engines.local import Local
from ddol.engines.registry import Engine, ScheduledEngine
from ddol.engines.setup import Setup
from ddol.engines.state import State, numbers_seldom_sent, numbers_sent
from ddol.engines.workers.partition import Snapshots
from ddol.recording import Moment
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, no_rows
from ddol.update.contract import ARRIVAL, KEPT
from ddol.update.sampling import count_sampled, samples

if TYPE_CHECKING:
    from ddol.engines.events.round_log import RoundLog
    from ddol.engines.events.round_shadow import RoundShadow
    from ddol.schedules.events import Events
    from ddol.schedules.schedule import Schedule


class RoundTable:
    """A plan of rounds: blocks bring tables that say which agent sees which example in which round.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    schedule : Schedule
    """

    separate = False
    """Whether every agent has a copy of the weights of its own."""

    sized = False
    """Whether the number of features must be known before the first message."""

    ends = False
    """Whether something is left to happen when the streams are over."""

    def __init__(self, algorithm: Algorithm, schedule: Schedule) -> None:
        self.traffic = Traffic(algorithm.mixing, algorithm.period)
        self._changing = isinstance(algorithm.mixing, Changing)
        self._gradient = ARRIVAL if algorithm.at_arrival else KEPT
        self._log = _log_of(algorithm) if schedule.record else None
        self._shadow = _shadow_of(algorithm) if schedule.certificate else None
        self._message: tuple[tuple[int, int], int, int] = ((0, 0), 0, 0)

    # Opening and ending.

    def opened(self, algorithm: Algorithm, state: State | None, setup: Setup, feed: Feed) -> Engine:
        """The engine that a setup names, for this plan."""
        if setup.schedule.certificate:
            require(setup.engine, "certificate", "a certificate of rounds")
        opened: Engine = imported(engine_named(setup.engine).engine).open(algorithm, state, setup)
        return opened

    def begin(self, engine: Any, feed: Feed) -> None:
        """Streams are about to be read."""

    def end(self, engine: Any) -> Snapshots | None:
        """The streams are over: play what is left to happen; None where nothing is."""
        return None

    def delivered(self, algorithm: Algorithm, engine: Engine) -> Engine:
        """The engine, or a copy in which late answers have come, in rounds without predictions."""
        late = engine.counters().pending
        if late is None:
            return engine
        ended = Local(algorithm, engine.state())
        ended.play(Block(late.rows.slice(0, 0), np.full_like(late.table, -1)))
        return ended

    # On the way.

    @property
    def scored(self) -> bool:
        """Whether the scores of all examples are needed."""
        return self._shadow is not None

    @property
    def remembers(self) -> bool:
        """Whether checkpoints hold more of this plan than the state."""
        return self._shadow is not None

    def loss_before(self, engine: Engine) -> np.ndarray | None:
        """The loss before a piece is played, where `played` needs it."""
        return None if self._shadow is None else engine.counters().loss.copy()

    def played(
        self, engine: Engine, piece: Block, before: int, loss: np.ndarray | None, seen: Snapshots
    ) -> None:
        """A piece was played after so many rounds."""
        if self._shadow is not None and loss is not None:
            self._shadow.follow(piece, before, loss, seen, engine.counters())
        if self._changing:
            self.traffic.messages(before + piece.n_rounds)  # while the matrices are at hand
        if self._log is not None:
            self._log.add(piece)

    def fill(self, examples: np.ndarray, passes: int) -> None:
        """All rounds are over, of which no process has seen all."""
        if self._log is not None:
            self._log.fill(examples, passes)

    # What is known.

    def sent(self, algorithm: Algorithm, engine: Any, rounds: int) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many were lost."""
        state = engine.counters()
        questions, shown = state.questions
        messages = self.traffic.messages(rounds)
        numbers, seldom = self._in_message(algorithm, state.n_features)
        sent = messages * numbers
        if seldom and messages:  # counting sampled rounds takes as long as a few of them
            sent -= (messages - self.traffic.with_statistics(rounds)) * seldom
        return messages + questions, 8 * sent + shown, 0

    def _in_message(self, algorithm: Algorithm, n_features: int) -> tuple[int, int]:
        """Numbers of a message, and those of them that are seldom sent; asked for after every piece."""
        size = algorithm.outputs, n_features
        if self._message[0] != size:
            numbers = numbers_sent(algorithm, n_features)
            self._message = size, numbers, numbers_seldom_sent(algorithm, n_features)
        return self._message[1:]

    def edges(self, engine: Any) -> np.ndarray | None:
        """Sender, receiver, messages and bytes of every edge that was used, where they are counted."""
        return None

    def refused(self, engine: Any) -> np.ndarray | None:
        """Messages that were refused because they are not finite, by sender."""
        return None

    def moments(self, engine: Any) -> tuple[Moment, ...]:
        """The run by its time, where a certificate is kept."""
        found = () if self._shadow is None else self._shadow.moments()
        # The shadow has not seen an open round, which is played on a copy.
        whole = not found or found[-1].examples == engine.counters().examples.sum()
        return found if whole else ()

    def events(self, engine: Any, feed: Feed) -> Events | None:
        """What happened, if it was recorded."""
        found = self._recorded(engine, feed)
        return None if found is None else replace(found, gradient=self._gradient)

    def _recorded(self, engine: Any, feed: Feed) -> Events | None:
        return None if self._log is None else self._log.events(feed.passes, feed.n_streams)

    # Checkpoints.

    def state_dict(self, engine: Any) -> dict[str, np.ndarray]:
        """What it takes to go on, besides the state."""
        return {} if self._shadow is None else self._shadow.state_dict()

    def load_state_dict(self, engine: Any, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what was kept."""
        if self._shadow is not None:
            self._shadow.load_state_dict(kept, engine.counters().n_features, where)


class EventList(RoundTable):
    """A plan of events: a virtual clock, real time, a recording or a list of one's own says what happens.

    Parameters
    ----------
    algorithm : Algorithm
    schedule : Schedule
    sized : bool
        Whether the number of features must be known before the first message.
    ends : bool
        Whether something is left to happen when the streams are over.
    """

    separate = True
    scored = False
    remembers = True

    def __init__(
        self, algorithm: Algorithm, schedule: Schedule, sized: bool = False, ends: bool = True
    ) -> None:
        # The engine records, and keeps the certificate.
        super().__init__(algorithm, replace(schedule, record=False, certificate=False))
        self.sized, self.ends = sized, ends

    def opened(self, algorithm: Algorithm, state: State | None, setup: Setup, feed: Feed) -> Engine:
        """The engine that a setup names, for its schedule."""
        require(setup.engine, "schedules", setup.schedule.described)
        kind = imported(engine_named(setup.engine).scheduled)
        engine: ScheduledEngine = kind.open(algorithm, state, setup)
        self.begin(engine, feed)
        return engine

    def begin(self, engine: Any, feed: Feed) -> None:
        """Say how often the streams are read, and how many there are."""
        engine.begin(feed.passes, feed.n_streams)

    def end(self, engine: Any) -> Snapshots | None:
        """Play what is left to happen; the last snapshot is of the end."""
        seen: Snapshots = engine.end()
        return seen

    def delivered(self, algorithm: Algorithm, engine: Engine) -> Engine:
        """The engine: late answers are events, which it has played."""
        return engine

    def sent(self, algorithm: Algorithm, engine: Any, rounds: int) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many were lost."""
        questions, shown = engine.counters().questions
        messages, sent, lost = engine.sent()
        return messages + questions, sent + shown, lost

    def edges(self, engine: Any) -> np.ndarray | None:
        """Sender, receiver, messages and bytes of every edge that was used, where they are counted."""
        return _asked(engine, "edges")

    def refused(self, engine: Any) -> np.ndarray | None:
        """Messages that were refused because they are not finite, by sender."""
        return _asked(engine, "refused")

    def moments(self, engine: Any) -> tuple[Moment, ...]:
        """The run by its time; the last is now."""
        found: tuple[Moment, ...] = engine.moments()
        return found

    def _recorded(self, engine: Any, feed: Feed) -> Events | None:
        found: Events | None = engine.events()
        return found

    def state_dict(self, engine: Any) -> dict[str, np.ndarray]:
        """What is under way, where the engine can say that."""
        return dict(_asked(engine, "state_dict") or {})

    def load_state_dict(self, engine: Any, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what was under way."""
        engine.load_state_dict(kept, where)


def _asked(engine: Any, method: str) -> Any:
    """What an engine says, where it has this method."""
    asked = getattr(engine, method, None)
    return None if asked is None else asked()


def plan_of(algorithm: Algorithm, setup: Setup) -> RoundTable:
    """The plan that a setup asks for."""
    if not setup.schedule.plays_events:
        return RoundTable(algorithm, setup.schedule)
    return EventList(algorithm, setup.schedule, sized=setup.can.real_time)


def open_engine(
    algorithm: Algorithm,
    state: State | None,
    setup: Setup,
    feed: Feed | None = None,
    plan: RoundTable | None = None,
) -> Engine:
    """Open the engine that a setup names, at a state; errors are those of what was asked for."""
    if algorithm.asking is not None and algorithm.asking.neighbours:
        require(setup.engine, "asks", "`query` of neighbours")
    plan = plan or plan_of(algorithm, setup)
    try:
        return plan.opened(algorithm, state, setup, feed or Feed())
    except DataError:
        raise
    except ValueError as error:
        raise SetupError(str(error)) from error


def seen_now(engine: Engine) -> Snapshots:
    """What there is to see of an engine between two blocks."""
    counters = engine.counters()
    late = counters.pending
    rows = no_rows() if late is None else late.rows.slice(0, 0)
    nothing = np.empty((0, len(counters.mistakes), counters.slopes.shape[2]), np.int64)
    return engine.play(Block(rows, nothing), [0])


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
