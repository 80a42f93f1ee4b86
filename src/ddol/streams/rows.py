"""Examples in memory: rows in stream order, and the table that deals them to agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddol.compiled import copy_floats, copy_raised, entry, floats, indices, inner
from ddol.streams.errors import DataError

Floats = NDArray[np.float64]

_LARGEST = float(np.finfo(np.float64).max)
LARGEST = 2.0**498
"""Features are smaller, so that their squares are numbers: learners would leave others out in silence."""


@inner(inlined=True)
def _copy_raised(n, x, index, out, out_index):  # type: ignore[no-untyped-def]
    """Copy a row to columns one further: eight values at a time, the last of which may be there already."""
    if n < 8:
        for j in range(n):
            floats(out)[j] = floats(x)[j]
            indices(out_index)[j] = indices(index)[j] + np.uint32(1)
        return
    for j in range(0, n, 8):
        k = min(j, n - 8)
        copy_floats(x + 8 * k, out + 8 * k)
        copy_raised(index + 4 * k, out_index + 4 * k)


@entry("void(int64, int64*, int64, int64, int64*, int64, int64)")
def _insert_ones(n, indptr, index, data, new_indptr, new_index, new_data):  # type: ignore[no-untyped-def]
    """Begin every row with column 0 and the value 1."""
    new_indptr[0] = 0
    for row in range(n):
        lo, size, place = indptr[row], indptr[row + 1] - indptr[row], new_indptr[row]
        indices(new_index)[place], floats(new_data)[place] = 0, 1.0
        place += 1
        x, columns = data + 8 * lo, index + 4 * lo
        _copy_raised(size, x, columns, new_data + 8 * place, new_index + 4 * place)
        new_indptr[row + 1] = place + size


@entry("int64(int64, int64)")
def _count_not_finite(values, n):  # type: ignore[no-untyped-def]
    """Counted, not looked for: by vectors, at the speed of memory."""
    given, found = floats(values), 0
    for k in range(n):
        found += not abs(given[k]) <= _LARGEST
    return found


_NO_FLOATS = np.empty(0, dtype=np.float64)
_NO_INDICES = np.empty(0, dtype=np.uint32)
_NO_INDPTR = np.empty(0, dtype=np.int64)
for _empty in (_NO_FLOATS, _NO_INDICES, _NO_INDPTR):
    _empty.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A block of examples in stream order, dense or CSR.

    Dense row ``i`` is ``data[i * D : (i + 1) * D]``; sparse row ``i`` has the values
    ``data[indptr[i] : indptr[i + 1]]`` at the columns ``indices[indptr[i] : indptr[i + 1]]``,
    which ascend.

    Parameters
    ----------
    data
        Feature values, 1-D and contiguous.
    indices
        Column of every value; empty when the rows are dense.
    indptr
        Where each row begins in `data`, one more than there are rows; empty when dense.
    n_features
        Number of columns D.
    y
        One raw label or target per row.
    weight
        One importance per row, or empty when all are 1.
    intercept
        Column 0 is a constant 1 that is not stored: the values of a row begin with column 1.

    Examples
    --------
    >>> rows = Rows.from_dense([[1.0, 2.0], [0.0, 3.0]], [1, 0])
    >>> len(rows), rows.n_features, rows.dense
    (2, 2, True)
    """

    data: Floats
    indices: NDArray[np.uint32]
    indptr: NDArray[np.int64]
    n_features: int
    y: Floats
    weight: Floats
    intercept: bool = False

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dense(self) -> bool:
        """Whether every row stores all of its D values."""
        return len(self.indptr) == 0

    @property
    def n_stored(self) -> int:
        """Columns that are stored."""
        return self.n_features - self.intercept

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.data, self.indices, self.indptr, self.y, self.weight)
        return sum(array.nbytes for array in arrays)

    @classmethod
    def from_dense(cls, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Rows:
        """Rows of a 2-D array; a C-contiguous float64 array is not copied.

        Examples
        --------
        >>> X = np.eye(2)
        >>> np.shares_memory(Rows.from_dense(X, [0, 1]).data, X)
        True
        """
        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2:
            raise DataError(f"`X` must have 2 dimensions, it has {X.ndim}; use X.reshape(n, D)")
        n, n_features = X.shape
        return cls(
            data=X.reshape(-1),
            indices=_NO_INDICES,
            indptr=_NO_INDPTR,
            n_features=n_features,
            y=_column(y, n, "y"),
            weight=_NO_FLOATS if weight is None else _column(weight, n, "weight"),
        )

    @classmethod
    def from_csr(cls, X: Any, y: ArrayLike, weight: ArrayLike | None = None) -> Rows:
        """Rows of a scipy sparse matrix; a canonical float64 CSR matrix is not copied.

        Repeated entries are summed and columns sorted, in a copy, where that is needed. SciPy lets columns be
        anything; here one beyond the matrix is an error, as loops follow them.

        Examples
        --------
        >>> import scipy.sparse as sp
        >>> rows = Rows.from_csr(sp.csr_matrix([[0.0, 2.0], [0.0, 0.0]]), [1, 0])
        >>> rows.data, rows.indices, rows.indptr
        (array([2.]), array([1], dtype=uint32), array([0, 1, 1]))
        """
        X = X.tocsr()
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise DataError(
                f"`X` is not a whole CSR matrix: {error}; check how its parts were made"
            ) from None
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        n, n_features = X.shape
        return cls(
            data=np.ascontiguousarray(X.data, dtype=np.float64),
            indices=_unsigned(X.indices, n_features),
            indptr=np.ascontiguousarray(X.indptr, dtype=np.int64),
            n_features=n_features,
            y=_column(y, n, "y"),
            weight=_NO_FLOATS if weight is None else _column(weight, n, "weight"),
        )

    def slice(self, lo: int, hi: int) -> Rows:
        """Rows `lo` to `hi` (exclusive) as views of these.

        Examples
        --------
        >>> Rows.from_dense(np.eye(3), [0, 1, 2]).slice(1, 3).y
        array([1., 2.])
        """
        lo, hi, _ = slice(lo, hi).indices(len(self))
        if lo == 0 and hi == len(self):
            return self
        y, weight = self.y[lo:hi], self.weight[lo:hi]
        if self.dense:
            data, d = self.data[lo * self.n_stored : hi * self.n_stored], self.n_features
            return Rows(data, self.indices, self.indptr, d, y, weight, self.intercept)
        first, last, indptr = self.indptr[lo], self.indptr[hi], self.indptr[lo : hi + 1]
        return replace(
            self,
            data=self.data[first:last],
            indices=self.indices[first:last],
            indptr=indptr - first if first else indptr,
            y=y,
            weight=weight,
        )

    def take(self, order: ArrayLike) -> Rows:
        """The rows numbered by `order`, copied in that order.

        Examples
        --------
        >>> Rows.from_dense(np.eye(3), [0, 1, 2]).take([2, 0]).y
        array([2., 0.])
        """
        order = np.asarray(order, dtype=np.int64)
        y = self.y[order]
        weight = self.weight[order] if len(self.weight) else self.weight
        if self.dense:
            data = self.data.reshape(len(self), self.n_stored)[order].reshape(-1)
            return replace(self, data=data, y=y, weight=weight)
        counts = np.diff(self.indptr)[order]
        indptr = np.concatenate(([0], np.cumsum(counts)))
        # Position of every kept value in `data`: start of its row plus its rank in the row.
        chosen = np.repeat(self.indptr[order] - indptr[:-1], counts) + np.arange(indptr[-1])
        data, indices = self.data[chosen], self.indices[chosen]
        return replace(self, data=data, indices=indices, indptr=indptr, y=y, weight=weight)

    def widen(self, n_features: int) -> Rows:
        """The same sparse rows in a space of at least `n_features` columns."""
        if n_features <= self.n_features:
            return self
        if self.dense:
            raise DataError(
                f"found rows of {self.n_features} columns, expected {n_features}; "
                "give every stream the same columns"
            )
        return replace(self, n_features=n_features)

    def with_intercept(self, stored: bool = True) -> Rows:
        """The rows with a constant 1 as column 0, every other column moved up by one.

        The constant is first, not last, so that it keeps its place when later rows of a
        sparse stream bring new columns. If it is not stored, nothing is copied.

        Examples
        --------
        >>> Rows.from_dense([[5.0], [6.0]], [0, 1]).with_intercept().data
        array([1., 5., 1., 6.])
        """
        begun = replace(self, n_features=self.n_features + 1, intercept=True)
        return begun.plain() if stored else begun

    def plain(self) -> Rows:
        """The same rows with all of their values stored.

        Examples
        --------
        >>> Rows.from_dense([[5.0]], [0]).with_intercept(stored=False).plain().data
        array([1., 5.])
        """
        if not self.intercept:
            return self
        n = len(self)
        if self.dense:
            X = np.empty((n, self.n_features))
            X[:, 0] = 1.0
            X[:, 1:] = self.data.reshape(n, self.n_stored)
            return replace(self, data=X.reshape(-1), intercept=False)
        size = len(self.data) + n
        data, indices = np.empty(size), np.empty(size, dtype=np.uint32)
        indptr = np.empty(n + 1, dtype=np.int64)
        given = (self.indptr, self.indices, self.data, indptr, indices, data)
        _insert_ones(n, *(array.ctypes.data for array in given))
        return replace(self, data=data, indices=indices, indptr=indptr, intercept=False)

    def to_scipy(self) -> Any:
        """The features as a scipy CSR matrix.

        Examples
        --------
        >>> Rows.from_dense([[1.0, 0.0]], [1]).to_scipy().shape
        (1, 2)
        """
        import scipy.sparse as sp

        if self.intercept:
            return self.plain().to_scipy()
        if self.dense:
            return sp.csr_matrix(self.data.reshape(len(self), self.n_features))
        indices = self.indices.astype(np.int64)
        shape = (len(self), self.n_features)
        return sp.csr_matrix((self.data, indices, self.indptr), shape=shape)

    def check_finite(self, where: str = "X", features: bool = True) -> Rows:
        """Return the rows, or raise `DataError` naming a value that is not finite, or a weight < 0.

        Examples
        --------
        >>> Rows.from_dense([[1.0, np.nan]], [1]).check_finite()
        Traceback (most recent call last):
        ...
        ddol.streams.errors.DataError: X: found nan in row 0, column 1, expected a finite ...
        """
        for name, values in (("y", self.y), ("weight", self.weight)):
            at = _first_not_finite(values)
            if at >= 0:
                raise DataError(
                    f"{where}: found {name} {values[at]} in row {at}, expected a finite number; "
                    "remove or correct that row"
                )
        if len(self.weight) and self.weight.min() < 0.0:
            at = int(self.weight.argmin())
            raise DataError(
                f"{where}: found weight {self.weight[at]} in row {at}, expected at least 0; "
                "remove or correct that row"
            )
        at = _first_not_finite(self.data) if features else -1
        if at < 0:
            return self
        row, column = self.cell_at(at)
        raise DataError(
            f"{where}: found {self.data[at]} in row {row}, column {column}, "
            "expected a finite number; remove missing values, or fill them with missing='mean' or 'zero'"
        )

    def cell_at(self, at: int) -> tuple[int, int]:
        """Row and column of a place in `data`."""
        if self.dense:
            return divmod(at, self.n_stored)
        return int(np.searchsorted(self.indptr, at, side="right")) - 1, int(self.indices[at])


@dataclass(frozen=True, slots=True)
class Block:
    """Some rounds: the examples, and which agent sees which in which round.

    Parameters
    ----------
    rows
        The examples. They may be more than the table names.
    table
        ``table[r, i, b]`` is the row that agent `i` sees as its `b`-th example in round
        `r`, or -1 for none; int64 of shape (rounds, agents, batch).
    scores
        Where engines write the scores (rows, outputs) with which rows are predicted; None if they are
        not needed.

    Examples
    --------
    >>> rows = Rows.from_dense(np.eye(3), [0, 1, 1])
    >>> block = Block(rows, np.array([[[0], [1]], [[2], [-1]]]))
    >>> block.n_rounds, block.n_agents, block.batch, block.n_examples
    (2, 2, 1, 3)
    """

    rows: Rows
    table: NDArray[np.int64]
    scores: Floats | None = None

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return int(self.table.shape[0])

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return int(self.table.shape[1])

    @property
    def batch(self) -> int:
        """Most examples that an agent sees in one round."""
        return int(self.table.shape[2])

    @property
    def n_examples(self) -> int:
        """Number of examples that the table deals."""
        return int(np.count_nonzero(self.table >= 0))


def no_rows() -> Rows:
    """Return a block without any row, which has no columns yet either."""
    return Rows(_NO_FLOATS, _NO_INDICES, np.zeros(1, dtype=np.int64), 0, _NO_FLOATS, _NO_FLOATS)


def concatenate(pieces: Sequence[Rows]) -> Rows:
    """Rows of all `pieces`, in order; sparse pieces take the largest number of columns.

    Examples
    --------
    >>> one = Rows.from_dense(np.eye(2), [0, 1])
    >>> concatenate([one, one.slice(0, 1)]).y
    array([0., 1., 0.])
    """
    if len(pieces) == 1:
        return pieces[0]
    # Nothing is of any kind: a process whose streams are over does not know what the others read.
    dense = next((piece.dense for piece in pieces if len(piece)), pieces[0].dense)
    pieces = [piece for piece in pieces if len(piece) or piece.dense == dense]
    if any(piece.dense != dense for piece in pieces):
        raise DataError("found dense and sparse rows together; convert all streams to one kind")
    if len({piece.intercept for piece in pieces}) > 1:
        pieces = [piece.plain() for piece in pieces]
    widths = {piece.n_features for piece in pieces}
    n_features = max(widths)
    if len(widths) > 1:
        pieces = [piece.widen(n_features) for piece in pieces]
    return replace(
        pieces[0],
        data=np.concatenate([piece.data for piece in pieces]),
        indices=_NO_INDICES if dense else np.concatenate([piece.indices for piece in pieces]),
        indptr=_NO_INDPTR if dense else _joined_indptr(pieces),
        n_features=n_features,
        y=np.concatenate([piece.y for piece in pieces]),
        weight=_joined_weight(pieces),
    )


def _joined_indptr(pieces: Sequence[Rows]) -> NDArray[np.int64]:
    counts = np.concatenate([np.diff(piece.indptr) for piece in pieces])
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def _joined_weight(pieces: Sequence[Rows]) -> Floats:
    if not any(len(piece.weight) for piece in pieces):
        return _NO_FLOATS
    return np.concatenate(
        [piece.weight if len(piece.weight) else np.ones(len(piece)) for piece in pieces]
    )


def _column(values: ArrayLike, n: int, name: str) -> Floats:
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"`{name}` must be numbers, found {np.asarray(values).dtype}; encode classes as numbers"
        ) from None
    if column.shape != (n,):
        raise DataError(
            f"`{name}` must have shape ({n},) for {n} rows, it has {column.shape}; "
            "give one value per row"
        )
    return column


def _unsigned(indices: NDArray[Any], n_features: int) -> NDArray[np.uint32]:
    if n_features > 2**32:
        raise DataError(f"found {n_features} columns, expected at most 2**32; hash the features")
    if indices.dtype == np.int32:
        return np.ascontiguousarray(indices).view(np.uint32)
    return indices.astype(np.uint32)


def _first_not_finite(values: Floats) -> int:
    if not _count_not_finite(values.ctypes.data, len(values)):
        return -1
    return int(np.isfinite(values).argmin())
