"""Blocks of examples as a file has them, before they are encoded: numbered, in a table, or by name.

A reader yields `Rows` where columns have numbers, a `Table` where every row has the same named columns,
and `Named` where every row names its own features. `ddol.streams.coding.encoding` makes `Rows` of all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddol.streams.rows import Floats, Rows

MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "?")
"""Cells that stand for a missing value, in any case."""

_NO_WEIGHT = np.empty(0)
_NO_KEYS = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Text:
    """A column of text: which of the distinct values each cell has.

    Parameters
    ----------
    codes
        Place of each cell's value in `values`; -1 for a missing one.
    values
        Distinct values, in any order.

    Examples
    --------
    >>> Text.of(["red", None, "blue", "red"])
    Text(codes=array([ 1, -1,  0,  1]), values=('blue', 'red'))
    """

    codes: NDArray[np.int64]
    values: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, cells: Any) -> Text:
        """Text of single cells; None is a missing one."""
        listed = np.asarray(cells, dtype=object).tolist()
        values = sorted({str(cell) for cell in listed if cell is not None})
        places = {value: place for place, value in enumerate(values)}
        codes = [-1 if cell is None else places[str(cell)] for cell in listed]
        return cls(np.array(codes, np.int64), tuple(values))

    def cell(self, row: int) -> str | None:
        """Value of one cell; None where it is missing."""
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]


Cells: TypeAlias = Floats | NDArray[np.bool_] | Text
"""A column of a table: numbers (NaN is missing), truth values, or text."""


@dataclass(frozen=True)
class Table:
    """Rows that all have the same named columns, label and weight among them.

    Parameters
    ----------
    columns
        Cells by name, in the order of the file.
    named
        Whether the file has these names; if not, they are ``column 1``, ``column 2``, …

    Examples
    --------
    >>> table = Table({"age": np.array([30.0, 40.0]), "town": Text.of(["Rome", "Bern"])})
    >>> len(table), list(table.columns)
    (2, ['age', 'town'])
    """

    columns: Mapping[str, Cells]
    named: bool = True

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        parts = [c.codes if isinstance(c, Text) else c for c in self.columns.values()]
        return sum(part.nbytes for part in parts)

    def slice(self, lo: int, hi: int) -> Table:
        """Rows `lo` to `hi` (exclusive) as views of these."""
        cells = {
            name: replace(c, codes=c.codes[lo:hi]) if isinstance(c, Text) else c[lo:hi]
            for name, c in self.columns.items()
        }
        return Table(cells, self.named)

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Some rows, copied."""
        cells = {
            name: replace(c, codes=c.codes[rows]) if isinstance(c, Text) else c[rows]
            for name, c in self.columns.items()
        }
        return Table(cells, self.named)


@dataclass(frozen=True)
class Named:
    """Rows of features by name, each with those it has.

    Row ``i`` has the values ``data[indptr[i] : indptr[i + 1]]`` of the features
    ``names[codes[indptr[i] : indptr[i + 1]]]``. A text is a feature of its own, ``colour=red``, of value 1.

    Parameters
    ----------
    names
        Distinct names in this block; may be decoded from the text only when they are asked for.
    codes, data, indptr
        Which name and which value, and where each row begins.
    label
        Numbers, text, or None where there is no label.
    weight
        One importance per row, or empty when all are 1.
    spaces
        Namespace of every name, or empty where there are none.
    keys
        `ddol.streams.coding.hashing.name_hash` of every name, or empty if not computed yet.

    Examples
    --------
    >>> Named.of([{"age": 30, "town": "Rome"}, {"age": 40}]).names
    ('age', 'town=Rome')
    """

    names: Sequence[str]
    codes: NDArray[np.int64]
    data: Floats
    indptr: NDArray[np.int64]
    label: Floats | Text | None = None
    weight: Floats = field(default_factory=lambda: _NO_WEIGHT)
    spaces: Sequence[str] = ()
    keys: NDArray[np.uint64] = field(default_factory=lambda: _NO_KEYS)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.codes.nbytes + self.data.nbytes + self.indptr.nbytes + self.weight.nbytes

    def slice(self, lo: int, hi: int) -> Named:
        """Rows `lo` to `hi` (exclusive) as views of these, with all names."""
        lo, hi, _ = slice(lo, hi).indices(len(self))
        first, last = self.indptr[lo], self.indptr[hi]
        label = self.label
        if label is not None:
            label = (
                replace(label, codes=label.codes[lo:hi])
                if isinstance(label, Text)
                else label[lo:hi]
            )
        return replace(
            self,
            codes=self.codes[first:last],
            data=self.data[first:last],
            indptr=self.indptr[lo : hi + 1] - first,
            label=label,
            weight=self.weight[lo:hi],
        )

    @classmethod
    def of(cls, examples: list[Mapping], label: Floats | Text | None = None) -> Named:
        """Rows of dictionaries from name to number, truth value or text."""
        places: dict[str, int] = {}
        codes: list[int] = []
        data: list[float] = []
        indptr = [0]
        for example in examples:
            for name, value in example.items():
                if isinstance(value, str):
                    name, value = f"{name}={value}", 1.0
                codes.append(places.setdefault(str(name), len(places)))
                data.append(float(value))
            indptr.append(len(codes))
        return cls(
            tuple(places),
            np.array(codes, np.int64),
            np.array(data, np.float64),
            np.array(indptr, np.int64),
            label,
        )


Raw: TypeAlias = Rows | Table | Named
"""A block as a reader yields it."""


def unnamed(n_columns: int) -> tuple[str, ...]:
    """What the columns of a table are called whose file has no names for them.

    Examples
    --------
    >>> unnamed(2)
    ('column 1', 'column 2')
    """
    return tuple(f"column {k + 1}" for k in range(n_columns))


def table_of_frame(frame: Any) -> Table:
    """Table of a data frame of pandas or polars.

    Examples
    --------
    >>> import pandas as pd
    >>> table_of_frame(pd.DataFrame({"age": [30, 40], "town": ["Rome", None]})).columns["town"].values
    ('Rome',)
    """
    return Table({str(name): cells_of(frame[name].to_numpy()) for name in frame.columns})


def table_of_array(X: Any) -> Table:
    """Table of an array, whose columns have no names.

    Examples
    --------
    >>> list(table_of_array([[1.0, 2.0]]).columns)
    ['column 1', 'column 2']
    """
    values = np.atleast_2d(np.asarray(X))
    cells = map(cells_of, values.T)
    return Table(dict(zip(unnamed(values.shape[1]), cells, strict=True)), named=False)


def cells_of(values: np.ndarray) -> Cells:
    """A column of a table from an array of numbers, truth values or text."""
    if values.dtype == np.bool_ or np.issubdtype(values.dtype, np.number):
        return values if values.dtype == np.bool_ else values.astype(np.float64)
    if values.dtype.kind == "M":
        dates = np.datetime_as_string(values).tolist()
        return Text.of([None if cell == "NaT" else cell for cell in dates])
    return Text.of(list(map(_present, values.tolist())))


def _present(cell: Any) -> Any:
    """A cell, or None where it stands for a missing value."""
    missing = cell is None or cell != cell or str(cell).lower() in MISSING_WORDS
    return None if missing else cell
