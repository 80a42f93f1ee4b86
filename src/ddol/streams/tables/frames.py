"""Data frames as tables: those of polars and pandas, and by partitions those of Dask and Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.raw import MISSING_WORDS, Cells, Table, Text
from ddol.streams.store.files import is_remote
from ddol.streams.stream import Position, Stream
from ddol.streams.tables.aborts import named_at_abort
from ddol.values import dataclass


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
        with ExitStack() as stack:
            stack.enter_context(named_at_abort(where))
            if is_remote(where):
                from ddol.streams.store.remote import waiting_for

                stack.enter_context(waiting_for(where))
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
    columns = zip(frame.get_columns(), frame.schema.items(), strict=True)
    return Table({name: _cells(polars, column, kind, where) for column, (name, kind) in columns})


def is_strange(polars: Any, kind: Any) -> bool:
    """Whether columns of a type can be neither numbers nor text."""
    return bool(kind.is_nested() or kind in (polars.Binary, polars.Object, polars.Duration))


def _cells(polars: Any, column: Any, kind: Any, where: str) -> Cells:
    if kind is polars.Float64 or kind == polars.Float64:
        return column.to_numpy()  # a view, unless values are missing
    if kind.is_numeric():
        return column.cast(polars.Float64).to_numpy()
    if kind == polars.Boolean:
        if column.null_count():
            return column.cast(polars.Float64).to_numpy()
        return column.to_numpy()
    if is_strange(polars, kind):
        raise DataError(
            f"{where}: column {column.name!r}: found the type {kind}, expected numbers or text; "
            f"turn it into columns of these, or use --drop {column.name}"
        )
    texts = column.cast(polars.String)
    values = texts.drop_nulls().unique().sort()
    values = values.filter(~values.str.to_lowercase().is_in(MISSING_WORDS))
    places = dict(zip(values.to_list(), range(len(values)), strict=True))
    codes = texts.replace_strict(places, default=-1, return_dtype=polars.Int64) if places else None
    found = np.full(len(texts), -1) if codes is None else codes.fill_null(-1).to_numpy()
    return Text(np.ascontiguousarray(found, dtype=np.int64), tuple(places))


@dataclass(frozen=True)
class FrameStream:
    """A stream over the partitions of a data frame, one after the other, as `Table`.

    Parameters
    ----------
    name
        What messages call it.
    partitions
        Functions that give a partition as a frame of polars, when it is its turn.
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
            done = at["row"] if number == at["partition"] else 0
            for lo in range(done, len(frame), self.piece_rows):
                hi = min(lo + self.piece_rows, len(frame))
                ended = hi == len(frame)
                yield (
                    table_of_frame(frame[lo:hi], self.name),
                    {"partition": number + ended, "row": 0 if ended else hi},
                )

    def describe(self) -> str:
        """What it is called."""
        return self.name

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Partitions read and in total."""
        return (position or {"partition": 0})["partition"], len(self.partitions)

    def locate(self, position: Position | None, row: int) -> str:
        """Partition and row."""
        at = position or {"partition": 0, "row": 0}
        return f"{self.name}: partition {at['partition']}, row {at['row'] + row}"


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


def _of_polars(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    return [source.collect if hasattr(source, "collect") else lambda: source]


def _of_pandas(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    return [lambda: import_polars("pandas frame").from_pandas(source)]


def _of_dask(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    def partition(number: int) -> Any:
        return import_polars("dask frame").from_pandas(source.get_partition(number).compute())

    return [partial(partition, number) for number in range(source.npartitions)]


def _of_ray(source: Any, n_agents: int) -> list[Callable[[], Any]]:
    # Now, since actors may take all cores that its steps need.
    source = source.materialize()
    spread = source.num_blocks() >= n_agents > 1
    return [
        partial(_rows_of_ray, part) for part in (source.split(n_agents) if spread else [source])
    ]


def _rows_of_ray(source: Any) -> Any:
    polars = import_polars("ray frame")
    batches = list(source.iter_batches(batch_size=None, batch_format="pyarrow"))
    if not batches:  # all rows were filtered out
        batches = [source.schema().base_schema.empty_table()]
    return polars.concat([polars.from_arrow(batch) for batch in batches])


def in_memory(source: Any) -> Any:
    """A frame, a column or an array as it stands in memory: lazy and spread ones are brought there.

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
    return _rows_of_ray(source) if owner == "ray" and is_frame(source) else source


def with_answers(X: Any, y: Any) -> tuple[Any, Any]:
    """Rows and answers in memory; `y` may be the name of a column of `X`, which is then no feature.

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
        y = y.to_series()  # a frame with nothing but the answers
    return X, y


_PARTITIONS: dict[str, Callable[[Any, int], list[Callable[[], Any]]]] = {
    "polars": _of_polars,
    "pandas": _of_pandas,
    "dask": _of_dask,
    "ray": _of_ray,
}
