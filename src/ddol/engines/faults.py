"""Diagnose results that are not finite: bad input, or an algorithm that diverged, and at which agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import State
from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.rows import LARGEST, Block
from ddol.streams.stream import Stream

_PIECE = 1 << 17


@dataclass(frozen=True)
class LargestValue:
    """The largest value that agents learned from in the rounds in which a loss was first not finite.

    Parameters
    ----------
    first, last
        Rounds, counted from 1.
    agent
        Whose example has it.
    value
    feature
        Number of its column, from 1; None for a label.

    Examples
    --------
    >>> from ddol.streams.rows import Rows
    >>> rows = Rows.from_dense([[1.0, 2.0], [3.0, -1e200]], [1.0, -1.0])
    >>> LargestValue.of(Block(rows, np.array([[[0], [1]]])), before=7)
    LargestValue(first=8, last=8, agent=1, value=-1e+200, feature=2)
    """

    first: int
    last: int
    agent: int
    value: float
    feature: int | None

    @classmethod
    def of(cls, piece: Block, before: int) -> LargestValue | None:
        """Look through the rows of a piece of a run, after so many rounds."""
        agents, places = _learned_from(piece)
        if not len(places):
            return None
        rows = piece.rows.take(places)
        found: tuple[int, float, int | None]
        at = int(np.abs(rows.y).argmax())
        found = at, float(rows.y[at]), None
        if rows.data.size:
            place = int(np.abs(rows.data).argmax())
            if abs(rows.data[place]) >= abs(found[1]):
                row, column = rows.cell_at(place)
                found = row, float(rows.data[place]), column + 1
        return cls(before + 1, before + piece.n_rounds, int(agents[found[0]]), *found[1:])

    def sentence(self, streams: Sequence[Stream], n_agents: int) -> str:
        """Where it happened, in words."""
        site = f"agent {self.agent}"
        if len(streams) == n_agents > 1:
            site += f" ({streams[self.agent].describe()})"
        what = "label" if self.feature is None else f"feature {self.feature}"
        rounds = (
            f"round {self.last}" if self.first == self.last else f"rounds {self.first}-{self.last}"
        )
        return f"in {rounds}, where the largest value is {self.value:.3g}: {what} of {site}"


def _learned_from(piece: Block) -> tuple[np.ndarray, np.ndarray]:
    """Agents and rows of all examples of a piece."""
    _, agents, _ = np.nonzero(piece.table >= 0)
    return agents, piece.table[piece.table >= 0]


def check_numbers(
    algorithm: Algorithm,
    state: State,
    weights: np.ndarray,
    streams: Sequence[Stream],
    largest: LargestValue | None = None,
    liars: Collection[int] = (),
) -> None:
    """Refuse a result that is not finite; streams in memory, not checked before, are checked first."""
    if np.isfinite(weights).all() and np.isfinite(state.loss).all():
        _check_squares(algorithm, state)
        return
    if algorithm.update.experts:
        check_advice(algorithm, streams)
    for stream in streams:
        if isinstance(stream, RowsStream):
            stream.rows.check_finite(stream.describe())
    if liars:
        who = f"agent{'s' * (len(liars) > 1)} {', '.join(map(str, sorted(liars)))}"
        raise FloatingPointError(
            f"the weights of {algorithm.name} left the range of numbers, as {who} lied and the others "
            "averaged what they heard; use --safe (ddol.safe), which tests it"
        )
    where = "" if largest is None else largest.sentence(streams, algorithm.n_agents)
    raise FloatingPointError(out_of_range(algorithm, where))


def _check_squares(algorithm: Algorithm, state: State) -> None:
    """Refuse features so large that their squares are infinite: learners leave such features out."""
    layout = algorithm.update.layout(algorithm.average, 1)
    names = [str(getattr(row, "name", row)) for row in layout.rows]
    rows = [k for k, name in enumerate(names) if name.endswith("squares")]
    beyond = np.isinf(state.theta[:, :, rows, :]) if rows else np.empty((0, 0, 0, 0), bool)
    if beyond.any():
        agent, *_, place = map(int, np.argwhere(beyond)[0])
        why = f"values above {LARGEST:.0g} in size have no squares: feature {place + 1} of agent {agent}"
        raise FloatingPointError(out_of_range(algorithm, f"as {why}"))


def out_of_range(algorithm: Algorithm, where: str = "") -> str:
    """The message about weights that are not finite, with what to change.

    Examples
    --------
    >>> from ddol.presets import adaptive
    >>> out_of_range(adaptive())
    'the weights of adaptive left the range of numbers; lower the rate or scale the features'
    """
    if algorithm.name == "adaptive":
        ways = "lower the rate or scale the features"
    else:
        ways = "lower the rate, scale the features, give a radius, or use the algorithm adaptive"
    where = f" {where}" if where else ""
    return f"the weights of {algorithm.name} left the range of numbers{where}; {ways}"


def check_advice(algorithm: Algorithm, streams: Sequence[Stream]) -> None:
    """Refuse advice that is no class; called when an expert's advice was found to be none.

    Examples
    --------
    >>> from ddol.presets import dwm_i
    >>> from ddol.streams.arrays import array_stream
    >>> check_advice(dwm_i(), [array_stream([[1.0, 0.5]], [1])])
    Traceback (most recent call last):
    ddol.streams.errors.DataError: X: found 0.5 in row 0, column 1, expected the advice of ...
    """
    known = _classes_of_advice(algorithm)
    for stream in streams:
        if isinstance(stream, RowsStream):
            at = _first_other(stream.rows.data, known)
            if at is not None:
                row, column = divmod(at, stream.rows.n_features)
                raise DataError(
                    f"{stream.describe()}: found {stream.rows.data[at]:g} in row {row}, column "
                    f"{column}, {_expected(algorithm)}"
                )
    raise DataError(f"found an expert without a label for an example, {_expected(algorithm)}")


def check_dense(algorithm: Algorithm, streams: list[Stream]) -> None:
    """Refuse sparse rows in the place of experts' advice; values are looked at while they are used."""
    for stream in streams:
        sparse = isinstance(stream, RowsStream) and not stream.rows.dense
        if algorithm.update.experts and sparse:
            raise DataError(f"{stream.describe()}: found sparse rows, {_expected(algorithm)}")


def _first_other(values: np.ndarray, allowed: Sequence[float]) -> int | None:
    """Place of the first value that is none of the allowed ones, looked for where a cache holds it."""
    for lo in range(0, len(values), _PIECE):
        known = np.isin(values[lo : lo + _PIECE], allowed)
        if not known.all():
            return lo + int(known.argmin())
    return None


def _expected(algorithm: Algorithm) -> str:
    known = ", ".join(f"{c:g}" for c in _classes_of_advice(algorithm)[:10])
    return f"expected the advice of experts, which is one of {known}; make it with ddol.streams.coding.stumps"


def _classes_of_advice(algorithm: Algorithm) -> list[float]:
    n_classes = getattr(algorithm.update, "n_classes", 2)
    return [-1.0, 1.0] if n_classes == 2 else [float(k) for k in range(n_classes)]
