"""Data frames of polars as tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.raw import Cells, Table, Text


def import_polars(where: str) -> Any:
    """Import polars, or say which extra brings it."""
    try:
        import polars
    except ImportError:
        raise DataError(f"{where}: reading tables needs polars; pip install ddol[tables]") from None
    return polars


@contextmanager
def polars_reading(where: str) -> Iterator[Any]:
    """Turn what polars raises for a damaged file into `DataError`, which names it.

    Its panics are no `Exception`, so that nobody would catch them otherwise.
    """
    polars = import_polars(where)
    try:
        yield polars
    except DataError:
        raise
    except (polars.exceptions.PanicException, Exception) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{where}: cannot be read ({reason[:200]}); check the file, or write it again"
        ) from None


def table_of_frame(frame: Any, where: str = "frame") -> Table:
    """The columns of a data frame: numbers, truth values and text; dates become text in ISO form.

    Parameters
    ----------
    frame
        Of polars.
    where
        What messages call it.

    Examples
    --------
    >>> import polars
    >>> table = table_of_frame(polars.DataFrame({"age": [30, None], "town": ["Rome", "Bern"]}))
    >>> table.columns["age"], table.columns["town"].values
    (array([30., nan]), ('Bern', 'Rome'))
    """
    polars = import_polars(where)
    if all(kind.is_numeric() for kind in frame.schema.values()) and frame.width:
        matrix = frame.cast(polars.Float64).to_numpy(order="c")
        return Table({name: matrix[:, k] for k, name in enumerate(frame.columns)}, True, matrix)
    return Table({name: _cells(polars, frame[name], where) for name in frame.columns})


def _cells(polars: Any, column: Any, where: str) -> Cells:
    kind = column.dtype
    if kind.is_numeric():
        return column.cast(polars.Float64).to_numpy()
    if kind == polars.Boolean:
        if column.null_count():
            return column.cast(polars.Float64).to_numpy()
        return column.to_numpy()
    if kind.is_nested() or kind == polars.Binary or kind == polars.Object:
        raise DataError(
            f"{where}: column {column.name!r}: found the type {kind}, expected numbers or text; "
            "turn it into columns of these, or drop it"
        )
    texts = column.cast(polars.String)
    values = texts.drop_nulls().unique().sort()
    places = dict(zip(values.to_list(), range(len(values)), strict=True))
    codes = texts.replace_strict(places, default=-1, return_dtype=polars.Int64) if places else None
    found = np.full(len(texts), -1) if codes is None else codes.fill_null(-1).to_numpy()
    return Text(np.ascontiguousarray(found, dtype=np.int64), tuple(places))
