"""Data frames as tables: those of polars and pandas, and by partitions those of Dask and Ray."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.raw import MISSING_WORDS, Cells, Table, Text
from ddol.streams.stream import Position, Stream


def import_arrow(where: str) -> Any:
    """Import pyarrow, or raise an error that names the extra it belongs to."""
    try:
        import pyarrow
    except ImportError:
        raise DataError(
            f"{where}: reading tables needs pyarrow; pip install ddol[tables]"
        ) from None
    return pyarrow


def table_of_arrow(
    table: Any,
    where: str = "frame",
    names: Sequence[str] | None = None,
    unused: Collection[str] = (),
) -> Table:
    """Convert an Arrow table: numbers, truth values and text; dates become text in ISO form.

    Parameters
    ----------
    table
        Of pyarrow.
    where
        Name of the source for error messages.
    names
        Columns of the result; those of `table` if not given.
    unused
        Columns whose values are never used: they become zeros, and `table` need not have them.

    Examples
    --------
    >>> import pyarrow
    >>> table = table_of_arrow(pyarrow.table({"age": [30, None], "town": ["Rome", "Bern"]}))
    >>> table.columns["age"], table.columns["town"].values
    (array([30., nan]), ('Bern', 'Rome'))
    """
    names = table.column_names if names is None else names
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise DataError(f"{where}: found two columns {twice!r}, expected distinct names")
    return Table(
        {
            name: np.zeros(len(table)) if name in unused else _cells(table[name], name, where)
            for name in names
        }
    )


def is_strange(kind: Any) -> bool:
    """Whether columns of an Arrow type can be neither numbers nor text."""
    import pyarrow.types as types

    tests: tuple[Any, ...] = (
        types.is_nested,
        types.is_duration,
        types.is_interval,
        types.is_binary,
    )
    tests += (types.is_large_binary, types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _cells(column: Any, name: str, where: str) -> Cells:
    from pyarrow import bool_, float64, types, uint8

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if is_strange(kind):
        raise DataError(
            f"{where}: column {name!r}: found the type {kind}, expected numbers or text; "
            f"turn it into columns of these, or use --drop {name}"
        )
    if kind == bool_() and not column.null_count:
        return _values(column.cast(uint8()), np.uint8).view(np.bool_)
    if (
        kind == bool_()
        or types.is_decimal(kind)
        or types.is_floating(kind)
        or types.is_integer(kind)
    ):
        numbers = column if kind == float64() else column.cast(float64(), safe=False)
        return _values(numbers.fill_null(np.nan) if numbers.null_count else numbers, np.float64)
    return _text(column)


def _values(column: Any, kind: Any) -> Any:
    """The values of a column without nulls; a view if they are contiguous.

    `to_numpy` would do as well, but it imports pandas, which takes longer than reading a small file.
    """
    size = np.dtype(kind).itemsize
    parts = [
        np.frombuffer(part.buffers()[1], kind, len(part), size * part.offset)
        for part in column.chunks
        if len(part)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def _text(column: Any) -> Text:
    """Text as codes of its distinct values."""
    from pyarrow import chunked_array, int64, large_string

    cells = column.cast(large_string()).combine_chunks().dictionary_encode()
    listed = cells.dictionary.to_pylist()
    values = sorted(value for value in listed if value.lower() not in MISSING_WORDS)
    places = {value: place for place, value in enumerate(values)}
    of_codes = np.array([*(places.get(value, -1) for value in listed), -1], np.int64)
    codes = chunked_array([cells.indices.cast(int64()).fill_null(len(listed))])
    return Text(of_codes[_values(codes, np.int64)], tuple(values))


@dataclass(frozen=True)
class FrameStream:
    """A stream over the partitions of a data frame, one after the other, as `Table`.

    Parameters
    ----------
    name
        What messages call it.
    partitions
        Functions that load a partition as a frame of polars or pandas, a table of pyarrow, or a `Table`.
    piece_rows
        Rows that are given at a time.
    """

    name: str
    partitions: tuple[Callable[[], Any], ...]
    piece_rows: int = 65_536

    @property
    def n_features(self) -> None:
        """Columns have names."""

    @property
    def n_examples(self) -> None:
        """Partitions are not looked at before they are read."""

    @property
    def restartable(self) -> bool:
        """Frames can be read again."""
        return True

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Table, Position]]:
        """Yield rows of one partition after the other."""
        at = position or {"partition": 0, "row": 0}
        for number in range(at["partition"], len(self.partitions)):
            frame = self.partitions[number]()
            if not isinstance(frame, Table):
                frame = _as_arrow(frame, self.name)
            done = at["row"] if number == at["partition"] else 0
            for lo in range(done, len(frame), self.piece_rows):
                hi = min(lo + self.piece_rows, len(frame))
                ended = hi == len(frame)
                if isinstance(frame, Table):
                    piece = frame.slice(lo, hi)
                else:
                    piece = table_of_arrow(frame.slice(lo, hi - lo), self.name)
                yield piece, {"partition": number + ended, "row": 0 if ended else hi}

    def describe(self) -> str:
        """What it is called."""
        return self.name

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Partitions read and in total."""
        return (position or {"partition": 0})["partition"], len(self.partitions)

    def locate(self, position: Position | None, row: int) -> str:
        """Partition and row."""
        at = position or {"partition": 0, "row": 0}
        partition = f"partition {at['partition']}, " if len(self.partitions) > 1 else ""
        return f"{self.name}: {partition}row {at['row'] + row}"


def is_frame(source: Any) -> bool:
    """Whether this is a data frame of polars, pandas, Dask or Ray; none is imported to find out.

    Examples
    --------
    >>> import polars
    >>> is_frame(polars.DataFrame({"a": [1]})), is_frame("a.csv")
    (True, False)
    """
    return _owner(source) in _PARTITIONS


def frame_streams(source: Any, n_agents: int = 1) -> list[Stream]:
    """One stream for each partition where there are as many as agents; otherwise one for all.

    Examples
    --------
    >>> import polars
    >>> [stream] = frame_streams(polars.DataFrame({"y": [1, 0], "a": [0.5, 0.25]}))
    >>> [len(table) for table, _ in stream.read()]
    [2]
    """
    name = f"{_owner(source)} frame"
    partitions = _PARTITIONS[_owner(source)](source, n_agents)
    if len(partitions) == n_agents > 1:
        return [
            FrameStream(f"{name}, partition {number}", (partition,))
            for number, partition in enumerate(partitions)
        ]
    return [FrameStream(name, tuple(partitions))]


def _owner(source: Any) -> str:
    module, kind = type(source).__module__.partition(".")[0], type(source).__name__
    return module if kind in ("DataFrame", "LazyFrame", "Dataset", "MaterializedDataset") else ""


def _as_arrow(frame: Any, where: str) -> Any:
    """A frame of polars or pandas as a table of pyarrow."""
    arrow = import_arrow(where)
    if isinstance(frame, arrow.Table):
        return frame
    if hasattr(frame, "to_arrow"):
        import polars

        return frame.to_arrow(compat_level=polars.CompatLevel.oldest())
    try:
        return arrow.Table.from_pandas(frame, preserve_index=False)
    except arrow.ArrowException as error:
        raise DataError(
            f"{where}: found a column of several types ({str(error).splitlines()[0]}), expected numbers or "
            "text; convert it, or drop it"
        ) from None


def _of_polars(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    return [source.collect if hasattr(source, "collect") else lambda: source]


def _of_pandas(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    return [lambda: source]


def _of_dask(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    def partition(number: int) -> Any:
        return source.get_partition(number).compute()

    return [partial(partition, number) for number in range(source.npartitions)]


def _of_ray(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    # Now, since actors may take all cores that its steps need.
    source = _computed(source)
    spread = source.num_blocks() >= n_agents > 1
    return [
        partial(_rows_of_ray, part) for part in (source.split(n_agents) if spread else [source])
    ]


def _computed(source: Any) -> Any:
    """A dataset of Ray in memory, its blocks in their own order and not in that in which they were ready."""
    options = source.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return source.materialize()
    finally:
        options.preserve_order = before


def _rows_of_ray(source: Any) -> Any:
    arrow = import_arrow("ray frame")
    batches = list(source.iter_batches(batch_size=None, batch_format="pyarrow"))
    if not batches:  # all rows were filtered out
        batches = [source.schema().base_schema.empty_table()]
    return arrow.concat_tables(batches)


def in_memory(source: Any) -> Any:
    """A frame, a column or an array in memory; lazy and distributed ones are loaded.

    Examples
    --------
    >>> import polars
    >>> in_memory(polars.LazyFrame({"a": [1, 2]})).shape, in_memory([1, 2])
    ((2, 1), [1, 2])
    """
    owner = type(source).__module__.partition(".")[0]
    if owner == "polars" and hasattr(source, "collect"):
        return source.collect()
    if owner == "dask" and hasattr(source, "compute"):
        return source.compute()
    if owner == "ray" and is_frame(source):
        return _frame_of_arrow(_rows_of_ray(_computed(source)))
    return source


def _frame_of_arrow(table: Any) -> Any:
    try:
        import polars
    except ImportError:
        return table.to_pandas()
    return polars.from_arrow(table)


def with_answers(X: Any, y: Any) -> tuple[Any, Any]:
    """Rows and labels in memory; `y` may be the name of a column of `X`, which is then no feature.

    Examples
    --------
    >>> import polars
    >>> X, y = with_answers(polars.LazyFrame({"a": [0.5, 0.25], "ill": [True, False]}), "ill")
    >>> X.columns, y.to_list()
    (['a'], [True, False])
    """
    X, y = in_memory(X), in_memory(y)
    if isinstance(y, str):
        if y not in getattr(X, "columns", ()):
            raise DataError(
                f"found {y!r} as y and no such column in X, expected the name of a column of a data frame, "
                "or one answer for each row"
            )
        return X[[name for name in X.columns if name != y]], X[y]
    if type(y).__module__.startswith("polars") and getattr(y, "shape", ())[1:] == (1,):
        y = y.to_series()  # a frame with nothing but the labels
    return X, y


def has_text(X: Any) -> bool:
    """Whether this is a data frame with a column of text or dates."""
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return False
    return any(_is_text(X[name]) for name in X.columns)


def has_dates(column: Any) -> bool:
    """Whether a column of a data frame is of dates."""
    return bool(column.to_numpy().dtype.kind == "M")


def _is_text(column: Any) -> bool:
    if has_dates(column):
        return True
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return False
    words = {value for value in values.tolist() if isinstance(value, str)}
    return bool(words) and not all_numbers(Text.of(list(words)))


def all_numbers(cells: Text) -> bool:
    """Whether a column of text could as well be one of numbers."""
    try:
        np.array(cells.values, dtype=object).astype(np.float64)
    except ValueError:
        return False
    return True


_PARTITIONS: dict[str, Callable[[Any, int], list[Callable[[], Any]]]] = {
    "polars": _of_polars,
    "pandas": _of_pandas,
    "dask": _of_dask,
    "ray": _of_ray,
}
