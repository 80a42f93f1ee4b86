"""Features by name: a place for each name, and the products of pairs of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import entry
from ddol.streams.coding.hashing import merge_columns, name_keys, slots
from ddol.streams.raw import Named, Table, Text
from ddol.streams.rows import Floats, Rows

MOST_NAMES = 1 << 18
"""Names that have a place of their own; those that come later are left out. Hashing has no such end."""
MOST_REMEMBERED = 1 << 16
"""Names that are remembered though they are hashed, so that weights can be shown by name."""

_MOST_TOLD = 5
"""Columns with unknown values that are named in warnings."""


class Names:
    """Places of named features: one after the other as they come, or hashed.

    Parameters
    ----------
    first
        Names that have the first places: columns of numbers.
    known
        Names that follow, as far as they are known.
    bits
        Hash names to 2^bits places; None gives each its own.
    learning
        Whether names that are not known get a place; if not, they have none.
    warn
        Called with a line when there is no place left, or when a model that predicts meets values of
        text columns that it has not learned.

    Examples
    --------
    >>> names = Names(["age"])
    >>> block = Named.of([{"age": 30, "town": "Rome"}, {"town": "Bern"}])
    >>> names.places(block)[0], names.known
    (array([0, 1, 2]), ['town=Rome', 'town=Bern'])
    """

    def __init__(
        self,
        first: Sequence[str] = (),
        known: Sequence[str] = (),
        bits: int | None = None,
        learning: bool = True,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.bits = bits
        self.learning = learning
        self.warn = warn
        self.known = list(known)
        self._n_first = len(first)
        keys = name_keys([*first, *known]).tolist()
        self._place = {key: place for place, key in enumerate(keys)}
        self._full = False
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the names, without the callback."""
        return vars(self) | {"_lock": None, "warn": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        """Places so far."""
        return self._n_first + len(self.known) if self.bits is None else 1 << self.bits

    def places(self, block: Named) -> tuple[NDArray[np.int64], Floats]:
        """Place and sign of every name of a block; -1 for a name without a place."""
        return self.places_of(block.names, keys_of(block))

    def places_of(
        self, names: Sequence[str], keys: NDArray[np.uint64] | None = None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Place and sign of every name, whose hashes may be known."""
        keys = name_keys(names) if keys is None else keys
        if self.learning and not (self.bits is not None and self._full):
            self._learn(keys, names)
        if self.bits is not None:
            return slots(keys, self.bits)
        found = np.array([self._place.get(key, -1) for key in keys.tolist()], np.int64)
        if not self.learning and self.warn is not None and len(found) and found.min() < 0:
            self._tell([names[code] for code in np.flatnonzero(found < 0).tolist()])
        return found, np.ones(len(found))

    def _tell(self, unknown: Sequence[str]) -> None:
        """Warn of values that were not learned from, once for each of the first columns."""
        assert self.warn is not None
        new = {column_of(name): name for name in reversed(unknown) if "=" in name}
        new = {column: name for column, name in new.items() if column not in self._told}
        if new and len(self._told) < _MOST_TOLD:
            shown = ", ".join(list(new.values())[:_MOST_TOLD])
            self.warn(f"found values that the model has not learned, and takes for none: {shown}")
            self._told |= new.keys()

    def _learn(self, keys: NDArray[np.uint64], names: Sequence[str]) -> None:
        most = MOST_NAMES if self.bits is None else MOST_REMEMBERED
        with self._lock:
            for code, key in enumerate(keys.tolist()):
                if key in self._place:
                    continue
                if len(self.known) >= most:
                    self._end()
                    return
                self._place[key] = self._n_first + len(self.known)
                self.known.append(names[code])

    def _end(self) -> None:
        if not self._full and self.bits is None and self.warn is not None:
            self.warn(
                f"found more than {MOST_NAMES:,} names of features; later ones are left out, "
                "hash them with --bits instead"
            )
        self._full = True


def keys_of(block: Named) -> NDArray[np.uint64]:
    """Hashes of the names of a block, from its reader or computed now."""
    return block.keys if len(block.keys) else name_keys(block.names)


def rows_of_names(block: Named, names: Names, interactions: Sequence[str], intercept: bool) -> Rows:
    """CSR rows of named features; labels are left at 0.

    Examples
    --------
    >>> block = Named.of([{"age": 30, "town": "Rome"}, {"town": "Bern", "age": 40}])
    >>> rows_of_names(block, Names(["age"]), (), True).to_scipy().toarray()
    array([[ 1., 30.,  1.,  0.],
           [ 1., 40.,  0.,  1.]])
    """
    places, signs = names.places(block)
    columns, data, indptr = places[block.codes], signs[block.codes] * block.data, block.indptr
    if interactions:
        assert names.bits is not None
        more, values, ends = crossed(block, interactions)
        slot, sign = slots(more, names.bits)
        columns, data, indptr = _beside((columns, data, indptr), (slot, sign * values, ends))
    n_features = len(names) + intercept
    return merge_columns(columns, data, indptr, n_features, intercept)


def crossed(
    block: Named, interactions: Sequence[str]
) -> tuple[NDArray[np.uint64], Floats, NDArray[np.int64]]:
    """Products of pairs of features: their keys, values, and where each row begins.

    A pair is two letters, the first ones of two namespaces (``ab``), or two names of namespaces or
    columns with a ``*`` between them (``town*age``).

    Examples
    --------
    >>> block = Named.of([{"age": 30.0, "town": "Rome"}])
    >>> keys, values, indptr = crossed(block, ["town*age"])
    >>> values, indptr
    (array([30.]), array([0, 1]))
    """
    keys = keys_of(block)
    parts = [_pairs(block, keys, *_sides(block, pair)) for pair in interactions]
    joined = parts[0]
    for part in parts[1:]:
        joined = _beside(joined, part)
    return joined


def _sides(block: Named, pair: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    left, right = pair.split("*") if "*" in pair else (pair[0], pair[1])
    spaces = list(block.spaces) or [column_of(name) for name in block.names]
    starts = "*" not in pair

    def side(wanted: str) -> NDArray[np.bool_]:
        return np.array([s.startswith(wanted) if starts else s == wanted for s in spaces], bool)

    return side(left), side(right)


def with_products(
    known: Sequence[str], interactions: Sequence[str]
) -> tuple[list[str], NDArray[np.uint64]]:
    """Names, and products of pairs of them, with their hashes; pairs of too many are left out.

    Examples
    --------
    >>> with_products(["age", "town=Rome"], ["town*age"])[0]
    ['age', 'town=Rome', 'town=Rome*age']
    """
    n = len(known)
    block = Named(tuple(known), np.arange(n), np.ones(n), np.array([0, n]))
    names, keys = list(known), [name_keys(known)]
    for pair in interactions:
        left, right = _sides(block, pair)
        if left.sum() * right.sum() <= MOST_NAMES:
            keys.append(_pairs(block, keys[0], left, right)[0])
            chosen = [np.flatnonzero(side).tolist() for side in (left, right)]
            names += [f"{known[j]}*{known[k]}" for j in chosen[0] for k in chosen[1]]
    return names, np.concatenate(keys)


def column_of(name: str) -> str:
    """Column or namespace of a feature: the text before ``=`` or ``^``.

    Examples
    --------
    >>> column_of("town=Rome"), column_of("words^red"), column_of("age")
    ('town', 'words', 'age')
    """
    return name.partition("^")[0] if "^" in name else name.partition("=")[0]


def _pairs(
    block: Named, keys: NDArray[np.uint64], left: NDArray[np.bool_], right: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], Floats, NDArray[np.int64]]:
    indptr = np.zeros(len(block) + 1, np.int64)
    # How many pairs each row has, so that room can be made for them.
    starts = np.concatenate([[0], np.cumsum(left[block.codes])])[block.indptr]
    ends = np.concatenate([[0], np.cumsum(right[block.codes])])[block.indptr]
    np.cumsum(np.diff(starts) * np.diff(ends), out=indptr[1:])
    found, values = np.empty(indptr[-1], np.uint64), np.empty(indptr[-1])
    sides = left.astype(np.int64), right.astype(np.int64)
    read = [np.ascontiguousarray(a) for a in (block.codes, block.data, block.indptr, keys, *sides)]
    _multiply(len(block), *(array.ctypes.data for array in (*read, found, values)))
    return found, values, indptr


@entry("void(int64, int64*, double*, int64*, int64*, int64*, int64*, int64*, double*)")
def _multiply(n, codes, data, indptr, keys, left, right, found, values):  # type: ignore[no-untyped-def]
    """Key and value of every pair of every row."""
    place = 0
    for row in range(n):
        for j in range(indptr[row], indptr[row + 1]):
            if left[codes[j]] == 0:
                continue
            for k in range(indptr[row], indptr[row + 1]):
                if right[codes[k]] != 0:
                    one, other = np.uint64(keys[codes[j]]), np.uint64(keys[codes[k]])
                    h = (one * np.uint64(0x9E3779B97F4A7C15)) ^ other
                    h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
                    found[place] = h ^ (h >> np.uint64(32))
                    values[place] = data[j] * data[k]
                    place += 1


def _beside(one: tuple, other: tuple) -> tuple:
    """Two sets of values by row as one: row by row, the first's values before the second's."""
    (first, x, starts), (second, z, ends) = one, other
    n = len(starts) - 1
    row_of = np.concatenate([np.repeat(np.arange(n), np.diff(p)) for p in (starts, ends)])
    order = np.argsort(row_of, kind="stable")
    columns, values = np.concatenate([first, second])[order], np.concatenate([x, z])[order]
    return columns, values, starts + ends


def named_of(table: Table, columns: Sequence[str]) -> Named:
    """Some columns of a table as named features: numbers by the column's name, text by its value.

    Examples
    --------
    >>> table = Table({"age": np.array([30.0, 0.0]), "town": Text.of(["Rome", None])})
    >>> named_of(table, ["age", "town"]).names
    ('age', 'town=Rome')
    """
    names: list[str] = []
    spaces: list[str] = []
    codes = np.empty((len(table), len(columns)), np.int64)
    data = np.ones((len(table), len(columns)))
    for k, column in enumerate(columns):
        cells = table.columns[column]
        if isinstance(cells, Text):
            codes[:, k] = np.where(cells.codes < 0, -1, cells.codes + len(names))
            names += [f"{column}={value}" for value in cells.values]
        else:
            codes[:, k], data[:, k] = len(names), cells
            names.append(column)
        spaces += [column] * (len(names) - len(spaces))
    there = (codes >= 0) & (data != 0.0)
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return Named(tuple(names), codes[there], data[there], indptr, spaces=tuple(spaces))
