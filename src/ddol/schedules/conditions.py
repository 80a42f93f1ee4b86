"""Conditions of a simulation: speeds, latencies, delays, lost messages, absences, partitions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ddol.schedules.liars import liars_of
from ddol.streams.errors import DataError

if TYPE_CHECKING:
    from ddol.schedules.wiring import Wiring

CONSTANT, UNIFORM, EXPONENTIAL, GEOMETRIC = range(4)
_NAMED = {"exponential": EXPONENTIAL, "geometric": GEOMETRIC}
_GRAMMAR = "a number, a..b, exponential:m or geometric:m"


class Draw(NamedTuple):
    """A number, or how it is drawn: ``low`` and ``high`` of a range, or a mean in ``low``."""

    kind: int
    low: float
    high: float = 0.0

    @classmethod
    def of(cls, value: Any, name: str) -> Draw:
        """Read a number, ``a..b``, ``exponential:m`` or ``geometric:m``; never negative or infinite.

        Examples
        --------
        >>> Draw.of("2..5", "latency")
        Draw(kind=1, low=2.0, high=5.0)
        """
        if isinstance(value, Draw):
            return value
        try:
            return cls._parsed(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"`{name}` must be {_GRAMMAR}, finite and not negative, found {value!r}"
            ) from None

    @classmethod
    def _parsed(cls, value: Any) -> Draw:
        text = str(value).strip()
        word, colon, rest = text.partition(":")
        if colon:
            return cls(_NAMED[word] if word in _NAMED else _wrong(), _not_negative(rest))
        low, dots, high = text.partition("..")
        if not dots:
            return cls(CONSTANT, _not_negative(value))
        found = cls(UNIFORM, _not_negative(low), _not_negative(high))
        return found if found.low <= found.high else _wrong()

    @property
    def is_zero(self) -> bool:
        """Whether it is always 0."""
        return self.low == 0.0 and (self.kind != UNIFORM or self.high == 0.0)

    @property
    def mean(self) -> float:
        """Its mean."""
        return (self.low + self.high) / 2 if self.kind == UNIFORM else self.low

    def take(self, u: np.ndarray, whole: bool = False) -> np.ndarray:
        """Numbers from uniform ones in [0, 1); ``whole`` ones where delays count turns.

        The compiled clock says the same; see `ddol.schedules.clock_kernel`.
        """
        if self.kind == UNIFORM:
            if whole:
                return np.floor(self.low + (self.high + 1.0 - self.low) * u)
            return self.low + (self.high - self.low) * u
        if self.kind == CONSTANT or self.low == 0.0:
            return np.full_like(u, self.low)
        if self.kind == GEOMETRIC:
            return np.floor(np.log1p(-u) / np.log(self.low / (1.0 + self.low)))
        drawn = -self.low * np.log1p(-u)
        return np.floor(drawn + 0.5) if whole else drawn


def _wrong() -> Any:
    raise ValueError


def _not_negative(value: Any) -> float:
    number = float(value)
    return number if 0.0 <= number < math.inf else _wrong()


class Cut(NamedTuple):
    """A time in which messages do not pass between groups of agents."""

    start: float
    end: float
    groups: Sequence[Sequence[int]]
    """Agents that are in none of them are in one more group."""


@dataclass(frozen=True)
class Conditions:
    """Speeds, latencies, losses, delays and absences; times count the mean time between two examples.

    Parameters
    ----------
    speed : number, draw, or one number for each agent
        Examples in a unit of time. A draw is made once for each agent.
    latency : number, draw, or array (N, N)
        Time from a send to its arrival, drawn for every message; ``latency[i, j]`` from i to j.
    drop_messages : number or array (N, N)
        Chance that a message is lost. `drop` is its old name.
    delay : number, draw, one whole number for each row of the data, or a function
        How many more predictions the agent makes before the label of one of them arrives. A function
        ``delay(first, count)`` gives those of the rows first, …, in the order in which they are read, once.
    churn : (up, down) or "up:down", optional
        Mean times, drawn from exponential distributions, for which an agent is there, and away.
    partitions : sequence of `Cut` or (start, end, groups)
    liars : dict of agents and lies, or text such as "0,5:flip"
        What some agents send, or learn from, is not true; see `ddol.schedules.liars.liars_of`.

    Examples
    --------
    >>> Conditions(latency="0..10", drop_messages=0.1, churn=(90, 10)).is_calm
    False
    """

    speed: Any = 1.0
    latency: Any = 0.0
    drop_messages: Any = 0.0
    delay: Any = 0
    churn: Any = None
    partitions: Sequence[Any] = ()
    liars: Any = None
    drop: InitVar[Any] = None

    def __post_init__(self, drop: Any) -> None:
        if drop is not None:
            warnings.warn(
                "`drop` of conditions is `drop_messages` now; the old name goes with the next version",
                DeprecationWarning,
                stacklevel=3,
            )
            object.__setattr__(self, "drop_messages", drop)
        object.__setattr__(self, "speed", _each_or_draw(self.speed, "speed"))
        object.__setattr__(self, "latency", _links_or(self.latency, "latency", Draw.of))
        links = _links_or(self.drop_messages, "drop_messages", _chance)
        object.__setattr__(self, "drop_messages", links)
        object.__setattr__(self, "delay", _delay(self.delay))
        object.__setattr__(self, "churn", _churn(self.churn))
        object.__setattr__(self, "liars", liars_of(self.liars))
        object.__setattr__(self, "partitions", tuple(_partition(p) for p in self.partitions))

    @property
    def is_calm(self) -> bool:
        """Whether these are undisturbed rounds: all agents present, no message late or lost."""
        even = isinstance(self.speed, Draw) and self.speed.kind == CONSTANT
        return self.is_still and even and not self.loses and self.is_prompt and not self.liars

    @property
    def is_still(self) -> bool:
        """Whether every message arrives at once."""
        return isinstance(self.latency, Draw) and self.latency.is_zero

    @property
    def loses(self) -> bool:
        """Whether messages may not arrive."""
        kept = not isinstance(self.drop_messages, np.ndarray) and self.drop_messages == 0.0
        return not kept or self.churn is not None or bool(self.partitions)

    @property
    def is_prompt(self) -> bool:
        """Whether every label comes at once."""
        return isinstance(self.delay, Draw) and self.delay.is_zero

    def speeds(self, n_agents: int, rng: np.random.Generator) -> np.ndarray:
        """Examples in a unit of time, of each agent."""
        if isinstance(self.speed, Draw):
            found = self.speed.take(rng.random(n_agents))
            # A drawn speed of 0 would stop the run for ever: the slowest is a thousandth of the mean.
            return np.maximum(found, 1e-3 * self.speed.mean)
        return _sized(np.asarray(self.speed, float), (n_agents,), "speed")

    def on_wires(self, name: str, wires: Wiring) -> np.ndarray:
        """``latency`` or ``drop_messages`` where they are given for each link; empty where they are not."""
        links = getattr(self, name)
        if not isinstance(links, np.ndarray):
            return np.empty(0)
        _sized(links, (wires.n_agents, wires.n_agents), name)
        return links[wires.sender, wires.listener]

    def groups(self, n_agents: int) -> tuple[np.ndarray, np.ndarray]:
        """Times (P, 2) of the partitions, and the group (P, N) of every agent in them."""
        times = np.array([(p.start, p.end) for p in self.partitions]).reshape(-1, 2)
        group = np.zeros((len(times), n_agents), np.int64)
        for k, cut in enumerate(self.partitions):
            for g, agents in enumerate(cut.groups, start=1):
                for agent in agents:
                    if not 0 <= agent < n_agents:
                        raise DataError(
                            f"`partitions` names agent {agent}, expected 0 to {n_agents - 1}"
                        )
                    group[k, agent] = g
        return times, group


def _each_or_draw(value: Any, name: str) -> Any:
    """Speeds: positive, and one for each agent where they are several."""
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if isinstance(value, str | Draw) or np.ndim(value) == 0:
        drawn = Draw.of(value, name)
        if drawn.mean <= 0.0 or (drawn.kind == UNIFORM and drawn.low <= 0.0):
            raise ValueError(f"`{name}` must be positive, found {value!r}")
        return drawn
    try:
        each = np.array([float(one) for one in value])
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be {_GRAMMAR}, or such numbers, found {value!r}") from None
    if not (np.isfinite(each) & (each > 0)).all():
        raise ValueError(f"`{name}` must be positive and finite for every agent, found {value!r}")
    return tuple(each.tolist())


def _links_or(value: Any, name: str, single: Any) -> Any:
    """A matrix of links, or what `single` makes of the value."""
    if isinstance(value, str | Draw) or np.ndim(value) == 0:
        return single(value, name)
    links = np.array(value, float)
    good = (
        np.isfinite(links)
        & (links >= 0)
        & (links <= (1.0 if name == "drop_messages" else math.inf))
    )
    if links.ndim != 2 or not good.all():
        most = "at most 1" if name == "drop_messages" else "finite"
        raise ValueError(f"`{name}` by link must be a matrix of numbers, not negative and {most}")
    return links


def _chance(value: Any, name: str) -> float:
    try:
        chance = float(value)
    except (TypeError, ValueError):
        chance = math.nan
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"`{name}` must be a chance between 0 and 1, found {value!r}")
    return chance


def whole_delays(values: Any) -> np.ndarray:
    """Delays of rows: whole numbers of predictions, not negative."""
    each = np.asarray(values)
    if each.ndim != 1 or not np.issubdtype(each.dtype, np.number) or not np.isfinite(each).all():
        raise ValueError("`delay` by row must be one finite number for each row of the data")
    if (each < 0).any() or (each % 1).any():
        raise ValueError("`delay` by row must be whole numbers of predictions, not negative")
    return each.astype(np.int64)


def _delay(value: Any) -> Any:
    if callable(value):
        return value
    if isinstance(value, str | Draw) or np.ndim(value) == 0:
        drawn = Draw.of(value, "delay")
        if drawn.kind in (CONSTANT, UNIFORM) and (drawn.low % 1 or drawn.high % 1):
            raise ValueError(f"`delay` counts predictions, found {value!r}, expected whole numbers")
        return drawn
    return whole_delays(value)


def _churn(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    pair = value.split(":") if isinstance(value, str) else value
    try:
        up, down = (_not_negative(one) for one in pair)
        good = up > 0
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"`churn` must be UP:DOWN, the mean times for which agents are there and away, found {value!r}"
        )
    return (up, down) if down > 0 else None


def _partition(value: Any) -> Cut:
    try:
        found = Cut(*value)
        start, end = _not_negative(found.start), float(found.end)
        if not start <= end:
            _wrong()
        groups = tuple(tuple(int(agent) for agent in group) for group in found.groups)
    except (TypeError, ValueError):
        raise ValueError(
            f"`partitions` must be (start, end, groups of agents) with start ≤ end, found {value!r}"
        ) from None
    return Cut(start, end, groups)


def _sized(array: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    if array.shape != shape:
        found = " × ".join(map(str, array.shape))
        raise DataError(f"`{name}` is given for {found} agents, the network has {shape[0]}")
    return array


CALM = Conditions()
"""No disturbance: all agents present, messages immediate."""
