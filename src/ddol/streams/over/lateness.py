"""Late labels: a column of delays, or labels in a file of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.raw import Cells, Raw, Table, Text
from ddol.streams.stream import Position, Stream

DELAY = "turns until the answer"
"""Column that `AnsweredStream` adds."""
MOST_WAITING = 1 << 20
"""Answers that are read ahead of an example before it is taken to have none."""


class Delays:
    """Delays of examples that were read, each handed out once.

    Examples
    --------
    >>> delays = Delays()
    >>> delays.add(np.array([0.0, 2.0, 1.0]))
    >>> delays(0, 2), delays(2, 1)
    (array([0, 2]), array([1]))
    """

    def __init__(self) -> None:
        self._pieces: deque[np.ndarray] = deque()

    def add(self, turns: np.ndarray) -> None:
        """Keep the delays of the next examples."""
        self._pieces.append(turns.astype(np.int64))

    def __call__(self, first: int, count: int) -> np.ndarray:
        """Delays of the next `count` examples; `first` of them were asked for before."""
        found = [np.empty(0, np.int64)]
        while count:
            piece = self._pieces.popleft()
            found.append(piece[:count])
            if len(piece) > count:
                self._pieces.appendleft(piece[count:])
            count -= len(found[-1])
        return np.concatenate(found)


@dataclass
class Unmatched:
    """Examples without a label, and labels without an example."""

    examples: int = 0
    answers: int = 0


@dataclass(frozen=True)
class AnsweredStream(WrappedStream):
    """Examples whose labels are in another file, in any order, joined by an identifier.

    Both files are read side by side: line j of the answers arrives when example j has been predicted, or
    its own example if that is later. So the answer to example i is ``(max(i, j) - i) // agents`` turns of
    its agent late, which is added as the column `DELAY`. An example without an answer within `most`
    lines is left out and counted, and so is an answer without an example.

    Parameters
    ----------
    stream
        Tables of examples.
    answers
        Tables of answers: the identifier, and the label.
    key
        Column of identifiers in both.
    label
        The label's column; by default the only other one of the answers.
    agents
        Among whom the examples are dealt.
    most
        Answers that are read ahead of an example.

    Examples
    --------
    >>> class Source:
    ...     def __init__(self, **columns): self.table = Table(columns)
    ...     def describe(self): return "source"
    ...     def read(self, position=None, pass_number=0): yield self.table, 1
    >>> examples = Source(id=np.array([7.0, 8.0, 9.0]), x=np.array([0.1, 0.2, 0.3]))
    >>> answers = Source(id=np.array([9.0, 8.0, 5.0, 7.0]), y=np.array([1.0, 0.0, 0.0, 1.0]))
    >>> [(table, _)] = AnsweredStream(examples, answers, "id").read()
    >>> table.columns["y"], table.columns[DELAY]
    (array([1., 0., 1.]), array([3., 0., 0.]))
    """

    answers: Stream
    key: str
    label: str | None = None
    agents: int = 1
    most: int = MOST_WAITING
    unmatched: Unmatched = field(default_factory=Unmatched, compare=False)

    in_place = False

    @property
    def n_examples(self) -> None:
        """Unknown: it is not known beforehand which examples get a label."""

    @property
    def restartable(self) -> bool:
        """Whether both can be read again."""
        return self.stream.restartable and self.answers.restartable

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Raw, Position]]:
        """Yield tables of the examples that have a label, with the label and the delay."""
        if position is not None:
            raise DataError("a run with --answers cannot be resumed; start it anew")
        reader = _Answers(self, self.answers.read(None, pass_number))
        self.unmatched.examples = self.unmatched.answers = 0
        first = 0
        for table, after in self.stream.read(None, pass_number):
            keys = _cells(table, self.key, self.describe())
            reader.look_for(keys, first + len(keys) + self.most)
            found = [reader.known.pop(key, None) for key in keys]
            kept = np.array([k for k, answer in enumerate(found) if answer is not None], np.int64)
            self.unmatched.examples += len(found) - len(kept)
            if len(kept):
                yield self._answered(table, kept, [found[k] for k in kept], first, reader), after
            first += len(table)
            reader.forget(first - self.most)
        reader.end()

    def _answered(
        self, table: Table, kept: np.ndarray, found: list[Any], first: int, reader: _Answers
    ) -> Table:
        places, labels = zip(*found, strict=True)
        late = np.maximum(np.array(places) - (first + kept), 0) // self.agents
        columns = {reader.label: _joined(labels), **table.take(kept).columns}
        columns[DELAY] = late.astype(np.float64)
        del columns[self.key]
        return Table(columns)

    def locate(self, position: Position | None, row: int) -> str:
        """Where the block of a row begins; rows without a label are left out."""
        return f"{self.stream.locate(position, 0)} or after it"


class _Answers:
    """Answers that were read and whose examples have yet to come."""

    def __init__(self, joined: AnsweredStream, tables: Iterator[tuple[Any, Position]]) -> None:
        self.joined, self.tables = joined, tables
        self.known: dict[Any, tuple[int, Any]] = {}
        self.label = ""
        self.read = 0

    def look_for(self, keys: list[Any], last: int) -> None:
        """Read until all of these are answered, or `last` lines are read."""
        missing = {key for key in keys if key not in self.known}
        while missing and self.read < last:
            table, _ = next(self.tables, (None, None))
            if table is None:
                return
            where = self.joined.answers.describe()
            found = _cells(table, self.joined.key, where)
            self.label = self._label(table, where)
            labels = _cells(table, self.label, where)
            for place, (key, label) in enumerate(zip(found, labels, strict=True), start=self.read):
                self.joined.unmatched.answers += key in self.known
                self.known[key] = place, label
            missing.difference_update(found)
            self.read += len(found)

    def _label(self, table: Table, where: str) -> str:
        if self.joined.label is not None:
            return self.joined.label
        others = [name for name in table.columns if name != self.joined.key]
        if len(others) != 1:
            raise DataError(
                f"{where}: found the columns {', '.join(others) or 'none'} beside "
                f"{self.joined.key!r}, expected the label alone; name it with --label"
            )
        return others[0]

    def forget(self, before: int) -> None:
        """Drop labels whose examples have not come for long, the oldest first."""
        while self.known and next(iter(self.known.values()))[0] < before:
            del self.known[next(iter(self.known))]
            self.joined.unmatched.answers += 1

    def end(self) -> None:
        """Count the labels that match no example."""
        rest = sum(len(table) for table, _ in self.tables)
        self.joined.unmatched.answers += len(self.known) + rest


def _cells(table: Any, name: str, where: str) -> list[Any]:
    """Cells of a column as comparable keys."""
    cells = table.columns.get(name) if isinstance(table, Table) else None
    if cells is None:
        there = ", ".join(list(table.columns)[:8]) if isinstance(table, Table) else "no names"
        raise DataError(
            f"{where}: found no column {name!r} among {there}, expected it; correct --id"
        )
    if isinstance(cells, Text):
        return [cells.cell(row) for row in range(len(cells))]
    return cells.tolist()


def _joined(labels: tuple[Any, ...]) -> Cells:
    return Text.of(labels) if any(isinstance(v, str) for v in labels) else np.array(labels, float)
