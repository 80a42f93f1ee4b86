"""The plan of a run: a table of rounds, or a list of events. Nothing else asks which of the two.

Messages, events and a certificate of rounds follow from the tables that were dealt, so `RoundTable` keeps
them for every engine. What happens in a list of events is only known to the engine that plays it, so
`EventList` asks that engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing, Mixing
from ddol.engines.errors import SetupError
from ddol.engines.feed import Feed
from ddol.engines.kinds import engine_named, imported, require
from ddol.engines.local import Local
from ddol.engines.registry import Engine, MessageCounts, Turns
from ddol.engines.setup import Setup
from ddol.engines.state import State, numbers_seldom_sent, numbers_sent
from ddol.engines.workers.partition import Snapshots
from ddol.recording import Moment
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, no_rows
from ddol.update.contract import ARRIVAL, KEPT
from ddol.update.sampling import count_sampled, samples

if TYPE_CHECKING:
    from ddol.engines.events.round_record import RoundLog, RoundShadow
    from ddol.schedules.events import Events


class RunPlan(ABC):
    """The plan of a run, which an engine plays.

    Parameters
    ----------
    algorithm : Algorithm
        On its network, as it is played.
    setup : Setup
    """

    separate = False
    """Whether every agent has a copy of the weights of its own."""

    sized = False
    """Whether the number of features must be known before the first message."""

    ends = False
    """Whether something is left to happen when the streams are over."""

    scored = False
    """Whether the scores of all examples are needed."""

    remembers = False
    """Whether checkpoints hold more of this plan than the state."""

    def __init__(self, algorithm: Algorithm, setup: Setup) -> None:
        self.algorithm, self.setup = algorithm, setup

    # Opening, playing and ending.

    def open(self, state: State | None, feed: Feed) -> Engine:
        """Open the engine at a state. Errors concern what was asked for.

        Parameters
        ----------
        state : State or None
            None where the engine finds out the number of features by itself.
        feed : Feed
            What is going to be read.
        """
        algorithm = self.algorithm
        if algorithm.asking is not None and algorithm.asking.neighbours:
            require(self.setup.engine, "asks", "`query` of neighbours")
        try:
            self._check_engine()
            kind = imported(engine_named(self.setup.engine).engine)
            engine: Engine = kind.open(algorithm, state, self.setup)
        except DataError:
            raise
        except ValueError as error:
            raise SetupError(str(error)) from error
        self.begin(engine, feed)
        return engine

    @abstractmethod
    def _check_engine(self) -> None:
        """Refuse an engine that cannot play this plan."""

    @abstractmethod
    def begin(self, engine: Any, feed: Feed) -> None:
        """Prepare to read streams."""

    @abstractmethod
    def play(
        self, engine: Any, piece: Block, before: int, after: Sequence[int], meets: bool
    ) -> Snapshots:
        """Let an engine play a piece of a block.

        Parameters
        ----------
        engine : Engine
        piece : Block
        before : int
            Rounds of the run before it.
        after : rising numbers from 0 to the piece's rounds
            A snapshot is taken when so many rounds are played.
        meets : bool
            Whether all processes that play the run end a piece here; always so where there is only one.
        """

    @abstractmethod
    def end(self, engine: Any) -> Snapshots | None:
        """Play what is left to happen when the streams are over; None where nothing is."""

    @abstractmethod
    def delivered(self, engine: Engine) -> Engine:
        """The engine, or a copy in which late labels have arrived, in rounds without predictions."""

    @abstractmethod
    def fill(self, examples: np.ndarray, passes: int) -> None:
        """All rounds are over, of which no process has seen all."""

    def grow(self, outputs: int) -> None:
        """Play on with more outputs."""
        self.algorithm = replace(self.algorithm, outputs=outputs)

    # What is known.

    @abstractmethod
    def sent(self, engine: Any, rounds: int) -> MessageCounts:
        """Messages sent in the rounds so far."""

    @abstractmethod
    def moments(self, engine: Any) -> tuple[Moment, ...]:
        """The run by its time, where a certificate is kept."""

    def events(self, engine: Any, feed: Feed) -> Events | None:
        """The recorded events; None where they are not recorded."""
        found = self._recorded(engine, feed)
        gradient = ARRIVAL if self.algorithm.at_arrival else KEPT
        return None if found is None else replace(found, gradient=gradient)

    @abstractmethod
    def _recorded(self, engine: Any, feed: Feed) -> Events | None:
        """The recorded events; None where they are not recorded."""

    # Checkpoints.

    @abstractmethod
    def state_dict(self, engine: Any) -> dict[str, np.ndarray]:
        """The plan's part of the state, for checkpoints."""

    @abstractmethod
    def load_state_dict(self, engine: Any, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what `state_dict` returned."""


class RoundTable(RunPlan):
    """Rounds: blocks bring tables that say which agent sees which example in which round."""

    def __init__(self, algorithm: Algorithm, setup: Setup) -> None:
        super().__init__(algorithm, setup)
        self.traffic = Traffic(algorithm.mixing, algorithm.period)
        self._changing = isinstance(algorithm.mixing, Changing)
        self._log = _log_of(algorithm) if setup.schedule.record else None
        self._shadow = _shadow_of(algorithm) if setup.schedule.certificate else None
        self.scored = self.remembers = self._shadow is not None
        self._message: tuple[tuple[int, int], int, int] = ((0, 0), 0, 0)

    def _check_engine(self) -> None:
        if self.setup.schedule.certificate:
            require(self.setup.engine, "certificate", "a certificate of rounds")

    def begin(self, engine: Any, feed: Feed) -> None:
        """Nothing to prepare."""

    def play(
        self, engine: Any, piece: Block, before: int, after: Sequence[int], meets: bool
    ) -> Snapshots:
        """Play the rounds, count their messages, and record them if asked for."""
        loss = None if self._shadow is None else engine.counters().loss.copy()
        # Only the engine of a group of processes has rounds at whose end not all of them meet.
        seen: Snapshots
        seen = engine.play(piece, after) if meets else engine.play(piece, after, meets=False)
        if self._shadow is not None and loss is not None:
            self._shadow.follow(piece, before, loss, seen, engine.counters())
        if self._changing:
            self.traffic.messages(before + piece.n_rounds)  # while the matrices are at hand
        if self._log is not None:
            self._log.add(piece)
        return seen

    def end(self, engine: Any) -> Snapshots | None:
        """Nothing is left to happen."""
        return None

    def delivered(self, engine: Engine) -> Engine:
        """The engine, or a copy in which late labels have arrived, in rounds without predictions."""
        late = engine.counters().pending
        if late is None:
            return engine
        ended = Local(self.algorithm, engine.state())
        ended.play(Block(late.rows.slice(0, 0), np.full_like(late.table, -1)))
        return ended

    def fill(self, examples: np.ndarray, passes: int) -> None:
        """Complete the record by the rounds of other processes."""
        if self._log is not None:
            self._log.fill(examples, passes)

    def sent(self, engine: Any, rounds: int) -> MessageCounts:
        """Messages sent in the rounds so far, and questions to neighbours."""
        state = engine.counters()
        questions, shown = state.questions
        messages = self.traffic.messages(rounds)
        numbers, seldom = self._in_message(state.n_features)
        sent = messages * numbers
        if seldom and messages:  # counting sampled rounds takes as long as a few of them
            sent -= (messages - self.traffic.with_statistics(rounds)) * seldom
        return MessageCounts(messages + questions, 8 * sent + shown)

    def _in_message(self, n_features: int) -> tuple[int, int]:
        """Numbers of a message, and those of them that are seldom sent; asked for after every piece."""
        size = self.algorithm.outputs, n_features
        if self._message[0] != size:
            numbers = numbers_sent(self.algorithm, n_features)
            self._message = size, numbers, numbers_seldom_sent(self.algorithm, n_features)
        return self._message[1:]

    def moments(self, engine: Any) -> tuple[Moment, ...]:
        """The run by its rounds, where a certificate is kept."""
        found = () if self._shadow is None else self._shadow.moments()
        # The shadow has not seen an open round, which is played on a copy.
        whole = not found or found[-1].examples == engine.counters().examples.sum()
        return found if whole else ()

    def _recorded(self, engine: Any, feed: Feed) -> Events | None:
        return None if self._log is None else self._log.events(feed.passes, feed.n_streams)

    def state_dict(self, engine: Any) -> dict[str, np.ndarray]:
        """The shadow of the certificate, where there is one."""
        return {} if self._shadow is None else self._shadow.state_dict()

    def load_state_dict(self, engine: Any, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what `state_dict` returned."""
        if self._shadow is not None:
            self._shadow.load_state_dict(kept, engine.counters().n_features, where)


class EventList(RunPlan):
    """Events: a virtual clock, real time, a recording or a list of one's own says what happens.

    Parameters
    ----------
    algorithm : Algorithm
    setup : Setup
    ends : bool
        Whether something is left to happen when the streams are over.
    """

    separate = remembers = True

    def __init__(self, algorithm: Algorithm, setup: Setup, ends: bool = True) -> None:
        super().__init__(algorithm, setup)
        self.sized, self.ends = setup.can.real_time, ends

    def _check_engine(self) -> None:
        require(self.setup.engine, "schedules", self.setup.schedule.described)

    @staticmethod
    def _turns(engine: Any) -> Turns:
        """What plays the list: only engines that have it are opened for one."""
        turns: Turns = engine.turns
        return turns

    def begin(self, engine: Any, feed: Feed) -> None:
        """Say how often the streams are read, and how many there are."""
        self._turns(engine).begin(feed.passes, feed.n_streams)

    def play(
        self, engine: Any, piece: Block, before: int, after: Sequence[int], meets: bool
    ) -> Snapshots:
        """Play what follows from the examples of the piece."""
        seen: Snapshots = engine.play(piece, after)
        return seen

    def end(self, engine: Any) -> Snapshots | None:
        """Play what is left to happen; the last snapshot is of the end."""
        return self._turns(engine).end()

    def delivered(self, engine: Engine) -> Engine:
        """The engine: late labels are events, which it has played."""
        return engine

    def fill(self, examples: np.ndarray, passes: int) -> None:
        """Nothing: the engine records."""

    def sent(self, engine: Any, rounds: int) -> MessageCounts:
        """Messages sent so far, and questions to neighbours."""
        questions, shown = engine.counters().questions
        sent = self._turns(engine).sent()
        return sent._replace(messages=sent.messages + questions, bytes=sent.bytes + shown)

    def moments(self, engine: Any) -> tuple[Moment, ...]:
        """The run by its time; the last is now."""
        return self._turns(engine).moments()

    def _recorded(self, engine: Any, feed: Feed) -> Events | None:
        return self._turns(engine).events()

    def state_dict(self, engine: Any) -> dict[str, np.ndarray]:
        """Messages and labels under way, where the engine can tell."""
        return self._turns(engine).state_dict()

    def load_state_dict(self, engine: Any, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what `state_dict` returned."""
        self._turns(engine).load_state_dict(kept, where)


def plan_of(algorithm: Algorithm, setup: Setup) -> RunPlan:
    """The plan that an algorithm and a setup ask for."""
    schedule = setup.schedule
    if schedule.replay is not None and schedule.replay.gradient:
        algorithm = _as_recorded(algorithm, schedule.replay.gradient)
    if algorithm.chooses_messages:
        require(setup.engine, "talks", "a rule of `talk`, `compress`, `talk_to` or `teach`")
    if schedule.needs_events(algorithm):
        return EventList(algorithm, setup)
    if schedule.record and setup.can.parallel:
        algorithm = _repeatable(algorithm)
    return RoundTable(algorithm, setup)


def _as_recorded(algorithm: Algorithm, gradient: str) -> Algorithm:
    """The algorithm with gradients where a recording took them."""
    taken = ARRIVAL if algorithm.at_arrival else KEPT
    if algorithm.gradient is not None and taken != gradient:
        raise ValueError(
            f"the recording took gradients {gradient!r}, `gradient` is {algorithm.gradient!r}; "
            "leave it out"
        )
    return replace(algorithm, gradient=gradient)


def _repeatable(algorithm: Algorithm) -> Algorithm:
    """The algorithm such that rounds recorded on any number of workers repeat to the bit.

    Where all agents share one copy of the weights every worker adds up what its own agents say first, and
    another number of workers rounds differently; so each agent has a copy of its own.
    """
    mixing = algorithm.mixing
    if algorithm.n_agents == 1 or isinstance(mixing, Changing) or not mixing.is_uniform_complete:
        return algorithm
    return replace(algorithm, mixing=mixing.written_out())


def seen_now(engine: Engine) -> Snapshots:
    """A snapshot of an engine between two blocks."""
    counters = engine.counters()
    late = counters.pending
    rows = no_rows() if late is None else late.rows.slice(0, 0)
    nothing = np.empty((0, len(counters.mistakes), counters.slopes.shape[2]), np.int64)
    return engine.play(Block(rows, nothing), [0])


def _log_of(algorithm: Algorithm) -> RoundLog:
    """The events that rounds are; few runs are recorded."""
    from ddol.engines.events.round_record import RoundLog

    return RoundLog(algorithm)


def _shadow_of(algorithm: Algorithm) -> RoundShadow | None:
    """The shadow of a run in rounds, where there is a certificate; few runs ask for it."""
    from ddol.engines.events.round_record import RoundShadow
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
        """Go on counting; called after every piece of a run."""
        if rounds < self._counted:  # the run went back to an earlier moment
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
