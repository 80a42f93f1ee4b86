"""NumPy's own files: ``.npz`` with features and labels, ``.npy`` with both in one table."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.coding.columns import Columns, choose_columns
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.over.chained import ChainedStream
from ddol.streams.rows import Rows
from ddol.streams.store.files import check_readable, is_remote, read_range, size_of
from ddol.streams.store.room import check_room
from ddol.streams.stream import Position, Stream

_BLOCK_BYTES = 8 << 20
_DAMAGES = (
    ValueError,
    EOFError,
    OSError,
    KeyError,
    TypeError,
    SyntaxError,
    OverflowError,
    MemoryError,
    NotImplementedError,
    IndexError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    UnicodeError,
    RuntimeError,
)
"""What NumPy and the archive's reader raise for damaged files."""
_CSR_PARTS = {"data", "indices", "indptr", "shape"}


def read_npz(path: str, checked: bool = True) -> RowsStream:
    """Stream over a ``.npz`` file, loaded whole.

    It holds ``X`` (dense) or the parts ``data``, ``indices``, ``indptr`` and ``shape`` of a
    CSR matrix, as `scipy.sparse.save_npz` names them, together with ``y`` and, if rows have
    different importance, ``weight``. Pickled objects are refused.

    Parameters
    ----------
    path
        File name.
    checked
        Whether numbers that are not finite are errors here; else the encoder checks them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = str(pathlib.Path(tempfile.mkdtemp(), "two.npz"))
    >>> np.savez(path, X=np.eye(2), y=[0, 1])
    >>> read_npz(path).n_examples
    2
    """
    parts = _load(path)
    if not isinstance(parts, np.lib.npyio.NpzFile):
        raise DataError(f"{path}: found a single array, expected arrays X and y; name it .npy")
    with parts:
        names = set(parts.files)
        if "y" not in names or not ("X" in names or names >= _CSR_PARTS):
            raise DataError(
                f"{path}: found the arrays {', '.join(sorted(names))}, expected X (or data, "
                "indices, indptr, shape of a CSR matrix) and y; use np.savez(path, X=X, y=y)"
            )
        if parts.zip is not None:
            sizes = [entry.file_size for entry in parts.zip.infolist()]
            check_room(path, sum(sizes), "write it as text or Parquet, which are read in pieces")
        arrays = {name: _member(path, parts, name) for name in names}
    X: Any = arrays.get("X")
    if X is None:
        import scipy.sparse as sp

        try:
            shape = tuple(int(side) for side in arrays["shape"])
            X = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        except _DAMAGES as error:
            raise DataError(
                f"{path}: found parts that make no CSR matrix ({_reason(error)}); save it again"
            ) from None
    try:
        return array_stream(X, arrays["y"], arrays.get("weight"), path, checked)
    except DataError as error:
        named = str(error).startswith(path)
        raise DataError(str(error) if named else f"{path}: {error}") from None


@dataclass(frozen=True)
class NpyStream:
    """A stream over a 2-D ``.npy`` file, mapped into memory and read in blocks.

    Parameters
    ----------
    path
        File name.
    label, weight
        Number of these columns, from the end when negative; the label is the first by default.
    block_rows
        Rows that are read at a time; by default as many as take 8 MB.
    checked
        See `read_npz`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = str(pathlib.Path(tempfile.mkdtemp(), "two.npy"))
    >>> np.save(path, np.array([[1.0, 0.5], [0.0, 0.25]]))
    >>> [(rows, position)] = NpyStream(path).read()
    >>> rows.y, rows.data
    (array([1., 0.]), array([0.5 , 0.25]))
    """

    path: str
    label: str | int | None = None
    weight: str | int | None = None
    block_rows: int | None = None
    checked: bool = True

    @property
    def restartable(self) -> bool:
        """Files can be read again."""
        return True

    @property
    def n_features(self) -> int:
        """Number of columns besides label and weight."""
        return len(self._columns.features)

    @property
    def n_examples(self) -> int:
        """Number of rows."""
        return len(self._table)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one block after the other; positions count rows."""
        columns = self._columns
        step = self.block_rows or max(1, _BLOCK_BYTES // (8 * len(columns.names)))
        for first in range(position or 0, self.n_examples, step):
            table = np.asarray(self._some(first, step), dtype=np.float64)
            rows = rows_of_table(table, columns)
            if self.checked:
                rows.check_finite(f"{self.path}, from row {first} on")
            yield rows, first + len(rows)

    def describe(self) -> str:
        """Name of the file."""
        return self.path

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Rows read and in total."""
        return position or 0, self.n_examples

    def locate(self, position: Position | None, row: int) -> str:
        """Name and row number."""
        return f"{self.path}: row {(position or 0) + row}"

    def _some(self, first: int, n: int) -> np.ndarray:
        """Rows from one on, read and not mapped: a file that is cut meanwhile would end the process."""
        table = self._table
        if not isinstance(table, np.memmap) or not table.flags.c_contiguous:
            return table[first : first + n]
        width = table.shape[1]
        count = width * min(n, len(table) - first)
        place = table.offset + first * width * table.itemsize
        found = np.fromfile(self.path, table.dtype, count, offset=place)
        if len(found) < count:
            raise DataError(
                f"{self.path}: found less than before, expected {len(table)} rows; read it again"
            )
        return found.reshape(-1, width)

    @cached_property
    def _table(self) -> np.ndarray:
        table = _load(self.path, mmap_mode="r")
        if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "biuf":
            raise DataError(
                f"{self.path}: found {getattr(table, 'dtype', 'other')} data of shape "
                f"{getattr(table, 'shape', ())}, expected a table of numbers with 2 dimensions; "
                "save X and y with np.savez"
            )
        if not len(table):
            raise DataError(f"{self.path}: found no rows, expected examples")
        return table

    @cached_property
    def _columns(self) -> Columns:
        names = [f"column {number}" for number in range(self._table.shape[1])]
        return choose_columns(names, self.label, self.weight, self.path)


def _load(path: str, mmap_mode: Any = None) -> Any:
    check_readable(path)
    try:
        with np.errstate(over="ignore"):  # shapes beyond all numbers
            return _loaded(path, mmap_mode)
    except _DAMAGES as error:
        reason = _reason(error)
        raise DataError(
            f"{path}: cannot be read as a NumPy file ({reason}); save it with np.save or np.savez"
        ) from None


def _loaded(path: str, mmap_mode: Any) -> Any:
    if is_remote(path):
        whole = io.BytesIO(read_range(path, 0, size_of(path) or 0))
        return np.load(whole, allow_pickle=False)
    return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)


def _member(path: str, parts: Any, name: str) -> np.ndarray:
    try:
        return parts[name]
    except _DAMAGES as error:
        reason = _reason(error)
        raise DataError(f"{path}: array {name} cannot be read ({reason}); save it again") from None


def _reason(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def rows_of_table(table: np.ndarray, columns: Columns) -> Rows:
    """Rows of a numeric table, with label and weight taken out.

    Examples
    --------
    >>> rows_of_table(np.array([[1.0, 5.0], [0.0, 6.0]]), Columns(("y", "x"), 0)).data
    array([5., 6.])
    """
    weight = None if columns.weight is None else table[:, columns.weight]
    return Rows.from_dense(table[:, columns.features], table[:, columns.label], weight)


def open_npy(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    """Stream over ``.npy`` files."""
    checked = options.on_bad_line != "skip"
    return _chain(
        [NpyStream(path, options.label, options.weight, checked=checked) for path in paths]
    )


def open_npz(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    """Stream over ``.npz`` files."""
    return _chain([read_npz(path, checked=options.on_bad_line != "skip") for path in paths])


def _chain(streams: Sequence[Stream]) -> Stream:
    return streams[0] if len(streams) == 1 else ChainedStream(tuple(streams))
