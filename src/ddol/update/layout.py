"""What an agent keeps for each output: rows and scalars, what they hold, and how they are averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

LINEAR, LOG, LARGEST, LOCAL = range(4)
"""How neighbours' numbers are averaged: Σ A v, log Σ A exp v, the largest, or not sent at all."""
NUMBER, UNBOUNDED, INTEGER, INDEX, COUNT = "number", "unbounded", "integer", "index", "count"
"""What a field holds; see `Field`."""


class Field(NamedTuple):
    """A row of D numbers, or a scalar, that an agent keeps for each output.

    What it holds is checked wherever a state or a message comes from a file or another process: loops may
    use a number as an index or a count only if it is declared as one here.

    Examples
    --------
    >>> Field("largest", LARGEST, start=-1.0).start
    -1.0
    >>> Field("last column", LOCAL, holds=INDEX).holds
    'index'
    """

    name: str
    average: int = LINEAR
    """LINEAR, LOG, LARGEST, or LOCAL: not sent."""
    start: float = 0.0
    holds: str = NUMBER
    """NUMBER (finite), UNBOUNDED (may be infinite), INTEGER, INDEX (of a feature: an integer from 0 to D − 1)
    or COUNT (of features: an integer from 0 to D). None of them is ever NaN."""
    least: float = -math.inf
    most: float = math.inf


class FeatureList(NamedTuple):
    """A row whose first entries are different features, and the scalar that says how many.

    Parameters
    ----------
    row, length : str
        Names of the row and of the scalar.
    nonzero : str, optional
        Name of a row that is other than 0 for exactly the features of the list.
    stale : str, optional
        Name of a scalar; where it is not 0, the list waits to be made anew and `nonzero` need not hold.

    Examples
    --------
    >>> layout = Layout(
    ...     rows=("w", Field("used", LOCAL)),
    ...     scalars=("seen", Field("n_used", LOCAL)),
    ...     lists=(FeatureList("used", "n_used", nonzero="w"),),
    ... )
    >>> layout.lists[0].length
    'n_used'
    """

    row: str
    length: str
    nonzero: str | None = None
    stale: str | None = None


class Boxes(NamedTuple):
    """Where an agent keeps what its neighbours sent last, to test it on examples of its own.

    Parameters
    ----------
    wires : int
        Neighbours at most, the agent itself among them.
    row, rows : int
        The first row of the first message, and rows of one message.
    scalar, scalars : int
        The first scalar: whether messages are wanted. Behind the next one those of every wire: how many
        tests, by how much its message lost more than the agent's own learner, whether there is one, and
        its scalars.
    """

    wires: int = 0
    row: int = 0
    rows: int = 0
    scalar: int = 0
    scalars: int = 0


@dataclass(frozen=True)
class Layout:
    """What an agent keeps for each output, and what of it neighbours average.

    Parameters
    ----------
    rows, scalars : Fields, or names of fields that are averaged linearly and start at 0
        Scalars that are averaged come first, linear ones before the largest.
    message : how each row of a message is averaged, where the loops have messages of their own
        Or a Field, which says as well what the row holds.
    collected : int, optional
        Rows of sums that `absorb` collects; as many as there are rows, if not said.
    maxima : int
        Rows of maxima that `absorb` collects.
    whole : bool
        A message needs all features at once.
    statistics : (rows, scalars)
        The first rows of a message, and scalars, that count examples: they change slowly, and
        may be sent apart from the others, as the loops of their own write them.
    sampled : bool
        Statistics are taken of sampled rounds alone, and averaged in them: see `ddol.update.sampling`.
    lists : tuple of FeatureList
        Rows that are lists of features.
    kept : int
        Scalars that `score` notes, which a step finds again as they were when its answer's example was
        predicted: so many, in front of the last scalar, in which a step finds the answer itself. Its slope
        is then what the answer counts: `C` times its importance.
    boxes : Boxes
        Where messages are kept that are tested before they count.

    Examples
    --------
    >>> layout = Layout(rows=("w", Field("noise", LOCAL)), scalars=("seen",))
    >>> layout.sent, layout.modes == (LINEAR, LINEAR)
    ((0,), True)
    """

    rows: tuple[Field | str, ...]
    scalars: tuple[Field | str, ...] = ()
    message: tuple[int | Field, ...] | None = None
    collected: int | None = None
    maxima: int = 0
    whole: bool = False
    statistics: tuple[int, int] = (0, 0)
    sampled: bool = False
    lists: tuple[FeatureList, ...] = ()
    kept: int = 0
    boxes: Boxes = field(default_factory=Boxes)

    def __post_init__(self) -> None:
        for name in ("rows", "scalars"):
            whole = tuple(Field(f) if isinstance(f, str) else f for f in getattr(self, name))
            object.__setattr__(self, name, whole)
        found = [field.average for field in self.scalar_fields]
        if LOG in found or found != sorted(found):
            raise ValueError(
                "scalars of a layout must come in the order linear, largest, local; found "
                f"{', '.join(field.name for field in self.scalar_fields)}"
            )

        known = {
            name: {field.name for field in getattr(self, name)} for name in ("rows", "scalars")
        }
        for listed in self.lists:
            rows = {listed.row, listed.nonzero or listed.row} - known["rows"]
            missing = rows | ({listed.length, listed.stale or listed.length} - known["scalars"])
            if missing:
                raise ValueError(
                    f"a list of a layout names {min(missing)!r}, which is no field of it"
                )

    @property
    def row_fields(self) -> tuple[Field, ...]:
        """What each row holds."""
        return self.rows  # type: ignore[return-value]  # __post_init__ made them

    @property
    def scalar_fields(self) -> tuple[Field, ...]:
        """What each scalar holds."""
        return self.scalars  # type: ignore[return-value]

    @cached_property
    def sent(self) -> tuple[int, ...]:
        """The rows that are sent, where the layout says it all."""
        return tuple(k for k, field in enumerate(self.row_fields) if field.average != LOCAL)

    @cached_property
    def message_rows(self) -> tuple[int, ...]:
        """How each row of D numbers of a message is averaged."""
        return tuple(field.average for field in self.message_fields)

    @cached_property
    def message_fields(self) -> tuple[Field, ...]:
        """What each row of D numbers of a message holds."""
        if self.message is None:
            return tuple(self.row_fields[k] for k in self.sent)
        return tuple(
            each if isinstance(each, Field) else Field(f"message {k}", each)
            for k, each in enumerate(self.message)
        )

    @cached_property
    def linear_scalars(self) -> int:
        """The first so many scalars are sums over agents: collected, and averaged, with the rows."""
        return sum(field.average == LINEAR for field in self.scalar_fields)

    @cached_property
    def largest_scalars(self) -> int:
        """The next so many scalars are maxima over agents."""
        return sum(field.average == LARGEST for field in self.scalar_fields)

    @cached_property
    def modes(self) -> tuple[int, ...]:
        """How everything that neighbours average is averaged: rows, then scalars."""
        scalars = (LINEAR,) * self.linear_scalars + (LARGEST,) * self.largest_scalars
        return self.message_rows + scalars

    @property
    def sums(self) -> int:
        """Rows of D numbers that are collected as sums over agents."""
        return len(self.rows) if self.collected is None else self.collected

    def start(self, n_features: int) -> Vector:
        """Every number at its start."""
        rows = np.array([[field.start] for field in self.row_fields])
        scalars = np.array([field.start for field in self.scalar_fields], float)
        return Vector(np.repeat(rows, n_features, axis=1), scalars)


class Vector(NamedTuple):
    """State of one output of one agent: rows (rows, D) and scalars."""

    rows: np.ndarray
    scalars: np.ndarray

    def copy(self) -> Vector:
        """The same in memory of its own."""
        return Vector(self.rows.copy(), self.scalars.copy())
