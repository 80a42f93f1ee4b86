"""Rows of figures as a frame of whichever library is there, and as a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ddol.storage import written_beside

LIBRARIES = ("pandas", "polars")


def frame_of(columns: Mapping[str, Sequence[Any]], library: str) -> Any:
    """A DataFrame of pandas or polars.

    Examples
    --------
    >>> frame_of({"a": [1, 2]}, "pandas").shape
    (2, 1)
    """
    if library not in LIBRARIES:
        raise ValueError(f"`library` is {library!r}; use {' or '.join(LIBRARIES)}")
    try:
        frames = import_module(library)
    except ImportError as error:
        raise ImportError(f"install {library} for frames: pip install {library}") from error
    return frames.DataFrame(columns)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns by name; None where a row has no such figure.

    Examples
    --------
    >>> columns_of([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def write_table(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV, or as Parquet where the name ends so (extra ``tables``)."""
    with written_beside(str(path)) as beside:
        if str(path).endswith(".parquet"):
            frame_of(columns_of(rows), "polars").write_parquet(beside)
            return
        with beside.open("w", newline="", encoding="utf-8") as file:
            lines = csv.DictWriter(file, list(columns_of(rows)))
            lines.writeheader()
            lines.writerows(rows)
