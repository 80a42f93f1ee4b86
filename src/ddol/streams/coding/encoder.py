"""Apply an encoding: raw blocks in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.coding.cells import (
    FILL,
    checked_weights,
    note,
    numbers_of,
    side_by_side,
    text_of,
)
from ddol.streams.coding.encoding import DATE, NUMBER, Encoding
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import mapped
from ddol.streams.raw import Named, Raw, Table, Text
from ddol.streams.rows import LARGEST, Floats, Rows
from ddol.streams.stream import Stream

if TYPE_CHECKING:
    from ddol.streams.coding.matching import Where
    from ddol.streams.coding.names import Names
    from ddol.streams.over.lateness import Delays

_NO_WEIGHT = np.empty(0)


class Encoder:
    """Applies an encoding to block after block, and learns names that were not seen before.

    Parameters
    ----------
    encoding
        What is known so far.
    learning
        Whether new names get a place; in a model that predicts they have none.
    labelled
        Whether blocks have labels; if not, answers are 0 and a label's column is passed over.
    skip
        Whether rows with a missing or impossible value are left out and counted; by default they are
        errors.
    warn
        Called once, with a line about columns that the encoding does not know.
    delays
        Column of whole numbers, and who keeps them for later, row by row as they are given.

    Examples
    --------
    >>> from ddol.streams.coding.encoding import Column
    >>> encoder = Encoder(Encoding((Column("age"), Column("town", "text")), label="ill", classes=(0.0, 1.0)))
    >>> ill, age = np.array([1.0, 0.0]), np.array([30.0, 40.0])
    >>> rows = encoder.rows(Table({"town": Text.of(["Rome", "Bern"]), "ill": ill, "age": age}))
    >>> rows.y, rows.to_scipy().toarray().tolist()
    (array([ 1., -1.]), [[30.0, 0.0, 1.0], [40.0, 1.0, 0.0]])
    >>> encoder.encoding.names
    ('town=Bern', 'town=Rome')
    """

    def __init__(
        self,
        encoding: Encoding,
        learning: bool = True,
        labelled: bool = True,
        skip: bool = False,
        warn: Callable[[str], None] | None = None,
        delays: tuple[str, Delays] | None = None,
    ) -> None:
        self.start = encoding
        self.learning = learning
        self.labelled = labelled
        self.skip = skip
        self.skipped: list[str] = []
        self.n_skipped = 0
        self.warn = warn
        self.delays = delays
        self._told: set[str] = set()
        if encoding.columns is not None:
            self.names  # noqa: B018, once, before several threads ask for it

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: all but the callback for warnings."""
        return vars(self) | {"warn": None}

    @cached_property
    def names(self) -> Names:
        """Places of features by name; columns that have numbers need none."""
        from ddol.streams.coding.names import Names

        known = self.start
        return Names(known.numbers, known.names, known.bits, self.learning, self.warn)

    @property
    def encoding(self) -> Encoding:
        """The encoding with all names seen so far."""
        if self.start.columns is None:
            return self.start
        return replace(self.start, names=tuple(self.names.known))

    @property
    def in_order(self) -> bool:
        """Whether blocks must be encoded in the order of the stream: names get places as they come."""
        grows = self.learning and self.start.columns is not None and self.start.grows
        return grows or self.delays is not None

    def rows(self, block: Raw, where: Where = "row {}".format) -> Rows:
        """Rows of a raw block: labels, features, intercept, advice.

        Parameters
        ----------
        block
            `Rows`, `Table` or `Named`.
        where
            Says where a row stands, for messages.
        """
        if isinstance(block, Rows):
            rows = self._of_rows(block, where)
        elif isinstance(block, Table):
            rows = self._of_table(block, where)
        else:
            rows = self._of_names(block, where)
        stumps = self.start.stumps
        return rows if stumps is None else stumps.advice(rows)

    def stream(self, stream: Stream) -> Stream:
        """The stream with every block encoded."""
        width = None if self.start.grows else self.start.width
        if self.start.columns is None and not self.start.bits and self.start.stumps is None:
            known = stream.n_features
            width = None if known is None else max(known, self.start.n_features or 0)
            width = None if width is None else width + self.start.intercept
        return mapped(stream, self.rows, width, all_rows=not self.skip)

    # --- columns by number ------------------------------------------------------------------------

    def _of_rows(self, block: Rows, where: Where) -> Rows:
        encoding = self.start
        if self.skip:
            block, where = self._finite(block, where)
        y = self.start.answers(block.y, where) if self.labelled else np.zeros(len(block))
        rows = replace(block, y=y) if y is not block.y else block
        if self.labelled and np.isnan(y.sum()):
            _refuse_unlabelled(rows, where)
        if encoding.columns is not None:
            rows = self._by_position(rows)
        if encoding.bits is not None:
            from ddol.streams.coding.hashing import hash_rows

            rows = hash_rows(rows, encoding.bits)
        elif encoding.n_features is not None or encoding.columns is not None:
            rows = self._in_space(rows, where)
        return rows.with_intercept() if encoding.intercept else rows

    def _finite(self, block: Rows, where: Where) -> tuple[Rows, Where]:
        """The rows without those that have a number that is none; text has been looked through before."""
        with np.errstate(invalid="ignore", over="ignore"):
            if np.isfinite(block.data.sum() + block.y.sum() + block.weight.sum()):
                return block, where
        bad: dict[int, str] = {}
        for at in np.flatnonzero(~np.isfinite(block.data)).tolist():
            row = at // block.n_features if block.dense else _row_of(block.indptr, at)
            bad.setdefault(row, f"found {block.data[at]}, expected a finite number")
        if self.labelled:
            for what, numbers in (("label", block.y), ("weight", block.weight)):
                note(bad, ~np.isfinite(numbers), f"found no {what}, expected one")
        if not bad:
            return block, where
        self._refuse(bad, where)
        kept = np.setdiff1d(np.arange(len(block)), list(bad))
        return block.take(kept), lambda k: where(int(kept[k]))

    def _by_position(self, rows: Rows) -> Rows:
        """Numbered columns in the place of named ones, which must be as many and all numbers."""
        encoding = self.start
        if encoding.columns and all(c.kind == NUMBER for c in encoding.columns):
            self._tell("columns have numbers here and names in the model; they are taken in order")
            if encoding.bits is None:
                return rows
        raise DataError(
            "found columns by number, expected the model's columns by name "
            f"({listed([c.name for c in encoding.columns or ()], 8)}); give a table with these columns"
        )

    def _in_space(self, rows: Rows, where: Where) -> Rows:
        """Rows that have just the columns of the encoding, or an error."""
        expected = self.start.n_inputs
        assert expected is not None
        beyond = np.empty(0) if rows.dense else rows.indices >= expected
        if beyond.any():
            value = int(np.argmax(beyond))
            row = _row_of(rows.indptr, value)
            raise DataError(
                f"{where(row)}: found column {int(rows.indices[value]) + 1}, expected at most "
                f"the model's {expected}; give the columns that the model was trained on"
            )
        if rows.n_features > expected or (rows.dense and rows.n_features < expected):
            raise DataError(
                f"{where(0)}: found {rows.n_features} columns, expected the model's {expected}; "
                "give the columns that the model was trained on"
            )
        return rows.widen(expected)

    # --- tables -----------------------------------------------------------------------------------

    def _of_table(self, table: Table, where: Where) -> Rows:
        from ddol.streams.coding.matching import matched
        from ddol.streams.coding.names import named_of, rows_of_names

        encoding = self.start
        if encoding.columns is None:
            return self._of_rows(self._numbered(table, where), where)
        if not encoding.columns:
            raise DataError(
                f"{where(0)}: found a table, expected features by name as in lines of text; give the format "
                "that the model was trained on"
            )
        table = matched(table, encoding, where, self._tell)
        if encoding.bits is None and all(c.kind == NUMBER for c in encoding.columns):
            return self._of_numbers(table, where)
        table, y, weight, where = self._checked(table, where)
        names = [c.name for c in encoding.columns]
        if encoding.dates:
            from ddol.streams.coding.dates import split_dates

            table = split_dates(Table({n: table.columns[n] for n in names}), encoding.dates)
            names = list(table.columns)
        named = named_of(table, names)
        rows = rows_of_names(named, self.names, encoding.interactions, encoding.intercept)
        return replace(rows, y=y, weight=weight)

    def _of_numbers(self, table: Table, where: Where) -> Rows:
        """Rows of columns of numbers; each is looked at by itself only where something is wrong."""
        matrix, whole = self._matrix(table)
        checked, y, weight, where = self._checked(table, where, whole)
        if checked is not table:
            matrix, _ = self._matrix(checked)
        return Rows.from_dense(matrix, y, weight if len(weight) else None)

    def _matrix(self, table: Table) -> tuple[Floats, bool]:
        """The columns side by side, after the intercept's if there is one, and whether all are finite."""
        given = [table.columns[name] for name in self.start.numbers]
        numbers = [c for c in given if not isinstance(c, Text) and c.dtype == np.float64]
        if len(numbers) < len(given):
            return np.empty(0), False
        columns = [np.broadcast_to(1.0, len(table))] * self.start.intercept + numbers
        matrix = np.empty((len(table), len(columns)))
        return matrix, side_by_side(columns, matrix)

    def _numbered(self, table: Table, where: Where) -> Rows:
        """A table for a model whose columns have numbers: in order, without the label."""
        names = [n for n in table.columns if n.lower() != "label"]
        expected = self.start.n_features
        texts = [n for n in names if isinstance(table.columns[n], Text)]
        if texts or (expected is not None and len(names) != expected):
            what = f"text in column {texts[0]!r}" if texts else f"{len(names)} columns"
            raise DataError(
                f"{where(0)}: found {what}, expected the model's {expected} columns of numbers, which "
                "have no names; give the format that the model was trained on"
            )
        self._tell("columns have names here and numbers in the model; they are taken in order")
        X = np.column_stack([np.asarray(table.columns[n], np.float64) for n in names])
        y = table.columns.get("label", np.zeros(len(table)))
        return Rows.from_dense(X, y if not isinstance(y, Text) else np.zeros(len(table)))

    def _checked(
        self, table: Table, where: Where, whole: bool = False
    ) -> tuple[Table, Floats, Floats, Where]:
        """Columns of the right kind without missing values, answers and weights.

        The table is the same where there is nothing to do, as with a `whole` one, of finite numbers.
        """
        encoding = self.start
        bad: dict[int, str] = {}
        cells: dict[str, Any] = {}
        for column in encoding.columns or ():
            given = table.columns[column.name]
            if whole:
                cells[column.name] = given
            elif column.kind != NUMBER:
                cells[column.name] = self._texts(column.name, given, bad)
                if column.kind == DATE:
                    from ddol.streams.coding.dates import checked_dates

                    checked_dates(column.name, cells[column.name], bad)
            else:
                cells[column.name] = self._numbers(column.name, given, bad)
        y = self._answers(table.columns.get(encoding.label or ""), len(table), bad, where)
        weight = self._weights(table, bad, where)
        turns = self._turns(table, bad, where)
        changed = any(cells[name] is not table.columns[name] for name in cells)
        table = replace(table, columns=cells) if changed else table
        if not bad:
            self._keep(turns)
            return table, y, weight, where
        self._refuse(bad, where)
        kept = np.setdiff1d(np.arange(len(table)), list(bad))
        self._keep(turns[kept] if len(turns) else turns)
        return (
            Table(cells).take(kept),
            y[kept],
            weight[kept] if len(weight) else weight,
            lambda k: where(int(kept[k])),
        )

    def _texts(self, name: str, cells: Any, bad: dict[int, str]) -> Text:
        if not isinstance(cells, Text):
            cells = text_of(cells)
        if self.start.missing == "error" and len(cells) and cells.codes.min() < 0:
            note(bad, cells.codes < 0, f"column {name!r}: found a missing value, {FILL}")
        return cells

    def _numbers(self, name: str, cells: Any, bad: dict[int, str]) -> Floats:
        if isinstance(cells, Text):
            cells = numbers_of(name, cells, bad)
        elif cells.dtype != np.float64:
            return np.asarray(cells, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            if abs(cells.sum()) < LARGEST:
                return cells
        infinite = np.isinf(cells)
        if infinite.any():
            told = "found an infinite number, expected a finite one; drop the row"
            note(bad, infinite, f"column {name!r}: {told}")
        large = np.abs(cells) >= LARGEST
        if large.any():
            told = (
                f"found a number beyond {LARGEST:.1g}, expected one whose square is a number, too"
            )
            note(
                bad,
                large,
                f"column {name!r}: {told}; drop the row, or give the column another unit",
            )
        missing = np.isnan(cells)
        if not missing.any():
            return cells
        if self.start.missing == "error":
            note(bad, missing, f"column {name!r}: found a missing value, {FILL}")
            return cells
        return np.where(missing, self._mean(name), cells)

    def _mean(self, name: str) -> float:
        if self.start.missing == "zero" or not self.start.means:
            return 0.0
        return self.start.means[self.start.numbers.index(name)]

    def _answers(self, label: Any, n: int, bad: dict[int, str], where: Where) -> Floats:
        if not self.labelled:
            return np.zeros(n)
        if label is None:
            raise DataError(
                f"{where(0)}: found no column {self.start.label!r}, expected the label there, as in the "
                "data that were learned from; give the column this name"
            )
        if not isinstance(label, Text) and label.dtype == np.bool_:
            label = label.astype(np.float64)
        y = self.start.answers(label, where)
        note(bad, np.isnan(y), "found a missing label, expected one; drop the row")
        note(bad, np.isinf(y), "found an infinite label, expected a finite one; drop the row")
        return y

    def _weights(self, table: Table, bad: dict[int, str], where: Where) -> Floats:
        if self.start.weight is None or not self.labelled:
            return _NO_WEIGHT
        cells = table.columns.get(self.start.weight)
        if cells is None and not self.learning:  # figures of a model count every example once
            return _NO_WEIGHT
        if cells is None:
            raise _without(self.start.weight, table, where)
        return checked_weights(numbers_of(self.start.weight, cells, bad), bad)

    def _turns(self, table: Table, bad: dict[int, str], where: Where) -> Floats:
        """Delays of the labels, where a column has them."""
        if self.delays is None:
            return _NO_WEIGHT
        name = self.delays[0]
        cells = table.columns.get(name)
        if cells is None:
            raise _without(name, table, where)
        turns = numbers_of(name, cells, bad)
        with np.errstate(invalid="ignore"):
            strange = ~((turns >= 0.0) & (turns == np.rint(turns)))
        note(bad, strange, f"column {name!r}: found no whole number of turns of at least 0")
        return turns

    def _keep(self, turns: Floats) -> None:
        if self.delays is not None:
            self.delays[1].add(turns)

    # --- features by name -------------------------------------------------------------------------

    def _of_names(self, block: Named, where: Where) -> Rows:
        from ddol.streams.coding.names import column_of, rows_of_names

        encoding = self.start
        if encoding.columns is None:
            raise DataError(
                f"{where(0)}: found features by name, expected the model's columns by number; give the "
                "format that the model was trained on"
            )
        if encoding.dates:
            raise DataError(
                f"{where(0)}: found features by name, expected a table: the model's column "
                f"{encoding.dates[0]!r} holds dates; give CSV, JSON lines or Parquet"
            )
        known = {c.name for c in encoding.columns}
        if known and block.names and known.isdisjoint([*block.names, *map(column_of, block.names)]):
            raise DataError(
                f"{where(0)}: found features such as {block.names[0]!r}, expected the model's columns "
                f"({listed([c.name for c in encoding.columns], 8)}); give a table with these columns"
            )
        bad: dict[int, str] = {}
        y = self._answers(_present(block), len(block), bad, where)
        weight = checked_weights(block.weight, bad) if self.labelled else _NO_WEIGHT
        with np.errstate(invalid="ignore", over="ignore"):
            if not np.isfinite(block.data.sum()):
                self._note_entries(block, bad)
                block = _without_missing(block)
        rows = rows_of_names(block, self.names, encoding.interactions, encoding.intercept)
        rows = replace(rows, y=y, weight=weight)
        if not bad:
            return rows
        self._refuse(bad, where)
        return rows.take(np.setdiff1d(np.arange(len(block)), list(bad)))

    def _note_entries(self, block: Named, bad: dict[int, str]) -> None:
        missing = np.isnan(block.data)
        strange = np.isinf(block.data) | (missing & (self.start.missing == "error"))
        for entry in np.flatnonzero(strange):
            row = _row_of(block.indptr, int(entry))
            name = block.names[int(block.codes[entry])]
            what = "a missing value" if missing[entry] else str(block.data[entry])
            wanted = FILL if missing[entry] else "expected a finite number"
            bad.setdefault(row, f"feature {name!r}: found {what}, {wanted}")

    # --- messages ---------------------------------------------------------------------------------

    def _refuse(self, bad: Mapping[int, str], where: Where) -> None:
        """Raise for the first bad row, or count all of them."""
        first = min(bad)
        message = f"{where(first)}: {bad[first]}"
        if not self.skip:
            raise DataError(message)
        self.n_skipped += len(bad)
        if not self.skipped:
            self.skipped.append(message)

    def _tell(self, text: str) -> None:
        if self.warn is not None and text not in self._told:
            self.warn(text)
        self._told.add(text)


def _refuse_unlabelled(rows: Rows, where: Where) -> None:
    """Rows that were passed over for other processes are empty; others must have a label."""
    missing = np.isnan(rows.y)
    if not rows.dense:
        missing &= np.diff(rows.indptr) > 0
    if missing.any():
        place = where(int(missing.argmax()))
        raise DataError(f"{place}: found a missing label, expected one; drop the row")


def _without(name: str, table: Table, where: Where) -> DataError:
    from ddol.streams.coding.matching import lost

    return DataError(f"{where(0)}: {lost(name, table)}")


def _row_of(indptr: NDArray[np.int64], entry: int) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def _without_missing(block: Named) -> Named:
    """The features without those whose value is missing: a row does not have them."""
    there = ~np.isnan(block.data)
    indptr = np.concatenate([[0], np.cumsum(there)])[block.indptr]
    return replace(block, codes=block.codes[there], data=block.data[there], indptr=indptr)


def _present(block: Named) -> Any:
    return np.full(len(block), np.nan) if block.label is None else block.label
