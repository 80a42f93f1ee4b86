"""Streams from what users give: arrays, frames, generators, streams, or one of them for each agent."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ddol.streams.arrays import array_stream, is_sparse
from ddol.streams.errors import DataError
from ddol.streams.generated import GeneratedStream
from ddol.streams.raw import Table, cells_of, table_of_array, table_of_frame
from ddol.streams.stream import Stream
from ddol.streams.tables.frames import (
    FrameStream,
    frame_streams,
    has_text,
    is_frame,
    with_answers,
)


def as_streams(streams: Any, checked: bool = True, n_agents: int = 1) -> list[Stream]:
    """Streams from what users give: (X, y), a stream, a generator, a data frame with partitions, or a list.

    Features are `checked` to be finite unless the reader checks them itself.
    """
    if _is_stream(streams):
        return [streams]
    if callable(streams) or isinstance(streams, Iterator):
        return [GeneratedStream(streams)]
    if is_frame(streams):
        return frame_streams(streams, n_agents)
    if is_pair(streams):
        given, answers, weight = (*streams, None)[:3]
        X, y = with_answers(given, answers)
        return [array_stream(X, y, weight, checked=checked)]
    if not isinstance(streams, list | tuple) or not streams:
        raise TypeError(
            f"found {type(streams).__name__} as `streams`, expected (X, y), a data frame, "
            "a stream, a generator, or a list of these, one for each agent"
        )
    return [as_streams(one, checked)[0] for one in streams]


def _is_stream(given: Any) -> bool:
    """Whether this is a stream; that an array is none would take the protocol alone long to find out."""
    return hasattr(given, "read") and isinstance(given, Stream)


def is_pair(given: Any) -> bool:
    """Whether this is (X, y) or (X, y, weights), and not two or three streams."""
    return isinstance(given, tuple) and len(given) in (2, 3) and not _is_stream(given[0])


def in_tables(given: Any, needed: bool) -> tuple[list[Stream], str, str | None] | None:
    """Pairs (X, y) with text, with labels that are text, or with values that may be missing, as tables.

    Parameters
    ----------
    given
        What a user gave.
    needed : bool
        Rows of numbers become tables as well: values may be missing, or labels have other spellings.

    Returns
    -------
    streams, name of the label, name of the weight if there is one; None where all are numbers already.

    Examples
    --------
    >>> import numpy as np
    >>> [stream], label, weight = in_tables((np.eye(2), ["no", "yes"]), False)
    >>> [list(table.columns) for table, _ in stream.read()], label, weight
    ([['y', 'column 1', 'column 2']], 'y', None)
    """
    pairs = [given] if is_pair(given) else given
    if not isinstance(pairs, list | tuple) or not pairs or not all(map(is_pair, pairs)):
        return None
    found = [(*with_answers(pair[0], pair[1]), *pair[2:]) for pair in pairs]
    if any(map(is_sparse, (pair[0] for pair in found))):
        return None
    if not needed and not any(has_text(X) or _is_text(y) for X, y, *_ in found):
        return None
    tables = [(table_of_frame if hasattr(X, "columns") else table_of_array)(X) for X, *_ in found]
    taken = {name for table in tables for name in table.columns}
    label, weight = _free("y", taken), _free("weight", taken)
    weights = [pair[2] if len(pair) > 2 else None for pair in found]
    weighted = any(w is not None for w in weights)
    streams: list[Stream] = []
    for k, (table, (_, y, *_), w) in enumerate(zip(tables, found, weights, strict=True)):
        if weighted:
            table = _with_column(table, weight, np.ones(len(table)) if w is None else w)
        name = "X" if len(tables) == 1 else f"X of agent {k}"
        streams.append(FrameStream(name, (partial(replace, _with_column(table, label, y)),)))
    return streams, label, weight if weighted else None


def _with_column(table: Table, name: str, values: Any) -> Table:
    cells = cells_of(_array(values))
    if len(cells) != len(table):
        raise DataError(
            f"found {len(cells)} values of `{name}` for {len(table)} rows, expected one each"
        )
    return Table({name: cells, **table.columns})


def _array(values: Any) -> np.ndarray:
    return values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)


def _is_text(y: Any) -> bool:
    values = _array(y)
    return values.dtype.kind not in "biufc" and any(isinstance(v, str) for v in values.tolist())


def _free(name: str, taken: Collection[str]) -> str:
    """A name that no column has."""
    while name in taken:
        name += "_"
    return name
