"""Options of schedules, network conditions and recordings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ddol.engines.kinds import require
from ddol.parameters import CountFromZero, declared
from ddol.streams.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from ddol.algorithm import Algorithm
    from ddol.schedules.conditions import Conditions
    from ddol.schedules.schedule import Schedule
    from ddol.trace import Trace

    RowDelays: TypeAlias = Callable[[int, int], np.ndarray]
_COLUMN = "column:"


@dataclass(frozen=True)
class ScheduleOptions:
    """Options of schedules, network conditions and recordings.

    Parameters
    ----------
    schedule : str, or Schedule, or a schedule of one's own
    conditions : Conditions, optional
        In Python: speeds, latencies, losses, delays and absences by themselves.
    events : Events, optional
        In Python: a recording to be played again, by itself.
    keep_events : bool
        Whether the trace has what happened, event by event, also where no file does.
    """

    schedule: str | Any = declared(
        "rounds",
        "rounds; async: agents do not wait; gossip: two at a time; walk: one token; push-sum.",
        metavar="NAME",
        key="name",
    )
    delay: str | None = declared(
        None,
        "Delay of the labels, in predictions of the agent; column:NAME: taken from a column.",
        metavar="D",
        shown="0",
    )
    latency: str = declared(
        "0",
        "Latency of messages; or a file with a row of numbers for every sender.",
        metavar="D",
    )
    drop_messages: str = declared(
        "0", "Share of the messages that are lost; or a file as for --latency.", metavar="p"
    )
    speed: str = declared(
        "1",
        "Examples that an agent takes in a unit of time; or a number for each agent: 1,1,0.1.",
        metavar="D",
    )
    churn: str | None = declared(
        None, "Agents come and go: mean times that they are up and down.", metavar="UP:DOWN"
    )
    liars: str | None = declared(
        None,
        "Simulate agents that send wrong messages (flip, zero, noise, alie) or have wrong data "
        "(labels, units:1000).",
        metavar="0,5:flip",
    )
    staleness: CountFromZero | None = declared(
        None,
        "With --engine threads: exchanges that an agent may be ahead of a neighbour.",
        metavar="s",
    )
    certificate: bool = declared(False, "Compute the regret certificate also for rounds.")
    patient: bool = declared(False, "Keep a copy of the learner for each pending label.")
    record: str | None = declared(None, "Record the events of the run.", metavar="OUT.npz")
    replay: str | None = declared(None, "Replay a recording, over the same data.", metavar="IN.npz")
    conditions: Any = None
    events: Any = None
    keep_events: bool = False

    @property
    def whole_delay(self) -> int:
        """The delay where it is a number of rounds; 0 where it is drawn."""
        return int(self.delay) if self.delay is not None and self.delay.isdigit() else 0

    @property
    def delay_column(self) -> str | None:
        """Column of the data with the delay of each label."""
        given = self.delay or ""
        return given.removeprefix(_COLUMN) if given.startswith(_COLUMN) else None

    def to_conditions(self, delays: RowDelays | None = None) -> Conditions:
        """Speeds, latencies, losses, delays and absences.

        Parameters
        ----------
        delays : function of first row and count, optional
            Where the data say how late answers are.
        """
        from ddol.schedules.conditions import Conditions

        if self.conditions is not None:
            return self.conditions if delays is None else replace(self.conditions, delay=delays)
        if delays is None and self.delay_column is not None:
            delays = _unread
        return Conditions(
            speed=self.speed,
            latency=_by_link("--latency", self.latency),
            drop_messages=_named("--drop-messages", self.drop_messages),
            delay=delays or (0 if self.whole_delay or not self.delay else self.delay),
            churn=self.churn,
            liars=self.liars,
        )

    def to_schedule(self, delays: RowDelays | None = None) -> Schedule:
        """The schedule, with the recording to be replayed; see `to_conditions`."""
        from ddol.schedules.schedule import schedule_of

        replay = self.events
        if self.replay is not None:
            from ddol.schedules.recording import load_events

            try:
                replay = load_events(self.replay)
            except OSError as error:
                raise DataError(f"--replay {self.replay}: {error.strerror}") from None
        made = schedule_of(
            self.schedule,
            None if self._as_given and delays is None else self.to_conditions(delays),
            self.record is not None or self.keep_events,
            replay,
            self.certificate,
        )
        more: dict[str, Any] = {"staleness": self.staleness, "patient": self.patient or None}
        return replace(made, **{name: value for name, value in more.items() if value is not None})

    @property
    def _as_given(self) -> bool:
        """Whether the schedule is a whole one in Python, with conditions of its own."""
        return not isinstance(self.schedule, str) and self.conditions is None

    def check(self, checkpoint: str | None, algorithm: Algorithm, engine: str) -> None:
        """Refuse options that do not go together, before any work is done."""
        special = self.to_schedule().needs_events(algorithm)
        if algorithm.batch > 1 and (special or self.record is not None):
            raise DataError(
                "schedules and recordings are of one example a turn, "
                f"--batch is {algorithm.batch}; leave it out"
            )
        if special and checkpoint is not None and (self.replay is not None or self.patient):
            raise DataError(
                "--checkpoint does not go with --replay and --patient, which are played in one go from "
                "memory; leave it out"
            )
        if special and checkpoint is not None:
            require(engine, "clock", "--checkpoint of a schedule")
        if self.record is not None:
            from ddol.storage import check_writable

            check_writable(self.record)

    def check_recorded(self, mark: Callable[[], str], n_agents: int) -> None:
        """Refuse a recording of other data, or of other agents, before the data are read."""
        if self.replay is None:
            return
        from ddol.schedules.recording import recorded_data, recorded_liars

        recorded, agents = recorded_data(self.replay)
        if agents and agents != str(n_agents):
            raise DataError(
                f"--replay {self.replay}: the recording is of {agents} agents, found {n_agents}; "
                f"use --agents {agents}"
            )
        found = mark() if recorded else ""
        if found and found != recorded:
            raise DataError(
                f"--replay {self.replay}: the recording is of other data, or of another order of them; "
                "give the files, --shuffle and --seed of that run"
            )

        lies = recorded_liars(self.replay)
        if lies and lies != self._lies:
            raise DataError(
                f"--replay {self.replay}: agents lied in the recording ({lies}), found "
                f"{self._lies or 'none that do'}; use --liars '{lies}'"
            )

    @property
    def _lies(self) -> str:
        """Which agents lie and how, as ``--liars`` takes it."""
        given = getattr(self.schedule, "conditions", None)
        if not self._as_given:
            given = self.to_conditions()
        lies = {} if given is None else given.liars
        named = ((k, lie if isinstance(lie, str) else "function") for k, lie in lies.items())
        return ";".join(f"{agent}:{lie}" for agent, lie in sorted(named))

    def write_recording(self, trace: Trace, mark: Callable[[], str]) -> None:
        """Write the recording, if one is wanted, with a fingerprint of its data."""
        if self.record is not None and trace.events is not None:
            from ddol.schedules.recording import save_events

            told = f"{mark()} agents={trace.agents}" + f" liars={self._lies}" * bool(self._lies)
            save_events(self.record, trace.events, told)


def _unread(first: int, count: int) -> np.ndarray:
    """Delays of rows that are not read yet."""
    raise RuntimeError("delays by row are known when the data are read")


def _by_link(flag: str, text: str) -> Any:
    """The numbers of a file, a row for every sender and a column for every receiver; or the text."""
    path = Path(text)
    if not path.is_file():
        if path.suffix[1:].isalpha():
            raise DataError(f"{flag} {text}: No such file or directory")
        return text
    expected = "expected a row of finite numbers for every sender, none of them negative"
    try:
        lines = [line.replace(",", " ").split() for line in path.read_text().splitlines()]
        links = [[float(number) for number in line] for line in lines if line]
    except ValueError as error:
        raise DataError(f"{flag} {text}: {error}; {expected}") from None
    for k, row in enumerate(links, start=1):
        if len(row) != len(links[0]):
            raise DataError(
                f"{flag} {text}: row {k} has {len(row)} columns, row 1 {len(links[0])}; {expected}"
            )
        if not all(0.0 <= number < math.inf for number in row):
            raise DataError(f"{flag} {text}: row {k} is {' '.join(map(str, row))}; {expected}")
    if not links:
        raise DataError(f"{flag} {text}: found no numbers; {expected}")
    import numpy as np

    return np.array(links)


def _named(flag: str, text: str) -> Any:
    """A chance, or those of all links; a message about it should name the flag."""
    links = _by_link(flag, text)
    if not isinstance(links, str):
        return links
    try:
        chance = float(text)
    except ValueError:
        chance = -1.0
    if not 0.0 <= chance <= 1.0:
        raise DataError(f"{flag}: found {text!r}, expected a share between 0 and 1")
    return chance
